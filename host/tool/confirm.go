package tool

import (
	"context"
	"encoding/json"
)

// ConfirmationType says what a confirmation is about.
type ConfirmationType string

// Confirmation types. The zero value means ConfirmPermission.
const (
	ConfirmPermission    ConfirmationType = "permission"
	ConfirmEnterPlanMode ConfirmationType = "enterPlanMode"
	ConfirmExitPlanMode  ConfirmationType = "exitPlanMode"
	ConfirmMaxTurns      ConfirmationType = "maxTurnsExceeded"
	ConfirmQuestion      ConfirmationType = "askUserQuestion"
)

// Confirmation is what the user is asked. The handler also gets a context that
// ends when the question is moot.
type Confirmation struct {
	Type                ConfirmationType  `json:"type,omitempty"`
	PermissionRequestID string            `json:"permissionRequestId,omitempty"`
	Kind                string            `json:"kind,omitempty"`
	ToolCallID          string            `json:"toolCallId,omitempty"`
	ToolName            string            `json:"toolName,omitempty"`
	Args                json.RawMessage   `json:"args,omitempty"`
	Title               string            `json:"title,omitempty"`
	Message             string            `json:"message"`
	Details             json.RawMessage   `json:"details,omitempty"`
	Risks               []string          `json:"risks,omitempty"`
	AffectedFiles       []string          `json:"affectedFiles,omitempty"`
	PlanContent         string            `json:"planContent,omitempty"`
	Questions           []json.RawMessage `json:"questions,omitempty"`
	// Signature is what an approval for the session would cover.
	Signature string `json:"signature,omitempty"`
}

// ConfirmationAnswer is the user's answer. Scope is once (also when empty) or
// session.
type ConfirmationAnswer struct {
	Approved   bool                       `json:"approved"`
	Reason     string                     `json:"reason,omitempty"`
	Scope      string                     `json:"scope,omitempty"`
	TargetMode string                     `json:"targetMode,omitempty"`
	Feedback   string                     `json:"feedback,omitempty"`
	Answers    map[string]json.RawMessage `json:"answers,omitempty"`
}

// ConfirmationHandler asks the user and waits for the answer, without a time
// limit; it stops when ctx ends.
type ConfirmationHandler interface {
	RequestConfirmation(ctx context.Context, c Confirmation) (ConfirmationAnswer, error)
}

// ConfirmFunc is a function as a ConfirmationHandler.
type ConfirmFunc func(ctx context.Context, c Confirmation) (ConfirmationAnswer, error)

// RequestConfirmation calls f.
func (f ConfirmFunc) RequestConfirmation(ctx context.Context, c Confirmation) (ConfirmationAnswer, error) {
	return f(ctx, c)
}
