package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// examples is one event of each of the 17 types, with all members it may have.
var examples = []string{
	`{"type":"tool_use","sessionId":"s","id":"c","name":"T","input":{"a":1}}`,
	`{"type":"tool_progress","sessionId":"s","id":"c","name":"T","progress":{"kind":"progress","message":"m","data":[1],"completed":1,"total":2,"resumeToken":"r"}}`,
	`{"type":"tool_message","sessionId":"s","id":"c","name":"T","content":{"summary":"m","detail":{"a":1}}}`,
	`{"type":"tool_runtime_patch","sessionId":"s","id":"c","name":"T","patch":{"scope":"turn","source":"tool"}}`,
	`{"type":"tool_context_patch","sessionId":"s","id":"c","name":"T","patch":{"scope":"session","metadata":{"a":1}}}`,
	`{"type":"tool_new_messages","sessionId":"s","id":"c","name":"T","messages":[{"role":"user","content":"x"}]}`,
	`{"type":"tool_permission_updates","sessionId":"s","id":"c","name":"T","updates":[{"type":"addRules","behavior":"deny","rules":[]}]}`,
	`{"type":"tool_result","sessionId":"s","id":"c","name":"T","output":"x","display":{"summary":"d"},"isError":true}`,
	`{"type":"turn_start","sessionId":"s","turn":0}`,
	`{"type":"turn_end","sessionId":"s","turn":1}`,
	`{"type":"turn_interrupted","sessionId":"s","inputId":"i","requestId":"r","turn":2}`,
	`{"type":"input_applied","sessionId":"s","inputId":"i","requestId":"r","priority":"next","turn":3}`,
	`{"type":"content","sessionId":"s","delta":""}`,
	`{"type":"thinking","sessionId":"s","delta":"hm"}`,
	`{"type":"usage","sessionId":"s","usage":{"inputTokens":1}}`,
	`{"type":"result","sessionId":"s","subtype":"success","content":"done","error":{"message":"m"}}`,
	`{"type":"error","sessionId":"s","message":"m","code":"c"}`,
}

const extendedExample = `{"type":"tool_result","sessionId":"s","id":"c","name":"T","output":"m","isError":true,"status":"error","error":{"message":"m","type":"execution_error","code":"X"},"metadata":{"executionId":"e"}}`

// EVT-05: each of the 17 types goes through the strict decoder and comes back the same;
// the extended tool_result does in the extended mode.
func TestEventsRoundTrip(t *testing.T) {
	types := map[EventType]bool{}
	for _, text := range examples {
		e, err := DecodeEvent([]byte(text), false)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		types[e.Type] = true
		if back := mustJSON(e); !equalJSON(t, back, in(text)) {
			t.Errorf("%s\ncame back as\n%s", text, back)
		}
		if e.Type == EventToolResult {
			continue
		}
		if _, err := DecodeEvent([]byte(text), true); err != nil {
			t.Errorf("in the extended mode: %v", err)
		}
	}
	if len(types) != 17 || len(eventFields) != 17 {
		t.Errorf("%d types have an example, %d are known, want 17", len(types), len(eventFields))
	}
	e, err := DecodeEvent([]byte(extendedExample), true)
	if err != nil {
		t.Fatal(err)
	}
	if back := mustJSON(e); !equalJSON(t, back, in(extendedExample)) {
		t.Errorf("the extended one came back as %s", back)
	}
	if _, err := DecodeEvent([]byte(extendedExample), false); err == nil {
		t.Error("the plain mode takes an extended tool_result")
	}
}

