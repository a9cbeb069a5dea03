package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// exits is a lifecycle, a runtime or a tool part that ends its goroutine.
type exits struct{ noLease }

func (exits) OnToolScheduled(context.Context, ToolScheduled) (InvocationLifecycle, error) {
	runtime.Goexit()
	return nil, nil
}
func (exits) OnToolSettled(context.Context, ToolSettled) error { return nil }
func (exits) AssertLease(context.Context) error {
	runtime.Goexit()
	return nil
}

// What ends its goroutine instead of returning, as t.FailNow does, ends its call
// at once, and is over when the session closes.
func TestMisuseGoexit(t *testing.T) {
	hook := func(ev HookEvent) []Hook {
		return []Hook{{Event: ev, Run: func(context.Context, HookInput) (HookOutput, error) { runtime.Goexit(); return HookOutput{}, nil }}}
	}
	plain := func(change ...func(*fake)) *fake { return fakeTool("T", change...) }
	for name, c := range map[string]struct {
		opt  SessionOptions
		tool *fake
		code abi.Code // of the result
		err  abi.Code // of the run
	}{
		"tool": {tool: plain(runs(func(context.Context, *tool.Call) (*abi.Result, error) { runtime.Goexit(); return nil, nil })), code: abi.CodeToolPanic},
		"hook": {opt: SessionOptions{Hooks: hook(HookPreToolUse)}, code: abi.CodeHookFailed},
		"middleware": {opt: SessionOptions{Middleware: []Middleware{func(context.Context, MiddlewareCall, Next) (*abi.Result, error) {
			runtime.Goexit()
			return nil, nil
		}}}, code: abi.CodeMiddleware},
		"handler": {opt: SessionOptions{CanUseTool: func(context.Context, policy.Request) (tool.Permission, error) {
			runtime.Goexit()
			return tool.Permission{}, nil
		}}, code: abi.CodeHandlerFailed},
		"check":  {tool: plain(func(f *fake) { f.valid = func(context.Context, *tool.Call) error { runtime.Goexit(); return nil } }), code: abi.CodeToolPanic},
		"events": {opt: SessionOptions{Events: func(Event) { runtime.Goexit() }}},
		"repair": {opt: SessionOptions{Repairs: []Repair{{Name: "r", Apply: func(string, json.RawMessage) json.RawMessage { runtime.Goexit(); return nil }}}}},
		"resolver": {tool: plain(func(f *fake) {
			f.resolve = func(json.RawMessage) (tool.Partial, error) { runtime.Goexit(); return tool.Partial{}, nil }
		})},
		"signature":    {tool: plain(func(f *fake) { f.match = func(json.RawMessage) (string, string) { runtime.Goexit(); return "", "" } }), opt: SessionOptions{CanUseTool: allowAll}, code: abi.CodeToolPanic},
		"lifecycle":    {opt: SessionOptions{Lifecycle: exits{}}, err: abi.CodeLifecycle},
		"a lost lease": {opt: SessionOptions{Runtime: exits{}}, err: abi.CodeToolPanic},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if c.tool == nil {
					c.tool = plain()
				}
				c.opt.Mode = policy.ModeYolo
				s := session(t, c.opt, c.tool)
				begun := time.Now()
				r, err := s.Start(t.Context(), Call{Tool: "T"}).Result()
				if abi.CodeOf(err) != c.err || (c.err == "" && (r == nil || r.IsError() != (c.code != ""))) || time.Since(begun) != 0 {
					t.Fatalf("%+v, %v, after %v", r, err, time.Since(begun))
				}
				if c.code != "" {
					wantCode(t, r, c.code, c.code.Type())
					if !strings.Contains(r.Error.Message, "ended its goroutine instead of returning") {
						t.Errorf("%s", r.Error.Message)
					}
				}
				if err := errors.Join(s.Pending(), s.Close(t.Context())); err != nil || time.Since(begun) != 0 {
					t.Errorf("%v after %v", err, time.Since(begun))
				}
			})
		})
	}
}

var allowAll = policy.HandlerFunc(func(context.Context, policy.Request) (tool.Permission, error) {
	return tool.Permission{Behavior: tool.PermissionAllow}, nil
})

