package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/guesttest"
	"github.com/bladehost/bladehost/host/tool"
)

// cGuest is a module of testdata/wasm with its manifest.
func cGuest(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "testdata", "wasm", name))
	if err != nil {
		t.Fatal(err)
	}
	return sign(t, b)
}

func benchGuests(t testing.TB) map[string][]byte {
	return map[string][]byte{"C": cGuest(t, "tool.wasm"), "Go": sign(t, guesttest.Go(t, filepath.Join("..", "..", ".."), "./testdata/bench/blade"))}
}

// benchInput is an input of about size bytes.
func benchInput(size int) json.RawMessage {
	const head = `{"name":"Ada","args":["one","two","three"],"n":42,"pad":"`
	return json.RawMessage(head + strings.Repeat("abcdefghijklmnopqrstuvwxyz     ", size/31+1)[:max(0, size-len(head)-2)] + `"}`)
}

var sizes = []struct {
	name string
	n    int
}{{"1KiB", 1 << 10}, {"64KiB", 64 << 10}, {"1MiB", 1 << 20}}

// rawGuest is the same module on the bare runtime: one instance, used again and
// again, nothing isolated and nothing that could stop it.
type rawGuest struct {
	f     api.Function
	input []byte
	out   []byte
}

func newRaw(t testing.TB, b []byte) *rawGuest {
	t.Helper()
	ctx := context.Background()
	rt := wazero.NewRuntime(ctx)
	t.Cleanup(func() { _ = rt.Close(ctx) })
	wasi_snapshot_preview1.MustInstantiate(ctx, rt)
	r := &rawGuest{}
	build := rt.NewHostModuleBuilder(abi.ImportModule)
	for name, sig := range abi.Imports() {
		build = build.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, m api.Module, s []uint64) {
			switch name {
			case abi.FuncTake:
				dst, _ := m.Memory().Read(uint32(s[1]), uint32(s[2]))
				n := copy(dst, r.input)
				r.input = r.input[n:]
				s[0] = uint64(n)
			case abi.FuncRet:
				src, _ := m.Memory().Read(uint32(s[1]), uint32(s[2]))
				r.out = bytes.Clone(src)
			default:
				s[0] = 0
			}
		}), valueTypes(sig.Params), valueTypes(sig.Results)).Export(name)
	}
	if _, err := build.Instantiate(ctx); err != nil {
		t.Fatal(err)
	}
	m, err := rt.InstantiateWithConfig(ctx, b, wazero.NewModuleConfig().WithStartFunctions(abi.ExportInitialize))
	if err != nil {
		t.Fatal(err)
	}
	r.f = m.ExportedFunction(abi.ExportExecute)
	return r
}

func (r *rawGuest) call(t testing.TB, input []byte) {
	r.input = input
	stack := [2]uint64{0, uint64(len(input))}
	if err := r.f.CallWithStack(context.Background(), stack[:]); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkCall compares a call with what it stands on.
func BenchmarkCall(b *testing.B) {
	for lang, module := range benchGuests(b) {
		for _, size := range sizes {
			input := benchInput(size.n)
			b.Run(fmt.Sprintf("%s/%s/raw", lang, size.name), func(b *testing.B) {
				r := newRaw(b, module)
				for b.Loop() {
					r.call(b, input)
				}
			})
			for _, reset := range []string{ResetCopyOnWrite, ResetMemcpy} {
				b.Run(fmt.Sprintf("%s/%s/%s", lang, size.name, reset), func(b *testing.B) {
					g := pick(b, load(b, newEngine(b, Options{Reset: reset}), module), emptyWorld(), "Greet")
					ctx, cancel := context.WithCancel(b.Context())
					defer cancel()
					benchCall(b, ctx, g, input)
					b.ReportAllocs()
					for b.Loop() {
						benchCall(b, ctx, g, input)
					}
				})
			}
		}
	}
}

func benchCall(b testing.TB, ctx context.Context, g *Guest, input json.RawMessage) {
	adm, err := g.Admit(ctx)
	if err != nil {
		b.Fatal(err)
	}
	r, err := g.Execute(ctx, tool.NewCall(tool.Config{Input: input, Admission: adm}))
	adm.Release()
	if err != nil || r.IsError() || !bytes.HasPrefix(r.Data, []byte(`{"greeting":"Hello, Ada"`)) {
		b.Fatal(r, err)
	}
}

// BenchmarkLoad is what a process pays before the first answer, with the machine
// code in the cache.
func BenchmarkLoad(b *testing.B) {
	for lang, module := range benchGuests(b) {
		b.Run(lang, func(b *testing.B) {
			dir := filepath.Join(b.TempDir(), "cache")
			input := benchInput(1 << 10)
			once := func() {
				e := newEngine(b, Options{CacheDir: dir})
				benchCall(b, b.Context(), pick(b, load(b, e, module), emptyWorld(), "Greet"), input)
				if err := e.Close(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			once()
			b.ReportAllocs()
			for b.Loop() {
				once()
			}
		})
	}
}

// BenchmarkHostFunctions is what a guest's way to the host and back costs: the
// difference of many and few of them, by call.
func BenchmarkHostFunctions(b *testing.B) {
	e := newEngine(b, Options{})
	p := load(b, e, cGuest(b, "tool.wasm"))
	for _, name := range []string{"Log", "Yield", "Call"} {
		b.Run(name, func(b *testing.B) {
			g := pick(b, p, emptyWorld(), name)
			for b.Loop() {
				r, err := g.Execute(b.Context(), tool.NewCall(benchConfig(json.RawMessage(`{"n":1000}`), nil)))
				if err != nil || r.IsError() {
					b.Fatal(r, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/host-call")
		})
	}
}
