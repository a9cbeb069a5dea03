package journal

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/strictjson"
)

const (
	// MaxID bounds each id in bytes.
	MaxID = 512
	// MaxBatch bounds the events of one append.
	MaxBatch = 1000
	// MaxData bounds the data of one event in bytes: an input and the model's own
	// form of it, at the ABI's limit each.
	MaxData = 2*abi.MaxInput + 1<<20
)

// Keys are the ids of an event that must be new in its session, or that it is
// found by. Stores index them.
type Keys struct {
	// ToolCallID, of a tool_scheduled, is new within the turn.
	ToolCallID string
	// PermissionID is that of a permission_requested.
	PermissionID string
}

// issues collects what is wrong with one event.
type issues []abi.Issue

func (is *issues) add(pointer, format string, args ...any) {
	*is = append(*is, abi.Issue{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
}

func (is *issues) id(pointer, v string) {
	switch {
	case v == "":
		is.add(pointer, "is missing")
	case len(v) > MaxID:
		is.add(pointer, "has %d bytes, at most %d are allowed", len(v), MaxID)
	case !utf8.ValidString(v):
		is.add(pointer, "is not UTF-8")
	}
}

func (is *issues) optionalID(pointer, v string) {
	if v != "" {
		is.id(pointer, v)
	}
}

func (is *issues) oneOf(pointer, v string, known ...string) {
	if !slices.Contains(known, v) {
		is.add(pointer, "is %q; known are %v", clip(v), known)
	}
}

func (is *issues) object(pointer string, raw json.RawMessage) {
	if raw == nil {
		is.add(pointer, "is missing")
	} else if t := bytes.TrimLeft(raw, " \t\r\n"); len(t) == 0 || t[0] != '{' {
		is.add(pointer, "is not an object")
	}
}

func (is *issues) identity(i Identity) {
	is.id("/data/toolCallId", i.ToolCallID)
	is.id("/data/toolName", i.ToolName)
}

func (is *issues) sideEffect(s abi.SideEffect) {
	is.oneOf("/data/sideEffect", string(s), string(abi.SideEffectPure), string(abi.SideEffectIdempotent), string(abi.SideEffectNonIdempotent))
}

func (is issues) err(t Type) error {
	if len(is) == 0 {
		return nil
	}
	return abi.NewError(abi.CodeEvent, "the event %s: %s %s", clip(string(t)), is[0].Pointer, is[0].Message).With(abi.IssueDetails{Issues: is})
}

// ValidSessionID refuses what cannot name a session. Any other text can: it is
// data, never part of a path.
func ValidSessionID(id string) error {
	var is issues
	is.id("/sessionId", id)
	if len(is) > 0 {
		return abi.NewError(abi.CodeEvent, "the session id %s", is[0].Message).With(abi.IssueDetails{Issues: is})
	}
	return nil
}

// Check holds a draft to its type: the scope ids are there, the data has all
// members it must have and no others.
func (d Draft) Check() (Keys, error) {
	var is issues
	is.optionalID("/commandId", d.CommandID)
	is.optionalID("/causationEventId", d.CausationEventID)
	is.scope(d)
	if !d.OccurredAt.IsZero() && (d.OccurredAt.Year() < 0 || d.OccurredAt.Year() > 9999) {
		is.add("/occurredAt", "is out of range")
	}
	var k Keys
	switch {
	case d.Data == nil:
		is.add("/data", "is missing")
	case len(d.Data) > MaxData:
		is.add("/data", "has %d bytes, at most %d are allowed", len(d.Data), MaxData)
	default:
		k = is.data(d)
	}
	return k, is.err(d.Type)
}

func (is *issues) scope(d Draft) {
	if !d.Type.ofTool() {
		for _, f := range []struct{ p, v string }{{"/requestId", d.RequestID}, {"/turnId", d.TurnID}, {"/modelAttemptId", d.ModelAttemptID}, {"/toolAttemptId", d.ToolAttemptID}} {
			if f.v != "" {
				is.add(f.p, "does not belong to %s", d.Type)
			}
		}
		return
	}
	is.id("/requestId", d.RequestID)
	is.id("/turnId", d.TurnID)
	is.id("/toolAttemptId", d.ToolAttemptID)
	if d.Type == ToolScheduled {
		is.id("/modelAttemptId", d.ModelAttemptID)
	} else {
		is.optionalID("/modelAttemptId", d.ModelAttemptID)
	}
}

// decode reads the data into v, of which it must have no member more.
func (is *issues) decode(raw json.RawMessage, v any) bool {
	err := strictjson.CheckObject(raw)
	if err == nil {
		err = strictjson.DecodeKnown(raw, v)
	}
	if err != nil {
		is.add("/data", "%v", err)
	}
	return err == nil
}

func (is *issues) data(d Draft) (k Keys) {
	switch d.Type {
	case SessionCreated, SessionClosed:
		is.session(d)
	case ToolScheduled:
		var v ScheduledData
		if is.decode(d.Data, &v) {
			is.identity(v.Identity)
			is.object("/data/modelInput", v.ModelInput)
			is.object("/data/input", v.Input)
			is.sideEffect(v.SideEffect)
			is.oneOf("/data/interruptBehavior", string(v.Interrupt), string(abi.InterruptBlock), string(abi.InterruptCancel))
			k.ToolCallID = v.ToolCallID
		}
	case ToolStarted:
		var v StartedData
		if is.decode(d.Data, &v) {
			is.identity(v.Identity)
			is.object("/data/input", v.Input)
			is.sideEffect(v.SideEffect)
		}
	case ToolCompleted, ToolFailed, ToolCancelled, ToolOutcomeUnknown:
		is.ending(d)
	case PermissionRequested:
		var v RequestedData
		if is.decode(d.Data, &v) {
			is.id("/data/permissionRequestId", v.PermissionRequestID)
			is.identity(v.Identity)
			is.object("/data/input", v.Input)
			k.PermissionID = v.PermissionRequestID
		}
	case PermissionResolved:
		var v ResolvedData
		if is.decode(d.Data, &v) {
			is.id("/data/permissionRequestId", v.PermissionRequestID)
			is.oneOf("/data/decision", v.Decision, DecisionAllow, DecisionDeny, DecisionCancel)
		}
	default:
		is.add("/type", "is not known")
	}
	return k
}

func (is *issues) session(d Draft) {
	if d.Type == SessionClosed {
		var v SessionClosedData
		if is.decode(d.Data, &v) {
			is.oneOf("/data/reason", v.Reason, "completed", "user", "shutdown", "error")
		}
		return
	}
	var v SessionCreatedData
	if is.decode(d.Data, &v) {
		is.oneOf("/data/source", v.Source, "", "create", "resume", "fork")
		is.optionalID("/data/parentSessionId", v.ParentSessionID)
	}
}

func (is *issues) ending(d Draft) {
	switch d.Type {
	case ToolCompleted:
		var v CompletedData
		if !is.decode(d.Data, &v) {
			return
		}
		is.identity(v.Identity)
		if v.Result == nil {
			is.add("/data/result", "is missing")
		}
		is.artifact(v.Artifact)
	case ToolFailed:
		var v FailedData
		if is.decode(d.Data, &v) {
			is.identity(v.Identity)
			if v.Error.Message == "" {
				is.add("/data/error/message", "is missing")
			}
		}
	default:
		var v ReasonData
		if !is.decode(d.Data, &v) {
			return
		}
		is.identity(v.Identity)
		if d.Type == ToolCancelled {
			is.oneOf("/data/reason", v.Reason, ReasonInterrupted, ReasonPermissionDenied, ReasonPermissionCancelled, ReasonCascade, ReasonRestart)
		} else {
			is.oneOf("/data/reason", v.Reason, ReasonRestart, ReasonCommitUnknown)
		}
	}
}

func (is *issues) artifact(a *ArtifactRef) {
	if a == nil {
		return
	}
	is.id("/data/artifact/handle", a.Handle)
	if sum, err := hex.DecodeString(a.SHA256); err != nil || len(sum) != 32 || hex.EncodeToString(sum) != a.SHA256 {
		is.add("/data/artifact/sha256", "is no SHA-256 in hex")
	}
	if a.Bytes < 0 {
		is.add("/data/artifact/bytes", "is negative")
	}
}

// Prepare checks the drafts of one append and makes the events that follow head.
// A store calls it before it writes anything.
func Prepare(session string, drafts []Draft, head int64, now time.Time) ([]Event, []Keys, error) {
	if err := ValidSessionID(session); err != nil {
		return nil, nil, err
	}
	if len(drafts) == 0 || len(drafts) > MaxBatch {
		return nil, nil, abi.NewError(abi.CodeEvent, "an append has %d events; it must have 1 to %d", len(drafts), MaxBatch)
	}
	events, keys := make([]Event, len(drafts)), make([]Keys, len(drafts))
	at := timestamp(now)
	for i, d := range drafts {
		k, err := d.Check()
		if err != nil {
			return nil, nil, err
		}
		if d.CommandID != drafts[0].CommandID {
			return nil, nil, abi.NewError(abi.CodeEvent, "the events of one append belong to the commands %q and %q; they must belong to one", clip(drafts[0].CommandID), clip(d.CommandID))
		}
		e := Event{
			SchemaVersion: SchemaVersion, EventID: newID("evt"), Sequence: head + int64(i) + 1, SessionID: session,
			Type: d.Type, Data: bytes.Clone(d.Data), RecordedAt: at, OccurredAt: at, CommandID: d.CommandID, Scope: d.Scope,
			CausationEventID: d.CausationEventID,
		}
		if !d.OccurredAt.IsZero() {
			e.OccurredAt = timestamp(d.OccurredAt)
		}
		events[i], keys[i] = e, k
	}
	return events, keys, nil
}

// Draft is the draft that an event was made of.
func (e Event) Draft() Draft {
	at, _ := ParseTime(e.OccurredAt) // a zero time is refused where it matters
	return Draft{Type: e.Type, Data: e.Data, OccurredAt: at, CommandID: e.CommandID, Scope: e.Scope, CausationEventID: e.CausationEventID}
}

// Encode is the stored form of an event.
func (e Event) Encode() ([]byte, error) {
	b, err := abi.Marshal(e)
	if err != nil {
		return nil, abi.NewError(abi.CodeEvent, "the event %s has no JSON form: %v", e.Type, err)
	}
	return b, nil
}

// Decode reads the stored form of an event, strictly: what Prepare would not
// have made is refused.
func Decode(b []byte) (Event, error) {
	var e Event
	if err := strictjson.DecodeKnown(b, &e); err != nil {
		return e, abi.NewError(abi.CodeEvent, "an event is %v", err).Because(err)
	}
	var is issues
	if e.SchemaVersion != SchemaVersion {
		return e, abi.NewError(abi.CodeEvent, "an event has schema version %d; this version reads %d only", e.SchemaVersion, SchemaVersion)
	}
	is.id("/eventId", e.EventID)
	is.id("/sessionId", e.SessionID)
	if e.Sequence < 1 {
		is.add("/sequence", "is %d; sequences start at 1", e.Sequence)
	}
	for _, f := range []struct{ p, v string }{{"/recordedAt", e.RecordedAt}, {"/occurredAt", e.OccurredAt}} {
		if _, err := ParseTime(f.v); err != nil {
			is.add(f.p, "is no time")
		}
	}
	if err := is.err(e.Type); err != nil {
		return e, err
	}
	_, err := e.Draft().Check()
	return e, err
}

// KeysOf are the keys of a stored event.
func KeysOf(e Event) (Keys, error) { return e.Draft().Check() }
