package extism

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/engine"
	"github.com/bladehost/bladehost/host/internal/guesttest"
	"github.com/bladehost/bladehost/host/tool"
	"github.com/bladehost/bladehost/host/tool/tooltest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if sharedModule != nil {
			if b, err := shared(); err == nil {
				if err := b.e.Close(context.Background()); err != nil {
					fmt.Println(err)
					code = 1
				}
			}
		}
		os.Exit(code)
	}))
}

const top = "../../../../testdata/extism"

// bench is a loaded plugin with its tools.
type bench struct {
	e     *Engine
	p     *Plugin
	tools map[string]tool.Tool
}

// shared is the guest in Go, which has a tool for everything. It is compiled once.
var shared = sync.OnceValues(func() (*bench, error) {
	return newBench(Options{MemoryLimit: 128 << 20}, sharedModule, "", "")
})

var sharedModule []byte

func guest(t *testing.T) *bench {
	t.Helper()
	sharedModule = guesttest.Go(t, top, "./guest")
	b, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustRead(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(top, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func file(t *testing.T, name string) []byte { return mustRead(t, name) }

func load(t *testing.T, opt Options, module []byte, name, version string) *bench {
	t.Helper()
	b, err := newBench(opt, module, name, version)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// newBench loads a module that says itself what its manifest is.
func newBench(opt Options, module []byte, name, version string) (*bench, error) {
	b := &bench{e: New(opt), tools: map[string]tool.Tool{}}
	var err error
	if b.p, err = b.e.LoadUnsigned(module); err != nil {
		return nil, err
	}
	raw, err := b.p.Describe(context.Background(), name, version)
	if err != nil {
		return nil, err
	}
	// It is loaded with the manifest, not compiled again.
	if b.p.mod.Manifest, err = engine.ParseManifest(raw); err != nil {
		return nil, err
	}
	for _, x := range b.p.Tools(engine.NewWorld(engine.World{Env: map[string]string{"GRANTED": "yes"}}), engine.Lent{}) {
		b.tools[x.Spec().Name] = x
	}
	return b, nil
}

func (b *bench) run(ctx context.Context, c tool.Config) (*abi.Result, error) {
	return b.tools[c.Name].Execute(ctx, tool.NewCall(c))
}

func (b *bench) do(t *testing.T, name, input string) *abi.Result {
	t.Helper()
	r, err := b.run(t.Context(), tool.Config{Name: name, Input: json.RawMessage(input)})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

func wantCode(t *testing.T, r *abi.Result, code abi.Code) {
	t.Helper()
	if r.Error == nil || r.Error.Code != code {
		t.Errorf("got %s %.300s %+v, want %s", r.Status, r.Data, r.Error, code)
	}
}

func TestOwnContract(t *testing.T) {
	b := guest(t)
	if r := b.do(t, "Echo", `{"a":[1,"é\u0000😀"]}`); string(r.Data) != `{"a":[1,"é\u0000😀"]}` {
		t.Errorf("%s %+v", r.Data, r.Error)
	}
	// The error text is the message, and no call knows of another.
	if r := b.do(t, "Fail", `{}`); r.Error == nil || r.Error.Message != "it did not work: é" || r.Error.Type != abi.TypeExecution || r.Error.Code != "" {
		t.Errorf("%+v", r.Error)
	}
	for range 3 {
		if r := b.do(t, "State", `{}`); string(r.Data) != "1" {
			t.Errorf("state is left: %s", r.Data)
		}
	}
	if r := b.do(t, "Settings", `{}`); string(r.Data) != `[false,"kept",true]` {
		t.Errorf("%s %+v", r.Data, r.Error)
	}
	if r := b.do(t, "World", `{}`); string(r.Data) != `{"args":0,"env":["GRANTED=yes"],"files":false}` {
		t.Errorf("%s %+v", r.Data, r.Error)
	}
}

func TestYields(t *testing.T) {
	b := guest(t)
	long := strings.Repeat("x", abi.MaxYield)
	input := `{"yields":[{"kind":"message","content":{"summary":"s"}},{"kind":"message"},{"kind":"effect","effect":{"type":"contextPatch","patch":{"metadata":{"k":1}}}},
		{"kind":"effect","effect":{"type":"newMessages","messages":[{}]}},{"kind":"message","content":{"summary":"` + long + `"}},{"kind":"progress","completed":1}]}`
	var got []abi.YieldKind
	r, err := b.run(t.Context(), tool.Config{Name: "Yield", Input: json.RawMessage(input), Yield: func(y abi.Yield, idle func() func()) error {
		idle()()
		got = append(got, y.Kind)
		return nil
	}})
	if err != nil || string(r.Data) != `[0,2,0,2,3,0]` || fmt.Sprint(got) != "[message effect progress]" {
		t.Errorf("%+v %v %v", r, got, err)
	}
	// Messages are counted.
	many := `{"yields":[` + strings.Repeat(`{"kind":"message","content":{"summary":"s"}},`, abi.MaxYields+1) + `{"kind":"progress"}]}`
	r, err = b.run(t.Context(), tool.Config{Name: "Yield", Input: json.RawMessage(many), Yield: func(abi.Yield, func() func()) error { return nil }})
	if err != nil || !strings.HasSuffix(string(r.Data), `0,3,0]`) {
		t.Errorf("%.100s %v", r.Data, err)
	}
}

func TestServices(t *testing.T) {
	b := guest(t)
	ask := func(input string, answer tool.Answer, fail error) string {
		t.Helper()
		r, err := b.run(t.Context(), tool.Config{Name: "Service", Input: json.RawMessage(input), Invoke: func(_ context.Context, name string, q tool.Request) (tool.Answer, error) {
			if name == "x-echo.echo" && fail == nil && answer.Head == nil {
				return tool.Answer{Head: q.Head, Body: q.Body}, nil
			}
			return answer, fail
		}})
		if err != nil {
			t.Fatal(err)
		}
		if r.IsError() {
			return r.Error.Error()
		}
		return string(r.Data)
	}
	for _, c := range []struct {
		input  string
		answer tool.Answer
		fail   error
		want   string
	}{
		{`{"name":"x-echo.echo","head":{"a":1},"body":"bytes"}`, tool.Answer{}, nil, `{"body":"bytes","head":{"a":1},"status":0}`},
		{`{"name":"x-echo.echo","head":[1]}`, tool.Answer{}, nil, `"code":"INVALID_REQUEST"`},
		{`{"name":"` + strings.Repeat("n", 300) + `","head":{}}`, tool.Answer{}, nil, `"status":5`},
		{`{"name":"x.y","head":{}}`, tool.Answer{}, abi.NewError(abi.CodeNotDeclared, "no"), `"status":3`},
		{`{"name":"x.y","head":{}}`, tool.Answer{}, abi.NewError(abi.CodeNotGranted, "no"), `"status":4`},
		{`{"name":"x.y","head":{}}`, tool.Answer{}, abi.NewError(abi.CodeUnknownService, "no"), `"status":2`},
		{`{"name":"x.y","head":{}}`, tool.Answer{}, abi.NewError(abi.CodeServiceLimit, "no"), `"status":6`},
		{`{"name":"x.y","head":{}}`, tool.Answer{}, errors.New("odd"), `"status":7`},
		{`{"name":"x.y","head":{}}`, tool.Answer{Head: json.RawMessage(`"` + strings.Repeat("x", abi.MaxFrameHead) + `"`)}, nil, `"status":6`},
	} {
		if got := ask(c.input, c.answer, c.fail); !strings.Contains(got, c.want) {
			t.Errorf("%.60s: %.300s, want %s", c.input, got, c.want)
		}
	}
}

func TestBadGuests(t *testing.T) {
	b := guest(t)
	for _, c := range []struct {
		tool, input string
		code        abi.Code
	}{
		{"Panic", `{}`, abi.CodeGuestTrap},
		{"Exit", `{"code":3}`, abi.CodeGuestExit},
		{"Exit", `{"code":0}`, abi.CodeGuestExit},
		{"Exit", `{"code":4026531839}`, abi.CodeGuestExit},
		{"Grow", `{}`, abi.CodeGuestOOM},
		{"HTTP", `{}`, abi.CodeNetBlocked},
		{"Text", `{"text":"no JSON"}`, abi.CodeResultNotJSON},
		{"Text", `{"text":"{\"a\":1,\"a\":2}"}`, abi.CodeResultNotJSON},
		{"Text", `{"text":""}`, abi.CodeResultNotJSON},
	} {
		wantCode(t, b.do(t, c.tool, c.input), c.code)
	}
	if r := b.do(t, "Large", `{"n":1000000}`); len(r.Data) != 1000002 {
		t.Errorf("%d bytes, %+v", len(r.Data), r.Error)
	}
	if r := b.do(t, "Panic", `{}`); !strings.Contains(string(r.Error.Details), "boom") || strings.Contains(r.Error.Message, "boom") {
		t.Errorf("what the guest wrote belongs into the details: %+v", r.Error)
	}
	if r := b.do(t, "Echo", `{}`); r.IsError() {
		t.Errorf("%+v", r.Error)
	}
}

// Whatever a guest does, it ends soon after its deadline or its cancellation.
func TestStopped(t *testing.T) {
	b := guest(t)
	yield := func(abi.Yield, func() func()) error { return nil }
	for _, name := range []string{"Spin", "Tree", "Sleep"} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		from := time.Now()
		_, err := b.run(ctx, tool.Config{Name: name, Input: json.RawMessage(`{}`), Yield: yield})
		if took := time.Since(from); took > 5*time.Second || !errors.Is(err, tool.ErrPreempted) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: after %v: %v", name, took, err)
		}
		cancel()
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	r, err := b.run(ctx, tool.Config{Name: "Polite", Input: json.RawMessage(`{}`), Yield: func(abi.Yield, func() func()) error {
		cancel(&tool.CancelError{Reason: abi.CancelSteering}) // now it runs
		return nil
	}})
	if err != nil || r.Error == nil || r.Error.Message != "stopped with code 1" {
		t.Errorf("a guest that asks is told: %+v %v", r, err)
	}
	// A reader that is gone stops it too.
	r, err = b.run(t.Context(), tool.Config{Name: "Polite", Input: json.RawMessage(`{}`), Yield: func(abi.Yield, func() func()) error { return errors.New("gone") }})
	if err != nil || r.Error == nil || r.Error.Message != "stopped with code 1" {
		t.Errorf("%+v %v", r, err)
	}
}

// Closing a plugin stops its calls.
func TestClosed(t *testing.T) {
	b := load(t, Options{Running: 2}, file(t, "hostile.wasm"), "", "")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			_, err := b.run(t.Context(), tool.Config{Name: "A", Input: json.RawMessage(`{}`)})
			if !errors.Is(err, tool.ErrPreempted) && abi.CodeOf(err) != abi.CodeShutdown {
				t.Error(err)
			}
		})
	}
	time.Sleep(100 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := b.p.Close(ctx); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if _, err := b.run(t.Context(), tool.Config{Name: "A"}); abi.CodeOf(err) != abi.CodeShutdown {
		t.Error(err)
	}
	if _, err := b.p.Compile(t.Context()); abi.CodeOf(err) != abi.CodeShutdown {
		t.Error(err)
	}
	if err := b.e.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := b.e.LoadUnsigned(file(t, "mcp1.wasm")); abi.CodeOf(err) != abi.CodeShutdown {
		t.Error(err)
	}
}

func TestManyAtOnce(t *testing.T) {
	b := guest(t)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			in := fmt.Sprintf(`{"i":%d}`, i)
			r, err := b.run(t.Context(), tool.Config{Name: "Echo", Input: json.RawMessage(in)})
			if err != nil || string(r.Data) != in {
				t.Errorf("%s: %+v %v", in, r, err)
			}
		})
	}
	wg.Wait()
	if n := len(b.e.gate); n != 0 {
		t.Errorf("%d places are still taken", n)
	}
}

