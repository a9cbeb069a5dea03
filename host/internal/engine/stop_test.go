package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// admitted is a call as the pipeline makes it: the place among the running guests
// comes first, the deadline starts after it.
func admitted(t testing.TB, g *Guest, limit time.Duration, cfg tool.Config) (*abi.Result, time.Duration, error) {
	t.Helper()
	adm, err := g.Admit(t.Context())
	if err != nil {
		t.Error(err)
		return nil, 0, err
	}
	defer adm.Release()
	cfg.Admission = adm
	from := time.Now()
	r, err := try(t, g, limit, cfg)
	return r, time.Since(from) - limit, err
}

// INT-10, WSM-08, B01: 200 endless guests at once. Each has the processor for its
// own time only, whoever waits behind it.
func TestManyEndlessGuests(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	e := newEngine(t, Options{})
	p := load(t, e, watGuest(t, head+`(loop $l (br $l)))`))
	g := pick(t, p, emptyWorld(), "Wat")
	var worst time.Duration
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			r, over, err := admitted(t, g, 20*time.Millisecond, tool.Config{})
			if r != nil || !errors.Is(err, tool.ErrPreempted) || tool.Reason(t.Context()) != abi.CancelNone {
				t.Error(r, err)
			}
			var cause *tool.CancelError
			if !errors.As(err, &cause) || cause.Reason != abi.CancelDeadline {
				t.Errorf("the cause is %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			worst = max(worst, over)
		})
	}
	wg.Wait()
	t.Logf("worst overrun %v", worst)
	if worst > enough {
		t.Errorf("a guest overran its deadline by %v", worst)
	}
}

// The host's garbage collector does not wait for guests.
func TestCollectorWhileGuestsRun(t *testing.T) {
	e := newEngine(t, Options{})
	g := pick(t, load(t, e, watGuest(t, head+`(loop $l (br $l)))`)), emptyWorld(), "Wat")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			if r, err := g.Execute(ctx, tool.NewCall(tool.Config{})); r != nil || !errors.Is(err, context.Canceled) {
				t.Error(r, err)
			}
		})
	}
	done := make(chan struct{})
	go func() { // ends with the test: a collection that waits for a guest waits for ever
		defer close(done)
		for range 3 {
			runtime.GC()
		}
	}()
	select {
	case <-done:
	case <-time.After(long):
		t.Error("the collector waits for a guest")
	}
	cancel()
	wg.Wait()
}

// With one processor the timer of a deadline runs only if the guest lets it.
func TestOneProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	e := newEngine(t, Options{})
	for _, body := range []string{`(loop $l (br $l)))`, `(loop $l (drop (call $deadline)) (br $l)))`} {
		g := pick(t, load(t, e, watGuest(t, head+body)), emptyWorld(), "Wat")
		r, over, err := admitted(t, g, short, tool.Config{})
		judge(t, stops(), r, err)
		if over > enough {
			t.Errorf("it overran by %v", over)
		}
	}
}

// asked is a guest's first look at whether it should stop; the host sees the message.
const asked = `(drop (call $yield (i32.const 20) (i32.const 19))) `

// told runs a guest whose call ends as at a deadline, soon after it has asked, and says how
// long it was still there.
func told(t testing.TB, g *Guest) (*abi.Result, time.Duration, error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var ended atomic.Int64
	begun := time.Now()
	r, err := g.Execute(ctx, tool.NewCall(tool.Config{Yield: func(abi.Yield, func() func()) error {
		time.AfterFunc(5*time.Millisecond, func() { // it is back in the guest by then, or learns it from the yield
			ended.Store(int64(time.Since(begun)))
			cancel(&tool.CancelError{Reason: abi.CancelDeadline})
		})
		return nil
	}}))
	return r, time.Since(begun) - time.Duration(ended.Load()), err
}

