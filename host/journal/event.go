package journal

import (
	"crypto/rand"
	"encoding/json"
	"strings"
	"time"

	"github.com/bladehost/bladehost/abi"
)

// SchemaVersion is the version of the events that are written, and the only one
// that is read.
const SchemaVersion = 4

// Type is the type of an event. The names are stored, so they never change.
type Type string

// Event types.
const (
	SessionCreated      Type = "session_created"
	SessionClosed       Type = "session_closed"
	ToolScheduled       Type = "tool_scheduled"
	ToolStarted         Type = "tool_started"
	ToolCompleted       Type = "tool_completed"
	ToolFailed          Type = "tool_failed"
	ToolCancelled       Type = "tool_cancelled"
	ToolOutcomeUnknown  Type = "tool_outcome_unknown"
	PermissionRequested Type = "permission_requested"
	PermissionResolved  Type = "permission_resolved"
)

// Types lists all types, in the order of a call's life.
func Types() []Type {
	return []Type{
		SessionCreated, ToolScheduled, PermissionRequested, PermissionResolved, ToolStarted,
		ToolCompleted, ToolFailed, ToolCancelled, ToolOutcomeUnknown, SessionClosed,
	}
}

// Ends reports whether an event of this type is the last of a tool attempt.
func (t Type) Ends() bool { return t == ToolCompleted || t == ToolFailed || t == ToolCancelled }

// ofTool reports whether events of this type belong to a tool attempt.
func (t Type) ofTool() bool { return t != SessionCreated && t != SessionClosed }

// Scope says what an event belongs to. The ids of the outer scopes are set where
// the inner one is.
type Scope struct {
	RequestID      string `json:"requestId,omitempty"`
	TurnID         string `json:"turnId,omitempty"`
	ModelAttemptID string `json:"modelAttemptId,omitempty"`
	ToolAttemptID  string `json:"toolAttemptId,omitempty"`
}

// Event is one record of a session. Sequences start at 1 and have no gaps. Times
// are UTC in RFC 3339 with milliseconds: RecordedAt when it was committed,
// OccurredAt when it happened.
type Event struct {
	SchemaVersion int    `json:"schemaVersion"`
	EventID       string `json:"eventId"`
	Sequence      int64  `json:"sequence"`
	SessionID     string `json:"sessionId"`
	Type          Type   `json:"type"`
	// Data is an object whose shape the type decides.
	Data       json.RawMessage `json:"data"`
	RecordedAt string          `json:"recordedAt"`
	OccurredAt string          `json:"occurredAt"`
	CommandID  string          `json:"commandId,omitempty"`
	Scope
	// CausationEventID names an earlier event of the same journal.
	CausationEventID string `json:"causationEventId,omitempty"`
}

// Draft is an event before it is committed.
type Draft struct {
	Type Type
	Data json.RawMessage
	// OccurredAt is when it happened; zero means when it is committed.
	OccurredAt time.Time
	CommandID  string
	Scope
	CausationEventID string
}

// timeFormat is that of JavaScript's toISOString, which other readers expect.
const timeFormat = "2006-01-02T15:04:05.000Z"

func timestamp(t time.Time) string { return t.UTC().Format(timeFormat) }

// ParseTime reads a time of an event.
func ParseTime(s string) (time.Time, error) {
	t, err := time.Parse(timeFormat, s)
	if err != nil || t.Format(timeFormat) != s {
		return time.Time{}, abi.NewError(abi.CodeEvent, "%q is no time such as %s", clip(s), timeFormat)
	}
	return t, nil
}

// newID is a random id of 128 bits.
func newID(what string) string { return what + "_" + strings.ToLower(rand.Text()) }

func clip(s string) string {
	const most = 120
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
