package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// DEF-01 DEF-02 DEF-04 DEF-06 DEF-07 DEF-09 SFX-01 SFX-03: a plain definition.
func TestDefine(t *testing.T) {
	type params struct {
		Query string `json:"query" jsonschema:"What to look for."`
		Limit *int   `json:"limit,omitempty"`
	}
	called := 0
	look := tool.Must(tool.Define("Look", "Looks.", func(_ context.Context, p params) (map[string]any, error) {
		called++
		return map[string]any{"status": "error", "model": p.Query, "error": map[string]string{"message": "data"}}, nil
	}))
	s := session(t, SessionOptions{AutoApprove: true}, look)
	r := do(t, s, Call{Tool: "Look", Input: in(`{"query":"q"}`)})
	wantOK(t, r)
	want := `{"error":{"message":"data"},"model":"q","status":"error"}`
	if string(r.Model) != want || string(r.Data) != want {
		t.Errorf("model %s, data %s", r.Model, r.Data)
	}
	info := s.Tools()[0]
	if info.DisplayName != "Look" || info.Behavior.SideEffect != abi.SideEffectNonIdempotent || info.Behavior.Kind != abi.KindExecute || info.Behavior.Interrupt != abi.InterruptBlock {
		t.Errorf("defaults: %+v", info)
	}
	if d := s.Declarations()[0]; !strings.Contains(string(d.Parameters), "What to look for.") || !reflect.DeepEqual(d.Parameters, look.Spec().Parameters) {
		t.Errorf("the declared schema is %s", d.Parameters)
	}
	for _, bad := range []string{`{}`, `{"query":1}`, `{"query":"q","limit":"x"}`} {
		wantCode(t, do(t, s, Call{Tool: "Look", Input: in(bad)}), abi.CodeValidation, abi.TypeValidation)
	}
	if called != 1 {
		t.Errorf("the function was called %d times", called)
	}
}

// DEF-03 DEF-10 DEF-11 RES-04: how functions end.
func TestDefineOutcomes(t *testing.T) {
	for _, c := range []struct {
		name  string
		value any
		err   error
		code  abi.Code
		typ   abi.ErrorType
	}{
		{"plain error", nil, errors.New("boom"), "", abi.TypeExecution},
		{"typed error", nil, &abi.Error{Message: "net", Type: abi.TypeNetwork, Code: "down"}, "down", abi.TypeNetwork},
		{"NaN", math.NaN(), nil, abi.CodeResultNotJSON, abi.TypeExecution},
		{"infinity", []float64{math.Inf(-1)}, nil, abi.CodeResultNotJSON, abi.TypeExecution},
		{"bytes", []byte("x"), nil, abi.CodeResultNotJSON, abi.TypeExecution},
		{"bad UTF-8", "\xff", nil, abi.CodeResultNotJSON, abi.TypeExecution},
		{"raw with a double key", json.RawMessage(`{"a":1,"a":2}`), nil, abi.CodeResultNotJSON, abi.TypeExecution},
	} {
		t.Run(c.name, func(t *testing.T) {
			tl := tool.Must(tool.Define("T", "d", func(context.Context, struct{}) (any, error) { return c.value, c.err }))
			r := do(t, session(t, yolo, tl), Call{Tool: "T"})
			wantCode(t, r, c.code, c.typ)
			if r.Data != nil {
				t.Error("an error has data")
			}
		})
	}
	nothing := tool.Must(tool.Define("T", "d", func(context.Context, struct{}) (any, error) { return nil, nil }))
	r := do(t, session(t, yolo, nothing), Call{Tool: "T"})
	if string(r.Data) != "null" || len(r.ModelText()) == 0 || r.ModelText() == "null" {
		t.Errorf("nothing became data %s, model %s", r.Data, r.Model)
	}
}

// DEF-05: a plain function has no way to yield.
func TestPlainDefinitionsCannotYield(t *testing.T) {
	tl := tool.Must(tool.Define("T", "d", func(ctx context.Context, _ struct{}) (bool, error) {
		_, can := any(tool.FromContext(ctx)).(interface{ Yield(abi.Yield) error })
		return can, nil
	}))
	if r := do(t, session(t, yolo, tl), Call{Tool: "T"}); string(r.Model) != "false" {
		t.Error("the context of a plain function can yield")
	}
	if tl.Spec().MayYield(abi.YieldProgress) {
		t.Error("the definition says that it yields")
	}
}

