package wasmtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/bladehost/bladehost/host/internal/wasm"
)

func read(tb testing.TB, name string) []byte {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// TestBinariesAreCurrent: each .wat gives the .wasm beside it.
func TestBinariesAreCurrent(t *testing.T) {
	tool, err := exec.LookPath("wat2wasm")
	if err != nil {
		t.Skip("wat2wasm is not here")
	}
	sources, _ := filepath.Glob(filepath.Join("testdata", "*.wat"))
	for _, src := range sources {
		out := filepath.Join(t.TempDir(), "out.wasm")
		if msg, err := exec.Command(tool, src, "-o", out).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", src, err, msg)
		}
		got, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		if name := filepath.Base(src[:len(src)-4] + ".wasm"); !bytes.Equal(got, read(t, name)) {
			t.Errorf("%s is not what %s gives", name, src)
		}
	}
}

// pair starts a module as it is and rewritten.
func pair(tb testing.TB, b []byte, opt wasm.Options, r *meter) (plain, changed api.Module, m *wasm.Module) {
	tb.Helper()
	ctx := context.Background()
	plain, err := newRuntime(tb, nil).InstantiateWithConfig(ctx, b, wazero.NewModuleConfig().WithStartFunctions())
	if err != nil {
		tb.Fatal(err)
	}
	if m, err = rewrite(b, opt); err != nil {
		tb.Fatal(err)
	}
	if changed, err = instantiate(ctx, newRuntime(tb, r), m, ""); err != nil {
		tb.Fatal(err)
	}
	return plain, changed, m
}

type kernel struct {
	module   string
	name     string
	n, bench uint64 // sizes for comparing and for benchmarks
}

var kernels = []kernel{
	{"kernels.wasm", "count", 1000, 3_000_000},
	{"kernels.wasm", "empty", 1000, 3_000_000},
	{"kernels.wasm", "memsum", 3, 100},
	{"kernels.wasm", "fib", 20, 27},
	{"kernels.wasm", "even", 501, 3000},
	{"kernels.wasm", "carry", 100, 500_000},
	{"kernels.wasm", "pairs", 300, 3000},
	{"kernels.wasm", "indirect", 12, 2000},
	{"kernels.wasm", "random", 500, 1_000_000},
	{"kernels.wasm", "bulk", 5, 300},
	{"kernels_c.wasm", "crc32", 3, 30},
	{"kernels_c.wasm", "sieve", 3, 30},
	{"kernels_c.wasm", "qsort", 3, 5},
	{"kernels_c.wasm", "matmul", 3, 20},
	{"kernels_c.wasm", "dispatch", 1000, 500_000},
}

func TestKernelsBehaveTheSame(t *testing.T) {
	for _, module := range []string{"kernels.wasm", "kernels_c.wasm"} {
		for _, slice := range []int64{1, 1000, 1 << 40} {
			t.Run(fmt.Sprint(module, "/", slice), func(t *testing.T) { compareKernels(t, module, slice) })
		}
	}
}

func compareKernels(t *testing.T, module string, slice int64) {
	ctx := context.Background()
	plain, changed, m := pair(t, read(t, module), wasm.Options{Depth: 5000}, &meter{slice: slice, budget: -1})
	for _, k := range kernels {
		if k.module != module {
			continue
		}
		for _, n := range []uint64{1, 2, k.n} {
			want, err := plain.ExportedFunction(k.name).Call(ctx, n)
			if err != nil {
				t.Fatal(err)
			}
			got, err := changed.ExportedFunction(k.name).Call(ctx, n)
			if err != nil || got[0] != want[0] {
				t.Errorf("%s(%d): got %v, %v, want %v", k.name, n, got, err, want)
			}
			if left := int64(changed.ExportedGlobal(m.DepthGlobal).Get()); left != m.DepthLimit {
				t.Errorf("%s(%d) leaves a depth of %d of %d", k.name, n, left, m.DepthLimit)
			}
		}
	}
	x, _ := plain.Memory().Read(0, plain.Memory().Size())
	y, _ := changed.Memory().Read(0, changed.Memory().Size())
	if !bytes.Equal(x, y) {
		t.Error("the memories differ")
	}
}