// The ladder: told, then stopped; and never stopped while there is nothing to stop
// for.
func TestLadder(t *testing.T) {
	patient, brief := newEngine(t, Options{}), newEngine(t, Options{cleanup: 4 * notice})
	for _, c := range []struct {
		name, body string
		want       verdict
		// least is how long after its deadline the guest is still there.
		least time.Duration
		// asks says that the call ends when it has asked, however long that took.
		asks bool
	}{
		{"never asks", `(loop $l (br $l)))`, stops(), 0, false},
		{"asks once, before", asked + `(drop (call $cancelled)) (loop $l (br $l)))`, stops(), notice, true},
		{"asks and does not mind", asked + `(loop $l (drop (call $cancelled)) (br $l)))`, stops(), 4 * notice, true},
		{"asks and ends with a result", asked + `(loop $l (br_if $l (i32.eqz (call $cancelled)))) ` + isNull + `)`, ok(), 0, true},
		{"asks and ends without", asked + `(loop $l (br_if $l (i32.eqz (call $cancelled)))))`, fails(abi.CodeGuestNoResult), 0, true},
		{"asks and traps", asked + `(loop $l (br_if $l (i32.eqz (call $cancelled)))) unreachable)`, fails(abi.CodeGuestTrap), 0, true},
		{"is told by the deadline", `(loop $l (br_if $l (i64.ne (call $deadline) (i64.const 0)))) ` + isNull + `)`, ok(), 0, false},
		{"is told why", `(local i32) ` + asked + `(loop $l (br_if $l (i32.eqz (local.tee 2 (call $cancelled))))) (if (i32.ne (local.get 2) (i32.const 3)) (then unreachable)) ` + isNull + `)`, ok(), 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := patient
			if c.want.stopped {
				e = brief
			}
			g := pick(t, load(t, e, watGuest(t, head+c.body)), emptyWorld(), "Wat")
			var r *abi.Result
			var over time.Duration
			var err error
			if c.asks {
				r, over, err = told(t, g)
			} else {
				r, over, err = admitted(t, g, short, tool.Config{})
			}
			if c.name == "is told by the deadline" && err != nil {
				// It never asked for a reason, so it may have been stopped just before.
				judge(t, stops(), r, err)
				return
			}
			judge(t, c.want, r, err)
			over += time.Millisecond // the deadline is told in whole milliseconds
			if over < c.least || over > enough {
				t.Errorf("it ended %v after its deadline, want at least %v", over, c.least)
			}
		})
	}
}

// A guest that asks, and had no processor when its call ended, still has its time to ask again.
func TestNoticeStartsWhenItRuns(t *testing.T) {
	end := time.Now()
	ctx, cancel := context.WithDeadline(t.Context(), end)
	defer cancel()
	<-ctx.Done()
	for polled, want := range map[bool]stop{true: running, false: stopCall} {
		i := &instance{plugin: &Plugin{e: &Engine{}}, ctx: ctx, phase: phaseRun, polled: polled}
		for _, late := range []time.Duration{time.Hour, time.Hour + notice - 1} {
			if got := i.due(end.Add(late)); got != want {
				t.Errorf("polled %v, %v after the end: %v", polled, late, got)
			}
		}
		if got := i.due(end.Add(time.Hour + notice)); got != stopCall {
			t.Errorf("polled %v: it was not stopped", polled)
		}
	}
}

// INT-07: a result that is there when the call is cancelled stays; the time after
// it is the guest's own running time only.
func TestAfterRet(t *testing.T) {
	e := newEngine(t, Options{cleanup: 4 * notice})
	t.Run("runs on", func(t *testing.T) {
		g := pick(t, load(t, e, watGuest(t, head+isNull+`(loop $l (br $l)))`)), emptyWorld(), "Wat")
		from := time.Now()
		r, err := try(t, g, long, tool.Config{})
		judge(t, ok(), r, err)
		if d := time.Since(from); d < abi.AfterRet || d > enough {
			t.Errorf("it ended after %v", d)
		}
		if idleInstance(g.last.Load()) != nil {
			t.Error("the instance was kept")
		}
	})
	t.Run("runs on past the end of the call", func(t *testing.T) {
		g := pick(t, load(t, e, watGuest(t, head+asked+isNull+`(loop $l (br $l)))`)), emptyWorld(), "Wat")
		r, _, err := told(t, g)
		judge(t, ok(), r, err)
	})
	t.Run("waits", func(t *testing.T) {
		// It sleeps for longer than it may run.
		b := watModule(t, `(module
		 (import "blade_v1" "ret" (func $ret (param i32 i32 i32)))
		 (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
		 (memory (export "memory") 1) (data (i32.const 16) "null")
		 `+head+isNull+`(i64.store (i32.const 1024) (i64.const 7)) (i32.store (i32.const 1040) (i32.const 1)) (i64.store (i32.const 1048) (i64.const 300000000))
		 (drop (call $poll (i32.const 1024) (i32.const 2048) (i32.const 1) (i32.const 4096))) (drop (call $poll (i32.const 1024) (i32.const 2048) (i32.const 1) (i32.const 4096)))))`)
		g := pick(t, load(t, e, b), emptyWorld(), "Wat")
		r, err := try(t, g, long, tool.Config{})
		judge(t, ok(), r, err)
		if idleInstance(g.last.Load()) == nil {
			t.Error("the instance was not kept")
		}
	})
}