// A call whose goroutine is ended does not take the next calls of its turn with it.
func TestMisuseGoexitInTurn(t *testing.T) {
	s := session(t, SessionOptions{Mode: policy.ModePlan, Runtime: exits{}}, fakeTool("T", readOnly))
	for _, o := range s.Turn(t.Context(), []Call{{Tool: "T"}, {Tool: "T"}}).Wait() {
		if abi.CodeOf(o.Err) != abi.CodeToolPanic {
			t.Errorf("%+v", o)
		}
	}
}

// Host.Close closes its sessions together, and gives up with its context.
func TestMisuseClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := fakeTool("Slow", runs(func(ctx context.Context, _ *tool.Call) (*abi.Result, error) {
			<-ctx.Done()
			time.Sleep(2 * time.Second)
			return nil, context.Cause(ctx)
		}))
		deaf := fakeTool("Deaf", runs(func(context.Context, *tool.Call) (*abi.Result, error) { time.Sleep(time.Minute); return nil, nil }))
		h := newHost(t, Options{Tools: []tool.Tool{slow, deaf}, Concurrency: Concurrency{Execute: 10}})
		start := func(id, name string) {
			s := sessionOn(t, h, SessionOptions{ID: id, Mode: policy.ModeYolo, Hooks: []Hook{{Event: HookSessionEnd, Run: func(ctx context.Context, _ HookInput) (HookOutput, error) {
				if name == "" {
					<-ctx.Done()
				}
				return HookOutput{}, nil
			}}}})
			if name != "" {
				s.Start(t.Context(), Call{ID: "c-" + id, Tool: name})
			}
		}
		for i := range 4 {
			start(fmt.Sprint("slow-", i), "Slow")
		}
		start("deaf", "Deaf")
		start("hooks", "")
		synctest.Wait()
		closes := func(limit time.Duration, want ...string) {
			t.Helper()
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			err := h.Close(ctx)
			if took := time.Since(begun); took > limit+closeGrace || !errors.Is(err, context.DeadlineExceeded) && len(want) > 1 {
				t.Errorf("%v after %v", err, took)
			}
			for _, w := range want {
				if err == nil || !strings.Contains(err.Error(), w) {
					t.Errorf("%v does not say %s", err, w)
				}
			}
		}
		closes(time.Second, "session slow-0", "c-slow-3", "session deaf did not close in time; these calls still run: Deaf (c-deaf)", "session hooks did not close in time; its SessionEnd hooks still run")
		time.Sleep(3 * time.Second) // the hooks' own budget
		closes(2*time.Second, "1 earlier calls did not end in time")
		time.Sleep(time.Minute)
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// What closes at once closes under a context that has ended already.
func TestMisuseCloseLate(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	sessionOn(t, h, SessionOptions{})
	if err := h.Close(ctx); err != nil {
		t.Error(err)
	}
}

type nilParts struct{ exits }

func (*nilParts) HandlePermission(context.Context, policy.Request) (tool.Permission, error) {
	panic("nil")
}

