package pdk

import (
	"encoding/json"
	"time"

	"github.com/bladehost/bladehost/abi"
)

// Plugin is one module: what it says about itself, what it asks for and its
// tools. The zero value of a field is left out of the manifest.
type Plugin struct {
	// Name is blade-tool-x or @scope/blade-tool-x, Version a semantic version.
	Name, Version, Description string
	License, Homepage          string
	// Requires lists features of the host without which the plugin is useless.
	Requires []string
	Tools    []Tool
	// Config is a JSON Schema of the settings the user makes for the plugin;
	// Config reads them. SchemaOf infers one from a Go type.
	Config json.RawMessage
	// Capabilities is what the plugin asks to be lent. The user decides.
	Capabilities abi.Capabilities
	// Warm runs once, after package initialisation and before the first call,
	// to fill caches. It can reach no file, service or network.
	Warm func()
}

// Spec is what a tool says about itself. Name and Description are required; the
// zero value of every other field is the conservative default.
type Spec struct {
	// Name is what the model calls: a letter, then letters, digits, _ and -, at most 64.
	Name        string
	Aliases     []string
	DisplayName string // Name
	// Description is one or two sentences for the model; the next four are
	// for longer advice.
	Description string
	Long        string
	UsageNotes  []string
	Important   []string
	Examples    []abi.Example
	// Input and Output are JSON Schemas. Without Input it is inferred from the
	// parameter type; Output is never inferred, because a nil slice in Go is
	// null in JSON.
	Input, Output json.RawMessage

	Kind        abi.Kind              // Execute
	SideEffect  abi.SideEffect        // NonIdempotent
	Interrupt   abi.InterruptBehavior // Block
	Destructive bool
	// Narrow makes particular inputs safer than the rest.
	Narrow []abi.Narrowing
	// Services lists the session services and x- services the tool calls.
	Services        []string
	RequiresRuntime bool
	Exposure        *abi.Exposure
	// PermissionKey, PathParams and LockPaths are JSON Pointers into the input.
	PermissionKey, PathParams, LockPaths []string
	// MaxResultSize is in UTF-16 code units; 0 means the host's default.
	MaxResultSize int
	// Timeout may lower the session's timeout; 0 means the session's.
	Timeout time.Duration
	// Yields lists the kinds of yields of a tool made with DefineStream. Nil
	// means progress and message, and effect where Effects is not empty.
	Yields  []abi.YieldKind
	Effects []abi.EffectType
	// Verify marks a tool that checks work.
	Verify bool
}

// Names of the contract that most tools need, so that they import only this package.
const (
	ReadOnly = abi.KindReadOnly
	Write    = abi.KindWrite
	Execute  = abi.KindExecute

	Pure          = abi.SideEffectPure
	Idempotent    = abi.SideEffectIdempotent
	NonIdempotent = abi.SideEffectNonIdempotent

	Block  = abi.InterruptBlock
	Cancel = abi.InterruptCancel
)

// Serve makes p the plugin of this module. Call it once, in an init function.
// Outside Wasm it does nothing.
func Serve(p Plugin) { serve(p) }

// Manifest is what the plugin tells the host about itself.
func (p *Plugin) Manifest() (*abi.Manifest, error) {
	m := &abi.Manifest{
		ABI: abi.Version, Name: p.Name, Version: p.Version, Description: p.Description,
		License: p.License, Homepage: p.Homepage, Requires: p.Requires, Config: p.Config,
		Tools: make([]abi.ToolSpec, len(p.Tools)),
	}
	if c := p.Capabilities; c.FS != nil || c.HTTP != nil || c.KV != nil || len(c.Secrets)+len(c.Env) > 0 || c.Clock != "" {
		m.Capabilities = &c
	}
	for i := range p.Tools {
		spec, err := p.Tools[i].abiSpec()
		if err != nil {
			return nil, err
		}
		m.Tools[i] = spec
	}
	return m, nil
}
