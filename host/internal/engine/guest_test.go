package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/engine/wasi"
	"github.com/bladehost/bladehost/host/internal/engine/wasi/wasitest"
	"github.com/bladehost/bladehost/host/tool"
)

// WSM-03, WSM-06, YLD-05: what a guest does wrong has a code of its own, and the
// host goes on.
func TestGuestFaults(t *testing.T) {
	const head = `(func (export "blade_describe")) (func (export "blade_execute") (param i32 i32) `
	e := newEngine(t, Options{MemoryLimit: 4 << 20})
	for _, c := range []struct {
		name, body string
		want       abi.Code
		stops      bool
	}{
		{"works", `(call $ret (i32.const 0) (i32.const 16) (i32.const 4)))`, "", false},
		{"no result", `)`, abi.CodeGuestNoResult, false},
		{"trap", `unreachable)`, abi.CodeGuestTrap, false},
		{"trap after ret", `(call $ret (i32.const 0) (i32.const 16) (i32.const 4)) unreachable)`, abi.CodeGuestTrap, false},
		{"exit 0", `(call $exit (i32.const 0)))`, abi.CodeGuestExit, false},
		{"exit like a deadline", `(call $exit (i32.const 0xefffffff)))`, abi.CodeGuestExit, false},
		{"exit after ret", `(call $ret (i32.const 0) (i32.const 16) (i32.const 4)) (call $exit (i32.const 0)))`, abi.CodeGuestExit, false},
		{"ret twice", `(call $ret (i32.const 0) (i32.const 16) (i32.const 4)) (call $ret (i32.const 0) (i32.const 16) (i32.const 4)))`, abi.CodeGuestTwice, false},
		{"yield after ret", `(call $ret (i32.const 0) (i32.const 16) (i32.const 4)) (drop (call $yield (i32.const 20) (i32.const 19))))`, abi.CodeGuestAfterRet, false},
		{"unknown status", `(call $ret (i32.const 3) (i32.const 16) (i32.const 4)))`, abi.CodeGuestProtocol, false},
		{"ret beyond memory", `(call $ret (i32.const 0) (i32.const 65535) (i32.const 2)))`, abi.CodeGuestPointer, false},
		{"ret wraps around", `(call $ret (i32.const 0) (i32.const 0xfffffff0) (i32.const 0x20)))`, abi.CodeGuestPointer, false},
		{"yield of length -1", `(drop (call $yield (i32.const 0) (i32.const -1))))`, abi.CodeGuestPointer, false},
		{"log beyond memory", `(call $log (i32.const 0) (i32.const 65536) (i32.const 1)))`, abi.CodeGuestPointer, false},
		{"take beyond memory", `(drop (call $take (i32.const 0) (i32.const 65530) (i32.const 100))))`, abi.CodeGuestPointer, false},
		{"not JSON", `(call $ret (i32.const 0) (i32.const 17) (i32.const 4)))`, abi.CodeResultNotJSON, false},
		{"empty", `(call $ret (i32.const 0) (i32.const 17) (i32.const 0)))`, abi.CodeResultNotJSON, false},
		{"too large", `(drop (memory.grow (i32.const 300))) (call $ret (i32.const 0) (i32.const 0) (i32.const 16777217)))`, abi.CodeGuestPointer, false},
		{"explicit without a model", `(call $ret (i32.const 1) (i32.const 20) (i32.const 19)))`, abi.CodeResultShape, false},
		{"out of memory", `(loop $l (br_if $l (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))) unreachable)`, abi.CodeGuestOOM, false},
		{"endless recursion", `(call $f)) (func $f (call $f))`, abi.CodeGuestStack, false},
		{"endless loop", `(loop $l (br $l)))`, "", true},
		{"endless loop after ret", `(call $ret (i32.const 0) (i32.const 16) (i32.const 4)) (loop $l (br $l)))`, "", false},
		{"asks for cancellation, then does not care", `(loop $l (drop (call $cancelled)) (br $l)))`, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := pick(t, load(t, e, watGuest(t, head+c.body)), emptyWorld(), "Wat")
			limit := 20 * time.Second
			if c.stops {
				limit = 50 * time.Millisecond
			}
			r, err := try(t, g, limit, tool.Config{})
			if c.stops {
				if err == nil || r != nil {
					t.Fatalf("it was not stopped: %v, %v", r, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var code abi.Code
			if r.Error != nil {
				code = r.Error.Code
			}
			if code != c.want {
				t.Errorf("code %q, want %q: %+v", code, c.want, r)
			}
			if why := r.Valid(); why != "" {
				t.Error(why)
			}
		})
	}
}

// vector is one golden call of testdata/abi.
type vector struct {
	Name, Tool string
	Input      json.RawMessage
	Given      map[string]any
	Yields     []json.RawMessage
}

func vectors(t testing.TB) (list []vector) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "testdata", "abi", "calls.json"))
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// transcript is all that a call did, as text.
func transcript(t testing.TB, g *Guest, input json.RawMessage) string {
	t.Helper()
	var out strings.Builder
	write := func(what string, v any) {
		b, err := abi.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s %s\n", what, b)
	}
	r, err := try(t, g, long, tool.Config{
		Input: input,
		Yield: func(y abi.Yield, _ func() func()) error { write("yield", y); return nil },
		Invoke: func(_ context.Context, name string, req tool.Request) (tool.Answer, error) {
			fmt.Fprintf(&out, "call %s %s %q\n", name, req.Head, req.Body)
			if name != "x-echo.echo" {
				return tool.Answer{}, abi.NewError(abi.CodeUnknownService, "there is no service %q here", name)
			}
			return tool.Answer{Head: req.Head, Body: req.Body}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	delete(r.Metadata, "compile")
	write("result", r)
	return out.String()
}

// fixed is a world whose clocks and random bytes are always the same.
func fixed(c *wasi.Config) {
	c.Walltime = func() int64 { return 1_700_000_000_000_000_000 }
	c.Monotonic = func() int64 { return 5_000_000_000 }
	c.Random = zeros{}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// WSM-11: a Go plugin gives the same answers on both engines, at all levels and
// ways of resetting, and again when its instance is used again. TestVectors of
// package host holds them to what they must be.
func TestGoGuest(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes compiling a Go program a matter of minutes")
	}
	module := goGuest(t, "github.com/bladehost/bladehost/pdk/conformance")
	cache := filepath.Join(t.TempDir(), "cache") // made by the engine, whatever the umask
	snapshot, strict, fresh := snapshot, strict, fresh
	sides := []struct {
		name string
		opt  Options
	}{
		{"compiler", Options{}}, {"interpreter", Options{Interpreter: true}}, {"memcpy", Options{Reset: ResetMemcpy}},
		{"strict", Options{level: &strict}}, {"snapshot", Options{level: &snapshot}}, {"fresh", Options{level: &fresh}},
	}
	var plugins []*Plugin
	for _, s := range sides {
		s.opt.CacheDir, s.opt.world = cache, fixed
		plugins = append(plugins, load(t, newEngine(t, s.opt), module))
	}
	for _, v := range vectors(t) {
		if v.Given != nil || bytes.Contains(v.Input, []byte("$repeat")) {
			continue // cancels, or is expanded by the host's test
		}
		want := ""
		for k, p := range plugins {
			g := pick(t, p, emptyWorld(), v.Tool)
			for range 2 {
				got := transcript(t, g, v.Input)
				if want == "" {
					want = got
				}
				if got != want {
					t.Errorf("%s, %s:\n%s\n%s:\n%s", v.Name, sides[0].name, want, sides[k].name, got)
				}
			}
		}
	}
}

// WSM-11 for guests in other languages.
func TestInterpreter(t *testing.T) {
	compiled := newEngine(t, Options{world: fixed})
	interpreted := newEngine(t, Options{world: fixed, Interpreter: true})
	for _, c := range []struct {
		name, tool, input string
		module            []byte
	}{
		{"C", "Greet", `{"name":"Ada","n":7,"pad":"` + strings.Repeat("x", 5000) + `"}`, cGuest(t, "tool.wasm")},
		{"C yields", "Yield", `{"n":9}`, nil}, {"C calls", "Call", `{"n":9}`, nil}, {"C computes", "Spin", `{"n":1}`, nil},
		{"C state", "State", `{}`, cGuest(t, "state.wasm")},
		{"WAT", "Wat", `{}`, watGuest(t, traces+`(func (export "blade_execute") (param i32 i32) (call $print (call $sum)) (call $spoil))`)},
		{"recursion", "Wat", `{}`, watGuest(t, head+`(call $f)) (func $f (call $f))`)},
		{"no memory", "Wat", `{}`, watGuest(t, head+`(loop $l (br_if $l (i32.ne (memory.grow (i32.const 100)) (i32.const -1)))) unreachable)`)},
	} {
		module := c.module
		if module == nil {
			module = cGuest(t, "tool.wasm")
		}
		a := transcript(t, pick(t, load(t, compiled, module), emptyWorld(), c.tool), json.RawMessage(c.input))
		b := transcript(t, pick(t, load(t, interpreted, module), emptyWorld(), c.tool), json.RawMessage(c.input))
		if trapless(a) != trapless(b) {
			t.Errorf("%s:\n%s\n%s", c.name, a, b)
		}
	}
	g := pick(t, load(t, interpreted, watGuest(t, head+`(loop $l (br $l)))`)), emptyWorld(), "Wat")
	r, err := try(t, g, short, tool.Config{})
	judge(t, stops(), r, err)
}

// trapless cuts the engine's own words for a trap.
func trapless(s string) string {
	a, _, _ := strings.Cut(s, `"trap"`)
	return a
}

var suite = flag.String("suite", "", "checkout of wasi-testsuite for TestWasiSuite")

// The public suite of WASI preview 1; see its test in package wasi.
func TestWasiSuite(t *testing.T) {
	if *suite == "" {
		t.Skip("needs -args -suite DIR")
	}
	wasitest.RunSuite(t, *suite)
}
