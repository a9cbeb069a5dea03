package wasmtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/bladehost/bladehost/host/internal/wasm"
)

var (
	errDepth = errors.New("call depth exhausted")
	errFuel  = errors.New("fuel exhausted")
)

// meter is the host's side of the counters.
type meter struct {
	slice  int64
	budget int64 // fuel that may be given out; negative means without end
	given  int64
	calls  int
}

func (r *meter) refill(ctx context.Context, m api.Module, _ []uint64) {
	r.calls++
	if int64(m.ExportedGlobal(wasm.DepthExport).Get()) < 0 {
		panic(errDepth)
	}
	if deadline, ok := ctx.Deadline(); ok && time.Now().After(deadline) {
		panic(context.DeadlineExceeded)
	}
	if r.budget >= 0 && r.given >= r.budget {
		panic(errFuel)
	}
	r.given += r.slice
	fuel := m.ExportedGlobal(wasm.FuelExport).(api.MutableGlobal)
	fuel.Set(uint64(int64(fuel.Get()) + r.slice))
}

// newRuntime makes a runtime that has the refill function.
func newRuntime(tb testing.TB, r *meter) wazero.Runtime {
	tb.Helper()
	ctx := context.Background()
	config := wazero.NewRuntimeConfig().WithCoreFeatures(api.CoreFeaturesV2).WithDebugInfoEnabled(false)
	rt := wazero.NewRuntimeWithConfig(ctx, config)
	tb.Cleanup(func() { _ = rt.Close(ctx) })
	if r != nil {
		_, err := rt.NewHostModuleBuilder(wasm.MeterModule).NewFunctionBuilder().
			WithGoModuleFunction(api.GoModuleFunc(r.refill), nil, nil).Export(wasm.RefillName).Instantiate(ctx)
		if err != nil {
			tb.Fatal(err)
		}
	}
	return rt
}

// instantiate starts a rewritten module the way a host does.
func instantiate(ctx context.Context, rt wazero.Runtime, m *wasm.Module, name string) (api.Module, error) {
	inst, err := rt.InstantiateWithConfig(ctx, m.Bytes, wazero.NewModuleConfig().WithName(name).WithStartFunctions())
	if err != nil {
		return nil, err
	}
	for _, s := range m.Image {
		if !inst.Memory().Write(s.Offset, s.Bytes) {
			return nil, errors.New("the image does not fit the memory")
		}
	}
	if m.HasStart {
		if _, err := inst.ExportedFunction(wasm.StartExport).Call(ctx); err != nil {
			return nil, err
		}
	}
	return inst, nil
}

// rewrite rewrites and verifies.
func rewrite(b []byte, opt wasm.Options) (*wasm.Module, error) {
	m, err := wasm.Rewrite(b, opt)
	if err != nil {
		return nil, err
	}
	if err := wasm.Verify(m.Bytes, opt); err != nil {
		return nil, fmt.Errorf("defect: %w", err)
	}
	return m, nil
}

// firstLine is an error without the stack of the guest.
func firstLine(err error) string {
	if err == nil {
		return ""
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
