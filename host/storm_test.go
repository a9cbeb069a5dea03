package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// storm is a session in which everybody misbehaves at random.
type storm struct {
	mu   sync.Mutex
	rand *rand.Rand
}

func (s *storm) n(most int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.IntN(most)
}

// moment waits a random time, or until ctx ends, or does not look at ctx.
func (s *storm) moment(ctx context.Context) error {
	d := time.Duration(s.n(2000)) * time.Millisecond
	if s.n(6) == 0 { // deaf, but not for long
		time.Sleep(d)
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *storm) tool(ctx context.Context, c *tool.Call) (*abi.Result, error) {
	for range s.n(4) {
		var y abi.Yield
		switch s.n(5) {
		case 0:
			y = abi.Progress("p", 1, 2)
		case 1:
			y = abi.Message("m")
		case 2:
			y = abi.EffectYield(abi.Effect{Type: abi.EffectContextPatch, Patch: in(`{"metadata":{"a":1}}`)})
		case 3:
			y = abi.EffectYield(abi.Effect{Type: abi.EffectNewMessages, Messages: []json.RawMessage{in(`{"role":"user","content":"x"}`)}})
		case 4:
			y = abi.Yield{Kind: "odd"}
		}
		if err := c.Yield(y); err != nil && s.n(2) == 0 {
			return nil, err
		}
	}
	if err := s.moment(ctx); err != nil {
		return nil, err
	}
	switch s.n(10) {
	case 0:
		panic("a tool panics")
	case 1:
		return nil, errors.New("a tool fails")
	case 2:
		return nil, nil
	case 3:
		return abi.Success(in(`{"a":1,"a":2}`)), nil
	case 4:
		return &abi.Result{Status: "odd"}, nil
	case 5:
		go func() { _ = c.Yield(abi.Message("late")) }()
	}
	return abi.Success(in(`{"done":true}`)), nil
}

func (s *storm) confirm(ctx context.Context, _ tool.Confirmation) (tool.ConfirmationAnswer, error) {
	if err := s.moment(ctx); err != nil {
		return tool.ConfirmationAnswer{}, err
	}
	switch s.n(6) {
	case 0:
		return tool.ConfirmationAnswer{Reason: "no"}, nil
	case 1:
		return tool.ConfirmationAnswer{}, errors.New("the window broke")
	case 2:
		panic("a confirmation panics")
	case 3:
		return tool.ConfirmationAnswer{Approved: true, Scope: "session", TargetMode: "odd"}, nil
	}
	return tool.ConfirmationAnswer{Approved: true, Scope: []string{"once", "session"}[s.n(2)]}, nil
}

func (s *storm) hook(ctx context.Context, _ HookInput) (HookOutput, error) {
	switch s.n(20) {
	case 0:
		return HookOutput{}, errors.New("a hook fails")
	case 1:
		panic("a hook panics")
	case 2:
		return HookOutput{Action: HookSkip, Reason: "skipped"}, nil
	case 3:
		return HookOutput{Action: HookAbort}, nil
	case 4:
		return HookOutput{ModifiedInput: in(`{"x":1}`), ModifiedOutput: in(`"changed"`)}, nil
	case 5:
		return HookOutput{ModifiedInput: in(`[]`), ModifiedOutput: in(`{`)}, nil
	case 6:
		return HookOutput{}, s.moment(ctx)
	}
	return HookOutput{}, nil
}

func (s *storm) middleware(_ context.Context, _ MiddlewareCall, next Next) (*abi.Result, error) {
	switch s.n(20) {
	case 0:
		return nil, errors.New("a middleware fails")
	case 1:
		panic("a middleware panics")
	case 2:
		return abi.Text("short"), nil
	case 3:
		next(nil)
		return next(nil), nil
	case 4:
		return next(in(`{"x":2}`)), nil
	case 5:
		return next(in(`nope`)), nil
	}
	return next(nil), nil
}

func (s *storm) judge(ctx context.Context, _ policy.Request) (tool.Permission, error) {
	switch s.n(8) {
	case 0:
		return tool.Permission{Behavior: tool.PermissionDeny}, nil
	case 1:
		return tool.Permission{}, errors.New("a handler fails")
	case 2:
		return tool.Permission{Behavior: tool.PermissionAllow, UpdatedInput: in(`{"y":1}`)}, nil
	case 3:
		return tool.Permission{Behavior: tool.PermissionAsk, Message: "sure?"}, s.moment(ctx)
	}
	return tool.Permission{Behavior: tool.PermissionAllow}, nil
}

// EVT-03 LIF-15 QUE-09 YLD-04: whatever everybody does, each call has one result, each that was
// scheduled is settled once, its events are in order and strict, and nothing is left behind.
func TestStorm(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { storming(t, &storm{rand: rand.New(rand.NewPCG(seed, 7))}) })
		})
	}
}

