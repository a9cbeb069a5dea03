package host

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// spiedYields runs a call and returns what its reader got, what the stream said of it
// between tool_use and tool_result, and the result.
func spiedYields(t testing.TB, s *Session, rec *recorder, c Call) ([]abi.Yield, []Event, *abi.Result) {
	t.Helper()
	before := len(rec.seen())
	x := s.Start(t.Context(), c)
	var got []abi.Yield
	for y := range x.Yields() {
		got = append(got, y)
	}
	r, err := x.Result()
	if err != nil {
		t.Fatal(err)
	}
	evs := rec.seen()[before:]
	if len(evs) < 2 || evs[0].Type != EventToolUse || evs[len(evs)-1].Type != EventToolResult {
		t.Fatalf("the stream does not begin and end as it should: %v", rec.list())
	}
	return got, evs[1 : len(evs)-1], r
}

// every is a yield of each kind and effect, with all members.
var every = []string{
	`{"kind":"progress","message":"half <done> & \u00fc","data":{"a":[1,2.50,null]},"completed":1,"total":2,"resumeToken":"tok/1"}`,
	`{"kind":"progress","completed":0}`,
	`{"kind":"message","content":{"summary":"plain"}}`,
	`{"kind":"message","content":{"summary":"with","detail":{"k":["v"]}}}`,
	`{"kind":"effect","effect":{"type":"contextPatch","patch":{"scope":"turn","metadata":{"k":1}}}}`,
	`{"kind":"effect","effect":{"type":"runtimePatch","patch":{"scope":"session","source":"tool","toolDiscovery":{"discover":["A"]}}}}`,
	`{"kind":"effect","effect":{"type":"newMessages","messages":[{"role":"user","content":"hi"}]}}`,
	`{"kind":"effect","effect":{"type":"permissionUpdates","updates":[{"type":"addRules","behavior":"allow","rules":[{"toolName":"X"}]}]}}`,
}

var allEffects = []abi.EffectType{abi.EffectContextPatch, abi.EffectRuntimePatch, abi.EffectNewMessages, abi.EffectPermissionUpdates}

// yieldsAll is a native tool that yields the texts of its input.
func yieldsAll(change ...func(*fake)) *fake {
	f := fakeTool("Y", append([]func(*fake){readOnly, runs(func(_ context.Context, c *tool.Call) (*abi.Result, error) {
		var in struct{ Yields []json.RawMessage }
		if err := json.Unmarshal(c.Input, &in); err != nil {
			return nil, err
		}
		answers := []string{}
		for _, raw := range in.Yields {
			var y abi.Yield
			if err := json.Unmarshal(raw, &y); err != nil {
				return nil, err
			}
			word := "ok"
			if err := c.Yield(y); err != nil {
				word = err.Error()
			}
			answers = append(answers, word)
		}
		return abi.Success(mustJSON(answers)), nil
	})}, change...)...)
	f.spec.Effects = allEffects
	return f
}

func yieldInput(texts ...string) json.RawMessage {
	return in(`{"yields":[` + strings.Join(texts, ",") + `]}`)
}

// YLD-01 YLD-02 YLD-03 YLD-04 EVT-01: each yield reaches the reader and the stream as it was
// sent, in order, under its own event type.
func TestYieldsAreUnchanged(t *testing.T) {
	var rec recorder
	s := session(t, SessionOptions{ID: "s", Events: rec.event}, yieldsAll())
	got, evs, r := spiedYields(t, s, &rec, Call{ID: "c", Tool: "Y", Input: yieldInput(every...)})
	wantOK(t, r)
	types := []EventType{EventToolProgress, EventToolProgress, EventToolMessage, EventToolMessage, EventToolContextPatch, EventToolRuntimePatch, EventToolNewMessages, EventToolPermissionUpdates}
	if len(got) != len(every) || len(evs) != len(every) {
		t.Fatalf("%d yields, %d events, want %d", len(got), len(evs), len(every))
	}
	for i, want := range every {
		if have := mustJSON(got[i]); !equalJSON(t, have, in(want)) {
			t.Errorf("the reader got %s, want %s", have, want)
		}
		e := evs[i]
		if e.Type != types[i] || e.ID != "c" || e.Name != "Y" || e.SessionID != "s" {
			t.Errorf("event %d is %s of %s %s in %s, want %s", i, e.Type, e.ID, e.Name, e.SessionID, types[i])
		}
		var y map[string]json.RawMessage
		if err := json.Unmarshal(in(want), &y); err != nil {
			t.Fatal(err)
		}
		var effect map[string]json.RawMessage
		if y["effect"] != nil {
			if err := json.Unmarshal(y["effect"], &effect); err != nil {
				t.Fatal(err)
			}
		}
		for name, pair := range map[string][2]json.RawMessage{
			"content": {e.Content, y["content"]}, "patch": {e.Patch, effect["patch"]}, "messages": {list(e.Messages), effect["messages"]}, "updates": {list(e.Updates), effect["updates"]},
		} {
			if !equalJSON(t, pair[0], pair[1]) {
				t.Errorf("event %d has %s %s, want %s", i, name, pair[0], pair[1])
			}
		}
		if e.Type == EventToolProgress && !equalJSON(t, mustJSON(e.Progress), in(want)) {
			t.Errorf("event %d has the progress %s, want %s", i, mustJSON(e.Progress), want)
		}
	}
}

