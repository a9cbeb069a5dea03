package engine

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/caps/fs"
	"github.com/bladehost/bladehost/host/internal/engine/wasi"
	"github.com/bladehost/bladehost/host/tool"
)

// phase is where an instance is in the state machine of abi/SPEC.md.
type phase uint8

const (
	phaseInit phase = iota
	phaseDescribe
	phaseWarm
	phaseRun
	phaseReturned
)

var phaseNames = map[phase]string{phaseInit: "_initialize", phaseDescribe: abi.ExportDescribe, phaseWarm: abi.ExportWarm, phaseRun: abi.ExportExecute, phaseReturned: "the time after ret"}

// instance is one instance of a module and the state of the call it runs. It
// belongs to one goroutine at a time.
type instance struct {
	plugin   *Plugin
	mod      api.Module
	mem      api.Memory
	wasi     *wasi.State
	views    []*fs.View
	out, err *capped
	memory   memory
	// execute is kept: to look it up makes a stack and costs more than a call.
	execute    api.Function
	inits      []namedFunction
	initsKnown bool
	// globals are the guest's own, home what they begin with.
	globals      []api.MutableGlobal
	home         []uint64
	fuel, depth  api.MutableGlobal
	guestContext guestContext
	stack        [2]uint64
	timer        *time.Timer
	// epoch is when it was last used, in the pool's own time; cold says that it
	// kept nothing since.
	epoch uint32
	cold  bool

	phase     phase
	violation *abi.Error
	// stopped is why the host ended the guest.
	stopped stop

	// Of the running call.
	ctx  context.Context
	call *tool.Call
	spec *abi.ToolSpec
	at   *place
	// until bounds an init phase.
	until   time.Time
	input   []byte
	answers answers
	ret     returned
	yields  int
	bytes   int
	logged  int
	// hostCalls counts the calls of host functions since the last look at the clock.
	hostCalls int
	// endedAt is when the call's context ended, as far as it is known, and seenAt when
	// the host first looked after that.
	endedAt, seenAt time.Time
	// polled says that the guest asks for cancellation at all, noticed that it
	// knows of one.
	polled, noticed bool
	// retAt is when the guest handed over its result, idle how long it waited for
	// the host since.
	retAt time.Time
	idle  time.Duration
}

type namedFunction struct {
	name string
	f    api.Function
}

type returned struct {
	set    bool
	status uint32
	bytes  []byte
	big    bool
}

// stateOf is how WASI finds the guest's world; like all host functions it starts
// with a look at whether the guest must stop.
func stateOf(ctx context.Context) *wasi.State {
	i := instanceOf(ctx)
	i.tick()
	return i.wasi
}

// enter puts the instance into a phase before the guest is called.
func (i *instance) enter(p phase) {
	i.phase = p
	i.ret = returned{}
	i.violation = nil
	switch p {
	case phaseRun:
		i.wasi.SetPhase(wasi.Run)
	default:
		i.wasi.SetPhase(wasi.Init)
	}
}

// hold sets the instance up to run guest code for a context.
func (i *instance) hold(ctx context.Context, at *place) {
	i.ctx, i.at = ctx, at
	i.stopped, i.endedAt, i.seenAt, i.hostCalls = running, time.Time{}, time.Time{}, 0
	i.polled, i.noticed = false, false
	i.memory.bounds().refused = false
	i.logged = 0
	i.out.reset(abi.MaxOutput)
	i.err.reset(abi.MaxOutput)
	i.fuel.Set(slice)
}

// begin sets the instance up for a call.
func (i *instance) begin(call *tool.Call, spec *abi.ToolSpec) {
	i.call, i.spec = call, spec
	i.input = call.Input
	i.yields, i.bytes = 0, 0
	i.idle = 0
	i.enter(phaseRun)
}

// end lets go of the call.
func (i *instance) end() {
	i.ctx, i.call, i.at, i.input, i.spec = nil, nil, nil, nil, nil
	i.ret = returned{}
	i.answers.reset()
}

// violate stops the guest at once: it broke a rule. It does not return.
func (i *instance) violate(code abi.Code, format string, args ...any) {
	i.violation = abi.NewError(code, format, args...)
	panic(i.violation)
}

