package host

import (
	"context"
	"errors"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// invoke runs the tool under its deadline. When that passes, or the call is
// cancelled, the tool has cleanupBudget to end; if it does not, the call ends all
// the same, and the session refuses new work until the tool has ended.
func (r *run) invoke() {
	ctx, limit := r.timeout()
	call := r.toolCall(ctx)
	t := begin(func() (*abi.Result, error) { return r.entry.tool.Execute(ctx, call) }, func() { r.s.pending.Add(-1) })
	var a answer[*abi.Result]
	select {
	case a = <-t.done:
	case <-ctx.Done():
		select {
		case a = <-t.done: // it ended in the same moment
		default:
			r.cleanUp(ctx, t, limit)
			return
		}
	}
	if tool.Reason(ctx) == abi.CancelDeadline {
		r.expired(limit)
		return
	}
	r.took(a)
}

// took turns what the tool returned into the result.
func (r *run) took(a answer[*abi.Result]) {
	if a.err != nil {
		if abi.CodeOf(a.err) == abi.CodeToolPanic {
			r.s.h.log.Error("a tool panicked", "tool", r.canonical(), "panic", a.err.Error())
			own := ownError(abi.AsError(a.err))
			own.Message = "the tool " + r.canonical() + " is at fault: " + own.Message
			a.err = own
		}
		if r.ctx.Err() != nil {
			r.preempted = errors.Is(a.err, tool.ErrPreempted)
			r.cancelled()
			return
		}
		r.fail(abi.AsError(a.err))
		return
	}
	if why := a.v.Valid(); why != "" {
		code := abi.CodeResultShape
		if a.v == nil {
			code = abi.CodeNoResult
		}
		r.fail(abi.NewError(code, "the tool's result cannot be used: %s", why))
		return
	}
	if a.v.IsError() && r.ctx.Err() != nil {
		r.cancelled()
		return
	}
	// A tool may return the same result again and again; the host adds to it.
	r.result = cloneResult(a.v)
}

// cleanUp waits for a tool whose context has ended.
func (r *run) cleanUp(ctx context.Context, t *task[*abi.Result], limit time.Duration) {
	timer := time.NewTimer(cleanupBudget)
	defer timer.Stop()
	expired := tool.Reason(ctx) == abi.CancelDeadline
	select {
	case a := <-t.done:
		if !expired {
			r.took(a)
			return
		}
	case <-timer.C:
		r.s.pending.Add(1)
		if a, ended := t.abandon(); ended {
			r.s.pending.Add(-1)
			if !expired {
				r.took(a)
				return
			}
		} else {
			r.s.h.log.Error("a tool did not end within its clean-up time; the session refuses new calls until it does", "tool", r.canonical(), "call", r.call.ID)
		}
	}
	if expired {
		r.expired(limit)
		return
	}
	r.preempted = true
	r.cancelled()
}

// expired ends the call with a timeout, whatever the tool did meanwhile.
func (r *run) expired(limit time.Duration) {
	r.timedOut = true
	if r.behavior.SideEffect == abi.SideEffectNonIdempotent {
		r.fail(abi.NewError(abi.CodeTimeoutRan, "%s did not end within %v; it was running, and what it did is not known", r.canonical(), limit).With(map[string]any{"timeoutMs": limit.Milliseconds(), "retryable": false}))
		return
	}
	r.fail(abi.NewError(abi.CodeTimeout, "%s did not end within %v", r.canonical(), limit).With(map[string]any{"timeoutMs": limit.Milliseconds(), "retryable": true}))
}

// toolCall is the call as the tool sees it.
func (r *run) toolCall(ctx context.Context) *tool.Call {
	c := tool.Config{
		ExecutionID: r.executionID, ToolCallID: r.call.ID, Name: r.call.Tool, Input: cloneRaw(r.input), Behavior: r.behavior,
		SessionID: r.s.opt.ID, MessageID: r.call.MessageID, Step: r.call.Step, Mode: string(r.mode), Snapshot: r.snap,
		Admission: r.admission, Yield: func(y abi.Yield, idle func() func()) error { return r.yield(ctx, y, idle) },
		Invoke: func(ctx context.Context, name string, req tool.Request) (tool.Answer, error) {
			return r.serve(ctx, name, req)
		},
		Effect: r.note, Confirm: r.ask,
	}
	if names := r.entry.spec.Services; len(names) > 0 {
		c.Services = make(map[string]tool.Service, len(names))
		for _, n := range names {
			c.Services[n] = r.s.opt.Services[n]
		}
	}
	if r.entry.spec.RequiresRuntime {
		c.Runtime = r.s.opt.Runtime
	}
	return tool.NewCall(c)
}
