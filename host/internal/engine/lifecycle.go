package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/engine/wasi"
	"github.com/bladehost/bladehost/host/internal/wasm"
	"github.com/bladehost/bladehost/host/tool"
)

// instantiate makes an instance in the state of an image. No guest code runs.
func (p *pool) instantiate(ctx context.Context, from *image) (*instance, error) {
	mem, err := from.store.memory(p.plugin.memoryLimit(p.c))
	if err != nil {
		return nil, abi.NewError(abi.CodeInstantiation, "there is no memory for another instance: %v", err)
	}
	i, err := p.plugin.newInstance(ctx, p.c, p.world, mem)
	if err != nil {
		return nil, err
	}
	if from.after {
		i.home = from.globals
		i.setGlobals()
		i.wasi.SetTable(from.table)
		i.wasi.SetMonotonicFloor(from.clock)
	} else {
		i.home = i.readGlobals()
	}
	return i, nil
}

// memoryLimit is the most that the module's memory can become.
func (p *Plugin) memoryLimit(c *compiled) uint64 {
	limit := uint64(p.e.opt.MemoryLimit)
	if m := c.module.Info.Memory; m != nil && m.HasMax {
		limit = min(limit, uint64(m.Max)*pageSize)
	}
	return limit
}

// newInstance makes an instance with this memory.
func (p *Plugin) newInstance(ctx context.Context, c *compiled, w *World, mem memory) (_ *instance, err error) {
	i := &instance{
		plugin: p, memory: mem,
		out: &capped{log: p.e.log, stream: "stdout"},
		err: &capped{log: p.e.log, stream: "stderr"},
	}
	i.guestContext.i = i
	cfg := wasi.Config{Env: w.env(), Stdout: i.out, Stderr: i.err, FineClock: w.FineClock, Sleep: i.sleep, Blocking: i.pause, OnEffect: i.effect}
	for _, g := range w.Mounts {
		v := g.View(w.Limits)
		i.views = append(i.views, v)
		cfg.Mounts = append(cfg.Mounts, wasi.Mount{Guest: g.GuestPath(), View: v})
	}
	if change := p.e.opt.world; change != nil {
		change(&cfg)
	}
	i.wasi = wasi.NewState(cfg)
	defer func() {
		if v := recover(); v != nil {
			err = abi.NewError(abi.CodeInstantiation, "the module could not be started: %v", v)
		}
		if err != nil {
			i.drop()
		}
	}()
	mc := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	ctx = experimental.WithMemoryAllocator(context.WithoutCancel(ctx), allocator{mem})
	if i.mod, err = c.rt.InstantiateModule(ctx, c.code, mc); err != nil {
		return nil, abi.NewError(abi.CodeInstantiation, "the module could not be started: %s", firstLine(err.Error()))
	}
	if i.mem = i.mod.ExportedMemory(abi.ExportMemory); i.mem == nil {
		return nil, abi.NewError(abi.CodeInstantiation, "the module has no memory")
	}
	i.execute = i.mod.ExportedFunction(abi.ExportExecute)
	i.fuel, i.depth = i.global(c.module.FuelGlobal), i.global(c.module.DepthGlobal)
	for _, g := range c.module.Globals {
		i.globals = append(i.globals, i.global(g.Name))
	}
	return i, nil
}

func (i *instance) global(name string) api.MutableGlobal {
	g, ok := i.mod.ExportedGlobal(name).(api.MutableGlobal)
	if !ok {
		panic(fmt.Sprintf("the rewritten module does not export the global %s", name))
	}
	return g
}

func (i *instance) setGlobals() {
	for k, g := range i.globals {
		g.Set(i.home[k])
	}
}

func (i *instance) readGlobals() []uint64 {
	values := make([]uint64, len(i.globals))
	for k, g := range i.globals {
		values[k] = g.Get()
	}
	return values
}

// initialize runs the start function and _initialize. It keeps the functions:
// at the level strict they run before each call.
func (i *instance) initialize() error {
	if !i.initsKnown {
		i.initsKnown = true
		for _, name := range []string{wasm.StartExport, abi.ExportInitialize} {
			if f := i.mod.ExportedFunction(name); f != nil {
				i.inits = append(i.inits, namedFunction{strings.TrimPrefix(name, wasm.ReservedPrefix), f})
			}
		}
	}
	for _, n := range i.inits {
		if err := i.phaseCall(phaseInit, n.name, n.f); err != nil {
			return err
		}
	}
	return nil
}