// EVT-05 EVT-04: a member that is missing, unknown, of the wrong type or there twice is
// refused, in each type.
func TestEventsAreStrict(t *testing.T) {
	optional := []string{"display", "content of result", "error of result", "code of error"}
	refused := func(what, text string, extended bool) {
		t.Helper()
		if e, err := DecodeEvent([]byte(text), extended); err == nil {
			t.Errorf("%s is taken: %s as %+v", what, text, e)
		}
	}
	for i, text := range append(slices.Clone(examples), extendedExample) {
		extended := i == len(examples)
		var m map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		typ := strings.Trim(string(m["type"]), `"`)
		for k, v := range m {
			other := maps.Clone(m)
			delete(other, k)
			may := slices.Contains(optional, k) || slices.Contains(optional, k+" of "+typ) || (extended && k == "metadata") || (!extended && k == "isError")
			if _, err := DecodeEvent(mustJSON(other), extended); (err == nil) != may {
				t.Errorf("%s without %s: %v", typ, k, err)
			}
			if k != "input" && k != "output" && (k != "error" || extended) {
				other[k] = in(`true`)
				if v[0] == 't' {
					other[k] = in(`"true"`)
				}
				refused(k+" of the wrong type", string(mustJSON(other)), extended)
				other[k] = in(`null`)
				refused(k+" that is null", string(mustJSON(other)), extended)
			}
			refused(k+" twice", strings.Replace(text, `{"type"`, fmt.Sprintf(`{%q:%s,"type"`, k, v), 1), extended)
			other = maps.Clone(m)
			delete(other, k)
			other[strings.ToUpper(k)] = v
			refused(k+" in upper case", string(mustJSON(other)), extended)
		}
		for _, more := range []string{"extra", "Type", "canonicalName", "notice", "data", "turn", "id", "usage", "status"} {
			if _, has := m[more]; !has && !(extended && (more == "data")) {
				other := maps.Clone(m)
				other[more] = in(`1`)
				refused("a further member "+more, string(mustJSON(other)), extended)
			}
		}
	}
	for what, text := range map[string]string{
		"nothing": ``, "no object": `[]`, "null": `null`, "two values": examples[8] + examples[8], "no type": `{"sessionId":"s"}`, "an unknown type": `{"type":"odd","sessionId":"s"}`,
		"an empty session": `{"type":"turn_start","sessionId":"","turn":0}`, "a turn that is no whole number": `{"type":"turn_start","sessionId":"s","turn":1.5}`,
		"a priority that is not known": `{"type":"input_applied","sessionId":"s","inputId":"i","requestId":"r","priority":"later","turn":3}`,
		"a message as progress":        `{"type":"tool_progress","sessionId":"s","id":"c","name":"T","progress":{"kind":"message","content":{"summary":"x"}}}`,
		"progress with an effect":      `{"type":"tool_progress","sessionId":"s","id":"c","name":"T","progress":{"kind":"progress","effect":{"type":"newMessages","messages":[]}}}`,
		"progress below zero":          `{"type":"tool_progress","sessionId":"s","id":"c","name":"T","progress":{"kind":"progress","completed":-1}}`,
		"progress with more":           `{"type":"tool_progress","sessionId":"s","id":"c","name":"T","progress":{"kind":"progress","extra":1}}`,
		"a message without a summary":  `{"type":"tool_message","sessionId":"s","id":"c","name":"T","content":{"detail":1}}`,
		"a message with more":          `{"type":"tool_message","sessionId":"s","id":"c","name":"T","content":{"summary":"x","extra":1}}`,
		"a display with more":          `{"type":"tool_result","sessionId":"s","id":"c","name":"T","output":1,"display":{"summary":"x","extra":1}}`,
		"a patch of no scope":          `{"type":"tool_context_patch","sessionId":"s","id":"c","name":"T","patch":{"scope":"week"}}`,
		"a runtime patch of nobody":    `{"type":"tool_runtime_patch","sessionId":"s","id":"c","name":"T","patch":{}}`,
		"messages that are texts":      `{"type":"tool_new_messages","sessionId":"s","id":"c","name":"T","messages":["x"]}`,
		"bad UTF-8":                    "{\"type\":\"content\",\"sessionId\":\"s\",\"delta\":\"\xff\"}",
	} {
		refused(what, text, false)
	}
	for what, text := range map[string]string{
		"a success with an error":    strings.Replace(extendedExample, `"status":"error"`, `"status":"success"`, 1),
		"an unknown status":          strings.Replace(extendedExample, `"status":"error"`, `"status":"odd"`, 1),
		"an error that is not one":   strings.Replace(extendedExample, `"isError":true,`, ``, 1),
		"an error with data":         strings.Replace(extendedExample, `"metadata"`, `"data":1,"metadata"`, 1),
		"an error of no known type":  strings.Replace(extendedExample, `execution_error`, `odd_error`, 1),
		"an error with more":         strings.Replace(extendedExample, `"code":"X"`, `"code":"X","extra":1`, 1),
		"an error without a message": strings.Replace(extendedExample, `"message":"m","type"`, `"type"`, 1),
		"a plain one":                examples[7],
	} {
		refused(what, text, true)
	}
}

