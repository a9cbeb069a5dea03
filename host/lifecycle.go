package host

import (
	"context"
	"encoding/json"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// Lifecycle is told of the durable boundaries of a call and may block each.
// These callbacks are no telemetry: what they guard does not happen before they
// return, and does not happen at all if they fail. They get copies. The contexts
// they get are not cancelled with the call, so that a record is never cut off.
type Lifecycle interface {
	// OnToolScheduled ends before tool_use is published. Its failure fails the
	// run: nothing is published and nothing runs. The answer may be nil.
	OnToolScheduled(ctx context.Context, e ToolScheduled) (InvocationLifecycle, error)
	// OnToolSettled ends before tool_result is published, once per scheduled
	// call. Its failure fails the run.
	OnToolSettled(ctx context.Context, e ToolSettled) error
}

// InvocationLifecycle is told of the boundaries of one scheduled call.
type InvocationLifecycle interface {
	// OnPermissionRequested ends before the confirmation handler is called. It
	// may name the request.
	OnPermissionRequested(ctx context.Context, c tool.Confirmation, input json.RawMessage) (requestID string, err error)
	// OnPermissionResolved ends before the decision counts.
	OnPermissionResolved(ctx context.Context, r PermissionResolution) error
	// OnExecutionStarted ends before the tool is invoked.
	OnExecutionStarted(ctx context.Context, e ExecutionStarted) error
}

// ToolScheduled says that a call was accepted. ModelInput is what the model sent,
// Input that after repairs.
type ToolScheduled struct {
	ToolCallID     string                `json:"toolCallId"`
	ToolName       string                `json:"toolName"`
	ModelAttemptID string                `json:"modelAttemptId,omitempty"`
	TurnID         string                `json:"turnId,omitempty"`
	ModelInput     json.RawMessage       `json:"modelInput"`
	Input          json.RawMessage       `json:"input"`
	SideEffect     abi.SideEffect        `json:"sideEffect"`
	Interrupt      abi.InterruptBehavior `json:"interruptBehavior"`
}

// ExecutionStarted says that the tool is about to run, with the final input.
type ExecutionStarted struct {
	Input      json.RawMessage `json:"input"`
	SideEffect abi.SideEffect  `json:"sideEffect"`
}

// ToolSettled says how a call ended.
type ToolSettled struct {
	ToolCallID string      `json:"toolCallId"`
	ToolName   string      `json:"toolName"`
	Result     *abi.Result `json:"result"`
}

// Resolution is the decision about a permission request.
type Resolution string

// Resolutions.
const (
	ResolutionAllow  Resolution = "allow"
	ResolutionDeny   Resolution = "deny"
	ResolutionCancel Resolution = "cancel"
)

// PermissionResolution says how a permission request ended.
type PermissionResolution struct {
	RequestID string     `json:"permissionRequestId"`
	Decision  Resolution `json:"decision"`
	Message   string     `json:"message,omitempty"`
}

// noLease is the runtime of a session without a lease.
type noLease struct{}

func (noLease) Fence() (tool.Fence, bool)         { return tool.Fence{}, false }
func (noLease) AssertLease(context.Context) error { return nil }
func (noLease) RunWithLease(ctx context.Context, op func(context.Context) error) error {
	return op(ctx)
}
