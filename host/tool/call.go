package tool

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/bladehost/bladehost/abi"
)

// Config is everything a call is made of; the host fills it in. The zero value
// makes a call of nobody's session, without services, that drops its yields.
type Config struct {
	// ExecutionID names this execution, ToolCallID the model's request for it.
	ExecutionID, ToolCallID string
	// Name is the name the model used, which may be an alias.
	Name  string
	Input json.RawMessage
	// Behavior is the resolved behaviour of Input.
	Behavior  Behavior
	SessionID string
	MessageID string
	// Step is the agent's own words for where it is, at most abi.MaxStep units.
	Step string
	// Mode is the permission mode that the call was decided under.
	Mode     string
	Snapshot *Snapshot
	// Services holds the services the tool declared, by name.
	Services map[string]Service
	// Runtime is set for tools that ask for it.
	Runtime Runtime
	// Invoke reaches the host's own services; nil means there are none.
	Invoke func(ctx context.Context, name string, req Request) (Answer, error)
	// Yield takes what the tool yields. An error means that nobody wants more.
	// Before it waits for a slow consumer it calls idle, and what that returned
	// when it goes on; idle may be nil.
	Yield func(y abi.Yield, idle func() func()) error
	// Confirm asks the user; nil means nobody can be asked.
	Confirm func(ctx context.Context, d Confirmation) (ConfirmationAnswer, error)
	// Effect takes a note of what the call did outside (see HostEffect).
	Effect func(HostEffect)
	// Admission is what the tool's Admit gave, or nil.
	Admission Admission
	// Lent holds what a host lends natively, by the lender's own key.
	Lent map[any]any
}

// HostEffect is one thing a call did outside through the host: evidence for
// whoever must find out what an interrupted call had done.
type HostEffect struct {
	// Op is what was done: write, create, remove, rename, mkdir, request, …
	Op     string `json:"op"`
	Target string `json:"target"`
	// Status is the outcome where there is one: an HTTP status, an error.
	Status string `json:"status,omitempty"`
}

// Context is what a running tool knows about its call. It cannot yield. All
// methods are safe for concurrent use, and what they return is the caller's own.
type Context struct{ c Config }

// Call is one invocation, for tools that stream. It is valid until Execute
// returns.
type Call struct {
	Context
	// Input is the validated input, with defaults. It must not be changed.
	Input json.RawMessage
}

// NewCall makes a call. It is for the host and for tests of tools.
func NewCall(c Config) *Call { return &Call{Context: Context{c}, Input: c.Input} }

// ExecutionID names this execution.
func (c *Context) ExecutionID() string { return c.c.ExecutionID }

// ToolCallID names the model's request for the call.
func (c *Context) ToolCallID() string { return c.c.ToolCallID }

// SessionID names the session, or is empty outside of one.
func (c *Context) SessionID() string { return c.c.SessionID }

// MessageID names the message the call belongs to.
func (c *Context) MessageID() string { return c.c.MessageID }

// Step is the agent's own words for where it is.
func (c *Context) Step() string { return c.c.Step }

// Mode is the permission mode the call was decided under.
func (c *Context) Mode() string { return c.c.Mode }

// Behavior is the resolved behaviour of the input.
func (c *Context) Behavior() Behavior { return c.c.Behavior }

// Snapshot is a copy of the session's surroundings, taken when the call started.
func (c *Context) Snapshot() Snapshot {
	if c.c.Snapshot == nil {
		return Snapshot{}
	}
	return c.c.Snapshot.Clone()
}

// Service is the declared service of this name. An undeclared one is absent.
func (c *Context) Service(name string) (Service, bool) {
	s, ok := c.c.Services[name]
	return s, ok && s != nil
}

// Runtime is set for tools that declared requiresRuntime, and absent for others.
func (c *Context) Runtime() (Runtime, bool) { return c.c.Runtime, c.c.Runtime != nil }

// Lent is what the host lends under this key, or nil.
func (c *Context) Lent(key any) any { return c.c.Lent[key] }

