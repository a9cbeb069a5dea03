package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/engine/wasi"
	"github.com/bladehost/bladehost/host/internal/wasm"
	"github.com/bladehost/bladehost/host/tool"
)

// The numbers are those of the abuse corpus the guards were found with: B is what
// a module does while it runs, C is what it hands back.

const (
	head   = `(func (export "blade_describe")) (func (export "blade_execute") (param i32 i32) `
	isNull = `(call $ret (i32.const 0) (i32.const 16) (i32.const 4))`
)

// verdict is what a call must come to.
type verdict struct {
	code abi.Code
	// stopped says that the host stops it, so that the error is the context's.
	stopped bool
	text    string
}

func ok() verdict                { return verdict{} }
func fails(c abi.Code) verdict   { return verdict{code: c} }
func stops() verdict             { return verdict{stopped: true} }
func (v verdict) String() string { return fmt.Sprintf("code %q, stopped %v", v.code, v.stopped) }

// judge holds the outcome of a call to a verdict.
func judge(t testing.TB, want verdict, r *abi.Result, err error) {
	t.Helper()
	switch {
	case want.stopped:
		if r != nil || !errors.Is(err, tool.ErrPreempted) {
			t.Fatalf("it was not stopped: %v, %v", r, err)
		}
		return
	case err != nil:
		t.Fatalf("it was stopped: %v", err)
	}
	var code abi.Code
	message := ""
	if r.Error != nil {
		code, message = r.Error.Code, r.Error.Message
	}
	if code != want.code || !strings.Contains(message, want.text) {
		t.Fatalf("code %q, %q, want %v", code, message, want)
	}
	if why := r.Valid(); why != "" {
		t.Error(why)
	}
	if strings.Contains(message, "goroutine") || strings.Contains(message, ".go:") {
		t.Errorf("the host's stack is in the text: %s", message)
	}
}

// short is a deadline that a guest is meant to overrun, long one that it must not
// need. enough is a bound that only says that something ends.
const (
	short  = 60 * time.Millisecond
	long   = 60 * time.Second
	enough = 20 * time.Second
)

