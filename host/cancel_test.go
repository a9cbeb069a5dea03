package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// obeys waits for the end of its context.
var obeys = runs(func(ctx context.Context, _ *tool.Call) (*abi.Result, error) {
	<-ctx.Done()
	return nil, ctx.Err()
})

// takes works for d and does not look at its context.
func takes(d time.Duration) func(*fake) {
	return runs(func(context.Context, *tool.Call) (*abi.Result, error) {
		time.Sleep(d)
		return abi.Text("done"), nil
	})
}

// TMO-01 TMO-02: the default and the bounds of toolTimeoutMs.
func TestTimeoutOption(t *testing.T) {
	o, err := SessionOptions{}.withDefaults()
	if err != nil || o.ToolTimeout != 600_000*time.Millisecond {
		t.Errorf("%v %v", o.ToolTimeout, err)
	}
	for _, bad := range []string{"0", "-1", "1.5", "2147483648", "NaN", "Infinity", "1e999", `"5"`, "", "null", "[]", "1e3x"} {
		if d, err := ToolTimeoutMs(bad); abi.CodeOf(err) != abi.CodeOptions {
			t.Errorf("%q was taken as %v: %v", bad, d, err)
		}
	}
	for good, want := range map[string]time.Duration{"1": time.Millisecond, "600000": 10 * time.Minute, "2147483647": maxTimeoutMs * time.Millisecond} {
		if d, err := ToolTimeoutMs(good); err != nil || d != want {
			t.Errorf("%q: %v %v", good, d, err)
		}
	}
	for _, bad := range []time.Duration{-1, time.Microsecond, maxTimeoutMs*time.Millisecond + time.Millisecond} {
		if _, err := (SessionOptions{ToolTimeout: bad}).withDefaults(); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
}

// TMO-05 TMO-06 TMO-09 INT-06: expiry fires the signal, and a tool that ends in
// its clean-up still reports the timeout.
func TestTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*fake)
		pure   bool
		code   abi.Code
		after  time.Duration
	}{
		"obeys":           {obeys, false, abi.CodeTimeoutRan, time.Second},
		"obeys, pure":     {obeys, true, abi.CodeTimeout, time.Second},
		"late success":    {takes(2 * time.Second), false, abi.CodeTimeoutRan, 2 * time.Second},
		"success in time": {takes(999 * time.Millisecond), false, "", 999 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := fakeTool("T", c.change)
				if c.pure {
					pure(f)
				}
				s := session(t, SessionOptions{Mode: policy.ModeYolo, ToolTimeout: time.Second}, f)
				begun := time.Now()
				r := do(t, s, Call{Tool: "T"})
				if got := time.Since(begun); got != c.after {
					t.Errorf("it ended after %v, want %v", got, c.after)
				}
				if c.code == "" {
					wantOK(t, r)
					return
				}
				wantCode(t, r, c.code, abi.TypeTimeout)
			})
		})
	}
}

// TMO-03 TMO-04 TMO-08: what the deadline covers.
func TestDeadlineCoversTheToolOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := tool.ConfirmFunc(func(context.Context, tool.Confirmation) (tool.ConfirmationAnswer, error) {
			time.Sleep(time.Hour)
			return tool.ConfirmationAnswer{Approved: true}, nil
		})
		f := fakeTool("T", runs(func(ctx context.Context, c *tool.Call) (*abi.Result, error) {
			for range 10 {
				if err := c.Progress("working", 1, 2); err != nil {
					return nil, err
				}
				select {
				case <-time.After(300 * time.Millisecond):
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			return abi.Text("ok"), nil
		}))
		s := session(t, SessionOptions{ToolTimeout: time.Second, Confirm: slow, Hooks: []Hook{{Event: HookPreToolUse, Run: func(context.Context, HookInput) (HookOutput, error) {
			time.Sleep(time.Minute)
			return HookOutput{}, nil
		}}}}, f)
		begun := time.Now()
		r := do(t, s, Call{Tool: "T"})
		wantCode(t, r, abi.CodeTimeoutRan, abi.TypeTimeout)
		if got := time.Since(begun); got != time.Hour+time.Minute+time.Second {
			t.Errorf("it ended after %v", got)
		}
	})
}