// Invoke calls a service by its full name, as a guest does: the host's own
// (call.context, artifact.put, …) or a method of a declared one. The error is
// an *abi.Error whose code says why.
func (c *Context) Invoke(ctx context.Context, name string, req Request) (Answer, error) {
	if c.c.Invoke == nil {
		return Answer{}, abi.NewError(abi.CodeUnknownService, "there is no service %q here", name)
	}
	return c.c.Invoke(ctx, name, req)
}

// Confirm asks the user. While the question is open the call's deadline rests.
func (c *Context) Confirm(ctx context.Context, d Confirmation) (ConfirmationAnswer, error) {
	if c.c.Confirm == nil {
		return ConfirmationAnswer{}, abi.NewError(abi.CodeNoConfirm, "there is nobody to ask")
	}
	return c.c.Confirm(ctx, d)
}

// Note records what the call did outside.
func (c *Context) Note(e HostEffect) {
	if c.c.Effect != nil {
		c.c.Effect(e)
	}
}

// Admission is what the tool's own Admit gave for this call, or nil.
func (c *Context) Admission() Admission { return c.c.Admission }

// Yield hands on one yield and waits while the consumer is behind. An error
// means that nobody wants more (context.Cause of the call's context says why)
// or that the yield is not one the tool may send; a tool stops on the first.
func (c *Call) Yield(y abi.Yield) error {
	return c.YieldIdle(y, nil)
}

// YieldIdle is Yield for a tool that holds a scarce place while it runs: idle is
// called before waiting, and what it returns when the wait is over.
func (c *Call) YieldIdle(y abi.Yield, idle func() func()) error {
	if c.c.Yield == nil {
		return nil
	}
	return c.c.Yield(y, idle)
}

// Progress yields progress. A negative total means it is not known.
func (c *Call) Progress(message string, completed, total float64) error {
	return c.Yield(abi.Progress(message, completed, total))
}

// Snapshot is what a session knows about its surroundings: the merged context
// of session and turn.
type Snapshot struct {
	SessionID   string             `json:"sessionId"`
	TurnID      string             `json:"turnId,omitempty"`
	Context     abi.RuntimeContext `json:"context"`
	Roots       []string           `json:"filesystemRoots"`
	Cwd         string             `json:"cwd,omitempty"`
	Environment map[string]string  `json:"environment"`
}

// Clone is a copy that shares nothing that can be changed.
func (s *Snapshot) Clone() Snapshot {
	out := *s
	out.Roots = slices.Clone(s.Roots)
	out.Environment = maps.Clone(s.Environment)
	out.Context = CloneContext(s.Context)
	return out
}

// CloneContext is a copy that shares nothing that can be changed.
func CloneContext(c abi.RuntimeContext) abi.RuntimeContext {
	c.Environment = maps.Clone(c.Environment)
	c.Metadata = maps.Clone(c.Metadata)
	for k, v := range c.Metadata {
		c.Metadata[k] = slices.Clone(v)
	}
	if c.Capabilities != nil {
		caps := *c.Capabilities
		if f := caps.Filesystem; f != nil {
			caps.Filesystem = &abi.FilesystemFacet{Roots: slices.Clone(f.Roots), Cwd: f.Cwd}
		}
		if b := caps.Browser; b != nil {
			caps.Browser = &abi.BrowserFacet{PageID: b.PageID, TabID: b.TabID}
		}
		if n := caps.Network; n != nil {
			caps.Network = &abi.NetworkFacet{AllowDomains: slices.Clone(n.AllowDomains)}
		}
		c.Capabilities = &caps
	}
	return c
}

type contextKey struct{}

// WithContext is ctx with the call's context in it, for functions made with Define.
func WithContext(ctx context.Context, c *Context) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// FromContext is the context of the call that ctx belongs to, inside a function
// made with Define; elsewhere it is the context of no call, which is usable.
func FromContext(ctx context.Context) *Context {
	if c, ok := ctx.Value(contextKey{}).(*Context); ok {
		return c
	}
	return &Context{}
}
