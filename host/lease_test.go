package host

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// counted is a lease that is lost at its n-th assertion, and tells.
type counted struct {
	noLease
	mu     sync.Mutex
	n      int
	lostAt int
	lost   chan struct{}
	why    error
}

func newCounted(lostAt int) *counted { return &counted{lostAt: lostAt, lost: make(chan struct{})} }

func (c *counted) AssertLease(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	if c.lostAt != 0 && c.n >= c.lostAt {
		return abi.NewError(abi.CodeLeaseStale, "lost at assertion %d", c.lostAt)
	}
	return nil
}

func (c *counted) Lost() <-chan struct{} { return c.lost }

func (c *counted) Err() error { return c.why }

// CLN-07: the lease is asserted at six points of a call, and a failure at any of
// the first four keeps the tool from running. Whichever fails, no result is
// published, nothing is settled, and the first failure is told for ever.
func TestSixAssertions(t *testing.T) {
	for _, early := range []bool{false, true} {
		rt := newCounted(0)
		s := session(t, SessionOptions{Mode: policy.ModeYolo, Runtime: rt, EarlyAdmission: early}, fakeTool("T"))
		wantOK(t, do(t, s, Call{Tool: "T"}))
		if rt.n != 6 {
			t.Errorf("early admission %v: %d assertions", early, rt.n)
		}
	}
	for at := 1; at <= 6; at++ {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			var rec recorder
			rt := newCounted(at)
			f := fakeTool("T", runs(func(context.Context, *tool.Call) (*abi.Result, error) { rec.add("run"); return abi.Text("ok"), nil }))
			s := session(t, SessionOptions{Mode: policy.ModeYolo, Runtime: rt, Lifecycle: &ledger{rec: &rec}, Events: rec.event}, f)
			for range 2 {
				r, err := s.Run(t.Context(), Call{Tool: "T"})
				if r != nil || abi.CodeOf(err) != abi.CodeLeaseStale || err.Error() != fmt.Sprintf("lost at assertion %d", at) {
					t.Errorf("%v %v", r, err)
				}
			}
			want := "scheduled T|event tool_use"
			if at > 3 {
				want += "|started"
			}
			if at > 4 {
				want += "|run"
			}
			if got := strings.Join(rec.list(), "|"); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// A call that is cancelled says nothing about the lease.
func TestCancelledCallKeepsTheLease(t *testing.T) {
	rt := &asks{}
	s := session(t, SessionOptions{Mode: policy.ModeYolo, Runtime: rt}, fakeTool("T"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Run(ctx, Call{Tool: "T"}); err != nil {
		t.Error(err)
	}
	wantOK(t, do(t, s, Call{Tool: "T"}))
}

// asks is a lease whose assertion obeys its context.
type asks struct{ noLease }

func (*asks) AssertLease(ctx context.Context) error { return ctx.Err() }

// DUR-12: when the lease is lost the running tools are cancelled with that
// reason, once, and no end is recorded for them.
func TestLostLeaseCancels(t *testing.T) {
	var rec recorder
	rt := newCounted(0)
	rt.why = abi.NewError(abi.CodeLeaseTimeout, "the heartbeat failed")
	running := make(chan struct{})
	f := fakeTool("T", runs(func(ctx context.Context, _ *tool.Call) (*abi.Result, error) {
		close(running)
		<-ctx.Done()
		rec.add("cancelled " + tool.Reason(ctx).String())
		return nil, context.Cause(ctx)
	}))
	s := session(t, SessionOptions{Mode: policy.ModeYolo, Runtime: rt, Lifecycle: &ledger{rec: &rec}, Events: rec.event}, f)
	x := s.Start(t.Context(), Call{Tool: "T"})
	<-running
	close(rt.lost)
	if r, err := x.Result(); r != nil || abi.CodeOf(err) != abi.CodeLeaseTimeout {
		t.Errorf("%v %v", r, err)
	}
	if r, err := s.Run(t.Context(), Call{Tool: "T"}); r != nil || abi.CodeOf(err) != abi.CodeLeaseTimeout {
		t.Errorf("afterwards: %v %v", r, err)
	}
	want := fmt.Sprintf("scheduled T|event tool_use|started|cancelled %s", abi.CancelLease)
	if got := strings.Join(rec.list(), "|"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