// A question of the tool itself rests the deadline; nothing else does.
func TestQuestionsPauseTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		user := tool.ConfirmFunc(func(ctx context.Context, _ tool.Confirmation) (tool.ConfirmationAnswer, error) {
			select {
			case <-time.After(time.Hour):
				return tool.ConfirmationAnswer{Approved: true}, nil
			case <-ctx.Done():
				return tool.ConfirmationAnswer{}, ctx.Err()
			}
		})
		f := fakeTool("T", readOnly, runs(func(ctx context.Context, c *tool.Call) (*abi.Result, error) {
			before, _ := ctx.Deadline()
			if _, err := c.Confirm(ctx, tool.Confirmation{Message: "really?"}); err != nil {
				return nil, err
			}
			after, _ := ctx.Deadline()
			if d := after.Sub(before); d != time.Hour {
				return nil, fmt.Errorf("the deadline moved by %v", d)
			}
			time.Sleep(900 * time.Millisecond)
			return abi.Text("ok"), nil
		}))
		s := session(t, SessionOptions{ToolTimeout: time.Second, Confirm: user}, f)
		wantOK(t, do(t, s, Call{Tool: "T"}))
		forever := fakeTool("F", readOnly, runs(func(ctx context.Context, c *tool.Call) (*abi.Result, error) {
			for {
				if _, err := c.Confirm(ctx, tool.Confirmation{Message: "again?"}); err != nil {
					return nil, err
				}
			}
		}))
		s = session(t, SessionOptions{ToolTimeout: time.Second, Confirm: user}, forever)
		begun := time.Now()
		wantCode(t, do(t, s, Call{Tool: "F"}), abi.CodeTimeoutRan, abi.TypeTimeout)
		if got := time.Since(begun); got > maxPause+2*time.Hour {
			t.Errorf("questions held the deadline up for %v", got)
		}
	})
}

// CLN-01 CLN-02 CLN-03 CLN-04 CLN-05 INT-06: a tool that does not end.
func TestCleanupBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		stuck := fakeTool("Stuck", runs(func(context.Context, *tool.Call) (*abi.Result, error) { <-release; return abi.Text("late"), nil }))
		s := session(t, SessionOptions{Mode: policy.ModeYolo, ToolTimeout: time.Second}, stuck, fakeTool("Other"))
		begun := time.Now()
		wantCode(t, do(t, s, Call{Tool: "Stuck"}), abi.CodeTimeoutRan, abi.TypeTimeout)
		if got := time.Since(begun); got != 6*time.Second {
			t.Errorf("the result came after %v, want 6s", got)
		}
		wantCode(t, do(t, s, Call{Tool: "Other"}), abi.CodeCleanup, abi.TypeExecution)
		if err := s.Close(t.Context()); abi.CodeOf(err) != abi.CodeCleanup {
			t.Errorf("close: %v", err)
		}
		if err := s.Close(t.Context()); abi.CodeOf(err) != abi.CodeCleanup {
			t.Errorf("close again: %v", err)
		}
		close(release)
		synctest.Wait()
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("close after the end: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := session(t, SessionOptions{Mode: policy.ModeYolo, ToolTimeout: time.Second}, fakeTool("Almost", takes(5999*time.Millisecond)), fakeTool("Other"))
		wantCode(t, do(t, s, Call{Tool: "Almost"}), abi.CodeTimeoutRan, abi.TypeTimeout)
		wantOK(t, do(t, s, Call{Tool: "Other"}))
		s = session(t, SessionOptions{Mode: policy.ModeYolo, ToolTimeout: time.Second}, fakeTool("Longer", takes(7*time.Second)), fakeTool("Other"))
		do(t, s, Call{Tool: "Longer"})
		wantCode(t, do(t, s, Call{Tool: "Other"}), abi.CodeCleanup, abi.TypeExecution)
		time.Sleep(2 * time.Second)
		wantOK(t, do(t, s, Call{Tool: "Other"}))
	})
}

