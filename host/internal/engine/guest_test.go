package engine

import (
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
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

func TestGoGuest(t *testing.T) {
	e := newEngine(t, Options{CacheDir: t.TempDir()})
	p := load(t, e, goGuest(t, "github.com/bladehost/bladehost/pdk/conformance"))
	for _, s := range p.Manifest().Tools {
		t.Log(s.Name)
	}
}
