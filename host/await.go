package host

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
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
	go watch(f, func(a answer[T]) { // whoever holds t waits on done, or is told by onLate
		if t.state.CompareAndSwap(taskRuns, taskEnded) {
			t.done <- a
			return
		}
		onLate()
	})
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

// guarded calls f and waits for it. A panic is an error, and so is
// runtime.Goexit, which nothing but a goroutine of its own can stop.
func guarded[T any](f func() (T, error)) (T, error) {
	done := make(chan answer[T], 1)
	go watch(f, func(a answer[T]) { done <- a })
	a := <-done
	return a.v, a.err
}

// watch calls f and then tell, once, however f ends: it returns, panics or ends
// its goroutine.
func watch[T any](f func() (T, error), tell func(answer[T])) {
	var a answer[T]
	returned := false
	defer func() {
		if p := recover(); p != nil {
			a.err = abi.NewError(abi.CodeToolPanic, "it panicked: %v", p)
		} else if !returned {
			a.err = errGoexit()
		}
		tell(a)
	}()
	v, err := f()
	a.v, a.err = v, readable(err)
	returned = true
}

func errGoexit() *abi.Error {
	return abi.NewError(abi.CodeToolPanic, "it ended its goroutine instead of returning (runtime.Goexit, which t.FailNow calls)")
}

// readable is err, or an error about it where it is a nil pointer in an error or
// cannot be read without a panic.
func readable(err error) (out error) {
	if err == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			out = abi.NewError(abi.CodeToolPanic, "it returned an error (%T) that panics when it is read: %v", err, p)
		}
	}()
	if isNil(err) {
		return abi.NewError(abi.CodeToolPanic, "it returned a nil %T as its error, which does not equal nil; it must return nil itself", err)
	}
	// What reading an error means here: its text and its chain.
	_, _, _ = abi.AsError(err).Error(), err.Error(), errors.Is(err, tool.ErrPreempted)
	return err
}

// isNil says whether v is nil or holds a nil pointer, function or map.
func isNil(v any) bool {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Slice, reflect.Chan:
		return r.IsNil()
	default:
		return false
	}
}

// orBackground is ctx, or one that never ends in the place of nil.
func orBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

func cloneRaw(b json.RawMessage) json.RawMessage { return slices.Clone(b) }

func contains(list []string, s string) bool { return slices.Contains(list, s) }
