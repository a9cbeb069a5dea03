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
	for _, k := range kernels {
		plain, changed, _ := pair(b, read(b, k.module), wasm.Options{}, &meter{slice: 2_000_000, budget: -1})
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

// BenchmarkGoGuest shows the cost of reading and rewriting a Go guest.
func BenchmarkGoGuest(b *testing.B) {
	module := buildGuest(b)
	b.Run("scan", func(b *testing.B) {
		b.SetBytes(int64(len(module)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := wasm.Scan(module, wasm.Limits{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("rewrite", func(b *testing.B) {
		b.SetBytes(int64(len(module)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := wasm.Rewrite(module, wasm.Options{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("verify", func(b *testing.B) {
		m, err := wasm.Rewrite(module, wasm.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(m.Bytes)))
		for b.Loop() {
			if err := wasm.Verify(m.Bytes, wasm.Options{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkGoWork compares a Go guest with its rewritten form.
func BenchmarkGoWork(b *testing.B) {
	ctx := context.Background()
	module := buildGuest(b)
	sides := map[string]api.Module{
		"plain":     startGuest(b, module, nil),
		"rewritten": startGuest(b, module, &meter{slice: 2_000_000, budget: -1}),
	}
	for _, k := range guestWork {
		for name, m := range sides {
			b.Run(k.name+"/"+name, func(b *testing.B) {
				f := m.ExportedFunction(k.name)
				for b.Loop() {
					if _, err := f.Call(ctx, k.bench); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
