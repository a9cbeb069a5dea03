package journaltest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/journal"
	"github.com/bladehost/bladehost/host/tool"
)

func request(owner string) journal.LeaseRequest {
	return journal.LeaseRequest{OwnerID: owner, LeaseID: "lease-" + owner, TTL: 10 * time.Second}
}

func acquire(t *testing.T, s journal.Store, r journal.LeaseRequest) journal.Lease {
	t.Helper()
	l, err := s.Acquire(t.Context(), "s", r)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func lease(t *testing.T, open Open) {
	clock := NewClock()
	s := open(t, clock.Now)
	if _, ok, err := s.Lease(t.Context(), "s"); ok || err != nil {
		t.Fatalf("a lease of nobody: %v %v", ok, err)
	}
	a := acquire(t, s, request("a"))
	if a.Token != 1 || a.OwnerID != "a" || a.LeaseID != "lease-a" || a.ExpiresAt != "2026-03-04T05:06:17.008Z" {
		t.Fatalf("%+v", a)
	}
	if again := acquire(t, s, request("a")); again.Token != 1 || again.LeaseID != a.LeaseID || again.AcquiredAt != a.AcquiredAt {
		t.Errorf("the same again: %+v", again)
	}
	_, err := s.Acquire(t.Context(), "s", request("b"))
	WantCode(t, err, abi.CodeLeaseConflict)
	clock.Add(9 * time.Second)
	r, err := s.Renew(t.Context(), "s", a.Fence(), 10*time.Second)
	if err != nil || r.ExpiresAt != "2026-03-04T05:06:26.008Z" || r.Token != 1 || r.Renewals <= a.Renewals {
		t.Fatalf("%+v %v", r, err)
	}
	clock.Add(9 * time.Second)
	if err := s.Assert(t.Context(), "s", a.Fence()); err != nil {
		t.Error(err)
	}
	for _, f := range []tool.Fence{{LeaseID: "x", Token: 1}, {LeaseID: a.LeaseID, Token: 2}, {LeaseID: a.LeaseID}} {
		WantCode(t, s.Assert(t.Context(), "s", f), abi.CodeLeaseStale)
		_, err := s.Renew(t.Context(), "s", f, time.Second)
		WantCode(t, err, abi.CodeLeaseStale)
		WantCode(t, s.Release(t.Context(), "s", f), abi.CodeLeaseStale)
	}
	WantCode(t, s.Assert(t.Context(), "none", a.Fence()), abi.CodeLeaseStale)
	if err := s.Release(t.Context(), "s", a.Fence()); err != nil {
		t.Fatal(err)
	}
	WantCode(t, s.Assert(t.Context(), "s", a.Fence()), abi.CodeLeaseStale)
	if b := acquire(t, s, request("b")); b.Token != 2 {
		t.Errorf("after a release: %+v", b)
	}
}

// DUR-11: a takeover raises the token, and the old owner is out.
func takeover(t *testing.T, open Open) {
	clock := NewClock()
	s := open(t, clock.Now)
	a := acquire(t, s, request("a"))
	clock.Add(10*time.Second - time.Millisecond)
	_, err := s.Acquire(t.Context(), "s", request("b"))
	WantCode(t, err, abi.CodeLeaseConflict)
	clock.Add(time.Millisecond)
	WantCode(t, s.Assert(t.Context(), "s", a.Fence()), abi.CodeLeaseStale)
	_, err = s.Renew(t.Context(), "s", a.Fence(), time.Second)
	WantCode(t, err, abi.CodeLeaseStale)
	for n, owner := range []string{"b", "c", "a"} {
		l := acquire(t, s, request(owner))
		if l.Token != int64(n+2) {
			t.Errorf("%s has token %d", owner, l.Token)
		}
		clock.Add(11 * time.Second)
	}
}

// A lease that was seen unchanged for its whole length has ended, whatever the
// time of day says: a clock that is set back does not make it longer.
func observed(t *testing.T, open Open) {
	clock := NewClock()
	s := open(t, clock.Now)
	a := acquire(t, s, request("a"))
	clock.Add(-24 * time.Hour)
	_, err := s.Acquire(t.Context(), "s", request("b"))
	WantCode(t, err, abi.CodeLeaseConflict)
	req := request("b")
	req.Observed = &a
	if _, err := s.Renew(t.Context(), "s", a.Fence(), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	_, err = s.Acquire(t.Context(), "s", req) // it was renewed since
	WantCode(t, err, abi.CodeLeaseConflict)
	now, _, err := s.Lease(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	req.Observed = &now
	if b := acquire(t, s, req); b.Token != 2 {
		t.Errorf("%+v", b)
	}
}

func handoff(t *testing.T, open Open) {
	clock := NewClock()
	s := open(t, clock.Now)
	a := acquire(t, s, request("a"))
	b, err := s.Handoff(t.Context(), "s", a.Fence(), request("b"))
	if err != nil || b.Token != 2 || b.OwnerID != "b" {
		t.Fatalf("%+v %v", b, err)
	}
	WantCode(t, s.Assert(t.Context(), "s", a.Fence()), abi.CodeLeaseStale)
	_, err = s.Acquire(t.Context(), "s", request("c"))
	WantCode(t, err, abi.CodeLeaseConflict)
	if got := acquire(t, s, request("b")); got.Token != 2 {
		t.Errorf("the new owner has %+v", got)
	}
	_, err = s.Handoff(t.Context(), "s", a.Fence(), request("d"))
	WantCode(t, err, abi.CodeLeaseStale)
}

// DUR-11: what a session that was ever leased takes, and from whom.
func fencing(t *testing.T, open Open) {
	clock := NewClock()
	s := open(t, clock.Now)
	must(t, s, "s", Created())
	_, err := s.Append(t.Context(), "s", []journal.Draft{Closed()}, journal.AppendOptions{Fence: &tool.Fence{LeaseID: "x", Token: 1}})
	WantCode(t, err, abi.CodeLeaseStale)
	a := acquire(t, s, request("a"))
	write := func(name string, f *tool.Fence, code abi.Code) {
		t.Helper()
		_, err := s.Append(t.Context(), "s", []journal.Draft{Scheduled(name, abi.SideEffectPure)}, journal.AppendOptions{Fence: f})
		if abi.CodeOf(err) != code {
			t.Errorf("%s: %v", name, err)
		}
	}
	write("without", nil, abi.CodeLeaseRequired)
	write("with", fenceOf(a), "")
	clock.Add(11 * time.Second)
	write("ended", fenceOf(a), abi.CodeLeaseStale)
	write("without, after the end", nil, abi.CodeLeaseRequired)
	b := acquire(t, s, request("b"))
	write("old", fenceOf(a), abi.CodeLeaseStale)
	write("new", fenceOf(b), "")
	if err := s.Release(t.Context(), "s", b.Fence()); err != nil {
		t.Fatal(err)
	}
	write("released", fenceOf(b), abi.CodeLeaseStale)
	write("without, after the release", nil, abi.CodeLeaseRequired)
	if n := len(All(t, s, "s")); n != 3 {
		t.Errorf("%d events", n)
	}
	must(t, s, "another", Created())
}

// RTM-05: nobody takes over while an operation runs, even if the lease ends
// meanwhile.
func operation(t *testing.T, open Open) {
	clock := NewClock()
	s := open(t, clock.Now)
	a := acquire(t, s, request("a"))
	inside := false
	err := s.With(t.Context(), "s", a.Fence(), func(context.Context) error {
		inside = true
		clock.Add(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // it can only be too short for a fault to show
		defer cancel()
		l, err := s.Acquire(ctx, "s", request("b"))
		if abi.CodeOf(err) != abi.CodeLeaseTimeout {
			t.Errorf("during the operation: %+v %v", l, err)
		}
		return errors.New("the operation's own")
	})
	if !inside || err == nil || err.Error() != "the operation's own" {
		t.Errorf("inside %v, %v", inside, err)
	}
	if b := acquire(t, s, request("b")); b.Token != 2 {
		t.Errorf("after the operation: %+v", b)
	}
	err = s.With(t.Context(), "s", a.Fence(), func(context.Context) error { t.Error("it ran after the loss"); return nil })
	WantCode(t, err, abi.CodeLeaseStale)
}

func leaseOptions(t *testing.T, open Open) {
	s := open(t, time.Now)
	for i, r := range []journal.LeaseRequest{
		{LeaseID: "l", TTL: time.Second}, {OwnerID: "o", TTL: time.Second}, {OwnerID: "o", LeaseID: "l"},
		{OwnerID: "o", LeaseID: "l", TTL: time.Millisecond}, {OwnerID: "o", LeaseID: "l", TTL: 24*time.Hour + 1},
		{OwnerID: string(make([]byte, 600)), LeaseID: "l", TTL: time.Second},
	} {
		_, err := s.Acquire(t.Context(), "s", r)
		if abi.CodeOf(err) != abi.CodeLeaseInvalid {
			t.Errorf("%d: %v", i, err)
		}
	}
	for i, ttl := range []time.Duration{2 * time.Millisecond, 24 * time.Hour} {
		if _, err := s.Acquire(t.Context(), fmt.Sprint(i), journal.LeaseRequest{OwnerID: "o", LeaseID: "l", TTL: ttl}); err != nil {
			t.Errorf("%v: %v", ttl, err)
		}
	}
}
