package host

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// leased is a runtime under a lease, which a tool's second assertion finds lost.
type leased struct {
	lostLease
	ran int
}

func (l *leased) Fence() (tool.Fence, bool) { return tool.Fence{LeaseID: "lease-1", Token: 7}, true }

func (l *leased) RunWithLease(ctx context.Context, op func(context.Context) error) error {
	if err := l.AssertLease(ctx); err != nil {
		return err
	}
	l.ran++
	return op(ctx)
}

// RTM-03 RTM-05 RTM-06: what tools with requiresRuntime see of the lease, native ones and
// guests: nothing where there is none, its id and token where there is one, and a code that
// starts with DURABLE_EXECUTION_LEASE_ once it is lost.
func TestLease(t *testing.T) {
	lose := func(rt *leased) {
		rt.mu.Lock()
		defer rt.mu.Unlock()
		rt.lost = true
	}
	var rt *leased
	native := fakeTool("Native", readOnly, func(f *fake) { f.spec.RequiresRuntime = true }, runs(func(ctx context.Context, c *tool.Call) (*abi.Result, error) {
		r, ok := c.Runtime()
		if !ok {
			return nil, errors.New("no runtime")
		}
		fence, under := r.Fence()
		ran := 0
		err := errors.Join(r.AssertLease(ctx), r.RunWithLease(ctx, func(context.Context) error { ran++; return nil }))
		if rt != nil {
			lose(rt)
		}
		after := r.AssertLease(ctx)
		runErr := r.RunWithLease(ctx, func(context.Context) error { ran++; return nil })
		if rt != nil { // found again, so that the call itself can end
			rt.mu.Lock()
			rt.lost = false
			rt.mu.Unlock()
		}
		return abi.Text(fmt.Sprintf("%v %v %v ran %d, then %s %s", fence, under, err, ran, abi.CodeOf(after), abi.CodeOf(runErr))), nil
	}))
	h := newHost(t, Options{CacheDir: guestCache(t), Tools: []tool.Tool{native}})
	p := odd(t, h, tool.TrustWorkspace)
	s := sessionOn(t, h, SessionOptions{Plugins: []Attachment{{Plugin: p}}})
	if r := do(t, s, Call{Tool: "Native"}); r.ModelText() != "{ 0} false <nil> ran 2, then  " {
		t.Errorf("without a lease: %s", r.ModelText())
	}
	if r := do(t, s, Call{Tool: "Lease"}); string(r.Data) != `{"assert":"owned","id":"","leased":false,"token":0}` {
		t.Errorf("without a lease: %s", r.Data)
	}
	rt = &leased{}
	s = sessionOn(t, h, SessionOptions{Mode: policy.ModeYolo, Runtime: rt, Plugins: []Attachment{{Plugin: p}}})
	if r := do(t, s, Call{Tool: "Native"}); r.ModelText() != "{lease-1 7} true <nil> ran 1, then DURABLE_EXECUTION_LEASE_LOST DURABLE_EXECUTION_LEASE_LOST" || rt.ran != 1 {
		t.Errorf("under a lease: %s, ran %d", r.ModelText(), rt.ran)
	}
	if r := do(t, s, Call{Tool: "Lease"}); string(r.Data) != `{"assert":"owned","id":"lease-1","leased":true,"token":7}` {
		t.Errorf("under a lease: %s", r.Data)
	}
	x := s.Start(t.Context(), Call{Tool: "Work", Input: in(`{"forever":true}`)})
	for range x.Yields() {
		lose(rt)
		x.Cancel("enough")
	}
	if r, err := x.Result(); r != nil || abi.CodeOf(err) != "DURABLE_EXECUTION_LEASE_LOST" {
		t.Errorf("after the loss: %+v %v", r, err)
	}
}
