package engine

import (
	"context"
	"runtime"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/wasm"
)

// slice is how much fuel a guest gets at a time: some half a millisecond. Machine
// code has no safepoint of the Go runtime, so this also bounds how long the
// host's garbage collector waits for a guest.
const slice = 1_000_000

// notice is how long a guest that asks for cancellation has to ask again, since the
// host first saw it run after the end of its context: it may have had no processor
// before. cleanup is how long it may run once it knows, since that end.
// A guest that never asked is stopped at once.
const (
	notice  = 50 * time.Millisecond
	cleanup = abi.CleanupTime - time.Second
)

// stop is why the host ended a guest. It is what a host function panics with, so
// that the guest's stack is left behind.
type stop uint8

const (
	running stop = iota
	// stopCall: the context of the call ended.
	stopCall
	// stopInit: an init phase took too long.
	stopInit
	// stopLate: the guest went on for too long after its result.
	stopLate
	// stopStack: its calls nested too deeply.
	stopStack
	// stopClosed: the plugin is being closed.
	stopClosed
)

// Error says why.
func (s stop) Error() string {
	switch s {
	case stopCall:
		return "stopped: the call has ended"
	case stopInit:
		return "stopped: initialisation took too long"
	case stopLate:
		return "stopped: it ran on after its result"
	case stopStack:
		return "stack overflow"
	case stopClosed:
		return "stopped: the plugin is closed"
	}
	return "running"
}

// meterModule puts the function into a runtime that rewritten modules call when
// their fuel is used up.
func meterModule(ctx context.Context, rt wazero.Runtime) error {
	_, err := rt.NewHostModuleBuilder(wasm.MeterModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, _ api.Module, _ []uint64) { instanceOf(ctx).refill() }), nil, nil).
		Export(wasm.RefillName).Instantiate(ctx)
	return err
}

// refill gives the guest another slice, or stops it.
func (i *instance) refill() {
	if int64(i.depth.Get()) < 0 {
		i.halt(stopStack)
	}
	i.check()
	i.fuel.Set(i.fuel.Get() + slice) // added, not set: what a long operation overdrew stays owed
}

// checkEvery is how many host calls go by between two looks at the clock. Host
// calls cost little fuel and take long, so refill alone would come too late.
const checkEvery = 64

// tick is called at the start of host functions.
func (i *instance) tick() {
	if i.hostCalls++; i.hostCalls%checkEvery == 0 || i.ctx.Err() != nil {
		i.check()
	}
}

// check stops the guest if it must stop; then it does not return.
func (i *instance) check() {
	if s := i.due(time.Now()); s != running {
		i.halt(s)
	}
}

func (i *instance) halt(s stop) {
	i.stopped = s
	panic(s)
}

// due says whether the guest must stop now, and why.
func (i *instance) due(now time.Time) stop {
	switch {
	case i.plugin.closing.Load():
		return stopClosed
	case i.phase != phaseRun && i.phase != phaseReturned:
		if now.After(i.until) {
			return stopInit
		}
		if _, ended := i.ended(now); ended {
			return stopCall
		}
		return running
	case i.phase == phaseReturned && now.Sub(i.retAt)-i.idle > abi.AfterRet:
		return stopLate
	}
	since, ended := i.ended(now)
	if !ended {
		return running
	}
	var patience time.Duration
	switch {
	case i.phase == phaseReturned, i.noticed:
		patience = i.plugin.e.opt.cleanup
	case i.polled:
		patience, since = notice, i.seenAt
	}
	if now.Sub(since) >= patience {
		return stopCall
	}
	return running
}

// ended says whether the call's context has ended, and since when. The timer of
// a deadline may not have run yet where a guest keeps the only processor busy,
// so the clock decides.
func (i *instance) ended(now time.Time) (since time.Time, ended bool) {
	if !i.endedAt.IsZero() {
		return i.endedAt, true
	}
	deadline, timed := i.ctx.Deadline()
	past := timed && !now.Before(deadline)
	if i.seenAt.IsZero() && (past || i.ctx.Err() != nil) {
		i.seenAt = now
	}
	if past {
		runtime.Gosched() // lets the timer run, so that the context has its cause
	}
	if i.ctx.Err() == nil {
		return deadline, past
	}
	if i.endedAt = now; past {
		i.endedAt = deadline
	}
	return i.endedAt, true
}

// cause is why the call's context ended. Where the clock was faster than the
// context's timer, it waits for the timer.
func (i *instance) cause() error {
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-i.ctx.Done():
		return context.Cause(i.ctx)
	case <-t.C:
		return context.DeadlineExceeded
	}
}

// guestContext is the context that host functions of a guest get: it leads them
// to the instance, and ends when the guest must stop, which is later than the
// call's own end. It has no channel: it is for functions that look.
type guestContext struct{ i *instance }

func (c *guestContext) Deadline() (time.Time, bool) { return c.i.ctx.Deadline() }

func (c *guestContext) Done() <-chan struct{} { return nil }

func (c *guestContext) Err() error {
	if c.i.ctx.Err() != nil && c.i.due(time.Now()) != running {
		return context.Canceled
	}
	return nil
}

func (c *guestContext) Value(key any) any {
	if _, ok := key.(instanceKey); ok {
		return c.i
	}
	return nil
}

type instanceKey struct{}

func instanceOf(ctx context.Context) *instance {
	if c, ok := ctx.(*guestContext); ok {
		return c.i
	}
	i, _ := ctx.Value(instanceKey{}).(*instance)
	return i
}