// EVT-02 EVT-04 EVT-05: whatever happens to a call, what the session publishes goes
// through the strict decoder, and says of the call what it was.
func TestPublishedEventsAreStrict(t *testing.T) {
	long := strings.Repeat("x", 300)
	display := fakeTool("Shows", readOnly, runs(func(context.Context, *tool.Call) (*abi.Result, error) {
		r := abi.Success(in(`{"a":1}`))
		r.Display = &abi.Display{Summary: "shown", Detail: in(`[1]`)}
		return r, nil
	}))
	tools := []tool.Tool{yieldsAll(), display,
		fakeTool("Fails", readOnly, runs(func(context.Context, *tool.Call) (*abi.Result, error) { return nil, errors.New("no") })),
		fakeTool("Nothing", readOnly, runs(func(context.Context, *tool.Call) (*abi.Result, error) {
			return &abi.Result{Status: abi.StatusSuccess}, nil
		})),
		fakeTool("Panics", readOnly, runs(func(context.Context, *tool.Call) (*abi.Result, error) { panic("boom") })),
		fakeTool("Asks"),
		fakeTool("BadMeta", readOnly, runs(func(context.Context, *tool.Call) (*abi.Result, error) {
			r := abi.Text("x")
			r.SetMeta("f", nan())
			return r, nil
		})),
	}
	for _, extended := range []bool{false, true} {
		var rec recorder
		s := session(t, SessionOptions{ID: "s", Events: rec.event, ExtendedEvents: extended}, tools...)
		calls := []Call{
			{Tool: "Y", Input: yieldInput(append(slices.Clone(every), `{"kind":"effect","effect":{"type":"newMessages","messages":[]}}`, `{"kind":"effect","effect":{"type":"permissionUpdates","updates":[]}}`)...)},
			{Tool: "Shows", Input: in(`{"q":1}`)}, {Tool: "Fails"}, {Tool: "Nothing"}, {Tool: "Panics"}, {Tool: "Asks"}, {Tool: "BadMeta"},
			{Tool: "Nope"}, {Tool: ""}, {Tool: "Shows", Arguments: `[]`}, {Tool: "Shows", Arguments: `{"a":` + long}, {Tool: "Shows", Arguments: "\xff"}, {Tool: "Shows", Mode: "odd"}, {Tool: long},
		}
		for i := range calls {
			calls[i].ID = fmt.Sprint("call-", i)
			do(t, s, calls[i])
		}
		if err := s.Steer(t.Context(), "input"); err != nil {
			t.Error(err)
		}
		results := map[string]*Event{}
		for _, e := range rec.seen() {
			b, err := abi.Marshal(e)
			if err != nil {
				t.Errorf("%s of %s cannot be written: %v", e.Type, e.Name, err)
				continue
			}
			back, err := DecodeEvent(b, extended)
			if err != nil {
				t.Errorf("%s: %v", b, err)
				continue
			}
			if back.Type == EventToolResult {
				results[back.ID] = back
			}
			if back.SessionID != "s" {
				t.Errorf("%s", b)
			}
		}
		if len(results) != len(calls) {
			t.Errorf("%d results of %d calls", len(results), len(calls))
		}
		if e := results["call-1"]; !equalJSON(t, e.Output, in(`{"a":1}`)) || e.Display.Summary != "shown" || e.IsError {
			t.Errorf("%+v", e)
		}
		if e := results["call-2"]; e == nil || string(e.Output) != `"no"` || !e.IsError {
			t.Errorf("%+v", e)
		}
		if e := results["call-1"]; extended && (e.Status != abi.StatusSuccess || string(e.Data) != `{"a":1}` || e.Metadata["executionId"] == nil) {
			t.Errorf("extended %+v", e)
		}
		for _, e := range rec.seen() {
			if e.Type == EventToolUse && e.ID == "call-1" && string(e.Input) != `{"q":1}` {
				t.Errorf("tool_use carries %s", e.Input)
			}
		}
	}
}