// WSM-03 WSM-04 WSM-06 WSM-08 INT-08: rows 33 to 38, 42 to 45, 53.
func TestAbuseExecute(t *testing.T) {
	log := &countingLog{}
	e := newEngine(t, Options{MemoryLimit: 32 << 20, cleanup: 4 * short, Log: slog.New(slog.NewTextHandler(log, nil))})
	for _, c := range []struct {
		row, body string
		want      verdict
	}{
		{"33 endless loop", `(loop $l (br $l)))`, stops()},
		{"33 endless loop of host calls", `(loop $l (drop (call $deadline)) (br $l)))`, stops()},
		{"33 endless loop of indirect calls", `(loop $l (call_indirect (i32.const 0)) (br $l))) (func $f) (table funcref (elem $f))`, stops()},
		{"33 branch table", `(loop $l (br_table $l $l (i32.const 7))))`, stops()},
		{"33 tree of calls", `(call $a (i32.const 60))) (func $a (param i32) (if (local.get 0) (then (call $b (i32.sub (local.get 0) (i32.const 1))) (call $b (i32.sub (local.get 0) (i32.const 1)))))) (func $b (param i32) (if (local.get 0) (then (call $a (i32.sub (local.get 0) (i32.const 1))) (call $a (i32.sub (local.get 0) (i32.const 1))))))`, stops()},
		{"34 endless recursion", `(call $f)) (func $f (call $f))`, fails(abi.CodeGuestStack)},
		{"34 endless recursion, large frames", `(drop (call $f (i64.const 1)))) (func $f (param i64) (result i64) (local i64 i64 i64 i64 i64 i64 i64 i64) (local.set 1 (call $f (local.get 0))) (i64.add (local.get 0) (local.get 1)))`, fails(abi.CodeGuestStack)},
		{"35 endless indirect recursion", `(call $f)) (func $f (call_indirect (i32.const 0))) (table funcref (elem $f))`, fails(abi.CodeGuestStack)},
		{"36 grows memory, minds the limit", `(loop $l (br_if $l (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))) ` + isNull + `)`, ok()},
		{"36 grows memory, does not", `(loop $l (br_if $l (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))) unreachable)`, fails(abi.CodeGuestOOM)},
		{"36 asks for all of it, again and again", `(loop $l (drop (memory.grow (i32.const 65536))) (drop (memory.grow (i32.const -1))) (br $l)))`, stops()},
		{"37 grows a table", `(loop $l (br_if $l (i32.ne (table.grow $t (ref.null func) (i32.const 10000)) (i32.const -1)))) ` + isNull + `) (table $t 0 funcref)`, ok()},
		{"37 asks for a huge table, again and again", `(loop $l (drop (table.grow $t (ref.null func) (i32.const 10000000))) (br $l))) (table $t 0 funcref)`, stops()},
		{"38 fills all memory, again and again", `(drop (memory.grow (i32.const 511))) (loop $l (memory.fill (i32.const 0) (i32.const 1) (i32.const 33554432)) (br $l)))`, stops()},
		{"38 copies all memory, again and again", `(drop (memory.grow (i32.const 511))) (loop $l (memory.copy (i32.const 0) (i32.const 8) (i32.const 33554400)) (br $l)))`, stops()},
		{"42 proc_exit", `(call $exit (i32.const 0)))`, fails(abi.CodeGuestExit)},
		{"43 fake deadline", `(call $exit (i32.const 0xefffffff)))`, fails(abi.CodeGuestExit)},
		{"43 fake cancellation", `(call $exit (i32.const 0xffffffff)))`, fails(abi.CodeGuestExit)},
		{"44 flood of logs", `(loop $l (call $log (i32.const 3) (i32.const 0) (i32.const 65536)) (br $l)))`, stops()},
		{"44 flood of rejected yields", `(loop $l (drop (call $yield (i32.const 16) (i32.const 4))) (br $l)))`, stops()},
		{"44 flood of unknown services", `(loop $l (drop (call $call (i32.const 16) (i32.const 4) (i32.const 0) (i32.const 0))) (drop (call $take (i32.const 1) (i32.const 0) (i32.const 0))) (br $l)))`, stops()},
		{"44 answers that are never taken", `(local i32) (loop $l (drop (call $call (i32.const 16) (i32.const 4) (i32.const 0) (i32.const 0))) (br_if $l (i32.lt_u (local.tee 2 (i32.add (local.get 2) (i32.const 1))) (i32.const 100)))) ` + isNull + `)`, ok()},
		{"45 ret wraps around", `(call $ret (i32.const 0) (i32.const 0xfffffff0) (i32.const 0x20)))`, fails(abi.CodeGuestPointer)},
		{"45 ret of length -1", `(call $ret (i32.const 0) (i32.const 0) (i32.const -1)))`, fails(abi.CodeGuestPointer)},
		{"45 yield wraps around", `(drop (call $yield (i32.const 0xfffffff0) (i32.const 0x20))))`, fails(abi.CodeGuestPointer)},
		{"45 log wraps around", `(call $log (i32.const 0) (i32.const 0xfffffff0) (i32.const 0x20)))`, fails(abi.CodeGuestPointer)},
		{"45 take wraps around", `(drop (call $take (i32.const 0) (i32.const 0xfffffff0) (i32.const 0x20))))`, fails(abi.CodeGuestPointer)},
		{"45 a service's name out of memory", `(drop (call $call (i32.const -1) (i32.const 4) (i32.const 0) (i32.const 0))))`, fails(abi.CodeGuestPointer)},
		{"45 a request out of memory", `(drop (call $call (i32.const 16) (i32.const 4) (i32.const 65535) (i32.const 2))))`, fails(abi.CodeGuestPointer)},
		{"45 a length over the limit of requests", `(drop (call $call (i32.const 16) (i32.const 4) (i32.const 0) (i32.const -1))) ` + isNull + `)`, ok()},
		{"70 the result twice", isNull + isNull + `)`, fails(abi.CodeGuestTwice)},
		{"70 a yield after the result", isNull + `(drop (call $yield (i32.const 20) (i32.const 19))))`, fails(abi.CodeGuestAfterRet)},
		{"70 a call after the result", isNull + `(drop (call $call (i32.const 16) (i32.const 4) (i32.const 0) (i32.const 0))))`, fails(abi.CodeGuestAfterRet)},
		{"70 no result", `)`, fails(abi.CodeGuestNoResult)},
		{"70 a trap after the result", isNull + `unreachable)`, fails(abi.CodeGuestTrap)},
		{"loops after its result", isNull + `(loop $l (br $l)))`, ok()},
		{"61 claims 1 GiB", `(call $ret (i32.const 0) (i32.const 16) (i32.const 0x40000000)))`, fails(abi.CodeGuestPointer)},
		{"61 claims more than a result may have", `(drop (memory.grow (i32.const 300))) (call $ret (i32.const 0) (i32.const 0) (i32.const 16777217)))`, fails(abi.CodeResultTooBig)},
	} {
		t.Run(c.row, func(t *testing.T) {
			g := pick(t, load(t, e, watGuest(t, head+c.body)), emptyWorld(), "Wat")
			limit := long
			if c.want.stopped {
				limit = short
			}
			// Twice: what the first call was and how it ended is nothing to the second.
			for range 2 {
				from := time.Now()
				r, err := try(t, g, limit, tool.Config{})
				judge(t, c.want, r, err)
				if d := time.Since(from); c.want.stopped && d > limit+enough {
					t.Errorf("it took %v", d)
				}
			}
		})
	}
	if n := log.bytes(); n > 8<<20 {
		t.Errorf("%d bytes of log", n)
	}
}