// DEF-08: the order of a description.
func TestDescriptionText(t *testing.T) {
	d := abi.Description{Short: "s", Long: "l", UsageNotes: []string{"u1", "u2"}, Important: []string{"i"}, Examples: []abi.Example{{Description: "never shown"}}}
	if want := "s\n\nl\n\nUsage notes:\n- u1\n- u2\n\nImportant:\n- i"; d.Text() != want {
		t.Errorf("%q", d.Text())
	}
	var back abi.Description
	if err := json.Unmarshal([]byte(`"just this"`), &back); err != nil || back.Text() != "just this" {
		t.Errorf("%q %v", back.Text(), err)
	}
}

// PLN-03 LIF-10 EVT-03: arguments that are no object end in a result, and are
// never scheduled.
func TestArguments(t *testing.T) {
	var rec recorder
	s := session(t, SessionOptions{Events: rec.event, Lifecycle: &ledger{rec: &rec}}, fakeTool("T", readOnly))
	for _, bad := range []string{`[]`, `1`, `null`, `"x"`, `{`, `{"a":1,"a":2}`, `{"a":NaN}`, "{\"a\":\"\xff\"}", `{} {}`, strings.Repeat(`{"a":`, 200) + `1` + strings.Repeat(`}`, 200), `{"a":1e999}`} {
		rec.lines = nil
		r := do(t, s, Call{Tool: "T", Arguments: bad})
		wantCode(t, r, abi.CodeArgumentsInvalid, abi.TypeValidation)
		if got := fmt.Sprint(rec.list()); got != "[event tool_use event tool_result]" {
			t.Errorf("%.20s: %s", bad, got)
		}
	}
	wantCode(t, do(t, s, Call{Tool: "T", Arguments: `{"a":"` + strings.Repeat("x", maxArguments) + `"}`}), abi.CodeArgumentsInvalid, abi.TypeValidation)
	for _, good := range []string{``, ` `, `{}`, ` {"a":1} `} {
		wantOK(t, do(t, s, Call{Tool: "T", Arguments: good}))
	}
}

// PLN-04: an unknown tool has a result and enters the lifecycle.
func TestUnknownTool(t *testing.T) {
	var rec recorder
	led := &ledger{rec: &rec}
	s := session(t, SessionOptions{Lifecycle: led}, fakeTool("WebFetch", readOnly))
	r := do(t, s, Call{Tool: "webfetsh"})
	wantCode(t, r, abi.CodeToolNotFound, abi.TypeExecution)
	if !strings.Contains(r.Error.Message, "WebFetch") {
		t.Errorf("no suggestion: %s", r.Error.Message)
	}
	if led.scheduled[0].SideEffect != abi.SideEffectNonIdempotent || fmt.Sprint(rec.list()) != "[scheduled webfetsh settled webfetsh error]" {
		t.Errorf("%+v %v", led.scheduled, rec.list())
	}
}

// PLN-05: defaults reach the tool, not the record of what the model sent.
func TestDefaults(t *testing.T) {
	var got string
	f := fakeTool("T", readOnly, runs(func(_ context.Context, c *tool.Call) (*abi.Result, error) {
		got = string(c.Input)
		return abi.Text("ok"), nil
	}))
	f.spec.Parameters = in(`{"type":"object","properties":{"n":{"type":"integer","default":3}},"additionalProperties":false}`)
	led := &ledger{rec: &recorder{}}
	s := session(t, SessionOptions{Lifecycle: led}, f)
	wantOK(t, do(t, s, Call{Tool: "T", Input: in(`{}`)}))
	if got != `{"n":3}` || string(led.scheduled[0].Input) != `{}` || string(led.started[0].Input) != `{"n":3}` {
		t.Errorf("tool %s, scheduled %s, started %s", got, led.scheduled[0].Input, led.started[0].Input)
	}
	wantCode(t, do(t, s, Call{Tool: "T", Input: in(`{"x":1}`)}), abi.CodeValidation, abi.TypeValidation)
}

// LIF-03: repairs change input, not modelInput.
func TestRepair(t *testing.T) {
	led := &ledger{rec: &recorder{}}
	s := session(t, SessionOptions{Lifecycle: led}, fakeTool("T", readOnly))
	model := `{"todos":"[{\"a\":1}]","x":2}`
	wantOK(t, do(t, s, Call{Tool: "T", Input: in(model)}))
	if e := led.scheduled[0]; string(e.ModelInput) != model || string(e.Input) != `{"todos":[{"a":1}],"x":2}` {
		t.Errorf("modelInput %s, input %s", e.ModelInput, e.Input)
	}
	wantOK(t, do(t, s, Call{Tool: "T", Input: in(`{"todos":"not json"}`)}))
	if e := led.scheduled[1]; string(e.Input) != `{"todos":"not json"}` {
		t.Errorf("input %s", e.Input)
	}
}

