package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/journal"
	. "github.com/bladehost/bladehost/host/journal/journaltest"
	"github.com/bladehost/bladehost/host/tool"
)

func guard(t *testing.T, l journal.Leases, opt journal.GuardOptions) *journal.Guard {
	t.Helper()
	g, err := journal.Acquire(t.Context(), l, "s", opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Release(context.Background()) })
	return g
}

// lost reports whether the signal fired, without waiting.
func lost(g *journal.Guard) bool {
	synctest.Wait()
	select {
	case <-g.Lost():
		return true
	default:
		return false
	}
}

// renewing is a store whose renewals do what a test wants.
type renewing struct {
	journal.Store
	mu    sync.Mutex
	renew func(context.Context) error
	n     int
}

func (r *renewing) Renew(ctx context.Context, s string, f tool.Fence, ttl time.Duration) (journal.Lease, error) {
	r.mu.Lock()
	r.n++
	do := r.renew
	r.mu.Unlock()
	if do != nil {
		if err := do(ctx); err != nil {
			return journal.Lease{}, err
		}
	}
	return r.Store.Renew(ctx, s, f, ttl)
}

func (r *renewing) set(f func(context.Context) error) { r.mu.Lock(); defer r.mu.Unlock(); r.renew = f }

// RTM-03 RTM-06: a lease is kept by its heartbeat, as long as it takes.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &renewing{Store: memory(t, nil)}
		g := guard(t, s, journal.GuardOptions{})
		time.Sleep(time.Hour)
		if lost(g) || g.AssertLease(t.Context()) != nil {
			t.Error(g.Err())
		}
		if s.n != 360 && s.n != 359 { // each 10 s
			t.Errorf("%d renewals", s.n)
		}
		f, ok := g.Fence()
		if !ok || f.Token != 1 || f.LeaseID == "" {
			t.Errorf("%+v %v", f, ok)
		}
		_, err := journal.Acquire(t.Context(), s, "s", journal.GuardOptions{})
		WantCode(t, err, abi.CodeLeaseConflict)
		for range 2 {
			if err := g.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if lost(g) {
			t.Error("a release is no loss")
		}
		WantCode(t, g.AssertLease(t.Context()), abi.CodeLeaseStale)
		if next := guard(t, s, journal.GuardOptions{}); next.Lease().Token != 2 {
			t.Errorf("%+v", next.Lease())
		}
	})
}

// DUR-12: any failure of a renewal fires the signal, once, and stays.
func TestHeartbeatFails(t *testing.T) {
	for name, c := range map[string]struct {
		renew func(context.Context) error
		code  abi.Code
		after time.Duration
	}{
		"the store fails":      {func(context.Context) error { return abi.NewError(abi.CodeJournalWrite, "full") }, abi.CodeLeaseWrite, 11 * time.Second},
		"something else fails": {func(context.Context) error { return errors.New("odd") }, abi.CodeLeaseTimeout, 11 * time.Second},
		"it is not known":      {func(context.Context) error { return abi.NewError(abi.CodeUnknownOutcome, "slow") }, abi.CodeLeaseTimeout, 11 * time.Second},
		"another owner":        {func(context.Context) error { return abi.NewError(abi.CodeLeaseStale, "taken") }, abi.CodeLeaseStale, 11 * time.Second},
		"the store hangs":      {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, abi.CodeLeaseStale, 31 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &renewing{Store: memory(t, nil)}
				g := guard(t, s, journal.GuardOptions{})
				s.set(c.renew)
				time.Sleep(c.after - 2*time.Second)
				if lost(g) {
					t.Fatalf("too early: %v", g.Err())
				}
				time.Sleep(2 * time.Second)
				if !lost(g) {
					t.Fatal("not told")
				}
				first := g.Err()
				WantCode(t, first, c.code)
				s.set(nil)
				time.Sleep(time.Minute)
				if g.Err() != first || g.AssertLease(t.Context()) != first {
					t.Errorf("then: %v", g.Err())
				}
				j, err := journal.Open(t.Context(), s, journal.Options{SessionID: "s", Guard: g})
				if err != nil {
					t.Fatal(err)
				}
				WantCode(t, j.Create(t.Context(), "create", ""), c.code)
			})
		})
	}
}

