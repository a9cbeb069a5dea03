package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// QUE-03 QUE-08: the defaults, and limits that make no sense.
func TestConcurrencyOptions(t *testing.T) {
	c, err := Concurrency{}.withDefaults()
	if err != nil || c != (Concurrency{ReadOnly: 10, Write: 10, Execute: 3, Queue: 1000}) {
		t.Errorf("%+v %v", c, err)
	}
	for _, bad := range []Concurrency{{ReadOnly: -1}, {Write: -1}, {Execute: -5}, {Queue: -1}} {
		if _, err := New(Options{Concurrency: bad}); abi.CodeOf(err) != abi.CodeOptions {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// gated is a tool that notes when it runs and waits to be let go.
type gated struct {
	mu      sync.Mutex
	order   []string
	running int
	most    int
	open    chan struct{}
}

func (g *gated) run(ctx context.Context, c *tool.Call) (*abi.Result, error) {
	g.mu.Lock()
	g.order = append(g.order, c.ToolCallID())
	g.running++
	g.most = max(g.most, g.running)
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		g.running--
		g.mu.Unlock()
	}()
	select {
	case <-g.open:
		return abi.Text("ok"), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// QUE-01 QUE-02 QUE-04: FIFO by kind; a cancelled waiter leaves without a trace.
func TestSlotsAreFIFO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gated{open: make(chan struct{})}
		h := newHost(t, Options{Tools: []tool.Tool{fakeTool("X", runs(g.run)), fakeTool("R", readOnly)}, Concurrency: Concurrency{Execute: 1}})
		s := sessionOn(t, h, yolo)
		var xs []*Execution
		for i := range 6 {
			xs = append(xs, s.Start(t.Context(), Call{ID: fmt.Sprint(i), Tool: "X"}))
			synctest.Wait()
		}
		wantOK(t, do(t, s, Call{Tool: "R"})) // another bucket
		xs[2].Cancel("no")
		r, _ := xs[2].Result()
		wantCode(t, r, abi.CodeAborted, abi.TypeExecution)
		if n := len(h.slots.buckets[abi.KindExecute].waiting); n != 4 {
			t.Errorf("%d wait", n)
		}
		for range 5 {
			g.open <- struct{}{}
			synctest.Wait()
		}
		for _, x := range xs {
			<-x.Done()
		}
		if got := strings.Join(g.order, ""); got != "01345" || g.most != 1 {
			t.Errorf("order %s, %d at once", got, g.most)
		}
		if b := h.slots.buckets[abi.KindExecute]; b.free != 1 || len(b.waiting) != 0 {
			t.Errorf("%d free, %d waiting", b.free, len(b.waiting))
		}
	})
}

// QUE-05 QUE-06: a slot that is granted to a call that was cancelled in the same
// moment goes on, and nothing of the call runs.
func TestGrantAndCancelTogether(t *testing.T) {
	b := &bucket{free: 0, queue: 10}
	ctx, cancel := context.WithCancelCause(t.Context())
	got := make(chan error, 1)
	go func() { _, err := b.acquire(ctx, "x"); got <- err }()
	for {
		b.mu.Lock()
		n := len(b.waiting)
		b.mu.Unlock()
		if n == 1 {
			break
		}
	}
	cause := &tool.CancelError{Reason: abi.CancelRequest}
	cancel(cause)
	b.release()
	if err := <-got; err != cause {
		t.Errorf("%v", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.free != 1 || len(b.waiting) != 0 {
		t.Errorf("%d free, %d waiting", b.free, len(b.waiting))
	}
}

func TestNothingRunsAfterACancelledWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gated{open: make(chan struct{})}
		var rec recorder
		h := newHost(t, Options{Tools: []tool.Tool{fakeTool("X", runs(g.run))}, Concurrency: Concurrency{Execute: 1}})
		s := sessionOn(t, h, SessionOptions{Mode: policy.ModeYolo, Lifecycle: &ledger{rec: &rec}, Hooks: []Hook{{Event: HookPostToolUse, Run: func(context.Context, HookInput) (HookOutput, error) { rec.add("post"); return HookOutput{}, nil }}}})
		a := s.Start(t.Context(), Call{ID: "a", Tool: "X"})
		synctest.Wait()
		b := s.Start(t.Context(), Call{ID: "b", Tool: "X"})
		synctest.Wait()
		b.Cancel("no")
		r, _ := b.Result()
		wantCode(t, r, abi.CodeAborted, abi.TypeExecution)
		if got := strings.Join(rec.list(), "|"); got != "scheduled X|started|scheduled X|settled X error" {
			t.Errorf("%s", got)
		}
		close(g.open)
		<-a.Done()
	})
}