// What the host tells of a guest's mistakes, and empty lines, count as the guest's own
// log: no flood of them fills a disk, however fast the machine is.
func TestAbuseLog(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		each int
	}{
		"rejected yields": {`(loop $l (drop (call $yield (i32.const 16) (i32.const 4))) (br $l)))`, rejectedYield},
		"empty lines":     {`(loop $l (call $log (i32.const 2) (i32.const 0) (i32.const 0)) (br $l)))`, emptyLine},
	} {
		t.Run(name, func(t *testing.T) {
			lines := &countingLog{}
			g := pick(t, load(t, newEngine(t, Options{cleanup: short, Log: slog.New(slog.NewTextHandler(lines, nil))}), watGuest(t, head+c.body)), emptyWorld(), "Wat")
			r, err := try(t, g, short, tool.Config{})
			judge(t, stops(), r, err)
			if n := lines.lines(); n == 0 || n > abi.MaxLog/c.each+1 { // with the notice that the rest is dropped
				t.Errorf("%d lines", n)
			}
		})
	}
}

// countingLog counts what is logged.
type countingLog struct {
	mu      sync.Mutex
	n, many int
}

func (l *countingLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n += len(p)
	l.many++
	return len(p), nil
}

func (l *countingLog) lines() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.many
}

func (l *countingLog) bytes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// WSM-03, INT-08: rows 39 to 41: what runs before the first call is bounded too.
func TestAbuseInit(t *testing.T) {
	const rest = `(func (export "blade_describe")) (func (export "blade_execute") (param i32 i32) ` + isNull + `)`
	for _, level := range []level{strict, snapshot, fresh} {
		patient, brief := newEngine(t, Options{level: &level, initTime: long}), newEngine(t, Options{level: &level, initTime: 80 * time.Millisecond})
		for _, c := range []struct {
			row, body string
			limit     time.Duration
			want      verdict
		}{
			{"39 start loops", `(start $s) (func $s (loop $l (br $l)))`, long, verdict{code: abi.CodeInit, text: "took longer"}},
			{"39 start loops past the deadline", `(start $s) (func $s (loop $l (br $l)))`, 10 * time.Millisecond, stops()},
			{"40 start traps", `(start $s) (func $s unreachable)`, long, verdict{code: abi.CodeInit, text: "start"}},
			{"41 _initialize loops", `(func (export "_initialize") (loop $l (br $l)))`, long, verdict{code: abi.CodeInit, text: "_initialize took longer"}},
			{"41 _initialize traps", `(func (export "_initialize") unreachable)`, long, verdict{code: abi.CodeInit, text: "_initialize"}},
			{"41 _initialize recurses", `(func $i (export "_initialize") (call $i))`, long, verdict{code: abi.CodeInit, text: "nested too deeply"}},
			{"42 _initialize exits", `(func (export "_initialize") (call $exit (i32.const 0)))`, long, verdict{code: abi.CodeInit, text: "exit code 0"}},
			{"70 _initialize yields", `(func (export "_initialize") (drop (call $yield (i32.const 20) (i32.const 19))))`, long, fails(abi.CodeGuestPhase)},
			{"70 _initialize returns a result", `(func (export "_initialize") ` + isNull + `)`, long, fails(abi.CodeGuestPhase)},
			{"45 _initialize with a bad pointer", `(func (export "_initialize") (call $log (i32.const 0) (i32.const -1) (i32.const 9)))`, long, fails(abi.CodeInit)},
			{"_initialize may log and look", `(func (export "_initialize") (call $log (i32.const 0) (i32.const 16) (i32.const 4)) (if (call $cancelled) (then unreachable)) (if (i64.ne (call $deadline) (i64.const -1)) (then unreachable)))`, long, ok()},
		} {
			t.Run(fmt.Sprintf("level %d/%s", level, c.row), func(t *testing.T) {
				e := patient
				if strings.Contains(c.want.text, "took longer") {
					e = brief
				}
				g := pick(t, load(t, e, watGuest(t, c.body+rest)), emptyWorld(), "Wat")
				for range 2 {
					r, err := try(t, g, c.limit, tool.Config{})
					judge(t, c.want, r, err)
				}
			})
		}
	}
}