// Clock jumps do not extend a lease: set back, the lease ends by the clock that
// cannot be set; set forward, it ends at once.
func TestClockJumps(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	synctest.Test(t, func(t *testing.T) {
		offset := time.Duration(0)
		clock := func() time.Time { return time.Now().Add(offset) }
		s := &renewing{Store: memory(t, clock)}
		g := guard(t, s, journal.GuardOptions{Clock: clock})
		s.set(hang)
		offset = -24 * time.Hour
		time.Sleep(29 * time.Second)
		if lost(g) {
			t.Error("too early")
		}
		time.Sleep(2 * time.Second)
		if !lost(g) {
			t.Error("a clock that was set back extended the lease")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		offset := time.Duration(0)
		clock := func() time.Time { return time.Now().Add(offset) }
		s := memory(t, clock)
		g := guard(t, s, journal.GuardOptions{Clock: clock})
		offset = time.Hour
		WantCode(t, g.AssertLease(t.Context()), abi.CodeLeaseStale)
		if !lost(g) {
			t.Error("not told")
		}
	})
	// Whoever waits takes over when the lease was not renewed for its length, though
	// by the time of day it has not ended: the clock stands still.
	synctest.Test(t, func(t *testing.T) {
		clock := NewClock()
		s := &renewing{Store: memory(t, clock.Now)}
		s.set(hang)
		old := guard(t, s, journal.GuardOptions{Clock: clock.Now})
		began := time.Now()
		g := guard(t, s, journal.GuardOptions{Clock: clock.Now, Wait: time.Minute})
		if waited := time.Since(began); waited < 30*time.Second || waited > 31*time.Second {
			t.Errorf("it waited %v", waited)
		}
		if g.Lease().Token != 2 || !lost(old) {
			t.Errorf("%+v, the old one: %v", g.Lease(), old.Err())
		}
	})
}

// The clock was set back after the owner had renewed its lease: by the time of day it
// lasts an hour. Whoever tries once takes over from an owner that hangs after the
// lease's length, and is told of one that lives as soon as that renews it.
func TestClockSetBackBeforeAnother(t *testing.T) {
	for _, c := range []struct {
		name     string
		hangs    bool
		min, max time.Duration
	}{{"it hangs", true, 30 * time.Second, 31 * time.Second}, {"it lives", false, 0, 11 * time.Second}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				offset := time.Hour
				clock := func() time.Time { return time.Now().Add(offset) }
				s := &renewing{Store: memory(t, clock)}
				old := guard(t, s, journal.GuardOptions{Clock: clock})
				if c.hangs {
					s.set(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
				}
				offset = 0
				began := time.Now()
				g, err := journal.Acquire(t.Context(), s, "s", journal.GuardOptions{Clock: clock})
				if d := time.Since(began); d < c.min || d > c.max {
					t.Errorf("it took %v", d)
				}
				if !c.hangs {
					WantCode(t, err, abi.CodeLeaseConflict)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if g.Lease().Token != 2 || !lost(old) {
					t.Errorf("%+v, the old one: %v", g.Lease(), old.Err())
				}
				_ = g.Release(t.Context())
			})
		})
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory(t, nil)
		g := guard(t, s, journal.GuardOptions{})
		began := time.Now()
		_, err := journal.Acquire(t.Context(), s, "s", journal.GuardOptions{Wait: 5 * time.Minute}) // it is renewed all the time
		WantCode(t, err, abi.CodeLeaseConflict)
		if d := time.Since(began); d < 5*time.Minute || d > 5*time.Minute+time.Second {
			t.Errorf("it waited %v", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = journal.Acquire(ctx, s, "s", journal.GuardOptions{Wait: time.Minute})
		WantCode(t, err, abi.CodeLeaseTimeout)
		go func() { // ends with the test's bubble
			time.Sleep(10 * time.Second)
			_ = g.Release(context.Background())
		}()
		if next := guard(t, s, journal.GuardOptions{Wait: time.Minute}); next.Lease().Token != 2 {
			t.Errorf("%+v", next.Lease())
		}
	})
}

