package journal

import (
	"encoding/json"

	"github.com/bladehost/bladehost/abi"
)

// The data of each event type. Members are exactly these; unknown ones are
// refused.

// SessionCreatedData is the data of session_created. Source is create, resume or
// fork; empty means create.
type SessionCreatedData struct {
	Source          string `json:"source,omitempty"`
	ParentSessionID string `json:"parentSessionId,omitempty"`
}

// SessionClosedData is the data of session_closed. Reason is completed, user,
// shutdown or error.
type SessionClosedData struct {
	Reason string `json:"reason"`
}

// Identity names a call in events of a tool attempt.
type Identity struct {
	ToolCallID string `json:"toolCallId"`
	ToolName   string `json:"toolName"`
}

// ScheduledData is the data of tool_scheduled: the call as the model sent it and
// after repairs.
type ScheduledData struct {
	Identity
	ModelInput json.RawMessage       `json:"modelInput"`
	Input      json.RawMessage       `json:"input"`
	SideEffect abi.SideEffect        `json:"sideEffect"`
	Interrupt  abi.InterruptBehavior `json:"interruptBehavior"`
	// Place is where the call was made, if that is known.
	Place *Place `json:"place,omitempty"`
}

// Place is what relative paths of a call start at, and the workspace folders that
// it had: a call that is made again elsewhere is another call.
type Place struct {
	Cwd   string   `json:"cwd,omitempty"`
	Roots []string `json:"roots,omitempty"`
}

// StartedData is the data of tool_started: the final input and the resolved side
// effect.
type StartedData struct {
	Identity
	Input      json.RawMessage `json:"input"`
	SideEffect abi.SideEffect  `json:"sideEffect"`
}

// CompletedData is the data of tool_completed. Result is what the model reads;
// where that was too large, Artifact is where the whole of it is.
type CompletedData struct {
	Identity
	Result   json.RawMessage `json:"result"`
	Artifact *ArtifactRef    `json:"artifact,omitempty"`
}

// ArtifactRef refers to a file that the host keeps outside of the journal. The
// digest says whether the file is still the one that was meant.
type ArtifactRef struct {
	Handle string `json:"handle"`
	Path   string `json:"path,omitempty"`
	// SHA256 is hex in lower case.
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// ErrorData is the error of a failed attempt. Retryable is nil where that is not
// known.
type ErrorData struct {
	Message   string `json:"message"`
	Code      string `json:"code,omitempty"`
	Retryable *bool  `json:"retryable,omitempty"`
}

// FailedData is the data of tool_failed.
type FailedData struct {
	Identity
	Error ErrorData `json:"error"`
}

// Reasons of tool_cancelled and tool_outcome_unknown.
const (
	ReasonInterrupted         = "request_interrupted"
	ReasonPermissionDenied    = "permission_denied"
	ReasonPermissionCancelled = "permission_cancelled"
	ReasonCascade             = "cascade_abort"
	ReasonRestart             = "process_restart"
	ReasonCommitUnknown       = "commit_outcome_unknown"
)

// ReasonData is the data of tool_cancelled and tool_outcome_unknown.
type ReasonData struct {
	Identity
	Reason string `json:"reason"`
}

// RequestedData is the data of permission_requested.
type RequestedData struct {
	PermissionRequestID string `json:"permissionRequestId"`
	Identity
	Input   json.RawMessage `json:"input"`
	Message string          `json:"message,omitempty"`
}

// Decisions about a permission.
const (
	DecisionAllow  = "allow"
	DecisionDeny   = "deny"
	DecisionCancel = "cancel"
)

// ResolvedData is the data of permission_resolved.
type ResolvedData struct {
	PermissionRequestID string `json:"permissionRequestId"`
	Decision            string `json:"decision"`
	Message             string `json:"message,omitempty"`
}

// draft makes a draft of a payload. The payloads are this package's own, so they
// have a JSON form unless a part of them is no JSON; that is refused later.
func draft(t Type, s Scope, data any) Draft {
	raw, err := abi.Marshal(data)
	if err != nil {
		raw = nil
	}
	return Draft{Type: t, Scope: s, Data: raw}
}
