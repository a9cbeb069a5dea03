package engine

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/bladehost/bladehost/abi"
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
// belongs to one goroutine at a time; only the fields named atomic are read by
// others.
type instance struct {
	plugin   *Plugin
	mod      api.Module
	mem      api.Memory
	wasi     *wasi.State
	out, err *capped
	memory   *memory

	phase     phase
	violation *abi.Error

	// Of the running call.
	ctx     context.Context
	call    *tool.Call
	spec    *abi.ToolSpec
	at      *place
	input   []byte
	answers answers
	ret     returned
	yields  int
	bytes   int
	logged  int
	// polled and noticed are atomic: whether the guest asks for cancellation at
	// all, and whether it knows of one.
	polled, noticed atomic.Bool
	// onRet is called when the guest has handed over its result.
	onRet func()
}

type returned struct {
	set    bool
	status uint32
	bytes  []byte
	big    bool
}

type instanceKey struct{}

func withInstance(ctx context.Context, i *instance) context.Context {
	return context.WithValue(ctx, instanceKey{}, i)
}

func instanceOf(ctx context.Context) *instance {
	i, _ := ctx.Value(instanceKey{}).(*instance)
	return i
}

func stateOf(ctx context.Context) *wasi.State {
	if i := instanceOf(ctx); i != nil {
		return i.wasi
	}
	return nil
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

// begin sets the instance up for a call.
func (i *instance) begin(ctx context.Context, call *tool.Call, spec *abi.ToolSpec, at *place) {
	i.ctx, i.call, i.spec, i.at = ctx, call, spec, at
	i.input = call.Input
	i.answers.reset()
	i.yields, i.bytes, i.logged = 0, 0, 0
	i.polled.Store(false)
	i.noticed.Store(false)
	i.out.reset(abi.MaxOutput)
	i.err.reset(abi.MaxOutput)
	i.enter(phaseRun)
}

// end lets go of the call.
func (i *instance) end() {
	i.ctx, i.call, i.at, i.input, i.onRet = nil, nil, nil, nil, nil
	i.answers.reset()
}

// violate stops the guest at once: it broke a rule. It does not return.
func (i *instance) violate(code abi.Code, format string, args ...any) {
	i.violation = abi.NewError(code, format, args...)
	panic(i.violation)
}

// pause gives the call's place back while it waits for the host.
func (i *instance) pause() func() {
	if i.at == nil {
		return func() {}
	}
	return i.at.pause(i.ctx)
}

// sleep waits for d, or until the call is cancelled; after that only a
// millisecond at most, so that a guest cannot spin on it.
func (i *instance) sleep(ctx context.Context, d time.Duration) {
	if i.ctx == nil {
		i.ctx = ctx
		defer func() { i.ctx = nil }()
	}
	wait := i.ctx
	if wait.Err() != nil {
		d = min(d, time.Millisecond)
		wait = ctx
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-wait.Done():
	case <-ctx.Done():
	}
}

// outcome is the result of a call whose guest has returned or was unwound by
// err. ended says that the guest was stopped because ctx ended.
func (i *instance) outcome(err error, ended bool) (*abi.Result, error) {
	switch {
	case i.violation != nil:
		return i.failure(i.violation), nil
	case ended && !i.ret.set:
		return nil, errors.Join(context.Cause(i.ctx), tool.ErrPreempted)
	case err != nil && !(ended && i.ret.set):
		return i.failure(i.crash(err)), nil
	case !i.ret.set:
		return i.failure(abi.NewError(abi.CodeGuestNoResult, "the tool returned without a result: it never called %s", abi.FuncRet)), nil
	}
	return i.result(), nil
}

func (i *instance) failure(e *abi.Error) *abi.Result { return abi.Failure(e) }

// crash says why the guest did not return. What it wrote to standard error goes
// into the details, never to the model.
func (i *instance) crash(err error) *abi.Error {
	var exit *wasi.ExitError
	text := err.Error()
	var e *abi.Error
	switch {
	case errors.As(err, &exit):
		e = abi.NewError(abi.CodeGuestExit, "the tool ended its process with exit code %d instead of returning a result", exit.Code)
	case i.memory != nil && i.memory.refused:
		e = abi.NewError(abi.CodeGuestOOM, "the tool ran out of memory: its limit is %d MiB; give more with --memory-limit", i.plugin.e.opt.MemoryLimit>>20)
	case strings.Contains(text, "stack overflow"): // the runtime has no exported error for it
		e = abi.NewError(abi.CodeGuestStack, "the tool's calls nested too deeply")
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
