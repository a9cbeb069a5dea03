package wasmtest

import (
	"context"
	"testing"

	"github.com/tetratelabs/wazero/api"

	"github.com/bladehost/bladehost/host/internal/wasm"
)

// BenchmarkKernels compares tight loops and calls with their rewritten form.
func BenchmarkKernels(b *testing.B) {
	ctx := context.Background()
	plain, changed, _ := pair(b, read(b, "kernels.wasm"), wasm.Options{}, &meter{slice: 2_000_000, budget: -1})
	for _, k := range kernels {
		for name, m := range map[string]api.Module{"plain": plain, "rewritten": changed} {
			b.Run(k.name+"/"+name, func(b *testing.B) {
				f := m.ExportedFunction(k.name)
				stack := make([]uint64, 2)
				for b.Loop() {
					stack[0] = k.bench
					if err := f.CallWithStack(ctx, stack); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