// BEH-01 BEH-02 BEH-03 BEH-04: narrowing goes toward safety only.
func TestResolveBehavior(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		name    string
		give    tool.Partial
		err     error
		want    tool.Behavior
		widened bool
	}{
		{"nothing", tool.Partial{}, nil, tool.Behavior{Kind: abi.KindWrite, SideEffect: abi.SideEffectIdempotent, Interrupt: abi.InterruptCancel}, false},
		{"narrower kind", tool.Partial{Kind: abi.KindReadOnly, SideEffect: abi.SideEffectPure}, nil, tool.Behavior{Kind: abi.KindReadOnly, SideEffect: abi.SideEffectPure, ReadOnly: true, ConcurrencySafe: true, Interrupt: abi.InterruptCancel}, false},
		{"read-only kind, said not to be", tool.Partial{Kind: abi.KindReadOnly, ReadOnly: &no}, nil, tool.Behavior{Kind: abi.KindReadOnly, SideEffect: abi.SideEffectIdempotent, ReadOnly: true, ConcurrencySafe: true, Interrupt: abi.InterruptCancel}, true},
		{"wider kind", tool.Partial{Kind: abi.KindExecute}, nil, tool.Behavior{Kind: abi.KindWrite, SideEffect: abi.SideEffectIdempotent, Interrupt: abi.InterruptCancel}, true},
		{"wider side effect", tool.Partial{SideEffect: abi.SideEffectNonIdempotent}, nil, tool.Behavior{Kind: abi.KindWrite, SideEffect: abi.SideEffectIdempotent, Interrupt: abi.InterruptCancel}, true},
		{"destructive", tool.Partial{Destructive: &yes}, nil, tool.Behavior{Kind: abi.KindWrite, SideEffect: abi.SideEffectIdempotent, Destructive: true, Interrupt: abi.InterruptCancel}, false},
		{"blocking", tool.Partial{Interrupt: abi.InterruptBlock}, nil, tool.Behavior{Kind: abi.KindWrite, SideEffect: abi.SideEffectIdempotent, Interrupt: abi.InterruptBlock}, false},
		{"failing", tool.Partial{SideEffect: abi.SideEffectPure}, errors.New("x"), tool.Behavior{Kind: abi.KindWrite, SideEffect: abi.SideEffectIdempotent, Interrupt: abi.InterruptCancel}, false},
		{"invalid", tool.Partial{SideEffect: "maybe"}, nil, tool.Behavior{Kind: abi.KindWrite, SideEffect: abi.SideEffectIdempotent, Interrupt: abi.InterruptCancel}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := fakeTool("T", writes, canCancel, func(f *fake) {
				f.spec.SideEffect = abi.SideEffectIdempotent
				f.resolve = func(json.RawMessage) (tool.Partial, error) { return c.give, c.err }
			})
			got, widened := tool.Resolve(f, in(`{}`))
			if got != c.want || (widened > 0) != c.widened {
				t.Errorf("got %+v (%d widened), want %+v", got, widened, c.want)
			}
		})
	}
	f := fakeTool("T", func(f *fake) { f.resolve = func(json.RawMessage) (tool.Partial, error) { panic("no") } })
	if got, _ := tool.Resolve(f, nil); got.Kind != abi.KindExecute {
		t.Errorf("a panicking resolver: %+v", got)
	}
	led := &ledger{rec: &recorder{}}
	g := fakeTool("T", readOnly, func(f *fake) {
		f.resolve = func(in json.RawMessage) (tool.Partial, error) {
			if strings.Contains(string(in), "GET") {
				return tool.Partial{SideEffect: abi.SideEffectPure}, nil
			}
			return tool.Partial{}, nil
		}
	})
	s := session(t, SessionOptions{Lifecycle: led}, g)
	do(t, s, Call{Tool: "T", Input: in(`{"m":"GET"}`)})
	do(t, s, Call{Tool: "T", Input: in(`{"m":"POST"}`)})
	if led.started[0].SideEffect != abi.SideEffectPure || led.started[1].SideEffect != abi.SideEffectNonIdempotent {
		t.Errorf("%+v", led.started)
	}
}

