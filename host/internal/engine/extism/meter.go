package extism

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/wasm"
)

// slice is how much fuel a guest gets at a time: some half a millisecond.
const slice = 1_000_000

// checkEvery is how many host functions go by between two looks at the clock: they
// cost little fuel and take long.
const checkEvery = 64

// errStopped unwinds a guest that must stop.
var errStopped = errors.New("the guest is stopped")

// meter are the counters of an instance.
type meter struct {
	fuel, depth api.MutableGlobal
	calls       int
	// deep says that calls nested too deeply.
	deep bool
}

// first is the listener that finds the instance when its first export is called.
// Then it also runs the start function, which was taken out of the module.
type first struct {
	module *wasm.Module
	kind   kind
}

// listensAt are the exports that the SDK calls.
func (k kind) listensAt() []string {
	return []string{k.describe, k.call, abi.ExportInitialize, "__wasm_call_ctors", "hs_init"}
}

// NewFunctionListener listens at the functions that the SDK calls.
func (f first) NewFunctionListener(def api.FunctionDefinition) experimental.FunctionListener {
	called := f.kind.listensAt()
	if slices.ContainsFunc(def.ExportNames(), func(n string) bool { return slices.Contains(called, n) }) {
		return experimental.FunctionListenerFunc(f.begin)
	}
	return nil
}

func (f first) begin(ctx context.Context, mod api.Module, _ api.FunctionDefinition, _ []uint64, _ experimental.StackIterator) {
	r, ok := ctx.Value(runKey{}).(*run)
	if !ok || r.meter.fuel != nil {
		return
	}
	r.meter.fuel, _ = mod.ExportedGlobal(f.module.FuelGlobal).(api.MutableGlobal)
	r.meter.depth, _ = mod.ExportedGlobal(f.module.DepthGlobal).(api.MutableGlobal)
	if f.module.HasStart {
		if _, err := mod.ExportedFunction(wasm.StartExport).Call(ctx); err != nil {
			panic(err)
		}
	}
}

// refill gives the guest another slice, or stops it.
func (r *run) refill([]uint64) {
	m := &r.meter
	if m.fuel == nil || m.depth == nil {
		panic(errStopped) // the instance is not one that can be stopped
	}
	if int64(m.depth.Get()) < 0 {
		m.deep = true
		panic(errStopped)
	}
	r.check()
	m.fuel.Set(m.fuel.Get() + slice) // added, not set: what a long operation overdrew stays owed
}

// tick is called at the start of host functions.
func (r *run) tick() {
	if r.meter.calls++; r.meter.calls%checkEvery == 0 {
		r.check()
	}
}

// check unwinds the guest if it must stop. The timer of a deadline may not have
// run yet where guests keep all processors busy, so it gets its chance.
func (r *run) check() {
	if t, ok := r.ctx.Deadline(); ok && r.stop.Err() == nil && !time.Now().Before(t) {
		runtime.Gosched()
	}
	if r.stop.Err() != nil {
		panic(errStopped)
	}
}