// QUE-07 QUE-09: a full queue; a failing call gives its slot back.
func TestQueueFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gated{open: make(chan struct{})}
		h := newHost(t, Options{Tools: []tool.Tool{fakeTool("X", runs(g.run)), fakeTool("Bad", runs(func(context.Context, *tool.Call) (*abi.Result, error) { panic("no") }))}, Concurrency: Concurrency{Execute: 1, Queue: 2}})
		s := sessionOn(t, h, yolo)
		for range 3 {
			s.Start(t.Context(), Call{Tool: "X"})
			synctest.Wait()
		}
		wantCode(t, do(t, s, Call{Tool: "X"}), abi.CodeQueueFull, abi.TypeExecution)
		close(g.open)
		synctest.Wait()
		for range 3 {
			wantCode(t, do(t, s, Call{Tool: "Bad"}), abi.CodeToolPanic, abi.TypeExecution)
		}
		if b := h.slots.buckets[abi.KindExecute]; b.free != 1 {
			t.Errorf("%d free", b.free)
		}
	})
}

// QUE-14: three prompts that nobody answers block nobody, in late admission.
func TestConfirmationsHoldNoSlot(t *testing.T) {
	for _, early := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			user := tool.ConfirmFunc(func(ctx context.Context, c tool.Confirmation) (tool.ConfirmationAnswer, error) {
				if c.ToolName == "Quick" {
					return tool.ConfirmationAnswer{Approved: true}, nil
				}
				<-ctx.Done()
				return tool.ConfirmationAnswer{}, ctx.Err()
			})
			s := session(t, SessionOptions{Confirm: user, EarlyAdmission: early}, fakeTool("Asks"), fakeTool("Quick"))
			for range 3 {
				s.Start(t.Context(), Call{Tool: "Asks"})
			}
			synctest.Wait()
			x := s.Start(t.Context(), Call{Tool: "Quick"})
			synctest.Wait()
			select {
			case <-x.Done():
				if early {
					t.Error("early admission does not hold slots")
				}
			default:
				if !early {
					t.Error("waiting prompts hold slots")
				}
			}
			if err := s.Abort(t.Context(), "end"); err != nil {
				t.Error(err)
			}
		})
	}
}

// QUE-10 QUE-11 QUE-13: readers share, a writer is alone, the order is fair, and
// the wait has a limit.
func TestFileLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFileLocks()
		take := func(write bool, paths ...string) (<-chan error, *func()) {
			c := make(chan error, 1)
			var rel func()
			go func() {
				r, err := l.acquire(t.Context(), paths, write, 30*time.Second)
				rel = r
				c <- err
			}()
			synctest.Wait()
			return c, &rel
		}
		held := func(c <-chan error) bool {
			select {
			case err := <-c:
				if err != nil {
					t.Fatal(err)
				}
				return true
			default:
				return false
			}
		}
		r1, rel1 := take(false, "a")
		r2, rel2 := take(false, "a")
		w, relW := take(true, "a")
		r3, rel3 := take(false, "a")
		other, relO := take(true, "b")
		if !held(r1) || !held(r2) || held(w) || held(r3) || !held(other) {
			t.Fatal("who holds what")
		}
		(*rel1)()
		synctest.Wait()
		if held(w) {
			t.Fatal("the writer did not wait for the second reader")
		}
		(*rel2)()
		synctest.Wait()
		if !held(w) || held(r3) {
			t.Fatal("the writer comes before the reader behind it")
		}
		(*relW)()
		synctest.Wait()
		if !held(r3) {
			t.Fatal("the reader waits for nobody")
		}
		late, _ := take(true, "a")
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if err := <-late; abi.CodeOf(err) != abi.CodeLockTimeout {
			t.Errorf("%v", err)
		}
		(*rel3)()
		(*relO)()
		if len(l.files) != 0 {
			t.Errorf("locks are left: %v", l.files)
		}
		ctx, cancel := context.WithCancel(t.Context())
		hold, _ := l.acquire(ctx, []string{"a"}, true, time.Hour)
		got := make(chan error, 1)
		go func() { _, err := l.acquire(ctx, []string{"a"}, true, time.Hour); got <- err }()
		synctest.Wait()
		cancel()
		if err := <-got; err != context.Canceled {
			t.Errorf("%v", err)
		}
		hold()
		if len(l.files) != 0 {
			t.Errorf("locks are left: %v", l.files)
		}
	})
}