// BEH-05: the manifest's table, evaluated on the input.
func TestNarrowingTable(t *testing.T) {
	f := fakeTool("T", func(f *fake) {
		f.spec.Narrow = []abi.Narrowing{
			{When: map[string][]json.RawMessage{"/m": {in(`"GET"`), in(`"HEAD"`)}}, Kind: abi.KindReadOnly, SideEffect: abi.SideEffectPure},
			{When: map[string][]json.RawMessage{"/m": {in(`"PUT"`)}, "/n": {in(`1`)}}, SideEffect: abi.SideEffectIdempotent},
		}
	})
	for input, want := range map[string]abi.SideEffect{
		`{"m":"GET"}`: abi.SideEffectPure, `{"m":"HEAD"}`: abi.SideEffectPure, `{"m":"get"}`: abi.SideEffectNonIdempotent,
		`{"m":"PUT"}`: abi.SideEffectNonIdempotent, `{"m":"PUT","n":1.0}`: abi.SideEffectIdempotent, `{}`: abi.SideEffectNonIdempotent, `{"m":["GET"]}`: abi.SideEffectNonIdempotent,
	} {
		if b, _ := tool.Resolve(plain{f}, in(input)); b.SideEffect != want {
			t.Errorf("%s: %s, want %s", input, b.SideEffect, want)
		}
	}
}

// REG-11: the context of a call is as set, and a tool cannot change it.
func TestCallContext(t *testing.T) {
	opt := SessionOptions{ID: "s1", Context: abi.RuntimeContext{Environment: map[string]string{"K": "v"}, Metadata: map[string]json.RawMessage{"m": in(`1`)},
		Capabilities: &abi.ContextCapabilities{Filesystem: &abi.FilesystemFacet{Roots: []string{"/w"}, Cwd: "/w/sub"}}}}
	var snap tool.Snapshot
	f := fakeTool("T", readOnly, runs(func(ctx context.Context, c *tool.Call) (*abi.Result, error) {
		if c.SessionID() != "s1" || c.MessageID() != "m1" || c.Mode() != string(policy.ModePlan) || c.Step() != "step" || c.ToolCallID() != "c1" || c.ExecutionID() == "" || ctx.Err() != nil {
			return nil, fmt.Errorf("context: %s %s %s %s", c.SessionID(), c.MessageID(), c.Mode(), c.Step())
		}
		snap = c.Snapshot()
		bad := c.Snapshot()
		bad.Roots[0], bad.Environment["K"], bad.Context.Metadata["m"][0] = "/", "x", 'x'
		bad.Context.Capabilities.Filesystem.Roots[0] = "/"
		return abi.Text("ok"), nil
	}))
	s := session(t, opt, f)
	wantOK(t, do(t, s, Call{ID: "c1", Tool: "T", MessageID: "m1", TurnID: "t1", Step: "step", Mode: policy.ModePlan}))
	if snap.SessionID != "s1" || snap.TurnID != "t1" || snap.Cwd != "/w/sub" || snap.Environment["K"] != "v" {
		t.Errorf("%+v", snap)
	}
	if now := s.Snapshot(); now.Roots[0] != "/w" || now.Environment["K"] != "v" || string(now.Context.Metadata["m"]) != "1" {
		t.Errorf("the tool changed the session: %+v", now)
	}
}

// CTX-01: how a turn's context lies over the session's.
func TestContextMerge(t *testing.T) {
	base := abi.RuntimeContext{Environment: map[string]string{"A": "1", "B": "1"}, Metadata: map[string]json.RawMessage{"x": in(`1`)}, Capabilities: &abi.ContextCapabilities{
		Filesystem: &abi.FilesystemFacet{Roots: []string{"/a", "/b"}, Cwd: "/a"}, Network: &abi.NetworkFacet{AllowDomains: []string{"x.org"}}, Browser: &abi.BrowserFacet{PageID: "p", TabID: "t"}}}
	over := &abi.RuntimeContext{Environment: map[string]string{"B": "2", "C": "2"}, Metadata: map[string]json.RawMessage{"y": in(`2`)}, Capabilities: &abi.ContextCapabilities{
		Filesystem: &abi.FilesystemFacet{Roots: []string{"/c"}}, Browser: &abi.BrowserFacet{PageID: "q"}}}
	got := mergeContext(base, over)
	c := got.Capabilities
	if fmt.Sprint(c.Filesystem.Roots) != "[/c]" || c.Filesystem.Cwd != "" || c.Browser.TabID != "" || c.Browser.PageID != "q" || c.Network.AllowDomains[0] != "x.org" {
		t.Errorf("%+v %+v %+v", c.Filesystem, c.Browser, c.Network)
	}
	if fmt.Sprint(got.Environment) != "map[A:1 B:2 C:2]" || len(got.Metadata) != 2 {
		t.Errorf("%v %v", got.Environment, got.Metadata)
	}
	if fmt.Sprint(base.Capabilities.Filesystem.Roots) != "[/a /b]" || base.Environment["B"] != "1" {
		t.Error("the base was changed")
	}
}

