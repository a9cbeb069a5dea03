package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/guesttest"
	"github.com/bladehost/bladehost/host/internal/wasm"
	"github.com/bladehost/bladehost/host/tool"
)

// goGuest builds a package of this module as a plugin and adds its manifest
// section.
func goGuest(t testing.TB, pkg string) []byte {
	t.Helper()
	return sign(t, guesttest.Go(t, ".", pkg))
}

// sign asks a module for its manifest and puts it into the section.
func sign(t testing.TB, b []byte) []byte {
	t.Helper()
	e := newEngine(t, Options{})
	p, err := e.LoadUnsigned(b)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := p.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err = wasm.SetCustom(b, abi.ManifestSection, raw)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// watGuest is a hand-written module with the imports of the ABI, a page of memory
// and a manifest of one tool.
func watGuest(t testing.TB, body string) []byte {
	t.Helper()
	return watModule(t, `(module
	 (import "blade_v1" "take" (func $take (param i32 i32 i32) (result i32)))
	 (import "blade_v1" "call" (func $call (param i32 i32 i32 i32) (result i64)))
	 (import "blade_v1" "yield" (func $yield (param i32 i32) (result i32)))
	 (import "blade_v1" "ret" (func $ret (param i32 i32 i32)))
	 (import "blade_v1" "log" (func $log (param i32 i32 i32)))
	 (import "blade_v1" "cancelled" (func $cancelled (result i32)))
	 (import "blade_v1" "deadline" (func $deadline (result i64)))
	 (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
	 (memory (export "memory") 1)
	 (data (i32.const 16) "null{\"kind\":\"progress\"}x-echo.echo")
	`+body+`)`)
}

// watModule is a hand-written module with the manifest of watGuest.
func watModule(t testing.TB, text string) []byte {
	t.Helper()
	return withManifest(t, assemble(t, text))
}

// withManifest gives a module the manifest of one tool, Wat.
func withManifest(t testing.TB, b []byte) []byte {
	t.Helper()
	m := abi.Manifest{ABI: 1, Name: "blade-tool-wat", Version: "1.0.0", Description: "A hand-written module.",
		Tools: []abi.ToolSpec{{Name: "Wat", Description: abi.Description{Short: "Does what its text says."}, Parameters: json.RawMessage(`{"type":"object"}`), Services: []string{"x-echo"}}}}
	raw, err := abi.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	b, err = wasm.SetCustom(b, abi.ManifestSection, raw)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// assemble turns text into a module. The results are kept in testdata/wat by
// the SHA-256 of their text, so that the tests need no assembler; where there is
// one (wat2wasm of wabt), it makes new ones and checks the old ones.
func assemble(t testing.TB, text string) []byte {
	t.Helper()
	sum := sha256.Sum256([]byte(text))
	kept := filepath.Join("testdata", "wat", hex.EncodeToString(sum[:8])+".wasm")
	have, err := os.ReadFile(kept)
	tool, missing := exec.LookPath("wat2wasm")
	if missing != nil {
		if err != nil {
			t.Fatalf("%v, and wat2wasm is not there to make it (Debian: apt-get install wabt)", err)
		}
		return have
	}
	if err == nil && os.Getenv("BLADEHOST_CHECK_WAT") == "" {
		return have
	}
	dir := t.TempDir()
	src, out := filepath.Join(dir, "m.wat"), filepath.Join(dir, "m.wasm")
	if err := os.WriteFile(src, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if msg, err := exec.Command(tool, src, "-o", out).CombinedOutput(); err != nil {
		t.Fatalf("assemble: %v\n%s", err, msg)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if have == nil {
		if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(kept, b, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(b, have) {
		t.Fatalf("%s is not what its text assembles to", kept)
	}
	return b
}

func newEngine(t testing.TB, opt Options) *Engine {
	t.Helper()
	e, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}

func load(t testing.TB, e *Engine, b []byte) *Plugin {
	t.Helper()
	p, err := e.Load(b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// pick is the tool of that name of a plugin that is compiled, so that no deadline
// of a test passes meanwhile.
func pick(t testing.TB, p *Plugin, w *World, name string) *Guest {
	t.Helper()
	if _, err := p.Compile(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, g := range p.Tools(w, Lent{}) {
		if g.Spec().Name == name {
			return g
		}
	}
	t.Fatalf("no tool %s", name)
	return nil
}

// try runs one call with a time limit.
func try(t testing.TB, g *Guest, limit time.Duration, cfg tool.Config) (*abi.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, &tool.CancelError{Reason: abi.CancelDeadline})
	defer cancel()
	if cfg.Input == nil {
		cfg.Input = json.RawMessage(`{}`)
	}
	return g.Execute(ctx, tool.NewCall(cfg))
}
