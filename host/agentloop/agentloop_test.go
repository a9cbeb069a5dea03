package agentloop

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/tool"
)

const schemaText = `{"type":"object","properties":{"q":{"type":"string"},"n":{"type":"integer","default":3}},"required":["q"],"additionalProperties":false}`

func define(t *testing.T, d Definition) *Tool {
	t.Helper()
	if d.Name == "" {
		d.Name = "probe"
	}
	if d.Description == "" {
		d.Description = "Probes."
	}
	if d.InputSchema == nil {
		d.InputSchema = json.RawMessage(schemaText)
	}
	tl, err := DefineTool(d)
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

func returns(v any) Handler {
	return func(context.Context, json.RawMessage, ToolContext) (any, error) { return v, nil }
}

// SD2-01, SD2-02: what a definition needs, and its kinds.
func TestDefineTool(t *testing.T) {
	good := Definition{Name: "a", Description: "d", InputSchema: json.RawMessage(schemaText), Handler: returns(1)}
	if tl, err := DefineTool(good); err != nil || tl.Kind() != KindRun {
		t.Fatalf("%v %v", tl, err)
	}
	for _, k := range []Kind{KindRead, KindWrite, KindRun, KindVerify} {
		d := good
		d.Kind = k
		if _, err := DefineTool(d); err != nil {
			t.Errorf("%s: %v", k, err)
		}
	}
	for name, change := range map[string]func(*Definition){
		"no name":        func(d *Definition) { d.Name = "" },
		"bad name":       func(d *Definition) { d.Name = "a b" },
		"no description": func(d *Definition) { d.Description = " " },
		"no schema":      func(d *Definition) { d.InputSchema = nil },
		"array schema":   func(d *Definition) { d.InputSchema = json.RawMessage(`{"type":"array"}`) },
		"no handler":     func(d *Definition) { d.Handler = nil },
		"kind execute":   func(d *Definition) { d.Kind = "execute" },
		"kind readonly":  func(d *Definition) { d.Kind = "readonly" },
		"kind Read":      func(d *Definition) { d.Kind = "Read" },
	} {
		d := good
		change(&d)
		_, err := DefineTool(d)
		if !errors.Is(err, &Error{Code: CodeDefinitionInvalid}) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// SD2-03, SD2-04: invalid input fails with tool_input_invalid and never reaches
// the handler.
func TestRunValidates(t *testing.T) {
	called := 0
	tl := define(t, Definition{Handler: func(_ context.Context, in json.RawMessage, _ ToolContext) (any, error) {
		called++
		return in, nil
	}})
	for _, in := range []string{`{}`, `{"q":1}`, `{"q":"x","z":1}`, `[]`, `{`, `{"q":"a","q":"b"}`, ``} {
		_, err := tl.Run(t.Context(), json.RawMessage(in), ToolContext{})
		if !errors.Is(err, &Error{Code: CodeInputInvalid}) {
			t.Errorf("%s: %v", in, err)
		}
	}
	if called != 0 {
		t.Fatalf("the handler was called %d times", called)
	}
	out, err := tl.Run(t.Context(), json.RawMessage(`{"q":"x"}`), ToolContext{})
	if err != nil || string(out) != `{"n":3,"q":"x"}` {
		t.Errorf("%s %v", out, err)
	}
}

// SD2-05: a handler that works in another goroutine is awaited like any other.
func TestHandlerMayWait(t *testing.T) {
	tl := define(t, Definition{Handler: func(context.Context, json.RawMessage, ToolContext) (any, error) {
		c := make(chan int)
		go func() { c <- 7 }()
		return <-c, nil
	}})
	if out, err := tl.Run(t.Context(), json.RawMessage(`{"q":""}`), ToolContext{}); err != nil || string(out) != "7" {
		t.Errorf("%s %v", out, err)
	}
}

// SD2-07, SD2-08: the step, and where it is cut.
func TestStep(t *testing.T) {
	tl := define(t, Definition{Handler: func(ctx context.Context, _ json.RawMessage, tc ToolContext) (any, error) {
		return []any{tc.Step, ctx.Err() != nil}, nil
	}})
	pair := "😀"
	for _, c := range []struct{ in, want string }{
		{"", ""}, {"plan", "plan"}, {strings.Repeat("a", 501), strings.Repeat("a", 500)},
		{strings.Repeat("é", 501), strings.Repeat("é", 500)},
		{strings.Repeat("a", 499) + pair, strings.Repeat("a", 499)},
		{strings.Repeat("a", 498) + pair, strings.Repeat("a", 498) + pair},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		out, err := tl.Run(ctx, json.RawMessage(`{"q":""}`), ToolContext{Step: c.in})
		want, _ := json.Marshal([]any{c.want, true})
		if err != nil || string(out) != string(want) {
			t.Errorf("%.20q: %.40s, %v", c.in, out, err)
		}
	}
	for in, want := range map[string]string{`"x"`: "x", `12`: "12", `null`: "", ``: ""} {
		if got, err := StepOf(json.RawMessage(in)); err != nil || got != want {
			t.Errorf("StepOf(%s) = %q, %v", in, got, err)
		}
	}
	if _, err := StepOf(json.RawMessage(`{}`)); err == nil {
		t.Error("an object was taken as a step")
	}
}

// SD2-09, SD2-10, SD2-11: when a verification fails.
func TestVerify(t *testing.T) {
	no := map[string]any{"ok": false, "why": "red"}
	for _, c := range []struct {
		name  string
		kind  Kind
		value any
		fails bool
	}{
		{"ok false", KindVerify, no, true},
		{"ok true", KindVerify, map[string]any{"ok": true}, false},
		{"no ok", KindVerify, map[string]any{}, false},
		{"ok 0", KindVerify, map[string]any{"ok": 0}, false},
		{"ok null", KindVerify, map[string]any{"ok": nil}, false},
		{"ok text", KindVerify, map[string]any{"ok": "false"}, false},
		{"false alone", KindVerify, false, false},
		{"nested", KindVerify, map[string]any{"x": no}, false},
		{"read", KindRead, no, false},
		{"write", KindWrite, no, false},
		{"run", KindRun, no, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			tl := define(t, Definition{Kind: c.kind, Handler: returns(c.value)})
			_, err := tl.Run(t.Context(), json.RawMessage(`{"q":""}`), ToolContext{})
			if errors.Is(err, &Error{Code: CodeVerifyFailed}) != c.fails || (err != nil) != c.fails {
				t.Errorf("%v", err)
			}
		})
	}
	broken := define(t, Definition{Kind: KindVerify, Handler: func(context.Context, json.RawMessage, ToolContext) (any, error) { return nil, errors.New("boom") }})
	if _, err := broken.Run(t.Context(), json.RawMessage(`{"q":""}`), ToolContext{}); !errors.Is(err, &Error{Code: CodeFailed}) {
		t.Errorf("a handler that fails: %v", err)
	}
	panics := define(t, Definition{Handler: func(context.Context, json.RawMessage, ToolContext) (any, error) { panic("no") }})
	if _, err := panics.Run(t.Context(), json.RawMessage(`{"q":""}`), ToolContext{}); !errors.Is(err, &Error{Code: CodeFailed}) {
		t.Errorf("a handler that panics: %v", err)
	}
}

// SD2-12: the function object for OpenAI.
func TestToOpenAI(t *testing.T) {
	tl := define(t, Definition{Name: "searchDocs", Description: "Searches <docs> & more.", Handler: returns(1)})
	want := `{"type":"function","function":{"name":"searchDocs","description":"Searches <docs> & more.","parameters":` + schemaText + `}}`
	if got := string(tl.ToOpenAI()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// SD2-13, SD2-14: kinds map to a session's and back, and imply nothing else.
func TestKindMapping(t *testing.T) {
	for _, k := range []Kind{KindRead, KindWrite, KindRun, KindVerify} {
		spec := define(t, Definition{Kind: k, Handler: returns(1)}).Blade().Spec()
		if KindOf(spec) != k {
			t.Errorf("%s came back as %s", k, KindOf(spec))
		}
		if spec.SideEffect != "" || tool.Static(spec).SideEffect != abi.SideEffectNonIdempotent {
			t.Errorf("%s implies the side effect %q", k, spec.SideEffect)
		}
	}
}

func TestInSession(t *testing.T) {
	no := map[string]any{"ok": false, "why": "red"}
	check := define(t, Definition{Name: "check", Kind: KindVerify, Handler: returns(no)})
	h, err := host.New(host.Options{Tools: []tool.Tool{check.Blade()}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close(context.Background()) }()
	s, err := h.NewSession(host.SessionOptions{AutoApprove: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(t.Context(), host.Call{Tool: "check", Input: json.RawMessage(`{"q":""}`)})
	if err != nil || r.Error == nil || r.Error.Code != "verify_failed" || r.Error.Type != abi.TypeExecution || string(r.Model) != `{"ok":false,"why":"red"}` {
		t.Errorf("%+v %v", r, err)
	}
}

// SD2-15: one reminder after a change that nobody verified.
func TestContinuation(t *testing.T) {
	var off Continuation
	off.Started(KindWrite)
	if !off.MayEnd(1) {
		t.Error("it asks although it is off")
	}
	c := Continuation{VerifyBeforeDone: true}
	if !c.MayEnd(1) {
		t.Error("nothing was changed")
	}
	c.Started(KindRun)
	c.Ended(KindRun, true)
	if !c.Unexplored() {
		t.Error("a run before any read is unexplored")
	}
	if !c.MayEnd(0) {
		t.Error("there is no verify tool")
	}
	if c.MayEnd(1) {
		t.Error("it must ask once")
	}
	if !c.MayEnd(1) {
		t.Error("it asked twice")
	}
	d := Continuation{VerifyBeforeDone: true, Reminders: 2}
	d.Ended(KindRead, true)
	d.Started(KindWrite)
	d.Ended(KindVerify, true)
	if !d.MayEnd(1) || d.Unexplored() {
		t.Error("it was verified after reading")
	}
	d.Started(KindWrite)
	d.Ended(KindVerify, false)
	if first, second, third := d.MayEnd(1), d.MayEnd(1), d.MayEnd(1); first || second || !third {
		t.Error("a failed verification does not count; two reminders")
	}
}