// phaseCall runs a function of a phase before the first call. Its error is an
// *abi.Error, or the cause of the context's end.
func (i *instance) phaseCall(p phase, name string, f api.Function) error {
	i.enter(p)
	i.until = time.Now().Add(i.plugin.e.opt.initTime)
	err := f.CallWithStack(&i.guestContext, nil)
	switch {
	case err == nil:
		return nil
	case i.violation != nil && i.violation.Code == abi.CodeGuestPhase:
		return i.violation
	case i.stopped == stopClosed:
		return &tool.CancelError{Reason: abi.CancelShutdown}
	case i.stopped == stopCall:
		return i.cause()
	case i.stopped == stopInit:
		return abi.NewError(abi.CodeInit, "%s took longer than %v", name, i.plugin.e.opt.initTime)
	}
	why := i.violation
	if why == nil {
		why = i.crash(err)
	}
	e := abi.NewError(abi.CodeInit, "the module failed in %s: %s", name, why.Message)
	e.Details = why.Details
	return e
}

// snapshot runs a module up to the moment where calls begin and keeps that state.
func (p *Plugin) snapshot(ctx context.Context, c *compiled, w *World, at *place) (*image, error) {
	i, err := p.alone(ctx, c, w)
	if err != nil {
		return nil, err
	}
	defer i.drop()
	i.hold(ctx, at)
	if err := i.initialize(); err != nil {
		return nil, err
	}
	if f := i.mod.ExportedFunction(abi.ExportWarm); f != nil {
		if err := i.phaseCall(phaseWarm, abi.ExportWarm, f); err != nil {
			return nil, err
		}
	}
	img := &image{after: true, clock: i.wasi.Monotonic(), globals: i.readGlobals(), table: i.wasi.Table()}
	b, ok := i.mem.Read(0, i.mem.Size())
	if !ok {
		return nil, abi.NewError(abi.CodeInit, "the memory cannot be read")
	}
	if img.store, err = p.e.reset.store(b); err != nil {
		return nil, noMemory(err)
	}
	return img, nil
}

// alone makes an instance before anything ran in it that is used once: the image is
// written into its memory.
func (p *Plugin) alone(ctx context.Context, c *compiled, w *World) (*instance, error) {
	store, err := p.e.reset.store(nil)
	if err != nil {
		return nil, noMemory(err)
	}
	defer store.close()
	mem, err := store.memory(p.memoryLimit(c))
	if err != nil {
		return nil, noMemory(err)
	}
	n := c.size()
	mem.bounds().least = uint64(n)
	if content := mem.Reallocate(uint64(n)); len(content) != n {
		err = noMemory(fmt.Errorf("it needs %d bytes", n))
	} else {
		err = c.writeImage(content)
	}
	if err != nil {
		mem.Free()
		return nil, err
	}
	return p.newInstance(ctx, c, w, mem)
}

func noMemory(err error) *abi.Error {
	return abi.NewError(abi.CodeInstantiation, "there is no memory for the module: %v", err)
}

// size is how many bytes the memory has at the start.
func (c *compiled) size() int {
	if m := c.module.Info.Memory; m != nil {
		return int(m.Min) * pageSize
	}
	return 0
}

func (c *compiled) writeImage(content []byte) error {
	if err := c.module.WriteImage(content); err != nil {
		return abi.NewError(abi.CodeModuleMalformed, "%v", err)
	}
	return nil
}

// makeBase makes the image before anything ran.
func (c *compiled) makeBase(r *resetter) (*image, error) {
	content := make([]byte, c.size())
	if err := c.writeImage(content); err != nil {
		return nil, err
	}
	store, err := r.store(content)
	if err != nil {
		return nil, noMemory(err)
	}
	c.made = &image{store: store}
	return c.made, nil
}

// reset puts an instance back to its image. If it cannot, the instance must be
// dropped.
func (i *instance) reset() bool {
	i.wasi.Reset()
	for _, v := range i.views {
		v.Renew()
	}
	used := uint64(i.mem.Size())
	if i.memory.reset(used) != nil {
		return false
	}
	if b := i.memory.bounds(); used > b.least && !i.shrink(b) {
		return false
	}
	i.setGlobals()
	i.cold = false
	return true
}

// shrink gives the memory the image's length again: it grows by a page and is
// answered with the short slice. A memory at its module's own maximum cannot.
func (i *instance) shrink(b *bounds) bool {
	b.cut = true
	_, ok := i.mem.Grow(1)
	b.cut = false
	return ok && uint64(i.mem.Size()) == b.least
}

// drop ends an instance.
func (i *instance) drop() {
	i.wasi.Close()
	if i.mod != nil {
		_ = i.mod.Close(context.Background()) // it only frees memory
	}
	i.memory.Free()
}

// effect notes a change to a lent folder.
func (i *instance) effect(op, path string) {
	if i.call != nil {
		i.call.Note(tool.HostEffect{Op: op, Target: path})
	}
}
