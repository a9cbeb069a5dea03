package tool

import (
	"context"

	"github.com/bladehost/bladehost/abi"
)

// Tool is anything callable. Implementations are safe for concurrent use.
type Tool interface {
	// Spec is the definition. It is the same pointer each time, and nobody
	// changes what it points to once the tool is registered.
	Spec() *abi.ToolSpec
	// Execute runs one call to its end. A result with status error means that
	// the tool ran and failed; an error means that it could not run, or failed
	// in a way that has no better form: it becomes an error result too, with
	// the type and code of an *abi.Error in its chain. When ctx ends, Execute
	// releases what it holds and returns soon; context.Cause says why.
	Execute(ctx context.Context, call *Call) (*abi.Result, error)
}

// Trust is how far a tool's origin is trusted.
type Trust string

// Trust levels.
const (
	TrustTrusted   Trust = "trusted"
	TrustWorkspace Trust = "workspace"
	TrustRemote    Trust = "remote"
)

// SourceKind is where a tool comes from.
type SourceKind string

// Source kinds.
const (
	SourceBuiltin SourceKind = "builtin"
	SourceCustom  SourceKind = "custom"
	SourceMCP     SourceKind = "mcp"
	SourceSession SourceKind = "session"
)

// Source says where a registered tool comes from. ID is stable and for people
// (the plugin's name, say); Server is the MCP server.
type Source struct {
	Kind   SourceKind `json:"kind"`
	Trust  Trust      `json:"trustLevel"`
	ID     string     `json:"sourceId"`
	Server string     `json:"serverName,omitempty"`
}

// Must is t, or a panic if err is set. It is for package-level tools whose
// definition is fixed.
func Must(t Tool, err error) Tool {
	if err != nil {
		panic(err)
	}
	return t
}
