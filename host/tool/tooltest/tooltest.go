// Package tooltest is the contract of a tool as a test suite: native Go tools and
// Wasm plugins pass the same checks. It calls Execute directly, without the
// pipeline of package host, so that what the pipeline would catch is found in the
// tool itself:
//
//	func TestSearch(t *testing.T) {
//		tooltest.Run(t, tooltest.Case{
//			New:   func(testing.TB) tool.Tool { return NewSearch() },
//			Input: json.RawMessage(`{"query":"x"}`),
//			Bad:   []json.RawMessage{json.RawMessage(`{"query":1}`)},
//		})
//	}
//
// Run it with -race: the suite calls the tool from many goroutines.
package tooltest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// Case is one tool and what the suite needs to know about it.
type Case struct {
	// New makes the tool; each check gets one of its own.
	New func(t testing.TB) tool.Tool
	// Input is an input that fits the schema and that the tool takes.
	Input json.RawMessage
	// Fails says that Input ends in an error result.
	Fails bool
	// Bad are inputs that must be refused, by the schema or by the tool.
	Bad []json.RawMessage
	// Slow is an input that runs until it is cancelled; nil means there is none.
	Slow json.RawMessage
	// Config adds what the calls need, such as services; it may be nil.
	Config func(*tool.Config)
	// Cleanup is how long the tool may take to end once it is cancelled; 0 means
	// abi.CleanupTime.
	Cleanup time.Duration
}

// check is one part of the suite.
type check struct {
	name string
	do   func(*subject)
}

func checks() []check {
	return []check{
		{"definition", (*subject).definition},
		{"schema", (*subject).schema},
		{"result", (*subject).result},
		{"yields", (*subject).yields},
		{"concurrent", (*subject).concurrent},
		{"bad input", (*subject).badInput},
		{"any input", (*subject).anyInput},
		{"cancelled before", (*subject).cancelledBefore},
		{"cancel", (*subject).cancel},
		{"reader gone", (*subject).readerGone},
		{"context", (*subject).context},
	}
}

// Run checks the tool of a case. The checks are subtests where t has them.
func Run(t testing.TB, c Case) {
	t.Helper()
	if c.Cleanup == 0 {
		c.Cleanup = abi.CleanupTime
	}
	for _, k := range checks() {
		if tt, ok := t.(*testing.T); ok {
			tt.Run(k.name, func(t *testing.T) { run(t, c, k) })
			continue
		}
		run(t, c, k)
	}
}

func run(t testing.TB, c Case, k check) {
	t.Helper()
	tl := c.New(t)
	if tl == nil || tl.Spec() == nil {
		t.Errorf("%s: the tool is nil or has no definition", k.name)
		return
	}
	s := &subject{t: t, c: c, tool: tl, spec: tl.Spec()}
	before := specText(s.spec)
	k.do(s)
	if tl.Spec() != s.spec || specText(tl.Spec()) != before {
		t.Errorf("%s: the definition changed; Spec must be the same pointer to the same values each time", k.name)
	}
}

// subject is the tool under one check.
type subject struct {
	t    testing.TB
	c    Case
	tool tool.Tool
	spec *abi.ToolSpec
}

// grace is how long the suite waits for what must not happen, patience how long
// for what must.
const (
	grace    = 30 * time.Millisecond
	patience = 60 * time.Second
)

// outcome is how one call ended.
type outcome struct {
	res   *abi.Result
	err   error
	panic any
	// hung says that it did not end; the rest is not set then.
	hung bool
	took time.Duration
}

// errorOf is the *abi.Error the pipeline would publish, or nil.
func (o outcome) errorOf() *abi.Error {
	switch {
	case o.err != nil:
		return abi.AsError(o.err)
	case o.res != nil:
		return o.res.Error
	}
	return nil
}

// trial is a call on its way, with everything it yielded.
type trial struct {
	ctx  context.Context
	call *tool.Call
	done chan outcome
	// first is closed at the first yield.
	first chan struct{}

	mu     sync.Mutex
	list   []abi.Yield
	over   bool
	late   int
	refuse error
}

// call makes a trial; refuse is what its yields get for an answer.
func (s *subject) call(ctx context.Context, input json.RawMessage, refuse error) *trial {
	tr := &trial{ctx: ctx, done: make(chan outcome, 1), first: make(chan struct{}), refuse: refuse}
	behavior, _ := tool.Resolve(s.tool, input)
	cfg := tool.Config{
		ExecutionID: "exec-tooltest", ToolCallID: "call-tooltest", Name: s.spec.Name, SessionID: "session-tooltest",
		Mode: "default", Input: append(json.RawMessage(nil), input...), Behavior: behavior,
		Snapshot: &tool.Snapshot{SessionID: "session-tooltest", Roots: []string{}, Environment: map[string]string{}},
		Yield:    tr.yield,
	}
	if s.c.Config != nil {
		s.c.Config(&cfg)
	}
	tr.call = tool.NewCall(cfg)
	return tr
}

func (tr *trial) yield(y abi.Yield, _ func() func()) error {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.over {
		tr.late++
		return &tool.CancelError{Reason: abi.CancelRequest, Detail: "the call is over"}
	}
	if len(tr.list) == 0 {
		close(tr.first)
	}
	tr.list = append(tr.list, y)
	return tr.refuse
}

func (tr *trial) yielded() []abi.Yield {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return append([]abi.Yield(nil), tr.list...)
}

// lateYields counts yields that came after the end.
func (tr *trial) lateYields() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.late
}

// start executes the trial in a goroutine that ends with the tool.
func (tr *trial) start(t tool.Tool) {
	go func() { // wait waits for it, unless the tool never ends, which is a failure
		var o outcome
		begun := time.Now()
		defer func() {
			o.panic = recover()
			o.took = time.Since(begun)
			tr.mu.Lock()
			tr.over = true
			tr.mu.Unlock()
			tr.done <- o
		}()
		o.res, o.err = t.Execute(tr.ctx, tr.call)
	}()
}

func (tr *trial) wait(limit time.Duration) outcome {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case o := <-tr.done:
		return o
	case <-timer.C:
		return outcome{hung: true}
	}
}

// execute runs one call to its end.
func (s *subject) execute(ctx context.Context, input json.RawMessage) (*trial, outcome) {
	tr := s.call(ctx, input, nil)
	tr.start(s.tool)
	return tr, tr.wait(patience)
}

func (s *subject) failf(format string, args ...any) {
	s.t.Helper()
	s.t.Errorf("%s: %s", s.spec.Name, fmt.Sprintf(format, args...))
}

func specText(spec *abi.ToolSpec) string {
	b, err := abi.Marshal(spec)
	if err != nil {
		return err.Error()
	}
	text := string(b) + fmt.Sprint(spec.Group, spec.Strict, spec.Cascade)
	for _, p := range []*bool{spec.ReadOnly, spec.ConcurrencySafe} {
		if p != nil {
			text += fmt.Sprint(*p)
		}
		text += ";"
	}
	return text
}
