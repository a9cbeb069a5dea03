package host

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/bladehost/bladehost/abi"
)

var errHookTime = errors.New("the hook budget is used up")

// task is a call of a function that belongs to somebody else: it may panic,
// ignore its context or never return. It has a goroutine of its own, which ends
// with the function.
type task[T any] struct {
	done  chan answer[T]
	state atomic.Int32
}

type answer[T any] struct {
	v   T
	err error
}

const (
	taskRuns int32 = iota
	taskEnded
	taskAbandoned
)

// begin starts f. onLate is called when f ends after it was abandoned.
func begin[T any](f func() (T, error), onLate func()) *task[T] {
	t := &task[T]{done: make(chan answer[T], 1)}
	go func() { // whoever holds t waits on done, or is told by onLate
		var a answer[T]
		a.v, a.err = guarded(f)
		if t.state.CompareAndSwap(taskRuns, taskEnded) {
			t.done <- a
			return
		}
		onLate()
	}()
	return t
}

// abandon gives up on the function, unless it has ended meanwhile: then its
// answer stands.
func (t *task[T]) abandon() (a answer[T], ended bool) {
	if t.state.CompareAndSwap(taskRuns, taskAbandoned) {
		return a, false
	}
	return <-t.done, true
}

// await calls f. When ctx ends first, it returns the cause at once, and pending
// counts f until it is done.
func await[T any](ctx context.Context, pending *pending, f func() (T, error)) (T, error) {
	var zero T
	if ctx.Err() != nil {
		return zero, context.Cause(ctx)
	}
	t := begin(f, func() { pending.Add(-1) })
	select {
	case a := <-t.done:
		return a.v, a.err
	case <-ctx.Done():
	}
	pending.Add(1)
	a, ended := t.abandon()
	if !ended {
		return zero, context.Cause(ctx)
	}
	pending.Add(-1)
	return a.v, a.err
}

// guarded makes a panic of f an error.
func guarded[T any](f func() (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = abi.NewError(abi.CodeToolPanic, "it panicked: %v", p)
		}
	}()
	return f()
}

func cloneRaw(b json.RawMessage) json.RawMessage { return slices.Clone(b) }

func contains(list []string, s string) bool { return slices.Contains(list, s) }
