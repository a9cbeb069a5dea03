package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// ledger is a Lifecycle that notes what it is told, and fails where it is asked to.
type ledger struct {
	rec       *recorder
	fail      string
	mutate    bool
	mu        sync.Mutex
	scheduled []ToolScheduled
	started   []ExecutionStarted
	settled   []ToolSettled
	resolved  []PermissionResolution
}

func (l *ledger) at(what string) error {
	l.rec.add(what)
	if word, _, _ := strings.Cut(what, " "); word == l.fail {
		return errors.New("the disk is full")
	}
	return nil
}

func spoil(l *ledger, b json.RawMessage) {
	if l.mutate {
		for i := range b {
			b[i] = 'X'
		}
	}
}

func (l *ledger) OnToolScheduled(_ context.Context, e ToolScheduled) (InvocationLifecycle, error) {
	l.mu.Lock()
	c := e
	c.Input, c.ModelInput = cloneRaw(e.Input), cloneRaw(e.ModelInput)
	l.scheduled = append(l.scheduled, c)
	l.mu.Unlock()
	spoil(l, e.Input)
	spoil(l, e.ModelInput)
	return l, l.at("scheduled " + e.ToolName)
}

func (l *ledger) OnToolSettled(_ context.Context, e ToolSettled) error {
	l.mu.Lock()
	l.settled = append(l.settled, e)
	l.mu.Unlock()
	return l.at("settled " + e.ToolName + " " + string(e.Result.Status))
}

func (l *ledger) OnPermissionRequested(_ context.Context, c tool.Confirmation, input json.RawMessage) (string, error) {
	spoil(l, input)
	spoil(l, c.Args)
	return "req-1", l.at("requested " + c.ToolName)
}

func (l *ledger) OnPermissionResolved(_ context.Context, r PermissionResolution) error {
	l.mu.Lock()
	l.resolved = append(l.resolved, r)
	l.mu.Unlock()
	return l.at("resolved " + string(r.Decision) + " " + r.RequestID)
}

func (l *ledger) OnExecutionStarted(_ context.Context, e ExecutionStarted) error {
	l.mu.Lock()
	c := e
	c.Input = cloneRaw(e.Input)
	l.started = append(l.started, c)
	l.mu.Unlock()
	spoil(l, e.Input)
	return l.at("started")
}

func ask(rec *recorder, ans tool.ConfirmationAnswer, err error) tool.ConfirmationHandler {
	return tool.ConfirmFunc(func(_ context.Context, c tool.Confirmation) (tool.ConfirmationAnswer, error) {
		rec.add("asked " + c.PermissionRequestID)
		return ans, err
	})
}

