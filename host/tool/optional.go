package tool

import (
	"context"
	"encoding/json"

	"github.com/bladehost/bladehost/abi"
)

// What a tool may add to Tool. The pipeline looks for these interfaces; a
// wrapper that embeds a Tool must pass them on.

// BehaviorResolver narrows the behaviour of a particular input. Without an
// input (nil) it says what to plan with. It is called before the input is
// validated, so it must take anything. Only safer answers count.
type BehaviorResolver interface {
	ResolveBehavior(input json.RawMessage) (Partial, error)
}

// Normalizer turns lenient input (numbers as strings, unknown keys) into what
// the schema describes, before validation. It returns input itself where there
// is nothing to do. Guests have none.
type Normalizer interface {
	NormalizeInput(input json.RawMessage) (json.RawMessage, error)
}

// InputValidator refuses an input for reasons that a schema cannot express. The
// error's type is kept if it is an *abi.Error, else it becomes validation_error.
type InputValidator interface {
	ValidateInput(ctx context.Context, call *Call) error
}

// PermissionChecker judges a call before the permission rules do.
type PermissionChecker interface {
	CheckPermissions(ctx context.Context, call *Call) (Permission, error)
}

// PermissionBehavior is the answer of a permission check or handler.
type PermissionBehavior string

// Permission behaviours.
const (
	PermissionAllow PermissionBehavior = "allow"
	PermissionDeny  PermissionBehavior = "deny"
	PermissionAsk   PermissionBehavior = "ask"
)

// Permission is a decision about one call. UpdatedInput, with an allow, is
// merged into the input, which is then prepared and validated anew. Updates
// change the session's approvals. Interrupt, with a deny, ends the agent's loop
// after the turn.
type Permission struct {
	Behavior     PermissionBehavior     `json:"behavior"`
	Message      string                 `json:"message,omitempty"`
	UpdatedInput json.RawMessage        `json:"updatedInput,omitempty"`
	Updates      []abi.PermissionUpdate `json:"updatedPermissions,omitempty"`
	Interrupt    bool                   `json:"interrupt,omitempty"`
}

// PermissionMatcher says what an approval of this input covers. Content follows
// the tool's name in the signature (Name:Content); Rule is a suggestion for a
// wider rule. Without a matcher an approval covers exactly one input.
type PermissionMatcher interface {
	PermissionSignature(input json.RawMessage) (content, rule string)
}

// PermissionAliaser is a PermissionMatcher that also knows another name for what an input is about,
// such as the file that a link leads to. Deny and ask rules count for that name too. An empty one is
// none.
type PermissionAliaser interface {
	PermissionAlias(input json.RawMessage) string
}

// LentWriter reports whether what a call would be lent could change anything
// outside. A tool that says so is not treated as read-only, whatever it claims.
// Guests implement it; native tools are believed.
type LentWriter interface {
	LentCanWrite() bool
}

// Confirmer describes the confirmation of a call in words of the tool.
type Confirmer interface {
	DescribeCall(input json.RawMessage) (title string, risks []string)
}

// Warmer prepares a tool so that its first call is fast. It may be called
// several times and concurrently with calls.
type Warmer interface {
	Warm(ctx context.Context) error
}

// Admitter is a tool whose calls wait for a place to run in. Admit is called
// after the permission checks and the locks, before the durable start; what it
// returns is in the call's Admission and is released when the call is over.
type Admitter interface {
	Admit(ctx context.Context) (Admission, error)
}

// Admission is a place to run in.
type Admission interface {
	// Release gives it back. A second Release does nothing.
	Release()
}

// SessionEnder is a tool that keeps something for each session: processes, files
// that were read, a cache. EndSession frees it. It is called once for a session
// that closes, after its calls have ended, also when the tool was never called.
// Tools that share what they keep are each told, so a second call for the same
// session must do nothing. It has to keep to ctx.
type SessionEnder interface {
	EndSession(ctx context.Context, sessionID string) error
}