// pause gives the call's place back while it waits for the host.
func (i *instance) pause() func() {
	resume := i.at.pause(i.ctx)
	if i.phase != phaseReturned {
		return resume
	}
	from := time.Now()
	return func() {
		resume()
		i.idle += time.Since(from)
	}
}

// sleep waits for d, or until the call is cancelled; after that only a
// millisecond at most, so that a guest cannot spin on it.
func (i *instance) sleep(_ context.Context, d time.Duration) {
	done := i.ctx.Done()
	switch {
	case i.ctx.Err() != nil:
		d, done = min(d, time.Millisecond), nil
	case i.phase < phaseRun:
		d = min(d, time.Until(i.until)+time.Millisecond)
	}
	if i.timer == nil {
		i.timer = time.NewTimer(d)
	} else {
		i.timer.Reset(d)
	}
	select {
	case <-i.timer.C:
		return
	case <-done:
	case <-i.plugin.closed:
	}
	i.timer.Stop()
}

// outcome is the result of a call whose guest has returned or was unwound by err.
func (i *instance) outcome(err error) (*abi.Result, error) {
	switch {
	case i.violation != nil:
		return abi.Failure(i.violation), nil
	case i.stopped == stopClosed:
		return nil, errors.Join(&tool.CancelError{Reason: abi.CancelShutdown}, tool.ErrPreempted)
	case i.stopped == stopCall && !i.ret.set:
		return nil, errors.Join(i.cause(), tool.ErrPreempted)
	case i.stopped == stopCall, i.stopped == stopLate: // it had its result
	case err != nil:
		return abi.Failure(i.crash(err)), nil
	case !i.ret.set:
		return abi.Failure(abi.NewError(abi.CodeGuestNoResult, "the tool returned without a result: it never called %s", abi.FuncRet)), nil
	}
	return i.result(), nil
}

// crash says why the guest did not return. What it wrote to standard error goes
// into the details, never to the model.
func (i *instance) crash(err error) *abi.Error {
	var exit *wasi.ExitError
	text := err.Error()
	var e *abi.Error
	switch {
	case errors.As(err, &exit):
		e = abi.NewError(abi.CodeGuestExit, "the tool ended its process with exit code %d instead of returning a result", exit.Code)
	case i.stopped == stopStack, strings.Contains(text, "stack overflow"): // the runtime has no exported error for its own
		e = abi.NewError(abi.CodeGuestStack, "the tool's calls nested too deeply")
	case i.memory.bounds().refused:
		e = abi.NewError(abi.CodeGuestOOM, "the tool ran out of memory: its limit is %d MiB; give more with --memory-limit", i.plugin.e.opt.MemoryLimit>>20)
	default:
		e = abi.NewError(abi.CodeGuestTrap, "the tool crashed: %s", trapText(text))
	}
	details := map[string]string{"trap": trapText(text)}
	if len(i.err.tail) > 0 {
		details["stderr"] = strings.ToValidUTF8(string(i.err.tail), "\ufffd")
	}
	return e.With(details)
}

func trapText(s string) string {
	s = strings.TrimSuffix(strings.TrimPrefix(firstLine(s), "wasm error: "), " (recovered by wazero)")
	return clipText(s)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// describeAnswer is what the guest handed to ret in blade_describe.
func (i *instance) describeAnswer() (json.RawMessage, error) {
	switch {
	case !i.ret.set:
		return nil, abi.NewError(abi.CodeInit, "%s returned without calling %s", abi.ExportDescribe, abi.FuncRet)
	case i.ret.big, len(i.ret.bytes) > abi.MaxManifest:
		return nil, abi.NewError(abi.CodeInit, "%s answered more than %d bytes", abi.ExportDescribe, abi.MaxManifest)
	case i.ret.status != abi.RetData:
		return nil, abi.NewError(abi.CodeInit, "%s answered with status %d: %s", abi.ExportDescribe, i.ret.status, clipText(string(i.ret.bytes)))
	}
	return i.ret.bytes, nil
}