// A callback that could never be called is refused, and named.
func TestMisuseOptions(t *testing.T) {
	h := newHost(t, Options{})
	fine := func(context.Context, HookInput) (HookOutput, error) { return HookOutput{}, nil }
	var none *nilParts
	for want, opt := range map[string]SessionOptions{
		"Hooks[1].Run, of a PreToolUse hook, is nil": {Hooks: []Hook{{Event: HookPreToolUse, Run: fine}, {Event: HookPreToolUse}}},
		`Hooks[0].Event is "PreToolUSE"`:             {Hooks: []Hook{{Event: "PreToolUSE", Run: fine}}},
		`Hooks[0].Event is ""`:                       {Hooks: []Hook{{Run: fine}}},
		"Middleware[0] is nil":                       {Middleware: []Middleware{nil}},
		"Repairs[0].Apply":                           {Repairs: []Repair{{Name: "mine"}}},
		"PermissionHandler holds a nil":              {PermissionHandler: none},
		"PermissionHandler holds a nil policy":       {PermissionHandler: policy.HandlerFunc(nil)},
		"Confirm holds a nil tool.ConfirmFunc":       {Confirm: tool.ConfirmFunc(nil)},
		"Lifecycle holds a nil *host.nilParts":       {Lifecycle: none},
		"Runtime holds a nil *host.nilParts":         {Runtime: none},
		`Services["memoryManager"] holds a nil`:      {Services: map[string]tool.Service{abi.ServiceMemory: (*nilService)(nil)}},
	} {
		if _, err := h.NewSession(opt); abi.CodeOf(err) != abi.CodeOptions || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for _, ev := range hookEvents {
		if _, err := h.NewSession(SessionOptions{Hooks: []Hook{{Event: ev, Run: fine}}}); err != nil {
			t.Error(err)
		}
	}
}

type nilService struct{}

func (*nilService) Invoke(context.Context, tool.Request) (tool.Answer, error) {
	return tool.Answer{}, nil
}

// A Host that New did not make, and a context that is nil, are no panics.
func TestMisuseZero(t *testing.T) {
	for _, h := range []*Host{nil, {}} {
		_, err := h.NewSession(SessionOptions{})
		_, perr := h.LoadPlugin(nil, PluginOptions{})
		for _, err := range []error{err, perr} {
			if abi.CodeOf(err) != abi.CodeOptions || !strings.Contains(err.Error(), "host.New") {
				t.Error(err)
			}
		}
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	var none context.Context
	s := session(t, yolo, fakeTool("T"))
	if r, err := s.Start(none, Call{Tool: "T"}).Result(); err != nil || r.IsError() {
		t.Errorf("%+v %v", r, err)
	}
	for _, o := range s.Turn(none, []Call{{Tool: "T"}, {Tool: "T"}}).Wait() {
		if o.Err != nil || o.Result.IsError() {
			t.Errorf("%+v", o)
		}
	}
	if err := errors.Join(s.Abort(none, "over"), s.Close(none)); err != nil {
		t.Error(err)
	}
}

// A definition without a function is refused when it is made.
func TestMisuseDefine(t *testing.T) {
	type input struct{}
	_, plain := tool.Define[input, string]("T", "Does T.", nil)
	_, stream := tool.DefineStream[input]("T", "Does T.", nil)
	for _, err := range []error{plain, stream} {
		if abi.CodeOf(err) != abi.CodeDefinition || !strings.Contains(err.Error(), `tool "T": its function is nil`) {
			t.Error(err)
		}
	}
}

type textError struct{ text *string }

func (e *textError) Error() string { return *e.text }

type calmError struct{}

func (*calmError) Error() string { return "calm" }

// An error that is a nil pointer or cannot be read is the tool's fault, and the
// message says so.
func TestMisuseErrors(t *testing.T) {
	for name, bad := range map[string]error{
		"nil": (*textError)(nil), "nil and readable": (*calmError)(nil), "panics": &textError{},
		"nil of the host's": (*abi.Error)(nil), "nil within": errors.Join(errors.New("x"), inner{}),
	} {
		s := session(t, yolo, fakeTool("T", runs(func(context.Context, *tool.Call) (*abi.Result, error) { return nil, bad })))
		r := do(t, s, Call{Tool: "T"})
		wantCode(t, r, abi.CodeToolPanic, abi.TypeExecution)
		if !strings.HasPrefix(r.Error.Message, "the tool T is at fault: it returned a") {
			t.Errorf("%s: %s", name, r.Error.Message)
		}
	}
}

// inner holds a nil error of the host's in its chain.
type inner struct{}

func (inner) Error() string { return "inner" }
func (inner) Unwrap() error { return (*abi.Error)(nil) }

// Two tools of one name: the message says where both are from.
func TestMisuseDuplicates(t *testing.T) {
	a, b := fakeTool("T"), fakeTool("T")
	_, same := New(Options{Tools: []tool.Tool{a, b}})
	_, other := New(Options{Builtins: []tool.Tool{a}, Tools: []tool.Tool{b}})
	from := bothSources(tool.Source{Kind: tool.SourceCustom, ID: "plugin:a"}, tool.Source{Kind: tool.SourceMCP, ID: "mcp", Server: "s"})
	for want, got := range map[string]string{
		`two tools are called "T": both are from "custom"`:                      fmt.Sprint(same),
		`two tools are called "T": one is from "builtin", one from "custom"`:    fmt.Sprint(other),
		`one is from "plugin:a" (custom), one from "mcp" of the MCP server "s"`: from,
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
