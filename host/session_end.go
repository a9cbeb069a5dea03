package host

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// enter takes a call in, unless the session is closed or knows its id.
func (s *Session) enter(r *run) *abi.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return abi.NewError(abi.CodeSessionOver, "the session is closed")
	}
	if s.ids[r.call.ID] {
		return abi.NewError(abi.CodeDuplicateCall, "the session knows a call with the id %q already", clip(r.call.ID))
	}
	s.ids[r.call.ID] = true
	s.active[r] = struct{}{}
	return nil
}

func (s *Session) exit(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.active, r)
}

// cancelActive cancels the active calls that match and returns all that are active
// now: calls that come later are not waited for.
func (s *Session) cancelActive(match func(*run) bool, cause *tool.CancelError) []*run {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*run, 0, len(s.active))
	for r := range s.active {
		list = append(list, r)
		if match(r) {
			r.cancel(cause)
		}
	}
	return list
}

func all(*run) bool { return true }

// Abort cancels all calls that were started, whatever their interrupt behaviour,
// and waits until they ended or their clean-up is pending. The session goes on:
// calls that come later are neither cancelled nor waited for.
func (s *Session) Abort(ctx context.Context, why string) error {
	return waitFor(ctx, s.cancelActive(all, &tool.CancelError{Reason: abi.CancelRequest, Detail: why}))
}

// Cancel cancels one active call by its id and reports whether it was active. It
// does not wait.
func (s *Session) Cancel(id, why string) bool {
	found := false
	s.cancelActive(func(r *run) bool {
		found = found || r.call.ID == id
		return r.call.ID == id
	}, &tool.CancelError{Reason: abi.CancelRequest, Detail: why})
	return found
}

// Steer applies an input of priority now: calls with interrupt behaviour cancel
// and calls that were not dispatched yet are cancelled, the others end first. Then
// input_applied is published.
func (s *Session) Steer(ctx context.Context, inputID string) error {
	if inputID == "" {
		return abi.NewError(abi.CodeRequest, "an input that interrupts needs an id")
	}
	interrupts := func(r *run) bool { return r.interrupt == abi.InterruptCancel }
	if err := waitFor(ctx, s.cancelActive(interrupts, &tool.CancelError{Reason: abi.CancelSteering, Detail: inputID})); err != nil {
		return err
	}
	turn := 0
	s.emit(Event{Type: EventInputApplied, InputID: inputID, RequestID: inputID, Priority: "now", Turn: &turn})
	return nil
}

func waitFor(ctx context.Context, list []*run) error {
	ctx = orBackground(ctx)
	for _, r := range list {
		select {
		case <-r.x.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// EndTurn drops what effects changed for the turn only.
func (s *Session) EndTurn() {
	s.context.endTurn()
	s.runtime.endTurn()
}

// Close cancels all calls, waits for them and ends the session. While a tool, a
// callback or a hook still runs 5 s after that, or when ctx ends, it fails with
// CLEANUP_PENDING and can be called again. A second Close does nothing.
func (s *Session) Close(ctx context.Context) error { return s.close(ctx, abi.CancelRequest) }

func (s *Session) close(ctx context.Context, reason abi.Cancel) error {
	ctx = orBackground(ctx)
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	if err := waitFor(ctx, s.cancelActive(all, &tool.CancelError{Reason: reason, Detail: "the session is closing"})); err != nil {
		return s.stillRuns(err)
	}
	s.pending.settle(ctx, cleanupBudget)
	s.pendingHooks.settle(ctx, cleanupBudget)
	if err := s.Pending(); err != nil {
		return err
	}
	var hook error
	s.ended.Do(func() {
		close(s.gone)
		_, hook = s.fire(context.WithoutCancel(ctx), HookInput{Event: HookSessionEnd}, s.opt.SessionEndHookTimeout)
		s.h.leave(s)
		for _, e := range s.reg.Load().sorted {
			if e.guest != nil {
				e.guest.network.close()
			}
		}
		hook = errors.Join(hook, s.endTools(ctx))
	})
	return hook
}

// endTools tells the tools that keep something for the session, all within one
// clean-up budget. What does not end in time is pending.
func (s *Session) endTools(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupBudget)
	defer cancel()
	var errs []error
	for _, e := range s.reg.Load().sorted {
		end, ok := e.tool.(tool.SessionEnder)
		if !ok {
			continue
		}
		_, err := await(ctx, &s.pendingHooks, func() (struct{}, error) { return struct{}{}, end.EndSession(ctx, s.opt.ID) })
		if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
			err = abi.NewError(abi.CodeCleanup, "tool %q did not free what it keeps for session %s in time", e.spec.Name, clip(s.opt.ID)).Because(err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// stillRuns is the error of a close that could not wait for the calls.
func (s *Session) stillRuns(cause error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for r := range s.active {
		ids = append(ids, clip(r.call.Tool)+" ("+clip(r.call.ID)+")")
	}
	slices.Sort(ids)
	return abi.NewError(abi.CodeCleanup, "session %s did not close in time; these calls still run: %s", clip(s.opt.ID), strings.Join(ids, ", ")).Because(cause)
}

// Pending is nil, or the error CLEANUP_PENDING while something still runs that
// outlived its call.
func (s *Session) Pending() error {
	if n := s.pending.Load(); n > 0 {
		return abi.NewError(abi.CodeCleanup, "%d earlier calls did not end in time and still run", n)
	}
	if n := s.pendingHooks.Load(); n > 0 {
		return abi.NewError(abi.CodeHookPending, "%d hooks did not end in time and still run", n)
	}
	return nil
}

// Quarantine makes the session refuse all work from now on. The first reason
// stays. It is for a lost lease and for failures that cannot be undone.
func (s *Session) Quarantine(err *abi.Error) {
	s.quarantine.CompareAndSwap(nil, err)
	s.cancelActive(all, &tool.CancelError{Reason: abi.CancelLease, Detail: err.Message})
}

// cleanupBudget is the one budget for everything that follows the end of a
// call's context.
const cleanupBudget = abi.CleanupTime
