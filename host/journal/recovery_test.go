package journal_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/journal"
	. "github.com/bladehost/bladehost/host/journal/journaltest"
	"github.com/bladehost/bladehost/host/tool"
)

// left is a session as a dead process left it.
func left(t *testing.T, list ...journal.Draft) (*journal.Journal, journal.Store) {
	t.Helper()
	s := memory(t, nil)
	if _, err := s.Append(t.Context(), "s", append([]journal.Draft{Created()}, list...), journal.AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(t.Context(), s, journal.Options{SessionID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	return j, s
}

func typesAfter(t *testing.T, s journal.Store, n int) string {
	t.Helper()
	var out []string
	for _, e := range All(t, s, "s")[n:] {
		out = append(out, string(e.Type))
	}
	return strings.Join(out, " ")
}

// What an operator may say of each state, and what that leaves.
func TestReconcile(t *testing.T) {
	started := []journal.Draft{Scheduled("a", abi.SideEffectPure), Started("a", abi.SideEffectNonIdempotent)}
	done := journal.Outcome{Completed: json.RawMessage(`"it is there"`)}
	for _, c := range []struct {
		name string
		list []journal.Draft
		do   func(context.Context, *journal.Journal) error
		code abi.Code
		want string
	}{
		{"completed", started, func(ctx context.Context, j *journal.Journal) error { return j.Reconcile(ctx, "a", done) }, "", "tool_outcome_unknown tool_completed"},
		{"failed", started, func(ctx context.Context, j *journal.Journal) error {
			return j.Reconcile(ctx, "a", journal.Outcome{Failed: &journal.ErrorData{Message: "no"}})
		}, "", "tool_outcome_unknown tool_failed"},
		{"had no effect", started, func(ctx context.Context, j *journal.Journal) error {
			return j.Reconcile(ctx, "a", journal.Outcome{Cancelled: true})
		}, "", "tool_outcome_unknown tool_cancelled"},
		{"marked before", append(started, Unknown("a")), func(ctx context.Context, j *journal.Journal) error { return j.Reconcile(ctx, "a", done) }, "", "tool_completed"},
		{"nothing said", started, func(ctx context.Context, j *journal.Journal) error { return j.Reconcile(ctx, "a", journal.Outcome{}) }, abi.CodeRecovery, ""},
		{"two things said", started, func(ctx context.Context, j *journal.Journal) error {
			return j.Reconcile(ctx, "a", journal.Outcome{Cancelled: true, Completed: json.RawMessage(`1`)})
		}, abi.CodeRecovery, ""},
		{"a result that is no JSON", started, func(ctx context.Context, j *journal.Journal) error {
			return j.Reconcile(ctx, "a", journal.Outcome{Completed: json.RawMessage(`{`)})
		}, abi.CodeRecovery, ""},
		{"no such attempt", started, func(ctx context.Context, j *journal.Journal) error { return j.Reconcile(ctx, "b", done) }, abi.CodeJournalMissing, ""},
		{"not started", started[:1], func(ctx context.Context, j *journal.Journal) error { return j.Reconcile(ctx, "a", done) }, abi.CodeRecovery, ""},
		{"mark", started, func(ctx context.Context, j *journal.Journal) error { return j.MarkUnknown(ctx, "a") }, "", "tool_outcome_unknown"},
		{"mark what did not start", started[:1], func(ctx context.Context, j *journal.Journal) error { return j.MarkUnknown(ctx, "a") }, abi.CodeRecovery, ""},
		{"cancel what may have run", started, func(ctx context.Context, j *journal.Journal) error { return j.Cancel(ctx, "a") }, abi.CodeRecovery, ""},
		{"cancel what did not start", started[:1], func(ctx context.Context, j *journal.Journal) error { return j.Cancel(ctx, "a") }, "", "tool_cancelled"},
		{"cancel what may be repeated", []journal.Draft{started[0], Started("a", abi.SideEffectPure)}, func(ctx context.Context, j *journal.Journal) error { return j.Cancel(ctx, "a") }, "", "tool_outcome_unknown tool_cancelled"},
		{"cancel what waits", []journal.Draft{started[0], Requested("a")}, func(ctx context.Context, j *journal.Journal) error { return j.Cancel(ctx, "a") }, "", "permission_resolved tool_cancelled"},
		{"cancel what was denied", []journal.Draft{started[0], Requested("a"), Resolved("a", "deny")}, func(ctx context.Context, j *journal.Journal) error { return j.Cancel(ctx, "a") }, "", "tool_cancelled"},
		{"start what was denied", []journal.Draft{started[0], Requested("a"), Resolved("a", "deny")}, func(ctx context.Context, j *journal.Journal) error { _, err := j.StartAttempt(ctx, "a"); return err }, abi.CodeRecovery, ""},
		{"start what waits", []journal.Draft{started[0], Requested("a")}, func(ctx context.Context, j *journal.Journal) error { _, err := j.StartAttempt(ctx, "a"); return err }, abi.CodeRecovery, ""},
		{"start twice", started, func(ctx context.Context, j *journal.Journal) error { _, err := j.StartAttempt(ctx, "a"); return err }, abi.CodeRecovery, ""},
		{"deny", []journal.Draft{started[0], Requested("a")}, func(ctx context.Context, j *journal.Journal) error {
			return j.ResolvePermission(ctx, "a", "deny", "no")
		}, "", "permission_resolved tool_cancelled"},
		{"cancel the permission", []journal.Draft{started[0], Requested("a")}, func(ctx context.Context, j *journal.Journal) error {
			return j.ResolvePermission(ctx, "a", "cancel", "")
		}, "", "permission_resolved tool_cancelled"},
		{"an odd decision", []journal.Draft{started[0], Requested("a")}, func(ctx context.Context, j *journal.Journal) error {
			return j.ResolvePermission(ctx, "a", "perhaps", "")
		}, abi.CodeRecovery, ""},
		{"no permission waits", started[:1], func(ctx context.Context, j *journal.Journal) error {
			return j.ResolvePermission(ctx, "a", "allow", "")
		}, abi.CodeRecovery, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			j, s := left(t, c.list...)
			if err := c.do(t.Context(), j); abi.CodeOf(err) != c.code || (c.code == "" && err != nil) {
				t.Errorf("%v, want %q", err, c.code)
			}
			if got := typesAfter(t, s, 1+len(c.list)); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// DUR-16: a permission that is allowed after the restart makes the call one that
// may not be repeated, and it starts durably before it runs.
func TestAllowedInRecovery(t *testing.T) {
	j, s := left(t, Scheduled("a", abi.SideEffectPure), Requested("a"))
	if err := j.ResolvePermission(t.Context(), "a", "allow", ""); err != nil {
		t.Fatal(err)
	}
	if p := j.Plan(); len(p.Retryable) != 1 {
		t.Fatalf("%+v", p)
	}
	in, err := j.StartAttempt(t.Context(), "a")
	if err != nil || string(in) != `{"a":1}` {
		t.Fatalf("%s %v", in, err)
	}
	if p, err := journal.PlanOf(t.Context(), s, "s"); err != nil || len(p.Unknown) != 1 || p.Unknown[0].SideEffect != abi.SideEffectNonIdempotent {
		t.Errorf("%+v %v", p, err)
	}
	// Without a permission it stays what it was.
	j, _ = left(t, Scheduled("a", abi.SideEffectPure))
	if _, err := j.StartAttempt(t.Context(), "a"); err != nil || j.Plan().Retryable[0].SideEffect != abi.SideEffectPure {
		t.Errorf("%+v %v", j.Plan(), err)
	}
}

// Replay makes the recorded call again and ends the same attempt.
func TestReplay(t *testing.T) {
	for _, c := range []struct {
		name string
		list []journal.Draft
		// now is what the tool is today.
		now  abi.SideEffect
		code abi.Code
		ran  bool
		want string
	}{
		{"not started", []journal.Draft{Scheduled("a", abi.SideEffectPure)}, abi.SideEffectPure, "", true, "tool_started tool_completed"},
		{"not started, non_idempotent", []journal.Draft{Scheduled("a", abi.SideEffectNonIdempotent)}, abi.SideEffectNonIdempotent, "", true, "tool_started tool_completed"},
		{"allowed", []journal.Draft{Scheduled("a", abi.SideEffectPure), Requested("a"), Resolved("a", "allow")}, abi.SideEffectPure, "", true, "tool_started tool_completed"},
		{"started, pure", []journal.Draft{Scheduled("a", abi.SideEffectPure), Started("a", abi.SideEffectPure)}, abi.SideEffectPure, "", true, "tool_completed"},
		{"unknown, idempotent", []journal.Draft{Scheduled("a", abi.SideEffectPure), Started("a", abi.SideEffectIdempotent), Unknown("a")}, abi.SideEffectIdempotent, "", true, "tool_completed"},
		{"started, non_idempotent", []journal.Draft{Scheduled("a", abi.SideEffectPure), Started("a", abi.SideEffectNonIdempotent)}, abi.SideEffectPure, abi.CodeRecovery, false, ""},
		{"denied", []journal.Draft{Scheduled("a", abi.SideEffectPure), Requested("a"), Resolved("a", "deny")}, abi.SideEffectPure, abi.CodeRecovery, false, ""},
		{"permission waits", []journal.Draft{Scheduled("a", abi.SideEffectPure), Requested("a")}, abi.SideEffectPure, abi.CodeRecovery, false, ""},
		{"pure then, non_idempotent now", []journal.Draft{Scheduled("a", abi.SideEffectPure), Started("a", abi.SideEffectPure)}, abi.SideEffectNonIdempotent, abi.CodeRecovery, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			j, s := left(t, c.list...)
			ran := 0
			tl := &plain{spec: spec("Tool", c.now), run: func(_ context.Context, call *tool.Call) (*abi.Result, error) {
				if string(call.Input) != `{"a":1}` || call.ToolCallID() != "call-a" {
					t.Errorf("%s %s", call.Input, call.ToolCallID())
				}
				ran++
				return abi.Text("again"), nil
			}}
			tl.spec.Parameters = json.RawMessage(`{"type":"object"}`)
			rec := j.Recorder(journal.RecorderOptions{})
			ses, err := newHost(t, tl).NewSession(host.SessionOptions{ID: "s", Lifecycle: rec})
			if err != nil {
				t.Fatal(err)
			}
			res, err := rec.Replay(t.Context(), ses, "a")
			if abi.CodeOf(err) != c.code || (err == nil && res.ModelText() != "again") || (ran == 1) != c.ran {
				t.Errorf("%v %v, ran %d", res, err, ran)
			}
			if got := typesAfter(t, s, 1+len(c.list)); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	// A policy that forbids the call now, and a tool that is gone, leave it open.
	for name, opt := range map[string]host.SessionOptions{"plan mode": {Mode: "plan"}, "no such tool": {AllowedTools: []string{}}} {
		j, s := left(t, Scheduled("a", abi.SideEffectPure))
		rec := j.Recorder(journal.RecorderOptions{})
		opt.ID, opt.Lifecycle = "s", rec
		ses, err := newHost(t, &plain{spec: spec("Tool", abi.SideEffectPure), run: text("x")}).NewSession(opt)
		if err != nil {
			t.Fatal(err)
		}
		res, err := rec.Replay(t.Context(), ses, "a")
		if err != nil || !res.IsError() || typesAfter(t, s, 2) != "" || len(j.Plan().Retryable) != 1 {
			t.Errorf("%s: %v %v, then %s", name, res, err, typesAfter(t, s, 2))
		}
	}
}

// What cannot be made again today stays as it was.
func TestReplayLeavesOpen(t *testing.T) {
	for name, c := range map[string]struct {
		schema string
		opt    host.SessionOptions
	}{
		"the tool is gone":            {`{"type":"object"}`, host.SessionOptions{AllowedTools: []string{}}},
		"the input is refused":        {`{"type":"object","required":["z"]}`, host.SessionOptions{}},
		"the defaults changed":        {`{"type":"object","properties":{"b":{"default":2}}}`, host.SessionOptions{}},
		"a rule denies it in between": {`{"type":"object"}`, host.SessionOptions{DisallowedTools: []string{"Tool"}}},
	} {
		t.Run(name, func(t *testing.T) {
			j, s := left(t, Scheduled("a", abi.SideEffectPure), Started("a", abi.SideEffectPure))
			tl := &plain{spec: spec("Tool", abi.SideEffectPure), run: func(context.Context, *tool.Call) (*abi.Result, error) { t.Error("it ran"); return abi.Text("x"), nil }}
			tl.spec.Parameters = json.RawMessage(c.schema)
			rec := j.Recorder(journal.RecorderOptions{})
			c.opt.ID, c.opt.Lifecycle = "s", rec
			ses, err := newHost(t, tl).NewSession(c.opt)
			if err != nil {
				t.Fatal(err)
			}
			res, err := rec.Replay(t.Context(), ses, "a")
			if err == nil && !res.IsError() {
				t.Errorf("%+v", res)
			}
			if got := typesAfter(t, s, 3); got != "" || len(j.Plan().Retryable) != 1 {
				t.Errorf("%s, %+v", got, j.Plan())
			}
		})
	}
}

// Ids that a model or an agent made up are recorded whatever they are, and two
// stay two.
func TestOddIDs(t *testing.T) {
	s := memory(t, nil)
	j := openJournal(t, s)
	ok := &plain{spec: spec("Ok", abi.SideEffectPure), run: text("x")}
	ses, err := newHost(t, ok).NewSession(host.SessionOptions{ID: "s", Mode: "yolo", Lifecycle: j.Recorder(journal.RecorderOptions{})})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("é", 2000)
	for _, c := range []host.Call{
		{ID: long + "1", Tool: "Ok"}, {ID: long + "2", Tool: "Ok", TurnID: long}, {ID: "c", Tool: long}, {ID: "\xff", Tool: "Ok"}, {ID: "d", Tool: ""}, {ID: "e", Tool: "Ok", ModelAttemptID: "\xff\xfe"},
	} {
		if _, err := ses.Run(t.Context(), c); err != nil {
			t.Errorf("%.20q %.20q: %v", c.ID, c.Tool, err)
		}
	}
	if len(j.Attempts()) != 0 || j.Head() < 13 {
		t.Errorf("%d events, open %+v", j.Head(), j.Attempts())
	}
}