// LIF-01 LIF-04 LIF-05 LIF-06 LIF-08 LIF-12 EVT-03: the order of a confirmed call.
func TestLifecycleOrder(t *testing.T) {
	var rec recorder
	f := fakeTool("T", runs(func(context.Context, *tool.Call) (*abi.Result, error) { rec.add("run"); return abi.Text("ok"), nil }))
	s := session(t, SessionOptions{Lifecycle: &ledger{rec: &rec}, Events: rec.event, Confirm: ask(&rec, tool.ConfirmationAnswer{Approved: true}, nil)}, f)
	wantOK(t, do(t, s, Call{Tool: "T"}))
	want := "scheduled T|event tool_use|requested T|asked req-1|resolved allow req-1|started|run|settled T success|event tool_result"
	if got := strings.Join(rec.list(), "|"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	plainRec := &recorder{}
	s = session(t, SessionOptions{Events: plainRec.event, AutoApprove: true}, fakeTool("T"))
	wantOK(t, do(t, s, Call{Tool: "T"}))
	if got := strings.Join(plainRec.list(), "|"); got != "event tool_use|event tool_result" {
		t.Errorf("without an observer: %s", got)
	}
}

// LIF-02 LIF-04 LIF-05 LIF-07 LIF-08: what a failing record stops.
func TestLifecycleFailures(t *testing.T) {
	for _, c := range []struct {
		fail   string
		runErr bool
		want   string
	}{
		{"scheduled", true, "scheduled T"},
		{"requested", false, "scheduled T|event tool_use|requested T|settled T error|event tool_result"},
		{"resolved", false, "scheduled T|event tool_use|requested T|asked req-1|resolved allow req-1|settled T error|event tool_result"},
		{"started", false, "scheduled T|event tool_use|requested T|asked req-1|resolved allow req-1|started|settled T error|event tool_result"},
		{"settled", true, "scheduled T|event tool_use|requested T|asked req-1|resolved allow req-1|started|run|settled T success"},
	} {
		t.Run(c.fail, func(t *testing.T) {
			var rec recorder
			f := fakeTool("T", runs(func(context.Context, *tool.Call) (*abi.Result, error) { rec.add("run"); return abi.Text("ok"), nil }))
			s := session(t, SessionOptions{Lifecycle: &ledger{rec: &rec, fail: c.fail}, Events: rec.event, Confirm: ask(&rec, tool.ConfirmationAnswer{Approved: true}, nil)}, f)
			r, err := s.Run(t.Context(), Call{Tool: "T"})
			if got := strings.Join(rec.list(), "|"); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			switch {
			case c.runErr && (err == nil || abi.CodeOf(err) != abi.CodeLifecycle || r != nil):
				t.Errorf("%v %v", r, err)
			case !c.runErr && err != nil:
				t.Error(err)
			case !c.runErr:
				wantCode(t, r, abi.CodeLifecycle, abi.TypeExecution)
			}
		})
	}
}

// LIF-09: observers get copies.
func TestObserverCannotChangeTheCall(t *testing.T) {
	var got string
	f := fakeTool("T", runs(func(_ context.Context, c *tool.Call) (*abi.Result, error) {
		got = string(c.Input)
		return abi.Text("ok"), nil
	}))
	var rec recorder
	s := session(t, SessionOptions{Lifecycle: &ledger{rec: &rec, mutate: true}, Confirm: tool.ConfirmFunc(func(_ context.Context, c tool.Confirmation) (tool.ConfirmationAnswer, error) {
		for i := range c.Args {
			c.Args[i] = 'X'
		}
		return tool.ConfirmationAnswer{Approved: true}, nil
	})}, f)
	wantOK(t, do(t, s, Call{Tool: "T", Input: in(`{"a":1}`)}))
	if got != `{"a":1}` {
		t.Errorf("the tool got %s", got)
	}
}

// LIF-13 PRM-11: a denial resolves deny, a failing handler cancel; nothing starts.
func TestConfirmationEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		ans  tool.ConfirmationAnswer
		err  error
		code abi.Code
		typ  abi.ErrorType
		want Resolution
	}{
		{"no", tool.ConfirmationAnswer{Reason: "not today"}, nil, abi.CodeDeniedUser, abi.TypePermission, ResolutionDeny},
		{"fails", tool.ConfirmationAnswer{}, errors.New("window closed"), abi.CodeConfirmFailed, abi.TypeExecution, ResolutionCancel},
	} {
		t.Run(c.name, func(t *testing.T) {
			var rec recorder
			led := &ledger{rec: &rec}
			s := session(t, SessionOptions{Lifecycle: led, Confirm: ask(&rec, c.ans, c.err)}, fakeTool("T"))
			r := do(t, s, Call{Tool: "T"})
			wantCode(t, r, c.code, c.typ)
			if len(led.started) != 0 || len(led.resolved) != 1 || led.resolved[0].Decision != c.want || len(led.settled) != 1 {
				t.Errorf("started %v, resolved %v, settled %d", led.started, led.resolved, len(led.settled))
			}
			if c.name == "no" {
				if r.Metadata["shouldExitLoop"] != true || len(s.Permissions().Denials()) != 1 {
					t.Errorf("metadata %v, denials %v", r.Metadata, s.Permissions().Denials())
				}
			}
		})
	}
	var rec recorder
	s := session(t, SessionOptions{Lifecycle: &ledger{rec: &rec, fail: "resolved"}, Confirm: ask(&rec, tool.ConfirmationAnswer{}, errors.New("window closed"))}, fakeTool("T"))
	r := do(t, s, Call{Tool: "T"})
	if !strings.Contains(r.Error.Message, "window closed") || !strings.Contains(r.Error.Message, "disk is full") {
		t.Errorf("both failures must be told: %s", r.Error.Message)
	}
}

// LIF-14: a hook that skips, and a middleware that answers, keep the order.
func TestShortCircuits(t *testing.T) {
	skip := Hook{Event: HookPreToolUse, Run: func(context.Context, HookInput) (HookOutput, error) {
		return HookOutput{Action: HookSkip, Reason: "cached"}, nil
	}}
	answer := func(context.Context, MiddlewareCall, Next) (*abi.Result, error) { return abi.Text("cached"), nil }
	for name, opt := range map[string]SessionOptions{"hook": {Hooks: []Hook{skip}}, "middleware": {Middleware: []Middleware{answer}}} {
		t.Run(name, func(t *testing.T) {
			var rec recorder
			opt.Lifecycle = &ledger{rec: &rec}
			s := session(t, opt, fakeTool("T", runs(func(context.Context, *tool.Call) (*abi.Result, error) { rec.add("run"); return abi.Text("ok"), nil })))
			r := do(t, s, Call{Tool: "T"})
			if string(r.Model) != `"cached"` || fmt.Sprint(rec.list()) != "[scheduled T started settled T success]" {
				t.Errorf("%s %v", r.Model, rec.list())
			}
		})
	}
}

// lostLease is a runtime whose lease can be lost.
type lostLease struct {
	noLease
	mu   sync.Mutex
	lost bool
}

func (l *lostLease) AssertLease(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost {
		return &abi.Error{Message: "another process owns the session", Type: abi.TypeExecution, Code: "DURABLE_EXECUTION_LEASE_LOST"}
	}
	return nil
}

// CLN-07 (the half without a store) LIF-15: after a lost lease nothing is
// settled, and the first failure is told each time.
func TestQuarantine(t *testing.T) {
	rt := &lostLease{}
	var rec recorder
	f := fakeTool("T", runs(func(context.Context, *tool.Call) (*abi.Result, error) {
		rt.mu.Lock()
		rt.lost = true
		rt.mu.Unlock()
		return abi.Text("ok"), nil
	}))
	s := session(t, SessionOptions{Mode: policy.ModeYolo, Runtime: rt, Lifecycle: &ledger{rec: &rec}, Events: rec.event}, f)
	for range 2 {
		r, err := s.Run(t.Context(), Call{Tool: "T"})
		if r != nil || abi.CodeOf(err) != "DURABLE_EXECUTION_LEASE_LOST" {
			t.Errorf("%v %v", r, err)
		}
	}
	if got := strings.Join(rec.list(), "|"); got != "scheduled T|event tool_use|started" {
		t.Errorf("%s", got)
	}
}