func TestLog(t *testing.T) {
	var buf bytes.Buffer
	b := guest(t)
	old := b.e.log
	b.e.log = slog.New(slog.NewTextHandler(&buf, &slog.HandlerOptions{Level: slog.LevelDebug}))
	defer func() { b.e.log = old }()
	if r := b.do(t, "Log", `{}`); r.IsError() {
		t.Errorf("%+v", r.Error)
	}
	for _, want := range []string{`level=INFO msg="logged é" tool=Log`, `level=ERROR msg="in trouble"`, `msg="to standard output" stream=stdout`, `msg="to standard error" stream=stderr`} {
		if !strings.Contains(buf.String(), want) {
			t.Errorf("%q is not in the log: %s", want, buf.String())
		}
	}
	t.Setenv(outputVariable, "1")
	wantCode(t, b.do(t, "Log", `{}`), abi.CodeInstantiation)
}

// Tools of Extism plugins pass the suite that native tools pass.
func TestContract(t *testing.T) {
	b := guest(t)
	third := load(t, Options{}, file(t, "mcp2.wasm"), "blade-tool-time", "1.0.0")
	for _, c := range []struct {
		b    *bench
		name string
		c    tooltest.Case
	}{
		{b, "Echo", tooltest.Case{Input: json.RawMessage(`{"a":[1,"é"]}`)}},
		{b, "Fail", tooltest.Case{Input: json.RawMessage(`{}`), Fails: true}},
		{b, "Yield", tooltest.Case{Input: json.RawMessage(`{"yields":[{"kind":"progress"},{"kind":"message","content":{"summary":"s"}}]}`), Bad: []json.RawMessage{json.RawMessage(`{}`)}}},
		{third, "time", tooltest.Case{Input: json.RawMessage(`{"name":"x"}`), Bad: []json.RawMessage{json.RawMessage(`{"name":1}`)}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.c.New = func(testing.TB) tool.Tool { return c.b.tools[c.name] }
			tooltest.Run(t, c.c)
		})
	}
}