// QUE-10 QUE-12: two spellings of one file, and a link to it, share one lock.
func TestSameFileInCalls(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f.txt")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	running, most := map[string]int{}, map[string]int{}
	f := fakeTool("W", writes, runs(func(_ context.Context, c *tool.Call) (*abi.Result, error) {
		key := "same"
		if strings.Contains(string(c.Input), "other") {
			key = "other"
		}
		mu.Lock()
		running[key]++
		most[key] = max(most[key], running[key])
		most["all"] = max(most["all"], running["same"]+running["other"])
		mu.Unlock()
		time.Sleep(3 * time.Millisecond)
		mu.Lock()
		running[key]--
		mu.Unlock()
		return abi.Text("ok"), nil
	}))
	opt := SessionOptions{Mode: policy.ModeYolo, Context: abi.RuntimeContext{Capabilities: &abi.ContextCapabilities{Filesystem: &abi.FilesystemFacet{Roots: []string{dir}, Cwd: dir}}}}
	s := session(t, opt, f)
	var wg sync.WaitGroup
	for _, p := range []string{file, dir + "/./f.txt", dir + "/sub/../f.txt", filepath.Join(dir, "link"), "f.txt", filepath.Join(dir, "other.txt"), filepath.Join(dir, "other.txt")} {
		wg.Go(func() { wantOK(t, do(t, s, Call{Tool: "W", Input: in(fmt.Sprintf(`{"file_path":%q}`, p))})) })
	}
	wg.Wait()
	if most["same"] != 1 || most["other"] != 1 || most["all"] < 2 {
		t.Errorf("at once: %v", most)
	}
}

// PLN-01 PLN-02: one call or plan mode is serial, results come in call order.
func TestTurn(t *testing.T) {
	if Plan(1, policy.ModeDefault) || Plan(3, policy.ModePlan) || !Plan(2, policy.ModeDefault) || !Plan(0, policy.ModeYolo) {
		t.Error("the plan is wrong")
	}
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		at, most := 0, 0
		f := fakeTool("T", readOnly, runs(func(_ context.Context, c *tool.Call) (*abi.Result, error) {
			mu.Lock()
			at++
			most = max(most, at)
			mu.Unlock()
			time.Sleep(time.Duration(10-len(c.ToolCallID())) * time.Second)
			mu.Lock()
			at--
			mu.Unlock()
			return abi.Text(c.ToolCallID()), nil
		}))
		s := session(t, yolo, f)
		calls := []Call{{ID: "a", Tool: "T"}, {ID: "bb", Tool: "T"}, {ID: "ccc", Tool: "T", Arguments: `[]`}, {ID: "dddd", Tool: "Nope"}, {ID: "eeeee", Tool: "T"}}
		out := s.Turn(t.Context(), calls).Wait()
		var got []string
		for _, o := range out {
			got = append(got, o.ID+":"+string(o.Result.Status))
		}
		if want := "a:success bb:success ccc:error dddd:error eeeee:success"; strings.Join(got, " ") != want || most != 3 {
			t.Errorf("%v, %d at once", got, most)
		}
		most = 0
		if err := s.SetMode(policy.ModePlan); err != nil {
			t.Fatal(err)
		}
		for i := range calls {
			calls[i].ID += "-2"
		}
		s.Turn(t.Context(), calls).Wait()
		if most != 1 {
			t.Errorf("%d at once in plan mode", most)
		}
	})
}

// LIF-11: an error of a tool that cascades stops its siblings; one that never
// started is not recorded as run.
func TestCascade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := fakeTool("Fails", runs(func(context.Context, *tool.Call) (*abi.Result, error) {
			time.Sleep(time.Second)
			return nil, fmt.Errorf("no")
		}), func(f *fake) { f.spec.Cascade = true })
		s := session(t, yolo, fails, fakeTool("Waits", readOnly, obeys))
		out := s.Turn(t.Context(), []Call{{Tool: "Fails"}, {Tool: "Waits"}}).Wait()
		if out[1].Result.Error == nil || out[1].Result.Error.Code != abi.CodeCascade {
			t.Errorf("%+v", out[1].Result)
		}
	})
}

func BenchmarkSessionParallel(b *testing.B) {
	for _, n := range []int{1, 2, 8, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			h := newHost(b, Options{Tools: []tool.Tool{plain{fakeTool("Noop", readOnly)}}, Concurrency: Concurrency{ReadOnly: 64}})
			s := sessionOn(b, h, SessionOptions{})
			b.ReportAllocs()
			b.SetParallelism(max(1, n/2))
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if r, err := s.Run(context.Background(), Call{Tool: "Noop", Input: in(`{}`)}); err != nil || r.IsError() {
						b.Error(r, err)
					}
				}
			})
		})
	}
}
