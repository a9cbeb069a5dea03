package wasmtest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/bladehost/bladehost/host/internal/wasm"
)

// endless are the exports of endless.wat and how each is stopped: by fuel, or
// by the depth of its calls.
var endless = map[string]error{
	"loop": errFuel, "nested": errFuel, "conditional": errFuel, "table_loop": errFuel, "values_loop": errFuel,
	"tree": errFuel, "self_tree": errFuel, "ladder": errFuel, "leaves": errFuel, "fill": errFuel, "grow": errFuel, "grow_table": errFuel,
	"down": errDepth, "ping": errDepth, "indirect": errDepth, "wide": errDepth,
}

func TestEverythingStops(t *testing.T) {
	ctx := context.Background()
	b := read(t, "endless.wasm")
	m, err := rewrite(b, wasm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range m.Info.Exports {
		if e.Kind != wasm.Func {
			continue
		}
		want, ok := endless[e.Name]
		if !ok {
			t.Errorf("no expectation for %s", e.Name)
		}
		t.Run(e.Name, func(t *testing.T) {
			r := &meter{slice: 1_000_000, budget: 20_000_000}
			inst, err := instantiate(ctx, newRuntime(t, r), m, "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := inst.ExportedFunction(e.Name).Call(ctx); !errors.Is(err, want) {
				t.Errorf("got %v after %d refills, want %v", firstLine(err), r.calls, want)
			}
		})
	}
}

// TestDeadlineStops: with one processor no timer has to fire for a guest to be
// stopped, because refill looks at the clock itself.
func TestDeadlineStops(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	b := read(t, "endless.wasm")
	for _, name := range []string{"loop", "tree", "fill", "grow"} {
		m, err := rewrite(b, wasm.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
		inst, err := instantiate(ctx, newRuntime(t, &meter{slice: 1_000_000, budget: -1}), m, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err = inst.ExportedFunction(name).Call(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

// TestRecursionIsCheap: a runaway recursion ends long before wazero's own
// ceiling of 400 MB of stack.
func TestRecursionIsCheap(t *testing.T) {
	ctx := context.Background()
	m, err := rewrite(read(t, "endless.wasm"), wasm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"down", "indirect", "wide"} {
		inst, err := instantiate(ctx, newRuntime(t, &meter{slice: 1_000_000, budget: -1}), m, "")
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = inst.ExportedFunction(name).Call(ctx)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, errDepth) {
			t.Errorf("%s: %v", name, err)
		}
		mib := (after.TotalAlloc - before.TotalAlloc) >> 20
		t.Logf("%s: %d MiB", name, mib)
		if mib > 128 {
			t.Errorf("%s took %d MiB", name, mib)
		}
	}
}

// TestFuelIsTheSameForEverySlice: what a call costs does not depend on how
// often the host is asked.
func TestFuelIsTheSameForEverySlice(t *testing.T) {
	ctx := context.Background()
	for _, k := range kernels {
		b := read(t, k.module)
		var used []int64
		for _, slice := range []int64{7, 5000, 1 << 30} {
			r := &meter{slice: slice, budget: -1}
			_, changed, m := pair(t, b, wasm.Options{}, r)
			if _, err := changed.ExportedFunction(k.name).Call(ctx, k.n); err != nil {
				t.Fatal(err)
			}
			used = append(used, r.given-int64(changed.ExportedGlobal(m.FuelGlobal).Get()))
		}
		if len(slices.Compact(used)) != 1 {
			t.Errorf("%s(%d) costs %d", k.name, k.n, used)
		}
	}
}
