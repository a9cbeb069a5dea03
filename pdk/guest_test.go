package pdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/pdk"
	"github.com/bladehost/bladehost/pdk/pdktest"
)

type nothing struct{}

// host puts one streaming tool on a fake host that lends everything.
func host(t *testing.T, fn func(ctx context.Context, call *pdk.Call) (*pdk.Result, error)) *pdktest.Host {
	t.Helper()
	return pdktest.New(t, pdk.Plugin{
		Name: "blade-tool-probe", Version: "1.0.0", Description: "Probes the kit.",
		Config: json.RawMessage(`{"type":"object"}`),
		Capabilities: abi.Capabilities{
			HTTP:    &abi.HTTPRequest{Hosts: []string{"api.example.com"}, Why: "w"},
			Secrets: []abi.SecretRequest{{Name: "TOKEN", Hosts: []string{"api.example.com"}, Why: "w"}},
			KV:      &abi.KVRequest{Why: "w"},
		},
		Tools: []pdk.Tool{pdk.DefineStream(pdk.Spec{
			Name: "Probe", Description: "Probes.", Services: []string{"x-echo", abi.ServiceMemory}, RequiresRuntime: true,
			Effects: []abi.EffectType{abi.EffectContextPatch},
		}, func(ctx context.Context, _ nothing, call *pdk.Call) (*pdk.Result, error) { return fn(ctx, call) })},
	})
}

