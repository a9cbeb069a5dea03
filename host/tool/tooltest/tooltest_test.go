package tooltest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
	"github.com/bladehost/bladehost/host/tool/tooltest"
)

func raw(s string) json.RawMessage { return json.RawMessage(s) }

type searchIn struct {
	Query string `json:"query" jsonschema:"What to look for."`
	Limit int    `json:"limit,omitempty"`
}

// A plain definition passes.
func TestDefine(t *testing.T) {
	tooltest.Run(t, tooltest.Case{
		New: func(testing.TB) tool.Tool {
			return tool.Must(tool.Define("Search", "Searches.", func(ctx context.Context, in searchIn) (map[string]any, error) {
				if in.Limit < 0 {
					return nil, abi.NewError(abi.CodeValidation, "limit is negative")
				}
				return map[string]any{"query": in.Query, "session": tool.FromContext(ctx).SessionID()}, ctx.Err()
			}, tool.Options{Kind: abi.KindReadOnly, SideEffect: abi.SideEffectPure, OutputSchema: raw(`{"type":"object","required":["query"]}`)}))
		},
		Input: raw(`{"query":"x"}`),
		Bad:   []json.RawMessage{raw(`{}`), raw(`{"query":1}`), raw(`{"query":"x","limit":-1}`), raw(`{"query":"x","other":1}`)},
	})
}

// A streaming definition with effects and a long run passes.
func TestDefineStream(t *testing.T) {
	tooltest.Run(t, tooltest.Case{
		New: func(testing.TB) tool.Tool {
			return tool.Must(tool.DefineStream("Watch", "Watches.", func(ctx context.Context, in searchIn, c *tool.Call) (*abi.Result, error) {
				for i := range 3 {
					if err := c.Progress("step", float64(i), 3); err != nil {
						return nil, err
					}
				}
				if err := c.Yield(abi.EffectYield(abi.Effect{Type: abi.EffectContextPatch, Patch: raw(`{"metadata":{"a":1}}`)})); err != nil {
					return nil, err
				}
				if in.Query == "forever" {
					<-ctx.Done()
					return nil, context.Cause(ctx)
				}
				return abi.Text("seen"), nil
			}, tool.Options{SideEffect: abi.SideEffectIdempotent, Effects: []abi.EffectType{abi.EffectContextPatch}}))
		},
		Input: raw(`{"query":"x"}`), Slow: raw(`{"query":"forever"}`), Cleanup: time.Second,
	})
}

// A tool whose sample fails, and one that needs a service.
func TestFailingAndServed(t *testing.T) {
	tooltest.Run(t, tooltest.Case{
		New: func(testing.TB) tool.Tool {
			return tool.Must(tool.Define("Fails", "Fails.", func(context.Context, struct{}) (any, error) { return nil, errors.New("no") }, tool.Options{SideEffect: abi.SideEffectPure}))
		},
		Input: raw(`{}`), Fails: true,
	})
	tooltest.Run(t, tooltest.Case{
		New: func(testing.TB) tool.Tool {
			return tool.Must(tool.Define("Asks", "Asks.", func(ctx context.Context, _ struct{}) (string, error) {
				s, ok := tool.FromContext(ctx).Service(abi.ServiceMemory)
				if !ok {
					return "", errors.New("no service")
				}
				var out string
				return out, tool.Ask(ctx, s, "read", nil, &out)
			}, tool.Options{SideEffect: abi.SideEffectPure, Services: []string{abi.ServiceMemory}}))
		},
		Input: raw(`{}`),
		Config: func(c *tool.Config) {
			c.Services = map[string]tool.Service{abi.ServiceMemory: tool.Methods{"read": tool.Method(func(context.Context, struct{}) (string, error) { return "m", nil })}}
		},
	})
}