// B06, B07: stopping one call is nothing to the next, whenever it comes.
func TestCancelAgainAndAgain(t *testing.T) {
	e := newEngine(t, Options{})
	// The second tool's loop ends when its input says so.
	g := pick(t, load(t, e, watGuest(t, head+`(if (i32.eq (local.get 1) (i32.const 2)) (then (loop $l (br $l)))) `+isNull+`)`)), emptyWorld(), "Wat")
	for range 3 {
		r, err := try(t, g, short, tool.Config{Input: []byte(`{}`)})
		judge(t, stops(), r, err)
	}
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := g.Execute(ctx, tool.NewCall(tool.Config{Input: []byte(`{"a":1}`)}))
		cancel() // late: it returned already
		judge(t, ok(), r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := g.Execute(ctx, tool.NewCall(tool.Config{Input: []byte(`{}`)})); r != nil || err == nil {
		t.Errorf("cancelled before: %v, %v", r, err)
	}
}

// One call's stop never touches another, of the same plugin or not.
func TestStopsOneOnly(t *testing.T) {
	e := newEngine(t, Options{Running: 4})
	p := load(t, e, watGuest(t, head+`(local i32) (if (i32.eq (local.get 1) (i32.const 2)) (then (loop $l (br $l))))
	 (local.set 2 (i32.const 3000000)) (loop $k (br_if $k (local.tee 2 (i32.sub (local.get 2) (i32.const 1))))) `+isNull+`)`))
	g := pick(t, p, emptyWorld(), "Wat")
	var wg sync.WaitGroup
	for k := range 4 {
		wg.Go(func() {
			for range 30 {
				if k%2 == 0 {
					r, err := try(t, g, 2*time.Millisecond, tool.Config{Input: []byte(`{}`)})
					if r != nil || err == nil {
						t.Error(r, err)
					}
					continue
				}
				if r, err := try(t, g, long, tool.Config{Input: []byte(`{"a":1}`)}); err != nil || r.IsError() {
					t.Error(r, err)
				}
			}
		})
	}
	wg.Wait()
}

// The gate: a guest that waits for its consumer or for a service holds no place.
func TestGate(t *testing.T) {
	e := newEngine(t, Options{Running: 1})
	yields := pick(t, load(t, e, watGuest(t, head+`(if (call $yield (i32.const 20) (i32.const 19)) (then unreachable)) `+isNull+`)`)), emptyWorld(), "Wat")
	calls := pick(t, load(t, e, watGuest(t, head+`(drop (call $call (i32.const 39) (i32.const 11) (i32.const 0) (i32.const 0))) `+isNull+`)`)), emptyWorld(), "Wat")
	asked := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		// The consumer reads on only when the other call is over.
		r, _, err := admitted(t, yields, long, tool.Config{Yield: func(_ abi.Yield, idle func() func()) error {
			defer idle()()
			asked <- struct{}{}
			<-asked
			return nil
		}})
		judge(t, ok(), r, err)
	})
	<-asked
	r, _, err := admitted(t, calls, long, tool.Config{Invoke: func(ctx context.Context, _ string, _ tool.Request) (tool.Answer, error) {
		// The service runs a guest itself.
		r, _, err := admitted(t, pick(t, calls.plugin, NewWorld(World{FineClock: true}), "Wat"), long, tool.Config{})
		if err != nil || r.IsError() {
			t.Error(r, err)
		}
		return tool.Answer{}, nil
	}})
	judge(t, ok(), r, err)
	asked <- struct{}{}
	wg.Wait()
}

