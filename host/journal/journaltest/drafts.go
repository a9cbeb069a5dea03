package journaltest

import (
	"encoding/json"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/journal"
)

// Scope is the scope of attempt n in turn 1.
func Scope(n string) journal.Scope {
	return journal.Scope{RequestID: "r1", TurnID: "t1", ModelAttemptID: "m1", ToolAttemptID: n}
}

// Identity is the identity of attempt n.
func Identity(n string) journal.Identity {
	return journal.Identity{ToolCallID: "call-" + n, ToolName: "Tool"}
}

func draftOf(t journal.Type, s journal.Scope, data any) journal.Draft {
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	return journal.Draft{Type: t, Scope: s, Data: raw}
}

// Created is a session_created.
func Created() journal.Draft {
	return draftOf(journal.SessionCreated, journal.Scope{}, journal.SessionCreatedData{Source: "create"})
}

// Closed is a session_closed.
func Closed() journal.Draft {
	return draftOf(journal.SessionClosed, journal.Scope{}, journal.SessionClosedData{Reason: "completed"})
}

// Scheduled is the tool_scheduled of attempt n.
func Scheduled(n string, effect abi.SideEffect) journal.Draft {
	return draftOf(journal.ToolScheduled, Scope(n), journal.ScheduledData{
		Identity: Identity(n), ModelInput: json.RawMessage(`{"a":1}`), Input: json.RawMessage(`{"a":1}`), SideEffect: effect, Interrupt: abi.InterruptBlock,
	})
}

// Requested is a permission_requested of attempt n, whose id is perm-n.
func Requested(n string) journal.Draft {
	return draftOf(journal.PermissionRequested, Scope(n), journal.RequestedData{PermissionRequestID: "perm-" + n, Identity: Identity(n), Input: json.RawMessage(`{"a":1}`), Message: "may it?"})
}

// Resolved is the permission_resolved of it.
func Resolved(n, decision string) journal.Draft {
	return draftOf(journal.PermissionResolved, Scope(n), journal.ResolvedData{PermissionRequestID: "perm-" + n, Decision: decision})
}

// Started is the tool_started of attempt n.
func Started(n string, effect abi.SideEffect) journal.Draft {
	return draftOf(journal.ToolStarted, Scope(n), journal.StartedData{Identity: Identity(n), Input: json.RawMessage(`{"a":1}`), SideEffect: effect})
}

// Completed is the tool_completed of attempt n.
func Completed(n string) journal.Draft {
	return draftOf(journal.ToolCompleted, Scope(n), journal.CompletedData{Identity: Identity(n), Result: json.RawMessage(`"done"`)})
}

// Failed is the tool_failed of attempt n.
func Failed(n string) journal.Draft {
	return draftOf(journal.ToolFailed, Scope(n), journal.FailedData{Identity: Identity(n), Error: journal.ErrorData{Message: "it broke", Code: "broken"}})
}

// Cancelled is the tool_cancelled of attempt n.
func Cancelled(n, reason string) journal.Draft {
	return draftOf(journal.ToolCancelled, Scope(n), journal.ReasonData{Identity: Identity(n), Reason: reason})
}

// Unknown is the tool_outcome_unknown of attempt n.
func Unknown(n string) journal.Draft {
	return draftOf(journal.ToolOutcomeUnknown, Scope(n), journal.ReasonData{Identity: Identity(n), Reason: journal.ReasonRestart})
}

// Bad are drafts that every store refuses.
func Bad() map[string]journal.Draft {
	with := func(d journal.Draft, change func(*journal.Draft)) journal.Draft { change(&d); return d }
	data := func(d journal.Draft, text string) journal.Draft { d.Data = json.RawMessage(text); return d }
	sched := Scheduled("x", abi.SideEffectPure)
	return map[string]journal.Draft{
		"unknown type":             {Type: "tool_exploded", Data: json.RawMessage(`{}`), Scope: Scope("x")},
		"no data":                  {Type: journal.SessionCreated},
		"data is no object":        data(Created(), `[]`),
		"data is no JSON":          data(Created(), `{"source":`),
		"unknown member":           data(Created(), `{"source":"create","more":1}`),
		"duplicate member":         data(Created(), `{"source":"create","source":"fork"}`),
		"another case of a member": data(Created(), `{"Source":"create"}`),
		"bad source":               data(Created(), `{"source":"dream"}`),
		"bad reason":               data(Closed(), `{"reason":"bored"}`),
		"not a finite number":      data(Created(), `{"source":1e999}`),
		"scope of a session event": with(Created(), func(d *journal.Draft) { d.TurnID = "t" }),
		"no request":               with(sched, func(d *journal.Draft) { d.RequestID = "" }),
		"no turn":                  with(sched, func(d *journal.Draft) { d.TurnID = "" }),
		"no model attempt":         with(sched, func(d *journal.Draft) { d.ModelAttemptID = "" }),
		"no tool attempt":          with(sched, func(d *journal.Draft) { d.ToolAttemptID = "" }),
		"a long id":                with(sched, func(d *journal.Draft) { d.TurnID = string(make([]byte, 600)) }),
		"id that is no UTF-8":      with(sched, func(d *journal.Draft) { d.TurnID = "\xff" }),
		"no input":                 data(sched, `{"toolCallId":"c","toolName":"T","modelInput":{},"sideEffect":"pure","interruptBehavior":"block"}`),
		"input is no object":       data(sched, `{"toolCallId":"c","toolName":"T","modelInput":{},"input":[],"sideEffect":"pure","interruptBehavior":"block"}`),
		"no model input":           data(sched, `{"toolCallId":"c","toolName":"T","input":{},"sideEffect":"pure","interruptBehavior":"block"}`),
		"bad side effect":          data(sched, `{"toolCallId":"c","toolName":"T","modelInput":{},"input":{},"sideEffect":"none","interruptBehavior":"block"}`),
		"bad interrupt behaviour":  data(sched, `{"toolCallId":"c","toolName":"T","modelInput":{},"input":{},"sideEffect":"pure","interruptBehavior":"wait"}`),
		"no tool name":             data(sched, `{"toolCallId":"c","modelInput":{},"input":{},"sideEffect":"pure","interruptBehavior":"block"}`),
		"no result":                data(Completed("x"), `{"toolCallId":"c","toolName":"T"}`),
		"bad artifact":             data(Completed("x"), `{"toolCallId":"c","toolName":"T","result":1,"artifact":{"handle":"h","sha256":"00","bytes":1}}`),
		"no error":                 data(Failed("x"), `{"toolCallId":"c","toolName":"T"}`),
		"bad cancel reason":        data(Cancelled("x", "x"), `{"toolCallId":"c","toolName":"T","reason":"commit_outcome_unknown"}`),
		"bad unknown reason":       data(Unknown("x"), `{"toolCallId":"c","toolName":"T","reason":"request_interrupted"}`),
		"bad decision":             data(Resolved("x", "y"), `{"permissionRequestId":"p","decision":"perhaps"}`),
		"no permission id":         data(Requested("x"), `{"toolCallId":"c","toolName":"T","input":{}}`),
		"two commands":             with(Created(), func(d *journal.Draft) { d.CommandID = string(make([]byte, 600)) }),
	}
}