// recorder is a testing.TB that only notes failures.
type recorder struct {
	testing.TB
	mu   sync.Mutex
	said []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

// broken is a tool that does what a test tells it.
type broken struct {
	spec func() *abi.ToolSpec
	run  func(ctx context.Context, c *tool.Call) (*abi.Result, error)
}

func (b broken) Spec() *abi.ToolSpec { return b.spec() }

func (b broken) Execute(ctx context.Context, c *tool.Call) (*abi.Result, error) {
	if b.run == nil {
		return abi.Text("ok"), nil
	}
	return b.run(ctx, c)
}

// wider is a tool whose resolver widens, panics or changes its mind.
type wider struct {
	broken
	resolve func(json.RawMessage) (tool.Partial, error)
}

func (w wider) ResolveBehavior(in json.RawMessage) (tool.Partial, error) { return w.resolve(in) }

func goodSpec(change ...func(*abi.ToolSpec)) func() *abi.ToolSpec {
	s := &abi.ToolSpec{Name: "Broken", Description: abi.Description{Short: "Is broken."}, SideEffect: abi.SideEffectPure,
		Parameters: raw(`{"type":"object","properties":{"n":{"type":"integer"}},"additionalProperties":false}`)}
	for _, c := range change {
		c(s)
	}
	return func() *abi.ToolSpec { return s }
}

// Each way to be broken fails the suite, in the words of the check that finds it.
func TestBrokenToolsFail(t *testing.T) {
	var calls atomic.Int64
	retained := make(chan struct{})
	defer close(retained)
	for _, c := range []struct {
		name string
		tool tool.Tool
		want string
		edit func(*tooltest.Case)
	}{
		{"no definition", broken{spec: func() *abi.ToolSpec { return nil }}, "has no definition", nil},
		{"a new definition each time", broken{spec: func() *abi.ToolSpec { return goodSpec()() }}, "another pointer", nil},
		{"an invalid name", broken{spec: goodSpec(func(s *abi.ToolSpec) { s.Name = "a b" })}, "refused", nil},
		{"no side effect", broken{spec: goodSpec(func(s *abi.ToolSpec) { s.SideEffect = "" })}, "no side effect", nil},
		{"a schema that does not compile", broken{spec: goodSpec(func(s *abi.ToolSpec) { s.Parameters = raw(`{"type":"object","properties":{"n":{"type":7}}}`) })}, "does not compile", nil},
		{"an example that does not fit", broken{spec: goodSpec(func(s *abi.ToolSpec) {
			s.Description.Examples = []abi.Example{{Description: "d", Params: raw(`{"n":"x"}`)}}
		})}, "example 0", nil},
		{"a sample that does not fit", broken{spec: goodSpec()}, "sample input does not fit", func(c *tooltest.Case) { c.Input = raw(`{"n":"x"}`) }},
		{"a definition that changes", func() tool.Tool {
			spec := goodSpec()
			var once sync.Once
			return broken{spec: spec, run: func(context.Context, *tool.Call) (*abi.Result, error) {
				once.Do(func() { spec().Description.Short += "!" })
				return abi.Text("ok"), nil
			}}
		}(), "definition changed", nil},
		{"no result", broken{goodSpec(), func(context.Context, *tool.Call) (*abi.Result, error) { return nil, nil }}, "cannot be published", nil},
		{"result and error", broken{goodSpec(), func(context.Context, *tool.Call) (*abi.Result, error) { return abi.Text("x"), errors.New("y") }}, "both", nil},
		{"an error of no type", broken{goodSpec(), func(context.Context, *tool.Call) (*abi.Result, error) {
			return nil, &abi.Error{Message: "m", Type: "odd"}
		}}, "type", nil},
		{"no JSON", broken{goodSpec(), func(context.Context, *tool.Call) (*abi.Result, error) { return abi.Success(raw(`{"a":1,"a":2}`)), nil }}, "model is", nil},
		{"metadata without a JSON form", broken{goodSpec(), func(context.Context, *tool.Call) (*abi.Result, error) {
			r := abi.Text("x")
			r.SetMeta("n", math.NaN())
			return r, nil
		}}, "metadata", nil},
		{"data that does not fit", broken{goodSpec(func(s *abi.ToolSpec) { s.OutputSchema = raw(`{"type":"integer"}`) }), func(context.Context, *tool.Call) (*abi.Result, error) { return abi.Success(raw(`"x"`)), nil }}, "output schema", nil},
		{"an unexpected failure", broken{goodSpec(), func(context.Context, *tool.Call) (*abi.Result, error) { return nil, errors.New("no") }}, "ended with error", nil},
		{"a panic", broken{goodSpec(), func(context.Context, *tool.Call) (*abi.Result, error) { panic("boom") }}, "panicked: boom", nil},
		{"a changed input", broken{goodSpec(), func(_ context.Context, c *tool.Call) (*abi.Result, error) { clear(c.Input); return abi.Text("x"), nil }}, "changed its input", nil},
		{"an undeclared yield", broken{goodSpec(func(s *abi.ToolSpec) { s.Yields = &[]abi.YieldKind{} }), func(_ context.Context, c *tool.Call) (*abi.Result, error) {
			return abi.Text("x"), c.Progress("p", 1, 2)
		}}, "does not declare", nil},
		{"an undeclared effect", broken{goodSpec(func(s *abi.ToolSpec) { s.Effects = []abi.EffectType{abi.EffectContextPatch} }), func(_ context.Context, c *tool.Call) (*abi.Result, error) {
			return abi.Text("x"), c.Yield(abi.EffectYield(abi.Effect{Type: abi.EffectNewMessages, Messages: []json.RawMessage{raw(`{}`)}}))
		}}, `effect "newMessages"`, nil},
		{"a yield in bad shape", broken{goodSpec(), func(_ context.Context, c *tool.Call) (*abi.Result, error) {
			return abi.Text("x"), c.Progress("p", 3, 2)
		}}, "more than total", nil},
		{"a yield that is no number", broken{goodSpec(), func(_ context.Context, c *tool.Call) (*abi.Result, error) {
			return abi.Text("x"), c.Progress("p", math.NaN(), 2)
		}}, "NaN", nil},
		{"a large yield", broken{goodSpec(), func(_ context.Context, c *tool.Call) (*abi.Result, error) {
			return abi.Text("x"), c.Yield(abi.Message(strings.Repeat("x", abi.MaxYield)))
		}}, "bytes, at most", nil},
		{"a late yield", broken{goodSpec(), func(_ context.Context, c *tool.Call) (*abi.Result, error) {
			go func() { time.Sleep(5 * time.Millisecond); _ = c.Progress("late", 1, 2) }()
			return abi.Text("x"), nil
		}}, "after it had returned", nil},
		{"bad input is taken", broken{spec: goodSpec()}, "the tool took it", func(c *tooltest.Case) { c.Bad = []json.RawMessage{raw(`{"n":-1}`)} }},
		{"bad input panics", broken{goodSpec(), func(_ context.Context, c *tool.Call) (*abi.Result, error) {
			var m map[string]any
			if json.Unmarshal(c.Input, &m) != nil {
				panic("not an object")
			}
			return abi.Text("x"), nil
		}}, "not an object", nil},
		{"does not stop", broken{goodSpec(), func(ctx context.Context, _ *tool.Call) (*abi.Result, error) { <-retained; return abi.Text("x"), nil }}, "still ran", func(c *tooltest.Case) { c.Slow = raw(`{"n":1}`) }},
		{"the slow input is quick", broken{spec: goodSpec()}, "ended by itself", func(c *tooltest.Case) { c.Slow = raw(`{"n":1}`) }},
		{"keeps the context", broken{goodSpec(), func(ctx context.Context, _ *tool.Call) (*abi.Result, error) {
			go func() { <-ctx.Done(); _ = ctx.Err() }()
			return abi.Text("x"), nil
		}}, "context of a call that was over", nil},
		{"keeps the first context", nil, "ended a later call", func(c *tooltest.Case) {
			c.New = func(testing.TB) tool.Tool {
				var once sync.Once
				var first context.Context
				return broken{goodSpec(), func(ctx context.Context, _ *tool.Call) (*abi.Result, error) {
					once.Do(func() { first = ctx })
					if first.Err() != nil {
						return nil, first.Err()
					}
					return abi.Text("x"), nil
				}}
			}
		}},
		{"a resolver that widens", wider{broken{spec: goodSpec()}, func(json.RawMessage) (tool.Partial, error) {
			return tool.Partial{SideEffect: abi.SideEffectNonIdempotent}, nil
		}}, "less safe", nil},
		{"a resolver that panics", wider{broken{spec: goodSpec()}, func(json.RawMessage) (tool.Partial, error) { panic("resolver") }}, "resolver", nil},
		{"fails among many", broken{goodSpec(), func(context.Context, *tool.Call) (*abi.Result, error) {
			defer calls.Add(-1)
			if calls.Add(1) > 4 {
				return nil, errors.New("busy")
			}
			time.Sleep(5 * time.Millisecond)
			return abi.Text("x"), nil
		}}, "among 8 callers", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			fake := &recorder{TB: t}
			k := tooltest.Case{New: func(testing.TB) tool.Tool { return c.tool }, Input: raw(`{"n":1}`), Cleanup: 50 * time.Millisecond}
			if c.edit != nil {
				c.edit(&k)
			}
			if c.name == "does not stop" {
				// Only the slow input hangs; the others would take a minute.
				b := c.tool.(broken)
				c.tool = broken{b.spec, func(ctx context.Context, call *tool.Call) (*abi.Result, error) {
					if string(call.Input) == `{"n":2}` {
						return b.run(ctx, call)
					}
					return abi.Text("x"), nil
				}}
				k.Slow = raw(`{"n":2}`)
			}
			tooltest.Run(fake, k)
			if got := strings.Join(fake.said, "\n"); !strings.Contains(got, c.want) {
				t.Errorf("the suite did not say %q:\n%s", c.want, got)
			}
		})
	}
}

// A good tool passes with the same recorder, so that the failures above are the
// tools' own.
func TestGoodToolPassesTheRecorder(t *testing.T) {
	fake := &recorder{TB: t}
	tooltest.Run(fake, tooltest.Case{New: func(testing.TB) tool.Tool { return broken{spec: goodSpec()} }, Input: raw(`{"n":1}`), Bad: []json.RawMessage{raw(`{"n":"x"}`)}})
	if len(fake.said) > 0 {
		t.Errorf("%v", fake.said)
	}
}