// RES-01 RES-17: which results there can be.
func TestResultShapes(t *testing.T) {
	e := &abi.Error{Message: "m", Type: abi.TypeExecution}
	for _, c := range []struct {
		name string
		r    *abi.Result
		ok   bool
	}{
		{"success", &abi.Result{Status: abi.StatusSuccess, Model: in(`1`)}, true},
		{"error", &abi.Result{Status: abi.StatusError, Model: in(`1`), Error: e}, true},
		{"nil", nil, false},
		{"success with an error", &abi.Result{Status: abi.StatusSuccess, Model: in(`1`), Error: e}, false},
		{"error without one", &abi.Result{Status: abi.StatusError, Model: in(`1`)}, false},
		{"error with data", &abi.Result{Status: abi.StatusError, Model: in(`1`), Error: e, Data: in(`1`)}, false},
		{"no status", &abi.Result{Model: in(`1`)}, false},
		{"unknown type", &abi.Result{Status: abi.StatusError, Model: in(`1`), Error: &abi.Error{Message: "m", Type: "odd"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := do(t, session(t, yolo, fakeTool("T", runs(func(context.Context, *tool.Call) (*abi.Result, error) { return c.r, nil }))), Call{Tool: "T"})
			if c.ok != (r.Error == nil || r.Error == e || r.Error.Message == "m") {
				t.Errorf("%+v", r)
			}
			if !c.ok && r.Error.Code != abi.CodeResultShape && r.Error.Code != abi.CodeNoResult {
				t.Errorf("code %s", r.Error.Code)
			}
		})
	}
	for _, typ := range []abi.ErrorType{"validation_error", "permission_denied", "execution_error", "interrupted", "timeout_error", "network_error"} {
		if !typ.Valid() {
			t.Errorf("%s", typ)
		}
	}
}

// SFX-06: the words on the wire.
func TestWireValues(t *testing.T) {
	got := fmt.Sprintln(abi.KindReadOnly, abi.KindWrite, abi.KindExecute, abi.SideEffectPure, abi.SideEffectIdempotent, abi.SideEffectNonIdempotent,
		abi.InterruptBlock, abi.InterruptCancel, abi.ExposureEager, abi.ExposureDeferred, abi.ExposureDiscoverable, policy.ModeDefault, policy.ModeAutoEdit, policy.ModeYolo, policy.ModePlan)
	if want := "readonly write execute pure idempotent non_idempotent block cancel eager deferred discoverable-only default autoEdit yolo plan\n"; got != want {
		t.Errorf("%s", got)
	}
}

// SFX-05: nothing follows from anything else.
func TestDimensionsAreIndependent(t *testing.T) {
	for _, k := range []abi.Kind{abi.KindReadOnly, abi.KindWrite, abi.KindExecute} {
		if b := tool.Static(&abi.ToolSpec{Name: "ReadPure", Kind: k}); b.SideEffect != abi.SideEffectNonIdempotent || b.Kind != k {
			t.Errorf("%s: %+v", k, b)
		}
	}
	for _, e := range []abi.SideEffect{abi.SideEffectPure, abi.SideEffectIdempotent} {
		if b := tool.Static(&abi.ToolSpec{Name: "Read", SideEffect: e}); b.Kind != abi.KindExecute || b.ReadOnly {
			t.Errorf("%s: %+v", e, b)
		}
	}
	no := false
	if b := tool.Static(&abi.ToolSpec{Kind: abi.KindReadOnly, ReadOnly: &no}); b.ReadOnly || b.Kind != abi.KindReadOnly {
		t.Errorf("%+v", b)
	}
}

// A tool that panics ends its own call only.
func TestToolPanic(t *testing.T) {
	s := session(t, yolo, fakeTool("T", runs(func(context.Context, *tool.Call) (*abi.Result, error) { panic("boom") })), fakeTool("U"))
	wantCode(t, do(t, s, Call{Tool: "T"}), abi.CodeToolPanic, abi.TypeExecution)
	wantOK(t, do(t, s, Call{Tool: "U"}))
}