func TestResults(t *testing.T) {
	for _, c := range []struct {
		name   string
		result *pdk.Result
		status int32
		want   string
	}{
		{"nil", nil, abi.RetData, `null`},
		{"data", pdk.Data(map[string]any{"a": "<b>"}), abi.RetData, `{"a":"<b>"}`},
		{"text", pdk.Text("hi"), abi.RetResult, `{"model":"hi"}`},
		{"data for the caller, the model reads it too", &pdk.Result{Data: 1, Display: &abi.Display{Summary: "s"}}, abi.RetResult, `{"model":1,"display":{"summary":"s"},"data":1}`},
		{"model and data", &pdk.Result{Model: "m", Data: 1}, abi.RetResult, `{"model":"m","data":1}`},
		{"metadata", &pdk.Result{Data: 1, Metadata: map[string]any{"x-a": true}}, abi.RetResult, `{"model":1,"data":1,"metadata":{"x-a":true}}`},
		{"no JSON form", pdk.Data(math.NaN()), abi.RetError, `{"message":"the tool's result has no JSON form: json: unsupported value: NaN","type":"execution_error","code":"bad_result"}`},
		{"a function", pdk.Data(func() {}), abi.RetError, `{"message":"the tool's result has no JSON form: json: unsupported type: func()","type":"execution_error","code":"bad_result"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := host(t, func(context.Context, *pdk.Call) (*pdk.Result, error) { return c.result, nil }).Run("Probe", nothing{})
			if out.Status != c.status || string(out.Returned) != c.want {
				t.Errorf("ret(%d, %s), want %d, %s", out.Status, out.Returned, c.status, c.want)
			}
		})
	}
}

func TestPanics(t *testing.T) {
	for name, fn := range map[string]func(list []string){
		"text":        func([]string) { panic("boom") },
		"an error":    func([]string) { panic(errors.New("boom")) },
		"at run time": func(list []string) { list[len(list)] = "boom" },
	} {
		t.Run(name, func(t *testing.T) {
			out := host(t, func(context.Context, *pdk.Call) (*pdk.Result, error) {
				fn(nil)
				return nil, nil
			}).Run("Probe", nothing{})
			out.WantCode("panic")
			if len(out.Logs) != 1 || out.Logs[0].Level != abi.LogError || !strings.Contains(out.Logs[0].Text, "guest_test.go") {
				t.Errorf("the log has no stack: %+v", out.Logs)
			}
		})
	}
}

func TestYields(t *testing.T) {
	out := host(t, func(_ context.Context, call *pdk.Call) (*pdk.Result, error) {
		for _, bad := range []struct {
			name string
			err  error
			code string
		}{
			{"more than all", call.Progress("m", 2, 1), "yield_rejected"},
			{"an effect that was not declared", call.Effect(abi.Effect{Type: abi.EffectNewMessages}), "yield_rejected"},
			{"too long", call.Message(strings.Repeat("m", abi.MaxYield), nil), "yield_limit"},
			{"no JSON form", call.Message("m", math.Inf(1)), "bad_yield"},
			{"no JSON form in a patch", call.ContextPatch("", map[string]any{"a": func() {}}), "bad_yield"},
			{"not a number", call.Progress("m", math.NaN(), 1), "bad_yield"},
		} {
			if !errors.Is(bad.err, &pdk.Error{Code: bad.code}) {
				t.Errorf("%s: %v", bad.name, bad.err)
			}
		}
		for _, err := range []error{
			call.Progress("of an unknown total", 5, -1), call.Message("m", []int{1}), call.ContextPatch(abi.ScopeSession, map[string]any{"k": "v"}),
		} {
			if err != nil {
				t.Error(err)
			}
		}
		for i := range abi.MaxYields - 2 {
			if err := call.Message("m", nil); err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
		}
		if err := call.Message("one too many", nil); !errors.Is(err, &pdk.Error{Code: "yield_limit"}) {
			t.Errorf("one too many: %v", err)
		}
		return nil, call.Progress("not counted", 0, -1)
	}).Run("Probe", nothing{})
	if n := len(out.Yields); n != abi.MaxYields+2 {
		t.Errorf("%d yields", n)
	}
	if y, _ := abi.Marshal(out.Yields[2]); string(y) != `{"kind":"effect","effect":{"type":"contextPatch","patch":{"scope":"session","metadata":{"k":"v"}}}}` {
		t.Errorf("the effect is %s", y)
	}
}

func TestYieldTellsOfCancel(t *testing.T) {
	h := host(t, func(ctx context.Context, call *pdk.Call) (*pdk.Result, error) {
		if err := call.Message("first", nil); err != nil {
			return nil, err
		}
		err := call.Message("second", nil)
		var cancel *pdk.CancelError
		if !errors.As(err, &cancel) || cancel.Reason != abi.CancelSteering || !errors.Is(context.Cause(ctx), cancel) {
			t.Errorf("the second: %v", err)
		}
		if _, _, err := pdk.CallService(ctx, "x-echo.echo", nil, nil); !errors.As(err, &cancel) || !errors.Is(err, context.Canceled) {
			t.Errorf("a service: %v", err)
		}
		return nil, err
	})
	h.OnYield = func(abi.Yield) abi.Cancel { return abi.CancelSteering }
	h.Run("Probe", nothing{}).WantCode("cancelled")
}

func TestServiceErrors(t *testing.T) {
	h := host(t, func(ctx context.Context, _ *pdk.Call) (*pdk.Result, error) {
		for _, c := range []struct {
			name   string
			head   any
			status abi.CallStatus
			code   abi.Code
		}{
			{"nope.x", nil, abi.CallUnknown, abi.CodeUnknownService},
			{"mcpRegistry.listServers", nil, abi.CallNotDeclared, abi.CodeNotDeclared},
			{"memoryManager.read", nil, abi.CallNotGranted, abi.CodeNotGranted},
			{"memoryManager.list", nil, abi.CallOverLimit, abi.CodeServiceLimit},
			{"memoryManager.write", nil, abi.CallFailed, abi.CodeServiceFailed},
			{"runtime.assert", nil, abi.CallFailed, "DURABLE_EXECUTION_LEASE_LOST"},
			{"x-echo.echo", []int{}, abi.CallInvalid, abi.CodeRequest},
		} {
			_, _, err := pdk.CallService(ctx, c.name, c.head, nil)
			var failed *pdk.ServiceError
			if !errors.As(err, &failed) || failed.Status != c.status || failed.Service != c.name || abi.CodeOf(err) != c.code {
				t.Errorf("%s: %#v, code %s", c.name, err, abi.CodeOf(err))
			}
		}
		if _, _, err := pdk.CallService(ctx, "x-echo.echo", func() {}, nil); !errors.Is(err, &pdk.Error{Code: "invalid_request"}) {
			t.Errorf("no JSON form: %v", err)
		}
		return nil, pdk.AssertLease(ctx)
	})
	fail := func(err error) pdktest.Service {
		return func(context.Context, json.RawMessage, []byte) (any, []byte, error) { return nil, nil, err }
	}
	h.Service("memoryManager.read", fail(abi.NewError(abi.CodeNotGranted, "no")))
	h.Service("memoryManager.list", fail(abi.NewError(abi.CodeServiceLimit, "no")))
	h.Service("memoryManager.write", fail(errors.New("disk full")))
	h.Service("runtime.assert", fail(&abi.Error{Message: "lost", Type: abi.TypeExecution, Code: "DURABLE_EXECUTION_LEASE_LOST"}))
	h.Service("x-echo.echo", func(_ context.Context, head json.RawMessage, body []byte) (any, []byte, error) {
		return head, body, nil
	})
	h.Run("Probe", nothing{}).WantCode("durable_execution_lease_lost")
}

func TestInfoIsAskedOnce(t *testing.T) {
	asked := 0
	h := host(t, func(ctx context.Context, call *pdk.Call) (*pdk.Result, error) {
		for range 3 {
			info, err := call.Context()
			if err != nil || info.Tool != "Probe" || info.SessionID != "session-1" {
				t.Errorf("%+v, %v", info, err)
			}
		}
		_, err := pdk.Info(ctx)
		return nil, err
	})
	h.Service(abi.CallContext, func(context.Context, json.RawMessage, []byte) (any, []byte, error) {
		asked++
		return h.Info, nil, nil
	})
	h.Run("Probe", nothing{})
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

func TestLog(t *testing.T) {
	out := host(t, func(ctx context.Context, _ *pdk.Call) (*pdk.Result, error) {
		pdk.Log(ctx, abi.LogTrace, "plain")
		l := pdk.Logger(ctx)
		l.Debug("d", "k", 1)
		l.With("a", "b").WithGroup("g").With("c", 2).Info("i", "d", "x y", slog.Group("h", "e", true))
		l.Warn("w", slog.Group("", "inline", 1), slog.Attr{})
		l.WithGroup("").Error("e", "err", io.EOF)
		l.Log(ctx, slog.LevelDebug-4, "t")
		return nil, nil
	}).Run("Probe", nothing{})
	want := []pdktest.Line{
		{Level: abi.LogTrace, Text: "plain"}, {Level: abi.LogDebug, Text: "d k=1"}, {Level: abi.LogInfo, Text: "i a=b g.c=2 g.d=x y g.h.e=true"},
		{Level: abi.LogWarn, Text: "w inline=1"}, {Level: abi.LogError, Text: "e err=EOF"}, {Level: abi.LogTrace, Text: "t"},
	}
	for i, w := range want {
		if i >= len(out.Logs) || out.Logs[i] != w {
			t.Fatalf("got %+v, want %+v", out.Logs, want)
		}
	}
}

func TestPath(t *testing.T) {
	for _, c := range []struct{ name, cwd, in, want string }{
		{"relative", "/project", "a/../b", "/project/b"},
		{"absolute", "/project", "/x/./y", "/x/y"},
		{"up and out, which the mount refuses", "/project", "../x", "/x"},
		{"nothing to start from", "", "a", "bad_path"},
		{"absolute without a folder", "", "/a", "/a"},
		{"empty", "/project", "", "bad_path"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := host(t, func(ctx context.Context, _ *pdk.Call) (*pdk.Result, error) {
				p, err := pdk.Path(ctx, c.in)
				return pdk.Data(p), err
			})
			h.Info.Cwd = c.cwd
			out := h.Run("Probe", nothing{})
			if strings.HasPrefix(c.want, "/") {
				if string(out.Returned) != `"`+c.want+`"` {
					t.Errorf("got %s, want %s", out.Returned, c.want)
				}
				return
			}
			out.WantCode(c.want)
		})
	}
}

func TestFileError(t *testing.T) {
	for _, c := range []struct {
		name, path string
		write      bool
		err        error
		code, says string
	}{
		{"no folder holds it", "/other/a", false, fs.ErrNotExist, pdk.CodeNotGranted, "--allow-read /other"},
		{"a folder of a like name", "/projectshop/a", true, fs.ErrNotExist, pdk.CodeNotGranted, "--allow-write /projectshop"},
		{"the folder itself", "/project", false, fs.ErrNotExist, pdk.CodeNotFound, "does not exist"},
		{"not there", "/project/a", false, &fs.PathError{Op: "open", Path: "/project/a", Err: syscall.ENOENT}, pdk.CodeNotFound, "/project/a does not exist"},
		{"a folder", "/project/a", false, &fs.PathError{Op: "read", Path: "/project/a", Err: syscall.EISDIR}, pdk.CodeIsDirectory, "folder"},
		{"refused", "/project/a", true, &fs.PathError{Op: "open", Path: "/project/a", Err: syscall.EROFS}, pdk.CodePermission, "may not be changed"},
		{"anything else", "/project/a", false, &fs.PathError{Op: "open", Path: "/project/a", Err: syscall.EIO}, pdk.CodeFile, "/project/a: input/output error"},
		{"the tool's own", "/other/a", false, pdk.Errorf("mine", "own text"), "mine", "own text"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := host(t, func(ctx context.Context, _ *pdk.Call) (*pdk.Result, error) {
				return nil, pdk.FileError(ctx, c.path, c.write, c.err)
			})
			h.Mount("/project")
			out := h.Run("Probe", nothing{})
			out.WantCode(c.code)
			if !strings.Contains(out.Err().Message, c.says) {
				t.Errorf("the message %q does not say %q", out.Err().Message, c.says)
			}
		})
	}
}

func TestDescribeFails(t *testing.T) {
	p := pdk.Plugin{Name: "blade-tool-x", Version: "1.0.0", Description: "d", Tools: []pdk.Tool{
		pdk.Define(pdk.Spec{Name: "Bad", Description: "d"}, func(context.Context, struct{ C chan int }) (any, error) { return nil, nil }),
	}}
	if _, err := p.Manifest(); err == nil || !strings.Contains(err.Error(), "parameters of Bad: field C") {
		t.Errorf("error %v", err)
	}
}

func TestManifest(t *testing.T) {
	p := pdk.Plugin{Name: "blade-tool-x", Version: "1.0.0", Description: "d", Tools: []pdk.Tool{
		pdk.Define(pdk.Spec{
			Name: "Plain", Description: "short", Long: "long", Kind: pdk.Write, SideEffect: pdk.Idempotent, Interrupt: pdk.Block,
			Input: json.RawMessage(`{"type":"object"}`), Timeout: 1500 * time.Millisecond,
		}, func(context.Context, json.RawMessage) (any, error) { return nil, nil }),
		pdk.DefineStream(pdk.Spec{Name: "Stream", Description: "d", Yields: []abi.YieldKind{abi.YieldProgress}}, func(context.Context, nothing, *pdk.Call) (*pdk.Result, error) { return nil, nil }),
	}}
	m, err := p.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	got, _ := abi.Marshal(m)
	want := `{"abi":1,"name":"blade-tool-x","version":"1.0.0","description":"d","tools":[` +
		`{"name":"Plain","description":{"short":"short","long":"long"},"parameters":{"type":"object"},"kind":"write","sideEffect":"idempotent","interruptBehavior":"block","timeoutMs":1500,"yields":[]},` +
		`{"name":"Stream","description":"d","parameters":{"type":"object","properties":{},"additionalProperties":false},"yields":["progress"]}]}`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