func TestGuardOptions(t *testing.T) {
	s := memory(t, nil)
	for name, o := range map[string]journal.GuardOptions{
		"short": {TTL: time.Millisecond}, "long": {TTL: 25 * time.Hour}, "slow heartbeat": {TTL: 10 * time.Second, Heartbeat: 5*time.Second + 1},
		"negative heartbeat": {Heartbeat: -1}, "negative wait": {Wait: -1}, "negative": {TTL: -time.Second},
	} {
		if _, err := journal.Acquire(t.Context(), s, "s", o); abi.CodeOf(err) != abi.CodeLeaseInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := journal.Acquire(t.Context(), s, "", journal.GuardOptions{}); abi.CodeOf(err) != abi.CodeEvent {
		t.Errorf("no session: %v", err)
	}
}

// RTM-05: a short operation under the lease.
func TestRunWithLease(t *testing.T) {
	s := memory(t, nil)
	g := guard(t, s, journal.GuardOptions{})
	own := errors.New("its own")
	err := g.RunWithLease(t.Context(), func(ctx context.Context) error {
		if end, ok := ctx.Deadline(); !ok || time.Until(end) > time.Second {
			t.Errorf("no deadline of a second: %v", end)
		}
		inner := g.RunWithLease(ctx, func(context.Context) error { t.Error("nested"); return nil })
		WantCode(t, inner, abi.CodeLeaseInvalid)
		return own
	})
	if err != own {
		t.Errorf("%v", err)
	}
	if _, err := s.Handoff(t.Context(), "s", g.Lease().Fence(), journal.LeaseRequest{OwnerID: "x", LeaseID: "y", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	err = g.RunWithLease(t.Context(), func(context.Context) error { t.Error("it ran without a lease"); return nil })
	WantCode(t, err, abi.CodeLeaseStale)
	<-g.Lost()
}

// A handoff is refused while something is not cleaned up or not ended; then the
// new owner takes up exactly that lease, and nobody else comes in between.
func TestHandoff(t *testing.T) {
	s := memory(t, nil)
	g := guard(t, s, journal.GuardOptions{OwnerID: "old"})
	j, err := journal.Open(t.Context(), s, journal.Options{SessionID: "s", Guard: g})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Create(t.Context(), "create", ""); err != nil {
		t.Fatal(err)
	}
	pending := abi.NewError(abi.CodeCleanup, "a tool still runs")
	busy := error(pending)
	g.SetBusy(func() error { return busy })
	_, err = j.Handoff(t.Context(), "new")
	WantCode(t, err, abi.CodeCleanup)
	busy = nil
	commit(t, j, cmd("1", Scheduled("a", abi.SideEffectPure), Started("a", abi.SideEffectPure)), journal.Committed)
	_, err = j.Handoff(t.Context(), "new")
	WantCode(t, err, abi.CodeCleanup)
	if err := g.AssertLease(t.Context()); err != nil {
		t.Fatalf("a refused handoff keeps the lease: %v", err)
	}
	commit(t, j, cmd("2", Completed("a")), journal.Committed)
	l, err := j.Handoff(t.Context(), "new")
	if err != nil || l.Token != 2 || l.OwnerID != "new" {
		t.Fatalf("%+v %v", l, err)
	}
	WantCode(t, g.AssertLease(t.Context()), abi.CodeLeaseStale)
	if _, err := j.Commit(t.Context(), cmd("3", Scheduled("b", abi.SideEffectPure)), journal.CommitOptions{}); abi.CodeOf(err) != abi.CodeLeaseStale {
		t.Errorf("%v", err)
	}
	_, err = journal.Acquire(t.Context(), s, "s", journal.GuardOptions{})
	WantCode(t, err, abi.CodeLeaseConflict)
	next := guard(t, s, journal.GuardOptions{OwnerID: l.OwnerID, LeaseID: l.LeaseID})
	if next.Lease().Token != 2 {
		t.Errorf("%+v", next.Lease())
	}
	j2, err := journal.Open(t.Context(), s, journal.Options{SessionID: "s", Guard: next})
	if err != nil {
		t.Fatal(err)
	}
	commit(t, j2, cmd("3", Scheduled("b", abi.SideEffectPure)), journal.Committed)
}

// CLN-07 LIF-15 DUR-12 in a host's session: the lease of a store is lost while a tool runs. The
// tool is cancelled for that reason, nothing ends in the journal, the session
// refuses all work, and the new owner finds the call open.
func TestLostInASession(t *testing.T) {
	s := memory(t, nil)
	g := guard(t, s, journal.GuardOptions{})
	j, err := journal.Open(t.Context(), s, journal.Options{SessionID: "s", Guard: g})
	if err == nil {
		err = j.Create(t.Context(), "create", "")
	}
	if err != nil {
		t.Fatal(err)
	}
	running, why := make(chan struct{}), make(chan abi.Cancel, 1)
	h := newHost(t, &plain{spec: spec("Wait", abi.SideEffectNonIdempotent), run: func(ctx context.Context, _ *tool.Call) (*abi.Result, error) {
		close(running)
		<-ctx.Done()
		why <- tool.Reason(ctx)
		return nil, context.Cause(ctx)
	}})
	ses, err := h.NewSession(host.SessionOptions{ID: "s", Mode: "yolo", Lifecycle: j.Recorder(journal.RecorderOptions{}), Runtime: g})
	if err != nil {
		t.Fatal(err)
	}
	x := ses.Start(t.Context(), host.Call{Tool: "Wait", Input: json.RawMessage(`{}`)})
	<-running
	// Another owner takes over; the heartbeat or the next assertion finds out.
	if _, err := s.Handoff(t.Context(), "s", g.Lease().Fence(), journal.LeaseRequest{OwnerID: "other", LeaseID: "l2", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	WantCode(t, g.AssertLease(t.Context()), abi.CodeLeaseStale)
	if r, err := x.Result(); r != nil || abi.CodeOf(err) != abi.CodeLeaseStale {
		t.Errorf("%v %v", r, err)
	}
	if got := <-why; got != abi.CancelLease {
		t.Errorf("cancelled because of %s", got)
	}
	if r, err := ses.Run(t.Context(), host.Call{Tool: "Wait"}); r != nil || abi.CodeOf(err) != abi.CodeLeaseStale {
		t.Errorf("afterwards: %v %v", r, err)
	}
	p, err := journal.PlanOf(t.Context(), s, "s")
	if err != nil || len(p.Unknown) != 1 || p.Head != 3 {
		t.Errorf("%+v %v", p, err)
	}
	if err := ses.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// RTM-02 RTM-03 RTM-05 RTM-06: a tool that asks for the runtime has the lease of the
// store, one that does not has none.
func TestRuntimeOfATool(t *testing.T) {
	s := memory(t, nil)
	g := guard(t, s, journal.GuardOptions{})
	var got []string
	asks := &plain{spec: spec("Asks", abi.SideEffectPure), run: func(ctx context.Context, c *tool.Call) (*abi.Result, error) {
		rt, ok := c.Runtime()
		if !ok {
			return nil, errors.New("no runtime")
		}
		f, leased := rt.Fence()
		ran := 0
		err := errors.Join(rt.AssertLease(ctx), rt.RunWithLease(ctx, func(context.Context) error { ran++; return nil }))
		got = append(got, fmt.Sprint(f == g.Lease().Fence(), leased, ran, err))
		// Another owner comes.
		if _, err := s.Handoff(ctx, "s", f, journal.LeaseRequest{OwnerID: "o", LeaseID: "l", TTL: time.Minute}); err != nil {
			return nil, err
		}
		got = append(got, string(abi.CodeOf(rt.AssertLease(ctx))), string(abi.CodeOf(rt.RunWithLease(ctx, func(context.Context) error { ran++; return nil }))), fmt.Sprint(ran))
		return abi.Text("x"), nil
	}}
	asks.spec.RequiresRuntime = true
	plainTool := &plain{spec: spec("Plain", abi.SideEffectPure), run: func(_ context.Context, c *tool.Call) (*abi.Result, error) {
		_, ok := c.Runtime()
		got = append(got, fmt.Sprint(ok))
		return abi.Text("x"), nil
	}}
	ses, err := newHost(t, asks, plainTool).NewSession(host.SessionOptions{ID: "s", Mode: "yolo", Runtime: g})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := ses.Run(t.Context(), host.Call{Tool: "Plain"}); err != nil || r.IsError() {
		t.Errorf("%+v %v", r, err)
	}
	if r, err := ses.Run(t.Context(), host.Call{Tool: "Asks"}); r != nil || abi.CodeOf(err) != abi.CodeLeaseStale {
		t.Errorf("%+v %v", r, err)
	}
	lost := "DURABLE_EXECUTION_LEASE_LOST"
	if want := fmt.Sprint([]string{"false", "true true 1 <nil>", lost, lost, "1"}); fmt.Sprint(got) != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
	if err := ses.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