func list(l []json.RawMessage) json.RawMessage {
	if l == nil {
		return nil
	}
	return mustJSON(l)
}

func equalJSON(t testing.TB, a, b json.RawMessage) bool {
	t.Helper()
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	var x, y any
	if err := json.Unmarshal(a, &x); err != nil {
		t.Fatalf("%v in %s", err, a)
	}
	if err := json.Unmarshal(b, &y); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return reflect.DeepEqual(x, y)
}

// YLD-06: a yield of an unknown kind, in bad shape or not declared is rejected,
// published nowhere, and the call goes on.
func TestBadYieldsAreRejected(t *testing.T) {
	bad := []string{
		`{"kind":"odd"}`, `{}`, `{"kind":"message"}`, `{"kind":"effect"}`,
		`{"kind":"effect","effect":{"type":"odd"}}`, `{"kind":"effect","effect":{"type":"contextPatch"}}`, `{"kind":"effect","effect":{"type":"contextPatch","patch":{"scope":"week"}}}`,
		`{"kind":"effect","effect":{"type":"runtimePatch","patch":{"scope":"turn"}}}`, `{"kind":"effect","effect":{"type":"newMessages","messages":["x"]}}`,
		`{"kind":"progress","completed":-1}`, `{"kind":"progress","completed":3,"total":2}`, `{"kind":"progress","content":{"summary":"x"}}`,
	}
	var rec recorder
	s := session(t, SessionOptions{Events: rec.event}, yieldsAll())
	got, evs, r := spiedYields(t, s, &rec, Call{Tool: "Y", Input: yieldInput(append(bad, every[2])...)})
	answers := into[[]string](t, r)
	for i, a := range answers[:len(bad)] {
		if !strings.Contains(a, "rejected") {
			t.Errorf("%s: %s", bad[i], a)
		}
	}
	if answers[len(bad)] != "ok" || len(got) != 1 || len(evs) != 1 {
		t.Errorf("the good one: %s; %d yields, %d events", answers[len(bad)], len(got), len(evs))
	}
	quiet := yieldsAll(func(f *fake) { f.spec.Yields = &[]abi.YieldKind{} })
	quiet.spec.Effects = nil
	s = session(t, SessionOptions{Events: rec.event}, quiet)
	if got, evs, r := spiedYields(t, s, &rec, Call{Tool: "Y", Input: yieldInput(every[0], every[2], every[4])}); len(got)+len(evs) != 0 || r.IsError() {
		t.Errorf("a tool that declares no yields: %v %v %+v", got, evs, r)
	}
	nan := fakeTool("N", readOnly, runs(func(_ context.Context, c *tool.Call) (*abi.Result, error) {
		if err := c.Progress("p", nan(), 1); err == nil {
			return nil, fmt.Errorf("NaN was taken")
		}
		return abi.Text("ok"), c.Yield(abi.Yield{Kind: abi.YieldProgress, Data: in(`{"a":1,"a":2}`)})
	}))
	s = session(t, SessionOptions{Events: rec.event}, nan)
	if _, evs, r := spiedYields(t, s, &rec, Call{Tool: "N"}); len(evs) != 0 || r.Error == nil || !strings.Contains(r.Error.Message, "rejected") {
		t.Errorf("%v %+v", evs, r)
	}
}

func nan() float64 { zero := 0.0; return zero / zero }