// INT-01 INT-02 INT-03: steering.
func TestSteering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		s := session(t, SessionOptions{Mode: policy.ModeYolo, Events: rec.event},
			fakeTool("Block", takes(3*time.Second)), fakeTool("Cancel", canCancel, obeys),
			tool.Must(tool.Define("Public", "d", func(context.Context, struct{}) (string, error) { time.Sleep(2 * time.Second); return "ok", nil })))
		block, cancel, public := s.Start(t.Context(), Call{Tool: "Block"}), s.Start(t.Context(), Call{Tool: "Cancel"}), s.Start(t.Context(), Call{Tool: "Public"})
		synctest.Wait()
		begun := time.Now()
		if err := s.Steer(t.Context(), "input-1"); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(begun); got != 3*time.Second {
			t.Errorf("steering was applied after %v, want after the blocking tool", got)
		}
		for x, want := range map[*Execution]bool{block: true, public: true, cancel: false} {
			r, err := x.Result()
			if err != nil || r.IsError() == want {
				t.Errorf("%+v %v", r, err)
			}
			if !want {
				wantCode(t, r, abi.CodeSteering, abi.TypeInterrupted)
			}
		}
		last := rec.seen()[len(rec.seen())-1]
		if last.Type != EventInputApplied || last.InputID != "input-1" || last.Priority != "now" {
			t.Errorf("%+v", last)
		}
	})
}

// INT-04 INT-05 INT-06: abort and close cancel everything and wait for it.
func TestAbortAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cleans := fakeTool("Block", runs(func(ctx context.Context, _ *tool.Call) (*abi.Result, error) {
			<-ctx.Done()
			time.Sleep(2 * time.Second)
			return nil, ctx.Err()
		}))
		s := session(t, SessionOptions{Mode: policy.ModeYolo}, cleans)
		x := s.Start(t.Context(), Call{Tool: "Block"})
		synctest.Wait()
		begun := time.Now()
		if err := s.Abort(t.Context(), "enough"); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(begun); got != 2*time.Second {
			t.Errorf("abort returned after %v", got)
		}
		r, _ := x.Result()
		wantCode(t, r, abi.CodeAborted, abi.TypeExecution)
		if !strings.Contains(r.Error.Message, "enough") {
			t.Errorf("the reason is lost: %s", r.Error.Message)
		}
		y := s.Start(t.Context(), Call{Tool: "Block"})
		synctest.Wait()
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		r, _ = y.Result()
		wantCode(t, r, abi.CodeAborted, abi.TypeExecution)
		wantCode(t, do(t, s, Call{Tool: "Block"}), abi.CodeSessionOver, abi.TypeExecution)
	})
}

// INT-07: a tool that ends in the same moment as the cancel keeps its result.
func TestResultWinsATie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := session(t, yolo, fakeTool("T", runs(func(context.Context, *tool.Call) (*abi.Result, error) { cancel(); return abi.Text("mine"), nil })))
		r, err := s.Run(ctx, Call{Tool: "T"})
		if err != nil || string(r.Model) != `"mine"` {
			t.Errorf("%+v %v", r, err)
		}
	})
}

// PWT-01 PWT-04 PWT-07: a confirmation has no time limit; a cancel resolves it first.
func TestPermissionWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		led := &ledger{rec: &rec}
		var sawEnd atomic.Bool
		user := tool.ConfirmFunc(func(ctx context.Context, _ tool.Confirmation) (tool.ConfirmationAnswer, error) {
			<-ctx.Done()
			sawEnd.Store(true)
			return tool.ConfirmationAnswer{}, ctx.Err()
		})
		s := session(t, SessionOptions{Confirm: user, Lifecycle: led, ToolTimeout: time.Second}, fakeTool("T"))
		x := s.Start(t.Context(), Call{Tool: "T"})
		time.Sleep(1000 * time.Hour)
		select {
		case <-x.Done():
			t.Fatal("the wait ended by itself")
		default:
		}
		x.Cancel("no longer needed")
		r, err := x.Result()
		if err != nil {
			t.Fatal(err)
		}
		wantCode(t, r, abi.CodeAborted, abi.TypeExecution)
		synctest.Wait()
		if !sawEnd.Load() || len(led.resolved) != 1 || led.resolved[0].Decision != ResolutionCancel {
			t.Errorf("%v %v", sawEnd.Load(), led.resolved)
		}
		if got := strings.Join(rec.list(), "|"); got != "scheduled T|requested T|resolved cancel req-1|settled T error" {
			t.Errorf("%s", got)
		}
	})
}