// WSM-03: the warm-up is part of the load where it is used.
func TestAbuseWarm(t *testing.T) {
	level := snapshot
	e := newEngine(t, Options{level: &level, initTime: 80 * time.Millisecond})
	for body, text := range map[string]string{`(loop $l (br $l))`: "blade_warm took longer", `unreachable`: "blade_warm"} {
		g := pick(t, load(t, e, watGuest(t, head+isNull+`) (func (export "blade_warm") `+body+`)`)), emptyWorld(), "Wat")
		r, err := try(t, g, long, tool.Config{})
		judge(t, verdict{code: abi.CodeInit, text: text}, r, err)
	}
}

// WSM-02 WSM-03 WSM-06: rows 46, 56 to 59, and what the rewriter refuses: all at
// load, before anything of the module is compiled.
func TestAbuseLoad(t *testing.T) {
	const exports = `(func (export "blade_describe")) (func (export "blade_execute") (param i32 i32))`
	e := newEngine(t, Options{MemoryLimit: 1 << 20})
	for _, c := range []struct {
		row, text string
		want      abi.Code
		names     []string
	}{
		{"46 no memory", exports, abi.CodeExportMissing, []string{"memory"}},
		{"46 memory of another name", `(memory (export "mem") 1)` + exports, abi.CodeExportMissing, nil},
		{"55 imports of another plugin", `(import "victim" "secretfn" (func)) (memory (export "memory") 1)` + exports, abi.CodeImportUnknown, []string{"victim.secretfn"}},
		{"56 all unknown imports at once", `(import "env" "a" (func)) (import "blade_v1" "nope" (func)) (import "env" "t" (table 1 funcref)) (memory (export "memory") 1)` + exports, abi.CodeImportUnknown, []string{"env.a", "blade_v1.nope", "env.t"}},
		{"56 imported memory", `(import "env" "memory" (memory 1)) (export "memory" (memory 0))` + exports, abi.CodeImportUnknown, []string{"env.memory"}},
		{"56 wrong signature", `(import "blade_v1" "ret" (func (param i32))) (memory (export "memory") 1)` + exports, abi.CodeImportType, []string{"blade_v1.ret"}},
		{"57 five results", `(memory (export "memory") 1) (func (export "blade_describe")) (func (export "blade_execute") (param i32 i32) (result i32 i32 i32 i32 i32) unreachable)`, abi.CodeExportType, []string{"blade_execute"}},
		{"57 floats", `(memory (export "memory") 1) (func (export "blade_describe")) (func (export "blade_execute") (param f64 f32))`, abi.CodeExportType, nil},
		{"57 no function", `(memory (export "memory") 1) (global (export "blade_execute") i32 (i32.const 0)) (func (export "blade_describe"))`, abi.CodeExportType, nil},
		{"58 data out of range", `(memory (export "memory") 1) (data (i32.const 65530) "too long")` + exports, abi.CodeModuleMalformed, []string{"data segment"}},
		{"58 data at -1", `(memory (export "memory") 1) (data (i32.const -1) "x")` + exports, abi.CodeModuleMalformed, nil},
		{"imports of the host's own", `(import "blade_meter" "refill" (func)) (memory (export "memory") 1)` + exports, abi.CodeImportUnknown, nil},
		{"exports of the host's own", `(memory (export "memory") 1) (func (export "__blade_start"))` + exports, abi.CodeModuleFeature, []string{"__blade_"}},
		{"23 more memory than the limit", `(memory (export "memory") 17)` + exports, abi.CodeModuleLimit, []string{"1 MiB"}},
		{"a command", `(memory (export "memory") 1) (func (export "_start"))` + exports, abi.CodeCommandModule, nil},
	} {
		t.Run(c.row, func(t *testing.T) {
			_, err := e.Load(watModule(t, `(module `+c.text+`)`))
			if abi.CodeOf(err) != c.want {
				t.Fatalf("%v, want %s", err, c.want)
			}
			for _, n := range c.names {
				if !strings.Contains(err.Error(), n) {
					t.Errorf("%q does not name %s", err, n)
				}
			}
		})
	}
	t.Run("59 elements out of range", func(t *testing.T) {
		// The specification lets it fail when it is instantiated; the runtime does not.
		p, err := e.Load(watModule(t, `(module (memory (export "memory") 1) (table 1 funcref) (func $f) (elem (i32.const 5) $f)`+exports+`)`))
		if err != nil {
			return
		}
		r, err := try(t, pick(t, p, emptyWorld(), "Wat"), long, tool.Config{})
		if err != nil || r.Error == nil {
			t.Fatal(r, err)
		}
	})
}