// A sink that changes its events changes nothing else.
func TestEventsAreCopies(t *testing.T) {
	scribble := func(e Event) {
		for _, raw := range append([]json.RawMessage{e.Input, e.Patch, e.Output, e.Data, e.Error, e.Content}, e.Messages...) {
			clear(raw)
		}
		if e.Progress != nil {
			clear(e.Progress.Data)
			e.Progress.Message = "X"
		}
		if e.Display != nil {
			e.Display.Summary = "X"
			clear(e.Display.Detail)
		}
		clear(e.Metadata)
	}
	f := yieldsAll()
	run := f.run
	var got string
	f.run = func(ctx context.Context, c *tool.Call) (*abi.Result, error) {
		got = string(c.Input)
		r, err := run(ctx, c)
		if err == nil {
			r.Display = &abi.Display{Summary: "shown", Detail: in(`[1]`)}
		}
		return r, err
	}
	s := session(t, SessionOptions{Events: scribble, ExtendedEvents: true}, f)
	input := string(yieldInput(every...))
	x := s.Start(t.Context(), Call{Tool: "Y", Input: in(input)})
	i := 0
	for y := range x.Yields() {
		if !equalJSON(t, mustJSON(y), in(every[i])) {
			t.Errorf("yield %d became %s", i, mustJSON(y))
		}
		i++
	}
	r, err := x.Result()
	if err != nil {
		t.Fatal(err)
	}
	answers := into[[]string](t, r)
	if got != input || len(answers) != len(every) || r.Display.Summary != "shown" || string(r.Display.Detail) != "[1]" || r.Metadata["executionId"] == nil {
		t.Errorf("the tool got %s; the result is %s %+v %v", got, r.Model, r.Display, r.Metadata)
	}
	if s.Snapshot().Context.Metadata["k"] == nil {
		t.Error("the context patch was changed")
	}
}

// EVT-05: nothing crashes the strict decoder, and what it takes it takes again, as the same, once
// it was written anew.
func FuzzDecodeEvent(f *testing.F) {
	for _, text := range append(slices.Clone(examples), extendedExample, `{}`, `null`, `{"type":"tool_result","sessionId":"s","id":"","name":"","output":null,"isError":false}`) {
		f.Add([]byte(text), false)
		f.Add([]byte(text), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, extended bool) {
		e, err := DecodeEvent(b, extended)
		if err != nil {
			if e != nil {
				t.Errorf("an event beside the error %v", err)
			}
			return
		}
		written, err := abi.Marshal(e)
		if err != nil {
			t.Fatalf("%s was taken and cannot be written: %v", b, err)
		}
		again, err := DecodeEvent(written, extended)
		if err != nil {
			t.Fatalf("%s was taken, but not %s: %v", b, written, err)
		}
		if twice, err := abi.Marshal(again); err != nil || !bytes.Equal(written, twice) {
			t.Errorf("%s became %s, then %s", b, written, twice)
		}
	})
}