// PWT-02 PWT-03 PWT-05 PWT-06 PWT-08: callbacks get the signal; one that ignores it
// does not hold the cancel up, but the session fails closed until it is done.
func TestStuckCallbacks(t *testing.T) {
	release := make(chan struct{})
	ignore := func() { <-release }
	for name, build := range map[string]func() (SessionOptions, *fake){
		"validation": func() (SessionOptions, *fake) {
			return yolo, fakeTool("T", func(f *fake) {
				f.valid = func(ctx context.Context, _ *tool.Call) error { <-ctx.Done(); ignore(); return errors.New("late") }
			})
		},
		"tool check": func() (SessionOptions, *fake) {
			return yolo, fakeTool("T", func(f *fake) {
				f.check = func(ctx context.Context, _ *tool.Call) (tool.Permission, error) {
					<-ctx.Done()
					ignore()
					return tool.Permission{}, errors.New("late")
				}
			})
		},
		"handler": func() (SessionOptions, *fake) {
			return SessionOptions{PermissionHandler: policy.HandlerFunc(func(ctx context.Context, _ policy.Request) (tool.Permission, error) {
				<-ctx.Done()
				ignore()
				panic("late")
			})}, fakeTool("T")
		},
		"confirmation": func() (SessionOptions, *fake) {
			return SessionOptions{Confirm: tool.ConfirmFunc(func(ctx context.Context, _ tool.Confirmation) (tool.ConfirmationAnswer, error) {
				<-ctx.Done()
				ignore()
				return tool.ConfirmationAnswer{Approved: true}, nil
			})}, fakeTool("T")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release = make(chan struct{})
				opt, f := build()
				s := session(t, opt, f)
				x := s.Start(t.Context(), Call{Tool: "T"})
				synctest.Wait()
				begun := time.Now()
				x.Cancel("stop")
				r, err := x.Result()
				if err != nil || time.Since(begun) != 0 {
					t.Fatalf("%v after %v", err, time.Since(begun))
				}
				wantCode(t, r, abi.CodeAborted, abi.TypeExecution)
				wantCode(t, do(t, s, Call{Tool: "T"}), abi.CodeCleanup, abi.TypeExecution)
				if err := s.Close(t.Context()); abi.CodeOf(err) != abi.CodeCleanup {
					t.Errorf("close: %v", err)
				}
				close(release)
				synctest.Wait()
				if err := s.Close(t.Context()); err != nil {
					t.Errorf("close after it settled: %v", err)
				}
			})
		})
	}
}

// YLD-04 YLD-07: order, back-pressure, and a consumer that leaves.
func TestYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		f := fakeTool("T", runs(func(_ context.Context, c *tool.Call) (*abi.Result, error) {
			for i := range 200 {
				if err := c.Yield(abi.Message(fmt.Sprint(i))); err != nil {
					return nil, err
				}
				sent++
			}
			return abi.Text("ok"), nil
		}))
		s := session(t, yolo, f)
		x := s.Start(t.Context(), Call{Tool: "T"})
		synctest.Wait()
		if sent != queued {
			t.Errorf("the tool sent %d messages ahead of a consumer that reads none", sent)
		}
		n := 0
		for y := range x.Yields() {
			if y.Content.Summary != fmt.Sprint(n) {
				t.Fatalf("message %d is %s", n, y.Content.Summary)
			}
			n++
		}
		r, err := x.Result()
		if err != nil || n != 200 {
			t.Errorf("%d messages, %v", n, err)
		}
		wantOK(t, r)

		x = s.Start(t.Context(), Call{Tool: "T"})
		for range x.Yields() {
			break
		}
		r, err = x.Result()
		if err != nil {
			t.Fatal(err)
		}
		wantCode(t, r, abi.CodeConsumer, abi.TypeExecution)
		if n := s.slots.buckets[abi.KindExecute].free; n != 3 {
			t.Errorf("%d slots are free", n)
		}
	})
}

// Progress that nobody has seen is replaced by newer progress; messages never are.
func TestProgressIsCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fakeTool("T", runs(func(_ context.Context, c *tool.Call) (*abi.Result, error) {
			for i := range 10_000 {
				if err := c.Progress("", float64(i), 10_000); err != nil {
					return nil, err
				}
			}
			return abi.Text("ok"), c.Yield(abi.Message("end"))
		}))
		s := session(t, yolo, f)
		x := s.Start(t.Context(), Call{Tool: "T"})
		synctest.Wait()
		var last float64
		ended := false
		for y := range x.Yields() {
			if y.Kind == abi.YieldProgress {
				last = *y.Completed
			} else {
				ended = true
			}
		}
		if r, err := x.Result(); err != nil || r.IsError() || last != 9999 || !ended {
			t.Errorf("%v %v, last %v, message %v", r, err, last, ended)
		}
	})
}
