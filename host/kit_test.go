package host

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if dir, err := guestCacheDir(); err == nil {
			_ = os.RemoveAll(dir)
		}
		os.Exit(code)
	}))
}

// fake is a native tool for tests: every part can be set.
type fake struct {
	spec    abi.ToolSpec
	run     func(ctx context.Context, c *tool.Call) (*abi.Result, error)
	resolve func(json.RawMessage) (tool.Partial, error)
	check   func(ctx context.Context, c *tool.Call) (tool.Permission, error)
	valid   func(ctx context.Context, c *tool.Call) error
	match   func(json.RawMessage) (string, string)
}

func (f *fake) Spec() *abi.ToolSpec { return &f.spec }

func (f *fake) Execute(ctx context.Context, c *tool.Call) (*abi.Result, error) {
	if f.run == nil {
		return abi.Success(json.RawMessage(`"done"`)), nil
	}
	return f.run(ctx, c)
}

func (f *fake) ResolveBehavior(in json.RawMessage) (tool.Partial, error) {
	if f.resolve == nil {
		return tool.Partial{}, nil
	}
	return f.resolve(in)
}

func (f *fake) CheckPermissions(ctx context.Context, c *tool.Call) (tool.Permission, error) {
	if f.check == nil {
		return tool.Permission{Behavior: tool.PermissionAllow}, nil
	}
	return f.check(ctx, c)
}

func (f *fake) ValidateInput(ctx context.Context, c *tool.Call) error {
	if f.valid == nil {
		return nil
	}
	return f.valid(ctx, c)
}

func (f *fake) PermissionSignature(in json.RawMessage) (string, string) {
	if f.match == nil {
		return "", ""
	}
	return f.match(in)
}

// plain hides the optional interfaces of a fake.
type plain struct{ f *fake }

func (p plain) Spec() *abi.ToolSpec { return p.f.Spec() }
func (p plain) Execute(ctx context.Context, c *tool.Call) (*abi.Result, error) {
	return p.f.Execute(ctx, c)
}

const anyObject = `{"type":"object"}`

// named makes a fake called name.
func fakeTool(name string, change ...func(*fake)) *fake {
	f := &fake{spec: abi.ToolSpec{Name: name, Description: abi.Description{Short: "Does " + name + "."}, Parameters: json.RawMessage(anyObject)}}
	for _, c := range change {
		c(f)
	}
	return f
}

func readOnly(f *fake)  { f.spec.Kind = abi.KindReadOnly }
func writes(f *fake)    { f.spec.Kind = abi.KindWrite }
func canCancel(f *fake) { f.spec.Interrupt = abi.InterruptCancel }
func pure(f *fake)      { f.spec.SideEffect = abi.SideEffectPure }

func runs(r func(ctx context.Context, c *tool.Call) (*abi.Result, error)) func(*fake) {
	return func(f *fake) { f.run = r }
}

// recorder keeps events and lifecycle calls in order.
type recorder struct {
	mu     sync.Mutex
	lines  []string
	events []Event
}

func (r *recorder) add(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, s)
}

func (r *recorder) event(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	r.lines = append(r.lines, "event "+string(e.Type))
}

func (r *recorder) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.lines...)
}

func (r *recorder) seen() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Event(nil), r.events...)
}

// session makes a host with tools and one session on it.
func session(t testing.TB, opt SessionOptions, tools ...tool.Tool) *Session {
	t.Helper()
	return sessionOn(t, newHost(t, Options{Tools: tools}), opt)
}

func sessionOn(t testing.TB, h *Host, opt SessionOptions) *Session {
	t.Helper()
	s, err := h.NewSession(opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// do runs one call and fails the test if the run itself fails.
func do(t testing.TB, s *Session, c Call) *abi.Result {
	t.Helper()
	r, err := s.Run(context.Background(), c)
	if err != nil {
		t.Fatalf("the run failed: %v", err)
	}
	if why := r.Valid(); why != "" {
		t.Fatalf("the result is not valid: %s", why)
	}
	return r
}

func in(s string) json.RawMessage { return json.RawMessage(s) }

func wantCode(t testing.TB, r *abi.Result, code abi.Code, typ abi.ErrorType) {
	t.Helper()
	if r.Error == nil || r.Error.Code != code || r.Error.Type != typ {
		t.Fatalf("got %s %+v, want %s (%s)", r.Status, r.Error, code, typ)
	}
}

func wantOK(t testing.TB, r *abi.Result) {
	t.Helper()
	if r.IsError() {
		t.Fatalf("it failed: %+v", r.Error)
	}
}

var yolo = SessionOptions{Mode: policy.ModeYolo}