// Row 55: a module cannot take another's name.
func TestAbuseName(t *testing.T) {
	b := watGuest(t, head+isNull+`)`)
	for _, name := range []string{"wasi_snapshot_preview1", "blade_v1", "blade_meter", "victim"} {
		sub := append([]byte{0, byte(len(name) + 1), byte(len(name))}, name...)
		named, err := wasm.SetCustom(b, "name", sub)
		if err != nil {
			t.Fatal(err)
		}
		level := fresh
		e := newEngine(t, Options{level: &level})
		p := load(t, e, named)
		var wg sync.WaitGroup
		for range 4 {
			g := pick(t, p, emptyWorld(), "Wat")
			wg.Go(func() {
				for range 20 {
					if r, err := try(t, g, long, tool.Config{}); err != nil || r.IsError() {
						t.Error(r, err)
					}
				}
			})
		}
		wg.Wait()
	}
}

// Rows 47 and 49: a host function that fails or dawdles is one call's trouble.
func TestAbuseService(t *testing.T) {
	e := newEngine(t, Options{cleanup: 4 * short})
	const echo = `(call $call (i32.const 39) (i32.const 11) (i32.const 0) (i32.const 0))`
	body := head + `(drop ` + echo + `) (if (i32.eqz (call $cancelled)) (then ` + isNull + ` (return))) (loop $l (br $l)))`
	g := pick(t, load(t, e, watGuest(t, body)), emptyWorld(), "Wat")
	invoke := func(f func(context.Context) error) tool.Config {
		return tool.Config{Invoke: func(ctx context.Context, name string, _ tool.Request) (tool.Answer, error) {
			if name != "x-echo.echo" {
				t.Errorf("asked for %q", name)
			}
			return tool.Answer{}, f(ctx)
		}}
	}
	t.Run("47 panics", func(t *testing.T) {
		for _, v := range []any{"words", errors.New("an error"), []int(nil)} {
			r, err := try(t, g, long, invoke(func(context.Context) error {
				if s, ok := v.([]int); ok {
					_ = s[len(s)+3]
				}
				panic(v)
			}))
			judge(t, fails(abi.CodeGuestTrap), r, err)
		}
	})
	t.Run("fails", func(t *testing.T) {
		r, err := try(t, g, long, invoke(func(context.Context) error { return errors.New("no") }))
		judge(t, ok(), r, err)
	})
	// CLN-06: once the host function is back, nothing keeps the guest.
	t.Run("49 ignores its context", func(t *testing.T) {
		r, err := try(t, g, short, invoke(func(ctx context.Context) error {
			<-ctx.Done()
			for range 100 { // and goes on for a while
				_ = strings.Repeat("x", 1000)
			}
			return nil
		}))
		judge(t, stops(), r, err)
	})
	t.Run("then all is well", func(t *testing.T) {
		r, err := try(t, g, long, invoke(func(context.Context) error { return nil }))
		judge(t, ok(), r, err)
	})
}