// CLN-05: a place that the pipeline releases while its guest is stuck in a host
// function is not taken again when the function returns after all.
func TestReleasedWhileStuck(t *testing.T) {
	e := newEngine(t, Options{Running: 1})
	g := pick(t, load(t, e, watGuest(t, head+`(drop (call $call (i32.const 39) (i32.const 11) (i32.const 0) (i32.const 0))) `+isNull+`)`)), emptyWorld(), "Wat")
	for _, ended := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		adm, err := g.Admit(ctx)
		if err != nil {
			t.Fatal(err)
		}
		stuck, free := make(chan struct{}), make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _ = g.Execute(ctx, tool.NewCall(tool.Config{Admission: adm, Invoke: func(context.Context, string, tool.Request) (tool.Answer, error) {
				close(stuck)
				<-free
				return tool.Answer{}, nil
			}}))
		})
		<-stuck
		if ended {
			cancel()
		}
		adm.Release()
		close(free)
		wg.Wait()
		cancel()
		if n := len(e.gate.slots); n != 0 {
			t.Fatalf("%d places are taken", n)
		}
	}
}

// Closing a plugin stops its calls; what they use is freed when they are gone.
func TestCloseWhileRunning(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	e := newEngine(t, Options{Running: 4})
	for name, body := range map[string]string{
		"loops":  `(loop $l (br $l)))`,
		"sleeps": `(drop (call $cancelled)) (loop $l (drop (call $deadline)) (br $l)))`,
	} {
		t.Run(name, func(t *testing.T) {
			p := load(t, e, watGuest(t, head+body))
			g := pick(t, p, emptyWorld(), "Wat")
			if err := g.Warm(t.Context()); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					r, err := try(t, g, long, tool.Config{})
					if r != nil || err == nil {
						t.Error(r, err)
					}
				})
			}
			if err := p.Close(t.Context()); err != nil {
				t.Error(err)
			}
			wg.Wait()
			if _, err := try(t, g, long, tool.Config{}); abi.CodeOf(err) != abi.CodeShutdown {
				t.Errorf("a call of a closed plugin: %v", err)
			}
		})
	}
}

// CLN-05: while a host function is stuck, closing fails and frees nothing of it.
func TestCloseWhileStuck(t *testing.T) {
	e := newEngine(t, Options{})
	p := load(t, e, watGuest(t, head+`(drop (call $call (i32.const 39) (i32.const 11) (i32.const 0) (i32.const 0))) `+isNull+`)`))
	g := pick(t, p, emptyWorld(), "Wat")
	stuck, free := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		r, err := try(t, g, long, tool.Config{Invoke: func(context.Context, string, tool.Request) (tool.Answer, error) {
			close(stuck)
			<-free
			return tool.Answer{}, nil
		}})
		if err != nil && !errors.Is(err, tool.ErrPreempted) {
			t.Error(r, err)
		}
	})
	<-stuck
	ctx, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	if err := e.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("closed: %v", err)
	}
	close(free)
	wg.Wait()
	if err := e.Close(t.Context()); err != nil {
		t.Errorf("then: %v", err)
	}
}