// YLD-06: the same of a guest, which learns of it by a code.
func TestGuestYieldsInBadShape(t *testing.T) {
	var rec recorder
	s := oddSession(t, SessionOptions{Events: rec.event}, tool.TrustWorkspace, Grants{})
	bad := []string{`{`, ``, `null`, `[]`, `{"kind":"odd"}`, `{"kind":"message"}`, `{"kind":"message","kind":"message","content":{"summary":"x"}}`, "{\"kind\":\"message\",\"content\":{\"summary\":\"\xff\"}}",
		`{"kind":"progress","completed":1e400}`, `{"kind":"progress","completed":"1"}`, every[4]}
	got, evs, r := spiedYields(t, s, &rec, Call{Tool: "Yield", Input: mustJSON(map[string]any{"yields": append(bad, every[0], every[3])})})
	codes := into[[]int](t, r)
	for i, c := range codes[:len(bad)] {
		// Bytes that are no UTF-8 reach the guest as replacement characters: its input is JSON.
		if c != abi.YieldRejected && !strings.Contains(bad[i], "\xff") {
			t.Errorf("%q: answer %d", bad[i], c)
		}
	}
	if n := len(got); n != 3 || len(evs) != 3 || codes[len(bad)] != abi.YieldOK {
		t.Errorf("%d yields, %d events, answers %v", n, len(evs), codes)
	}
	if got, _, r := spiedYields(t, s, &rec, Call{Tool: "Quiet", Input: mustJSON(map[string]any{"yields": every[:4]})}); len(got) != 0 || string(r.Data) != "[2,2,2,2]" {
		t.Errorf("a guest that declares no yields: %v %s", got, r.Data)
	}
}

// YLD-08: a guest that overwrites a yield's bytes changes nothing of what was sent.
func TestGuestYieldsAreCopied(t *testing.T) {
	var rec recorder
	s := oddSession(t, SessionOptions{Events: rec.event}, tool.TrustWorkspace, Grants{})
	texts := []string{every[2], every[3], every[0], every[2], every[3]}
	x := s.Start(t.Context(), Call{Tool: "Yield", Input: mustJSON(map[string]any{"yields": texts, "scribble": true})})
	<-x.Done() // nobody has read yet
	i := 0
	for y := range x.Yields() {
		if !equalJSON(t, mustJSON(y), in(texts[i])) {
			t.Errorf("yield %d became %s", i, mustJSON(y))
		}
		i++
	}
	if i != len(texts) {
		t.Errorf("%d yields", i)
	}
}

// A native tool that uses a buffer again changes nothing of what it sent either.
func TestNativeYieldsAreCopied(t *testing.T) {
	var rec recorder
	f := fakeTool("T", readOnly, runs(func(_ context.Context, c *tool.Call) (*abi.Result, error) {
		data, patch, detail := in(`{"a":1}`), in(`{"scope":"session","metadata":{"a":1}}`), in(`{"b":2}`)
		for _, y := range []abi.Yield{{Kind: abi.YieldProgress, Data: data}, {Kind: abi.YieldMessage, Content: &abi.Display{Summary: "s", Detail: detail}}, abi.EffectYield(abi.Effect{Type: abi.EffectContextPatch, Patch: patch})} {
			if err := c.Yield(y); err != nil {
				return nil, err
			}
		}
		clear(data)
		clear(patch)
		clear(detail)
		return abi.Text("ok"), nil
	}))
	f.spec.Effects = allEffects
	s := session(t, SessionOptions{Events: rec.event}, f)
	x := s.Start(t.Context(), Call{Tool: "T"})
	<-x.Done()
	var got []string
	for y := range x.Yields() {
		got = append(got, string(mustJSON(y)))
	}
	want := `[{"kind":"progress","data":{"a":1}} {"kind":"message","content":{"summary":"s","detail":{"b":2}}} {"kind":"effect","effect":{"type":"contextPatch","patch":{"scope":"session","metadata":{"a":1}}}}]`
	if fmt.Sprint(got) != want {
		t.Errorf("%v", got)
	}
	for _, e := range rec.seen() {
		mustJSON(e)
	}
	if m := s.Snapshot().Context.Metadata; string(m["a"]) != "1" {
		t.Errorf("the patch became %v", m)
	}
}

