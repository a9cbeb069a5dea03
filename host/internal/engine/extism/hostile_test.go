package extism

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/wasm"
	"github.com/bladehost/bladehost/host/tool"
)

// What a guest can try, by hand. A code of "-" means that the call is
// stopped at its deadline.
func TestHostile(t *testing.T) {
	var logged bytes.Buffer
	b := load(t, Options{MemoryLimit: 32 << 20, Log: slog.New(slog.NewTextHandler(&logged, nil))}, file(t, "hostile.wasm"), "", "")
	for _, c := range []struct{ tool, code, what string }{
		{"A", "-", "a tree of calls"},
		{"B", string(abi.CodeGuestStack), "endless recursion"},
		{"C", string(abi.CodeGuestPointer), "broken blocks and a yield"},
		{"D", string(abi.CodeGuestPointer), "broken blocks and a log line"},
		{"E", string(abi.CodeGuestPointer), "broken blocks and a variable"},
		{"F", string(abi.CodeResultNotJSON), "an output that is nowhere"},
		{"G", "ok", "a table without an end"},
		{"H", string(abi.CodeGuestPointer), "an offset that is too large"},
		{"I", "-", "blocks without an end"},
		{"J", "plain", "a code without an error text"},
		{"K", "-", "logs without an end"},
		{"L", string(abi.CodeGuestOOM), "memory without an end"},
		{"M", string(abi.CodeGuestPointer), "memory of the kernel that is not there"},
		{"N", string(abi.CodeResultTooBig), "an output over the limit"},
	} {
		t.Run(c.what, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if c.code != "-" {
				ctx = t.Context()
			}
			from := time.Now()
			r, err := b.run(ctx, tool.Config{Name: c.tool, Input: json.RawMessage(`{}`)})
			took := time.Since(from)
			switch {
			case took > 10*time.Second:
				t.Errorf("it took %v", took)
			case c.code == "-":
				if !errors.Is(err, tool.ErrPreempted) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%+v %v", r, err)
				}
			case err != nil:
				t.Error(err)
			case c.code == "ok":
				if r.IsError() {
					t.Errorf("%+v", r.Error)
				}
			case c.code == "plain":
				if r.Error == nil || r.Error.Code != "" || !strings.Contains(r.Error.Message, "code 5") {
					t.Errorf("%+v", r.Error)
				}
			default:
				wantCode(t, r, abi.Code(c.code))
			}
		})
	}
	if logged.Len() > 4*abi.MaxLog*20 { // a line of 4 bytes has some 70 around it
		t.Errorf("%d bytes were logged", logged.Len())
	}
}

// Nothing of a call is left.
func TestNoGrowth(t *testing.T) {
	b := load(t, Options{}, file(t, "mcp1.wasm"), "blade-tool-time", "1.0.0")
	measure := func() (int, uint64) {
		for range 300 {
			if r := b.do(t, "time", `{}`); r.IsError() {
				t.Fatalf("%+v", r.Error)
			}
		}
		runtime.GC() // what has a finalizer needs two
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), m.HeapAlloc
	}
	// Other things come and go too; what grows in every round is a leak.
	g, h := measure()
	for range 5 {
		goroutines, heap := measure()
		if goroutines <= g && heap < h+256<<10 {
			return
		}
		g, h = goroutines, heap
	}
	t.Errorf("still growing: %d goroutines, %d bytes", g, h)
}

func TestPhases(t *testing.T) {
	e := New(Options{})
	defer func() { _ = e.Close(t.Context()) }()
	p, err := e.LoadUnsigned(file(t, "phase.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Describe(t.Context(), "", ""); abi.CodeOf(err) != abi.CodeGuestPhase {
		t.Error(err)
	}
	if _, err := p.Describe(t.Context(), "blade-tool-x", "1.0.0"); abi.CodeOf(err) != abi.CodeOptions {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Describe(ended, "", ""); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// What is refused before anything of the module runs.
func TestRefused(t *testing.T) {
	e := New(Options{MemoryLimit: 64 << 20})
	defer func() { _ = e.Close(t.Context()) }()
	own := file(t, "hostile.wasm")
	signed := func(manifest string) []byte {
		b, err := wasm.SetCustom(own, abi.ManifestSection, []byte(manifest))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	const env = "extism:host/env"
	for _, c := range []struct {
		what   string
		module []byte
		code   abi.Code
		says   string
	}{
		{"no manifest", own, abi.CodeManifestMissing, "bladehost build FILE.wasm -o"},
		{"no manifest, MCP", file(t, "mcp1.wasm"), abi.CodeManifestMissing, "--name blade-tool-x --version"},
		{"files", signed(`{"abi":1,"name":"blade-tool-hostile","version":"1.0.0","description":"d","tools":[{"name":"A","description":"d","parameters":{"type":"object"}}],"capabilities":{"fs":{"read":true,"why":"w"}}}`), abi.CodeManifest, "no files"},
		{"no Wasm", []byte("x"), abi.CodeNotWasm, ""},
		{"exports", module(imports{{env, "alloc", "I", "I"}}, 1, "other", ""), abi.CodeExportMissing, "list_tools"},
		{"half a pair", module(imports{{env, "alloc", "I", "I"}}, 1, "describe", "call_tool"), abi.CodeExportMissing, "list_tools"},
		{"unknown imports", module(imports{{env, "alloc", "I", "I"}, {env, "nope", "", ""}, {userModule, "create_message", "I", "I"}, {"env", "abort", "", ""}}, 1, "describe", "call"), abi.CodeImportUnknown, "env.abort (func), extism:host/env.nope (func), extism:host/user.create_message (func)"},
		{"types", module(imports{{env, "alloc", "i", "I"}, {userModule, "blade_yield", "I", ""}}, 1, "describe", "call"), abi.CodeImportType, "blade_yield"},
		{"odd notification", module(imports{{env, "alloc", "I", "I"}, {userModule, "notify_x", "IIIIIIIII", ""}}, 1, "describe", "call"), abi.CodeImportUnknown, "notify_x"},
		{"memory", module(imports{{env, "alloc", "I", "I"}}, 2000, "describe", "call"), abi.CodeManifestMissing, ""},
	} {
		_, err := e.Load(c.module)
		if abi.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %s %v", c.what, abi.CodeOf(err), err)
		}
	}
	if _, err := e.LoadUnsigned(module(imports{{env, "alloc", "I", "I"}}, 2000, "describe", "call")); abi.CodeOf(err) != abi.CodeModuleLimit {
		t.Error(err)
	}
}
