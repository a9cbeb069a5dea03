package engine

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/engine/wasi"
	"github.com/bladehost/bladehost/host/tool"
)

// fresh gives every call an instance of its own and stops it by closing it. It
// is the simplest way that keeps calls apart.
type fresh struct {
	plugin *Plugin
	world  *World
}

func (f *fresh) warm(ctx context.Context) error {
	_, err := f.plugin.Compile(ctx)
	return err
}

func (f *fresh) close() {}

// start makes an instance and runs its initialisation.
func (f *fresh) start(ctx context.Context) (*instance, error) {
	c, err := f.plugin.compile(ctx)
	if err != nil {
		return nil, err
	}
	i := &instance{
		plugin: f.plugin,
		out:    &capped{log: f.plugin.e.log, stream: "stdout"},
		err:    &capped{log: f.plugin.e.log, stream: "stderr"},
		memory: &memory{limit: uint64(f.plugin.e.opt.MemoryLimit)},
	}
	i.out.reset(abi.MaxOutput)
	i.err.reset(abi.MaxOutput)
	cfg := wasi.Config{Env: f.world.env(), Stdout: i.out, Stderr: i.err, FineClock: f.world.FineClock, Sleep: i.sleep, Blocking: i.pause, OnEffect: i.effect}
	for _, g := range f.world.Mounts {
		cfg.Mounts = append(cfg.Mounts, wasi.Mount{Guest: g.GuestPath(), View: g.View(f.world.Limits)})
	}
	i.wasi = wasi.NewState(cfg)
	i.enter(phaseInit)
	ctx, cancel := context.WithTimeoutCause(ctx, abi.InitTime, errInitTime)
	defer cancel()
	ctx = withInstance(ctx, i)
	mc := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	i.mod, err = c.rt.InstantiateModule(experimental.WithMemoryAllocator(ctx, i.memory), c.code, mc)
	if err != nil {
		i.wasi.Close()
		return nil, i.initError(ctx, err)
	}
	i.mem = i.mod.Memory()
	if init := i.mod.ExportedFunction(abi.ExportInitialize); init != nil {
		if _, err := init.Call(ctx); err != nil {
			err = i.initError(ctx, err)
			f.discard(i)
			return nil, err
		}
	}
	return i, nil
}

var errInitTime = errors.New("initialisation took longer than 10 s")

func (i *instance) initError(ctx context.Context, err error) *abi.Error {
	switch {
	case i.violation != nil:
		return i.violation
	case errors.Is(context.Cause(ctx), errInitTime):
		return abi.NewError(abi.CodeInstantiation, "the module could not be started: %v", errInitTime)
	}
	crash := i.crash(err)
	if crash.Code == abi.CodeGuestTrap {
		e := abi.NewError(abi.CodeInstantiation, "the module could not be started: %s", trapText(err.Error()))
		e.Details = crash.Details
		return e
	}
	return crash
}

func (f *fresh) discard(i *instance) {
	i.wasi.Close()
	_ = i.mod.Close(context.Background()) // closing a module cannot fail in a way that matters
}

func (f *fresh) describe(ctx context.Context) (json.RawMessage, error) {
	i, err := f.start(ctx)
	if err != nil {
		return nil, err
	}
	defer f.discard(i)
	i.enter(phaseDescribe)
	ctx, cancel := context.WithTimeoutCause(ctx, abi.InitTime, errInitTime)
	defer cancel()
	if _, err := i.mod.ExportedFunction(abi.ExportDescribe).Call(withInstance(ctx, i)); err != nil {
		return nil, i.initError(ctx, err)
	}
	return i.describeAnswer()
}

func (f *fresh) run(ctx context.Context, index int, call *tool.Call, at *place) (*abi.Result, error) {
	i, err := f.start(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return abi.Failure(abi.AsError(err)), nil
	}
	defer f.discard(i)
	i.begin(ctx, call, &f.plugin.mod.Manifest.Tools[index], at)
	s := newStopper(ctx, i)
	_, err = i.mod.ExportedFunction(abi.ExportExecute).Call(withInstance(s.ctx, i), uint64(index), uint64(len(call.Input)))
	ended := s.stop()
	res, err := i.outcome(err, ended)
	i.end()
	return res, err
}

// notice is how long a guest that asks for cancellation has to ask again, and
// cleanup how long it may run once it knows. A guest that never asked is stopped
// at once.
const (
	notice  = 50 * time.Millisecond
	cleanup = abi.CleanupTime - time.Second
)

// stopper ends a guest after its call's context ended, in two steps: the guest
// is told, then the context of its machine code is cancelled.
type stopper struct {
	ctx    context.Context
	cancel context.CancelFunc
	unhook func() bool
	gone   chan struct{}
	after  *time.Timer
}

func newStopper(ctx context.Context, i *instance) *stopper {
	s := &stopper{gone: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	// The ladder's goroutine ends when the guest is gone, at stop.
	s.unhook = context.AfterFunc(ctx, func() { s.ladder(i) })
	i.onRet = func() { s.after = time.AfterFunc(abi.AfterRet, s.cancel) }
	return s
}

func (s *stopper) ladder(i *instance) {
	if i.polled.Load() && !s.leaves(notice) && i.noticed.Load() {
		s.leaves(cleanup - notice)
	}
	s.cancel()
}

// leaves waits for the guest to return, d at most, and reports whether it did.
func (s *stopper) leaves(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-s.gone:
		return true
	case <-t.C:
		return false
	}
}

// stop ends the watch and reports whether the guest was stopped by it.
func (s *stopper) stop() (ended bool) {
	ended = s.ctx.Err() != nil
	close(s.gone)
	s.unhook()
	if s.after != nil {
		s.after.Stop()
	}
	s.cancel()
	return ended
}

// effect notes a change to a lent folder.
func (i *instance) effect(op, path string) {
	if i.call != nil {
		i.call.Note(tool.HostEffect{Op: op, Target: path})
	}
}