func storming(t *testing.T, st *storm) {
	var tools []tool.Tool
	for i, change := range []func(*fake){readOnly, writes, canCancel, func(f *fake) { f.spec.Cascade, f.spec.MaxResultSize = true, 5 }} {
		f := fakeTool(fmt.Sprint("T", i), change, runs(st.tool))
		f.spec.Effects = allEffects
		tools = append(tools, f)
	}
	var rec recorder
	led := &ledger{rec: &recorder{}}
	hooks := []Hook{}
	for _, ev := range []HookEvent{HookPreToolUse, HookPermissionRequest, HookPostToolUse, HookPostToolFailure} {
		hooks = append(hooks, Hook{Event: ev, Run: st.hook})
	}
	s := session(t, SessionOptions{ID: "s", Events: rec.event, Lifecycle: led, Hooks: hooks, Middleware: []Middleware{st.middleware}, PermissionHandler: policy.HandlerFunc(st.judge),
		Confirm: tool.ConfirmFunc(st.confirm), ToolTimeout: time.Second, Concurrency: &Concurrency{ReadOnly: 2, Write: 1, Execute: 2, Queue: 20}, Context: roots(t.TempDir())}, tools...)
	var wg sync.WaitGroup
	outcomes := make(chan Outcome, 1000)
	started := 0
	for i := range 80 {
		calls := make([]Call, 1+st.n(4))
		for k := range calls {
			calls[k] = Call{ID: fmt.Sprintf("%d-%d", i, k), Tool: fmt.Sprint("T", st.n(5)), Input: mustJSON(map[string]any{"file_path": fmt.Sprint("f", st.n(3))}), TurnID: fmt.Sprint(i)}
			if st.n(15) == 0 {
				calls[k].Input, calls[k].Arguments = nil, `[`
			}
		}
		started += len(calls)
		wg.Go(func() {
			time.Sleep(time.Duration(st.n(8000)) * time.Millisecond)
			turn := s.Turn(t.Context(), calls)
			if x := turn.Executions()[0]; st.n(3) == 0 {
				for range x.Yields() {
					if st.n(3) == 0 {
						break
					}
				}
			}
			for _, o := range turn.Wait() {
				outcomes <- o
			}
			turn.Messages()
		})
	}
	wg.Go(func() {
		for i := range 12 {
			time.Sleep(time.Second)
			switch st.n(4) {
			case 0:
				_ = s.Abort(t.Context(), "storm")
			case 1:
				_ = s.Steer(t.Context(), fmt.Sprint("input ", i))
			case 2:
				s.EndTurn()
			case 3:
				_ = s.SetMode([]policy.Mode{policy.ModeDefault, policy.ModePlan, policy.ModeYolo}[st.n(3)])
			}
		}
	})
	wg.Wait()
	close(outcomes)
	ended := map[string]int{}
	for o := range outcomes {
		ended[o.ID]++
		if o.Err != nil || o.Result.Valid() != "" || o.Result.Metadata["executionId"] == nil {
			t.Errorf("%s: %+v %v", o.ID, o.Result, o.Err)
		}
	}
	if len(ended) != started {
		t.Errorf("%d outcomes of %d calls", len(ended), started)
	}
	time.Sleep(10 * time.Second) // what was deaf has heard by now
	synctest.Wait()
	calm(t, s, &rec, led)
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
}

// calm holds a session in which nothing runs any more to what it must be.
func calm(t *testing.T, s *Session, rec *recorder, led *ledger) {
	t.Helper()
	if err := s.Pending(); err != nil {
		t.Errorf("pending: %v", err)
	}
	for kind, b := range s.slots.buckets {
		if want := map[abi.Kind]int{abi.KindReadOnly: 2, abi.KindWrite: 1, abi.KindExecute: 2}[kind]; b.free != want || len(b.waiting) != 0 {
			t.Errorf("%s: %d slots are free, %d wait", kind, b.free, len(b.waiting))
		}
	}
	if n := len(s.h.locks.files); n != 0 {
		t.Errorf("%d locks are left", n)
	}
	if n := len(s.active); n != 0 {
		t.Errorf("%d calls are active", n)
	}
	phase := map[string]int{} // 1 after tool_use, 2 after tool_result
	for _, e := range rec.seen() {
		raw, err := abi.Marshal(e)
		if err == nil {
			_, err = DecodeEvent(raw, false)
		}
		if err != nil {
			t.Errorf("%v: %+v", err, e)
		}
		switch {
		case e.Type == EventInputApplied:
		case e.Type == EventToolUse && phase[e.ID] == 0, e.Type == EventToolResult && phase[e.ID] == 1:
			phase[e.ID]++
		case e.Type == EventToolUse, e.Type == EventToolResult, phase[e.ID] != 1:
			t.Errorf("%s of %s comes at the wrong time", e.Type, e.ID)
		}
	}
	for id, p := range phase {
		if p != 2 {
			t.Errorf("%s has no result", id)
		}
	}
	count := map[string]int{}
	for _, e := range led.scheduled {
		count[e.ToolCallID]++
	}
	for _, e := range led.settled {
		count[e.ToolCallID] += 10
	}
	for id, n := range count {
		if n != 11 {
			t.Errorf("%s was scheduled %d times and settled %d times", id, n%10, n/10)
		}
	}
}
