package wasmtest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/bladehost/bladehost/host/internal/wasm"
)

// buildGuest compiles testdata/goguest.
func buildGuest(tb testing.TB) []byte {
	tb.Helper()
	out := filepath.Join(tb.TempDir(), "guest.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-ldflags=-s -w", "-o", out, "./testdata/goguest")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if msg, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("%v\n%s", err, msg)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// startGuest starts the Go guest as it is when r is nil, else rewritten.
func startGuest(tb testing.TB, b []byte, r *meter) api.Module {
	tb.Helper()
	ctx := context.Background()
	rt := newRuntime(tb, r)
	wasi_snapshot_preview1.MustInstantiate(ctx, rt)
	var inst api.Module
	var err error
	if r == nil {
		inst, err = rt.InstantiateWithConfig(ctx, b, wazero.NewModuleConfig().WithStartFunctions())
	} else {
		var m *wasm.Module
		if m, err = rewrite(b, wasm.Options{}); err != nil {
			tb.Fatal(err)
		}
		inst, err = instantiate(ctx, rt, m, "")
	}
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := inst.ExportedFunction("_initialize").Call(ctx); err != nil {
		tb.Fatal(err)
	}
	return inst
}

var guestWork = []struct {
	name     string
	n, bench uint64
}{
	{"json", 3, 40},
	{"sort", 1000, 20_000},
	{"sha256", 3, 100},
	{"split", 3, 200},
	{"deep", 1000, 1000},
}

func TestGoGuest(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("compiles a Go program twice; nothing in it runs at once")
	}
	ctx := context.Background()
	b := buildGuest(t)
	r := &meter{slice: 500, budget: -1}
	changed := startGuest(t, b, r)
	t.Run("behaves the same", func(t *testing.T) {
		plain := startGuest(t, b, nil)
		for _, k := range guestWork {
			want, err := plain.ExportedFunction(k.name).Call(ctx, k.n)
			if err != nil {
				t.Fatal(err)
			}
			got, err := changed.ExportedFunction(k.name).Call(ctx, k.n)
			if err != nil || got[0] != want[0] {
				t.Errorf("%s: got %v, %v, want %v", k.name, got, err, want)
			}
		}
	})
	t.Run("stops", func(t *testing.T) {
		r.slice, r.budget = 1_000_000, r.given+50_000_000
		if _, err := changed.ExportedFunction("forever").Call(ctx, 1); !errors.Is(err, errFuel) {
			t.Errorf("got %v", firstLine(err))
		}
	})
}