// INT-09, WSM-03: ten thousand calls that end in all ways leave nothing: no
// goroutine, descriptor or mapping, and the host does not grow.
func TestNothingLeaks(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	e := newEngine(t, Options{})
	spins := pick(t, load(t, e, cGuest(t, "tool.wasm")), emptyWorld(), "Spin")
	greets := pick(t, spins.plugin, emptyWorld(), "Greet")
	tables := pick(t, load(t, e, watGuest(t, head+`(drop (table.grow $t (ref.null func) (i32.const 100))) (drop (memory.grow (i32.const 40))) (memory.fill (i32.const 1024) (i32.const 1) (i32.const 100000)) `+isNull+`) (table $t 1 funcref)`)), emptyWorld(), "Wat")
	n := 10_000
	if testing.Short() || raceEnabled {
		n = 1000
	}
	random := rand.New(rand.NewPCG(1, 2))
	round := func(n int) {
		for k := range n {
			ctx, cancel := context.WithCancel(t.Context())
			g, input := greets, `{"name":"Ada","n":1}`
			switch k % 5 {
			case 1, 2:
				g, input = spins, `{"n":1}`
			case 3:
				g, input = tables, `{}`
			}
			timer := time.AfterFunc(time.Duration(random.IntN(400))*time.Microsecond, cancel)
			r, err := g.Execute(ctx, tool.NewCall(tool.Config{Input: []byte(input)}))
			if (err == nil) == (r == nil) {
				t.Fatal(r, err)
			}
			timer.Stop()
			cancel()
		}
		runtime.GC()
	}
	round(n / 10)
	before := countResources(t)
	round(n)
	after := countResources(t)
	t.Logf("before %+v, after %+v", before, after)
	if after.fds > before.fds+2 || after.maps > before.maps+200 || after.rss > before.rss+64<<20 {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

type resources struct{ fds, maps, rss int }

// countResources reads what the kernel counts, where it does.
func countResources(t testing.TB) (r resources) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Log(err)
		return resources{}
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	r.fds, r.maps = len(fds), strings.Count(string(maps), "\n")
	r.rss = anonymous(t)
	return r
}

// anonymous is the resident memory of the process that is its own, in bytes.
func anonymous(t testing.TB) int {
	t.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", "self", "status"))
	if err != nil {
		t.Log(err)
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, "RssAnon:"); found {
			n := 0
			for _, c := range rest {
				if c >= '0' && c <= '9' {
					n = 10*n + int(c-'0')
				}
			}
			return n << 10
		}
	}
	return 0
}

// Idle instances end after two sweeps, and then what they were made from.
func TestIdleInstancesEnd(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	level := snapshot
	e := newEngine(t, Options{IdleTime: time.Hour, level: &level})
	p := load(t, e, watGuest(t, head+`(memory.fill (i32.const 1024) (i32.const 1) (i32.const 60000)) `+isNull+`)`))
	world := NewWorld(World{Env: map[string]string{"K": "v"}})
	g := pick(t, p, world, "Wat")
	pools := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.pools)
	}
	for range 2 {
		r, err := try(t, g, long, tool.Config{})
		judge(t, ok(), r, err)
		pl := g.last.Load()
		for k, want := range []struct {
			cold, there bool
			pools       int
		}{{true, true, 1}, {true, false, 0}} {
			pl.sweep()
			i := idleInstance(pl)
			if (i != nil) != want.there || (i != nil && i.cold != want.cold) || pools() != want.pools {
				t.Fatalf("sweep %d: %v, %d pools", k, i, pools())
			}
			if i != nil {
				atHome(t, pl, i)
			}
		}
	}
}

// The number of instances that nobody uses is bounded.
func TestIdleBound(t *testing.T) {
	e := newEngine(t, Options{Idle: 3, Running: 16})
	g := pick(t, load(t, e, watGuest(t, head+`(drop (call $call (i32.const 39) (i32.const 11) (i32.const 0) (i32.const 0))) `+isNull+`)`)), emptyWorld(), "Wat")
	var wg, all sync.WaitGroup
	all.Add(12)
	for range 12 {
		wg.Go(func() {
			r, err := try(t, g, long, tool.Config{Invoke: func(context.Context, string, tool.Request) (tool.Answer, error) {
				all.Done()
				all.Wait() // twelve instances at once
				return tool.Answer{}, nil
			}})
			if err != nil || r.IsError() {
				t.Error(r, err)
			}
		})
	}
	wg.Wait()
	if n := g.last.Load().idle.Load(); n < 1 || n > 4 {
		t.Errorf("%d instances are kept", n)
	}
}

// Worlds with the same grants share instances, others do not.
func TestWorlds(t *testing.T) {
	a := NewWorld(World{Env: map[string]string{"X": "1", "Y": "2"}})
	for _, c := range []struct {
		w    World
		same bool
	}{
		{World{Env: map[string]string{"Y": "2", "X": "1"}}, true},
		{World{Env: map[string]string{"X": "1"}}, false},
		{World{Env: map[string]string{"X": "1", "Y": "2"}, FineClock: true}, false},
		{World{Env: map[string]string{"X": "1\nenv \"Y=2\""}}, false},
	} {
		if got := NewWorld(c.w).key == a.key; got != c.same {
			t.Errorf("%+v: same %v", c.w, got)
		}
	}
}