// Row 48: a guest that is called again while it waits is another instance.
func TestNestedCalls(t *testing.T) {
	e := newEngine(t, Options{Running: 1})
	body := `(global $busy (mut i32) (i32.const 0))` + head + `
	 (if (global.get $busy) (then unreachable)) (global.set $busy (i32.const 1))
	 (drop (call $call (i32.const 39) (i32.const 11) (i32.const 0) (i32.const 0)))
	 (global.set $busy (i32.const 0)) ` + isNull + `)`
	g := pick(t, load(t, e, watGuest(t, body)), emptyWorld(), "Wat")
	depth := 0
	var cfg tool.Config
	cfg.Invoke = func(ctx context.Context, _ string, _ tool.Request) (tool.Answer, error) {
		if depth++; depth < 6 {
			r, err := try(t, g, long, cfg)
			judge(t, ok(), r, err)
		}
		return tool.Answer{}, nil
	}
	r, err := try(t, g, long, cfg)
	judge(t, ok(), r, err)
}

// Rows 50 to 54: WASI.
func TestAbuseWASI(t *testing.T) {
	e := newEngine(t, Options{})
	const imports = `(module
	 (import "blade_v1" "ret" (func $ret (param i32 i32 i32)))
	 (import "blade_v1" "cancelled" (func $cancelled (result i32)))
	 (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
	 (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
	 (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
	 (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
	 (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
	 (import "wasi_snapshot_preview1" "clock_res_get" (func $res (param i32 i32) (result i32)))
	 (memory (export "memory") 2) (data (i32.const 16) "null")
	 (func $sub (i64.store (i32.const 1024) (i64.const 7)) (i32.store (i32.const 1040) (i32.const 1)) (i64.store (i32.const 1048) (i64.const 6000000000)))
	`
	for _, c := range []struct {
		row, body string
		want      verdict
	}{
		{"50 sleeps past the deadline", `(call $sub) (drop (call $poll (i32.const 1024) (i32.const 2048) (i32.const 1) (i32.const 4096))) (loop $l (br $l)))`, stops()},
		{"50 sleeps again and again", `(call $sub) (loop $l (drop (call $poll (i32.const 1024) (i32.const 2048) (i32.const 1) (i32.const 4096))) (br $l)))`, stops()},
		{"50 sleeps again and again and asks once", `(drop (call $cancelled)) (call $sub) (loop $l (drop (call $poll (i32.const 1024) (i32.const 2048) (i32.const 1) (i32.const 4096))) (br $l)))`, stops()},
		{"51 reads from standard input", `(i32.store (i32.const 1024) (i32.const 2048)) (i32.store (i32.const 1028) (i32.const 100)) (if (call $read (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 4096)) (then unreachable)) (if (i32.load (i32.const 4096)) (then unreachable)) ` + isNull + `)`, ok()},
		{"52 subscriptions that wrap around", `(if (i32.eqz (call $poll (i32.const 0) (i32.const 0) (i32.const 0x10000000) (i32.const 0))) (then unreachable)) ` + isNull + `)`, ok()},
		{"53 a million vectors", `(if (i32.eqz (call $write (i32.const 1) (i32.const 0) (i32.const 1000000) (i32.const 0))) (then unreachable)) ` + isNull + `)`, ok()},
		{"53 floods standard output", `(i32.store (i32.const 1028) (i32.const 65536)) (loop $l (drop (call $write (i32.const 1) (i32.const 1024) (i32.const 1) (i32.const 1016))) (br $l)))`, stops()},
		{"54 random bytes for ever", `(loop $l (drop (call $random (i32.const 1024) (i32.const 65536))) (br $l)))`, stops()},
		{"60 clocks step by a millisecond", `(drop (call $clock (i32.const 1) (i64.const 1) (i32.const 1024))) (if (i64.ne (i64.rem_u (i64.load (i32.const 1024)) (i64.const 1000000)) (i64.const 0)) (then unreachable)) (drop (call $res (i32.const 1) (i32.const 1024))) (if (i64.ne (i64.load (i32.const 1024)) (i64.const 1000000)) (then unreachable)) ` + isNull + `)`, ok()},
	} {
		t.Run(c.row, func(t *testing.T) {
			g := pick(t, load(t, e, watModule(t, imports+head+c.body+`)`)), emptyWorld(), "Wat")
			limit := long
			if c.want.stopped {
				limit = short
			}
			from := time.Now()
			r, err := try(t, g, limit, tool.Config{})
			judge(t, c.want, r, err)
			if d := time.Since(from); d > enough {
				t.Errorf("it took %v", d)
			}
		})
	}
}

