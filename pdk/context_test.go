package pdk

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bladehost/bladehost/abi"
)

// hostStub answers questions about cancellation and nothing else.
type hostStub struct {
	Host
	reason atomic.Int32
	polls  atomic.Int32
	left   atomic.Int64
}

func (h *hostStub) Cancelled() int32 {
	h.polls.Add(1)
	return h.reason.Load()
}

func (h *hostStub) Deadline() int64 { return h.left.Load() }

func TestContextErr(t *testing.T) {
	for _, c := range []struct {
		name   string
		reason abi.Cancel
		err    error
	}{
		{"request", abi.CancelRequest, context.Canceled},
		{"deadline", abi.CancelDeadline, context.DeadlineExceeded},
		{"a reason of a later host", 99, context.Canceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &hostStub{}
			s := newCall(h)
			defer s.end()
			if err := s.ctx.Err(); err != nil || context.Cause(s.ctx) != nil {
				t.Fatalf("cancelled from the start: %v", err)
			}
			h.reason.Store(int32(c.reason))
			// Cause is as fresh as Err, without Err having been called.
			var cancel *CancelError
			if !errors.As(context.Cause(s.ctx), &cancel) || cancel.Reason != c.reason {
				t.Errorf("cause %v", context.Cause(s.ctx))
			}
			if s.ctx.Err() != c.err {
				t.Errorf("Err is %v, want %v", s.ctx.Err(), c.err)
			}
			polls := h.polls.Load()
			_ = s.ctx.Err()
			if h.polls.Load() != polls {
				t.Error("the host is still asked after it said yes")
			}
			select {
			case <-s.ctx.Done():
			default:
				t.Error("Done is open")
			}
		})
	}
}

// Done fires without anybody calling Err, in derived contexts too, and the
// poller ends with the call.
func TestContextDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hostStub{}
		s := newCall(h)
		derived, stop := context.WithTimeout(s.ctx, time.Hour)
		defer stop()
		time.AfterFunc(time.Second, func() { h.reason.Store(int32(abi.CancelSteering)) })
		start := time.Now()
		<-derived.Done()
		if d := time.Since(start); d < time.Second || d > time.Second+2*pollEvery {
			t.Errorf("after %v", d)
		}
		var cancel *CancelError
		if !errors.As(context.Cause(derived), &cancel) || cancel.Reason != abi.CancelSteering {
			t.Errorf("cause %v", context.Cause(derived))
		}
		s.end()
	})
	synctest.Test(t, func(t *testing.T) {
		s := newCall(&hostStub{})
		done := s.ctx.Done()
		s.end() // synctest fails if the poller is left over
		<-done
	})
}

func TestContextDeadline(t *testing.T) {
	h := &hostStub{}
	s := newCall(h)
	h.left.Store(-1)
	if _, ok := s.ctx.Deadline(); ok {
		t.Error("there is a deadline")
	}
	h.left.Store(5000)
	if at, ok := s.ctx.Deadline(); !ok || time.Until(at) > 5*time.Second || time.Until(at) < 4*time.Second {
		t.Errorf("in %v", time.Until(at))
	}
	h.left.Store(60_000) // a host may move it
	if at, _ := s.ctx.Deadline(); time.Until(at) < 50*time.Second {
		t.Error("the deadline did not move")
	}
	s.end()
	if _, ok := s.ctx.Deadline(); ok {
		t.Error("a call that is over has a deadline")
	}
}

// What a call left running does not reach the host any more: it would be in the
// middle of the next one.
func TestCallIsOver(t *testing.T) {
	h := &hostStub{} // any other method would crash
	s := newCall(h)
	s.end()
	polls := h.polls.Load()
	if err := s.ctx.Err(); err != context.Canceled || h.polls.Load() != polls {
		t.Errorf("Err is %v", err)
	}
	if _, _, err := CallService(s.ctx, "x-echo.echo", nil, nil); !errors.Is(err, errOver) {
		t.Errorf("CallService: %v", err)
	}
	if err := (&Call{state: s}).Progress("m", 1, 2); !errors.Is(err, errOver) {
		t.Errorf("Progress: %v", err)
	}
	if _, err := Info(s.ctx); !errors.Is(err, errOver) {
		t.Errorf("Info: %v", err)
	}
}

func TestNoCall(t *testing.T) {
	if _, _, err := CallService(t.Context(), "x-echo.echo", nil, nil); !errors.Is(err, errNoCall) {
		t.Errorf("CallService: %v", err)
	}
	Log(t.Context(), abi.LogInfo, "nowhere")
	Logger(t.Context()).Info("nowhere")
}
