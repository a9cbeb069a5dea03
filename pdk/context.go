package pdk

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bladehost/bladehost/abi"
)

// pollEvery is how often the poller behind Done asks the host.
const pollEvery = 5 * time.Millisecond

// errOver ends what a call leaves running.
var errOver = errors.New("the call is over")

// errNoCall is what a service call outside a tool's call fails with.
var errNoCall = errors.New("this context does not belong to a call of a bladehost tool: pass the one the tool was called with")

type callKey struct{}

// call is the state of one call, found through its context.
type callState struct {
	host Host
	over atomic.Bool
	ctx  *callContext

	infoOnce sync.Once
	info     *abi.CallInfo
	infoErr  error
}

// stateOf finds the call that ctx belongs to. A call that is over has no host
// any more: what it left running must not disturb the next one.
func stateOf(ctx context.Context) (*callState, error) {
	s, ok := ctx.Value(callKey{}).(*callState)
	if !ok {
		return nil, errNoCall
	}
	if s.over.Load() {
		return nil, errOver
	}
	return s, nil
}

// callContext is a cancelable context whose truth is with the host. The one it
// embeds is cancelled as soon as anybody learns that the host wants the call to
// stop, so contexts derived from it and context.Cause work as usual.
type callContext struct {
	context.Context
	cancel context.CancelCauseFunc
	state  *callState
	poller sync.Once
}

func newCall(h Host) *callState {
	s := &callState{host: h}
	ctx, cancel := context.WithCancelCause(context.Background())
	s.ctx = &callContext{Context: ctx, cancel: cancel, state: s}
	return s
}

// end makes the call over. It comes before ret.
func (s *callState) end() {
	s.over.Store(true)
	s.ctx.cancel(errOver)
}

// poll asks the host and returns the cause if the call should stop.
func (c *callContext) poll() error {
	if c.Context.Err() == nil && !c.state.over.Load() {
		if reason := abi.Cancel(c.state.host.Cancelled()); reason != abi.CancelNone {
			c.cancel(&CancelError{Reason: reason})
		}
	}
	return context.Cause(c.Context)
}

// Err asks the host, unless the call is known to be cancelled.
func (c *callContext) Err() error {
	switch cause := c.poll(); {
	case cause == nil:
		return nil
	case errors.Is(cause, context.DeadlineExceeded):
		return context.DeadlineExceeded
	default:
		return context.Canceled
	}
}

// Deadline asks the host each time: a host may pause it.
func (c *callContext) Deadline() (time.Time, bool) {
	if c.state.over.Load() {
		return time.Time{}, false
	}
	left := c.state.host.Deadline()
	if left < 0 {
		return time.Time{}, false
	}
	return time.Now().Add(time.Duration(left) * time.Millisecond), true
}

// Done starts the poller at its first use.
func (c *callContext) Done() <-chan struct{} {
	if c.poll() == nil {
		// The goroutine ends with the context, which end cancels.
		c.poller.Do(func() { go c.watch() })
	}
	return c.Context.Done()
}

func (c *callContext) watch() {
	t := time.NewTicker(pollEvery)
	defer t.Stop()
	for {
		select {
		case <-c.Context.Done():
			return
		case <-t.C:
			if c.poll() != nil {
				return
			}
		}
	}
}

// Value knows the call. It polls for any other key, because context.Cause
// looks for its own key here and should be as fresh as Err.
func (c *callContext) Value(key any) any {
	if key == (callKey{}) {
		return c.state
	}
	c.poll()
	return c.Context.Value(key)
}