// WSM-07: rows 62 to 68: what a guest hands over is strict JSON or an error. The
// guest hands back its input as it is.
func TestAbuseResult(t *testing.T) {
	e := newEngine(t, Options{})
	g := pick(t, load(t, e, watGuest(t, `(func (export "blade_describe")) (func (export "blade_execute") (param i32 i32)
	 (drop (memory.grow (i32.const 20)))
	 (drop (call $take (i32.const 0) (i32.const 1024) (local.get 1))) (call $ret (i32.const 0) (i32.const 1024) (local.get 1)))`)), emptyWorld(), "Wat")
	for _, c := range []struct{ row, out, text string }{
		{"62 not JSON", `hello`, "byte"},
		{"62 trailing bytes", `{} {}`, "follow"},
		{"62 a byte order mark", "\ufeff{}", "byte 0"},
		{"62 nothing", ` `, ""},
		{"63 100,000 arrays", strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), "nested deeper"},
		{"64 a key twice", `{"allow":1,"allow":2}`, "twice"},
		{"66 invalid UTF-8", "\"\xff\"", "UTF-8"},
		{"66 a lone surrogate", `"\ud800"`, ""},
		{"68 a number beyond all bounds", `1e1000000000`, "out of range"},
		{"68 a long number", strings.Repeat("9", 50), "out of range"},
	} {
		t.Run(c.row, func(t *testing.T) {
			r, err := try(t, g, long, tool.Config{Input: json.RawMessage(c.out)})
			judge(t, verdict{code: abi.CodeResultNotJSON, text: c.text}, r, err)
		})
	}
	for _, out := range []string{`9007199254740993`, `{"ALLOW":true,"allow":false}`, `{"a":1.50,"b":[1e308]}`, `"\u001b[2J\u202e"`} {
		r, err := try(t, g, long, tool.Config{Input: json.RawMessage(out)})
		if err != nil || r.IsError() || !bytes.Equal(r.Data, []byte(out)) {
			t.Errorf("%s came back as %s, %v", out, r.Data, err)
		}
	}
}

// WSM-01: the world of a guest is what it was given.
func TestAmbient(t *testing.T) {
	t.Setenv("BLADEHOST_SECRET_OF_THE_HOST", "x")
	var seen *wasi.Config
	e := newEngine(t, Options{world: func(c *wasi.Config) { seen = c }})
	g := pick(t, load(t, e, watGuest(t, head+isNull+`)`)), NewWorld(World{Env: map[string]string{"B": "2", "A": "1"}}), "Wat")
	r, err := try(t, g, long, tool.Config{})
	judge(t, ok(), r, err)
	if fmt.Sprint(seen.Env) != "[A=1 B=2]" || len(seen.Args) > 0 || len(seen.Mounts) > 0 || seen.Stdin != nil || seen.Random != nil {
		t.Errorf("%+v", seen)
	}
}