// YLD-09: the limits of a guest's yields: one too large, too many messages, too many
// bytes of them; progress is not counted.
func TestYieldLimits(t *testing.T) {
	h := newHost(t, Options{CacheDir: guestCache(t)})
	s := sessionOn(t, h, SessionOptions{Plugins: []Attachment{{Plugin: odd(t, h, tool.TrustWorkspace)}}})
	for _, c := range []struct {
		name  string
		input string
		want  string
		sent  int
	}{
		{"count", `{"kind":"message","count":1010,"size":10}`, `{"0":1000,"3":10}`, abi.MaxYields},
		{"size of one", `{"kind":"message","count":2,"size":70000}`, `{"3":2}`, 0},
		{"size of all", `{"kind":"message","count":100,"size":60000}`, `{"0":69,"3":31}`, 69},
		{"progress", `{"kind":"progress","count":3000,"size":2000}`, `{"0":3000}`, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := s.Start(t.Context(), Call{Tool: "Flood", Input: in(c.input)})
			n := 0
			for range x.Yields() {
				n++
			}
			r, err := x.Result()
			if err != nil || string(r.Data) != c.want {
				t.Errorf("%s %+v %v, want %s", r.Data, r.Error, err, c.want)
			}
			if c.sent >= 0 && n != c.sent {
				t.Errorf("%d yields arrived, want %d", n, c.sent)
			}
		})
	}
	// Exactly at the limit of one.
	frame := len(`{"kind":"message","content":{"summary":""}}`)
	for size, want := range map[int]string{abi.MaxYield - frame: "[0]", abi.MaxYield - frame + 1: "[3]"} {
		text := `{"kind":"message","content":{"summary":"` + strings.Repeat("x", size) + `"}}`
		if r := do(t, s, Call{Tool: "Yield", Input: mustJSON(map[string]any{"yields": []string{text}})}); string(r.Data) != want {
			t.Errorf("%d bytes: %s", len(text), r.Data)
		}
	}
}

// YLD-10: a guest of trust remote may send progress and messages; its effects are
// refused, told to the stream, and the call goes on.
func TestRemoteGuestHasNoEffects(t *testing.T) {
	var rec recorder
	s := oddSession(t, SessionOptions{Events: rec.event}, tool.TrustRemote, Grants{})
	var effects []json.RawMessage
	for _, text := range every[4:] {
		var y struct{ Effect json.RawMessage }
		if err := json.Unmarshal([]byte(text), &y); err != nil {
			t.Fatal(err)
		}
		effects = append(effects, y.Effect)
	}
	got, evs, r := spiedYields(t, s, &rec, Call{Tool: "Effects", Input: mustJSON(map[string]any{"effects": effects})})
	wantOK(t, r)
	if len(got) != 0 || len(evs) != len(effects) || s.RefusedEffects() != int64(len(effects)) {
		t.Errorf("%d yields, %d events, %d refused", len(got), len(evs), s.RefusedEffects())
	}
	for _, e := range evs {
		if e.Type != EventToolProgress || !e.Notice || !strings.Contains(e.Progress.Message, "refused") {
			t.Errorf("%+v", e)
		}
	}
	if n := len(s.Snapshot().Context.Metadata); n != 0 {
		t.Errorf("%d keys of metadata", n)
	}
	if got, _, r := spiedYields(t, s, &rec, Call{Tool: "Yield", Input: mustJSON(map[string]any{"yields": every[:4]})}); len(got) != 4 || string(r.Data) != "[0,0,0,0]" {
		t.Errorf("%d yields, %s", len(got), r.Data)
	}
}

// YLD-05 EVT-03: what a tool yields after its end goes nowhere, whatever became of
// the call.
func TestLateYields(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var rec recorder
			var late error
			done := make(chan struct{})
			f := fakeTool("T", runs(func(_ context.Context, c *tool.Call) (*abi.Result, error) {
				go func() {
					defer close(done)
					time.Sleep(time.Second)
					late = c.Yield(abi.Message("late"))
				}()
				return abi.Text("ok"), nil
			}))
			opt := SessionOptions{Mode: "yolo", Events: rec.event}
			if lost {
				opt.Lifecycle = &ledger{rec: &recorder{}, fail: "settled"}
			}
			s := session(t, opt, f)
			_, err := s.Run(t.Context(), Call{Tool: "T"})
			if (err != nil) != lost {
				t.Fatal(err)
			}
			<-done
			want := "event tool_use|event tool_result"
			if lost {
				want = "event tool_use"
			}
			if got := strings.Join(rec.list(), "|"); got != want || late == nil {
				t.Errorf("%s, the late yield was answered with %v", got, late)
			}
		})
	}
}
