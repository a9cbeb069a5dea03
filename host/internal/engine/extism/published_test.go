package extism

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero"

	"github.com/bladehost/bladehost/host/internal/engine"
)

// Modules that others built with Extism's kits for Rust, TinyGo, Go and Haskell
// answer here as they do in Extism's own SDK. They are in the SDK's package.
func TestPublishedModules(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/extism/go-sdk").Output()
	if err != nil {
		t.Skipf("the SDK's package is not at hand: %v", err)
	}
	for _, c := range []struct{ file, export, input string }{
		{"hello.wasm", "run_test", "x"},
		{"count_vowels.wasm", "count_vowels", "Hello, world"},
		{"count_vowels.wasm", "count_vowels", strings.Repeat("aeiou", 10000)},
		{"count_vowels.wasm", "count_vowels", ""},
		{"var.wasm", "run_test", ""},
		{"alloc.wasm", "run_test", ""},
		{"fail.wasm", "run_test", ""},
		{"hello_haskell.wasm", "testing", "x"},
		{"input_offset.wasm", "input_offset_length", "hello"},
		{"log.wasm", "run_test", ""},
		{"replace.wasm", "run_test", "one two"},
		{"println.wasm", "run_test", ""},
		{"config.wasm", "run_test", ""},
	} {
		t.Run(c.file+" "+c.export, func(t *testing.T) {
			module, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "wasm", c.file))
			if err != nil {
				t.Skip(err)
			}
			code, out, fail := oracle(t, module, c.export, c.input)
			m, err := engine.Read(module)
			if err != nil {
				t.Fatal(err)
			}
			if err := checkImports(m.Info); err != nil {
				t.Fatal(err)
			}
			e := New(Options{Interpreter: true}) // compiling costs more than running
			p := &Plugin{e: e, mod: m, kind: kind{"test", c.export, c.export}, file: module, once: make(chan struct{}, 1), freed: make(chan struct{})}
			p.life, p.end = context.WithCancel(context.Background())
			defer func() {
				if err := p.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}()
			compiled, err := p.compile(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got, failed, crash, err := p.newRun(t.Context(), "test", nil).invoke(compiled, engine.NewWorld(engine.World{}), c.export, []byte(c.input))
			switch {
			case err != nil:
				t.Error(err)
			case fail == nil && code == 0:
				if failed != nil || crash != nil || string(got) != string(out) {
					t.Errorf("%q %v %v, the SDK says %q", got, failed, crash, out)
				}
			case failed == nil && crash == nil:
				t.Errorf("%q, the SDK says %d %v", got, code, fail)
			case failed != nil && fail != nil && failed.Message != fail.Error():
				t.Errorf("%v, the SDK says %v", failed, fail)
			}
		})
	}
}

// oracle is what the SDK itself answers.
func oracle(t *testing.T, module []byte, export, input string) (uint32, []byte, error) {
	t.Helper()
	p, err := sdk.NewPlugin(t.Context(), sdk.Manifest{Wasm: []sdk.Wasm{sdk.WasmData{Data: module}}},
		sdk.PluginConfig{EnableWasi: true, RuntimeConfig: wazero.NewRuntimeConfigInterpreter()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close(t.Context()) }()
	p.SetLogger(func(sdk.LogLevel, string) {})
	return p.Call(export, []byte(input))
}
