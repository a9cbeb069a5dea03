package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// PWT-05: a callback that obeys ends a moment after the call it was for; that moment
// neither refuses the next call nor fails a close.
func TestObeyingCallbacksRefuseNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		user := tool.ConfirmFunc(func(ctx context.Context, _ tool.Confirmation) (tool.ConfirmationAnswer, error) {
			<-ctx.Done()
			time.Sleep(5 * time.Millisecond)
			return tool.ConfirmationAnswer{}, ctx.Err()
		})
		s := session(t, SessionOptions{Confirm: user}, fakeTool("Asks"), fakeTool("Quick", readOnly))
		for range 3 {
			x := s.Start(t.Context(), Call{Tool: "Asks"})
			synctest.Wait()
			x.Cancel("no longer needed")
			<-x.Done()
			wantOK(t, do(t, s, Call{Tool: "Quick"}))
		}
		x := s.Start(t.Context(), Call{Tool: "Asks"})
		synctest.Wait()
		x.Cancel("the end")
		<-x.Done()
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// REG-06 SEL-04: tools that come later obey the selection, and only names that are no tool
// at all are told.
func TestLateRegistration(t *testing.T) {
	s := session(t, SessionOptions{AllowedTools: []string{"Old", "mcp__a__good", "Never"}, DisallowedTools: []string{"mcp__a__bad"}}, fakeTool("Old", readOnly), fakeTool("Other", readOnly))
	src := tool.Source{Kind: tool.SourceMCP, Trust: tool.TrustRemote, ID: "mcp:a", Server: "a"}
	if err := s.Register(src, fakeTool("mcp__a__good", readOnly), fakeTool("mcp__a__bad", readOnly), fakeTool("mcp__a__other", readOnly)); err != nil {
		t.Fatal(err)
	}
	if err := s.Register(src, fakeTool("mcp__a__good", readOnly), fakeTool("mcp__a__needs", func(f *fake) { f.spec.Services = []string{abi.ServiceMemory} })); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range s.Tools() {
		names = append(names, i.Name)
	}
	if fmt.Sprint(names) != "[Old mcp__a__good]" {
		t.Errorf("%v", names)
	}
	d := s.Diagnostics()
	for _, name := range []string{"Old", "Other"} {
		if slices.ContainsFunc(d, func(line string) bool { return strings.Contains(line, name+",") }) {
			t.Errorf("it says that %s is no tool: %v", name, d)
		}
	}
	if !slices.ContainsFunc(d, func(line string) bool { return strings.Contains(line, "Never") }) {
		t.Errorf("it does not tell of a name that is no tool: %v", d)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			_ = s.Register(src, fakeTool(fmt.Sprint("mcp__a__x", i), readOnly))
			_, _, _ = s.Diagnostics(), s.Tools(), s.Declarations()
		})
	}
	wg.Wait()
}

// PRM-01 PRM-08: a rule in the name of an alias counts for tools that come later too, and an
// alias with a star does not become a prefix of other tools' names.
func TestRulesByAlias(t *testing.T) {
	s := session(t, SessionOptions{Mode: policy.ModeYolo, Rules: policy.RulesFrom("x", nil, nil, []string{"Aka"})})
	src := tool.Source{Kind: tool.SourceMCP, Trust: tool.TrustRemote, ID: "mcp:a", Server: "a"}
	if err := s.Register(src, fakeTool("mcp__a__late", func(f *fake) { f.spec.Aliases = []string{"Aka"} })); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Aka", "mcp__a__late"} {
		wantCode(t, do(t, s, Call{Tool: name}), abi.CodeDeniedRule, abi.TypePermission)
	}
	// Find is S; "Find*" must not allow Shell.
	f := fakeTool("S", func(f *fake) { f.spec.Aliases = []string{"Find"} })
	s = session(t, SessionOptions{Rules: policy.RulesFrom("x", []string{"Find*"}, nil, nil)}, f, fakeTool("Shell"))
	wantOK(t, do(t, s, Call{Tool: "S"}))
	wantCode(t, do(t, s, Call{Tool: "Shell"}), abi.CodeNoConfirm, abi.TypePermission)
	s = session(t, SessionOptions{Mode: policy.ModeYolo, Rules: policy.RulesFrom("x", nil, nil, []string{"Find*"})}, f, fakeTool("Shell"))
	wantCode(t, do(t, s, Call{Tool: "S"}), abi.CodeDeniedRule, abi.TypePermission)
	wantOK(t, do(t, s, Call{Tool: "Shell"}))
	// A rule that a handler adds may name an alias too.
	h := policy.HandlerFunc(func(context.Context, policy.Request) (tool.Permission, error) {
		return tool.Permission{Behavior: tool.PermissionAllow, Updates: []abi.PermissionUpdate{{Type: "addRules", Behavior: "deny", Rules: []abi.PermissionRule{{ToolName: "Find"}}}}}, nil
	})
	s = session(t, SessionOptions{Mode: policy.ModeYolo, PermissionHandler: h}, f)
	wantOK(t, do(t, s, Call{Tool: "S"}))
	wantCode(t, do(t, s, Call{Tool: "S"}), abi.CodeDeniedRule, abi.TypePermission)
}

// PRM-08 PRM-06: an input that a handler or a hook changed after the rules had spoken is
// held to the deny rules again.
func TestUpdatedInputIsJudgedAgain(t *testing.T) {
	opt := SessionOptions{Mode: policy.ModeYolo, Rules: policy.RulesFrom("x", nil, nil, []string{"T:rm*"})}
	ran := 0
	f := fakeTool("T", matching, runs(func(context.Context, *tool.Call) (*abi.Result, error) { ran++; return abi.Text("x"), nil }))
	opt.PermissionHandler = policy.HandlerFunc(func(context.Context, policy.Request) (tool.Permission, error) {
		return tool.Permission{Behavior: tool.PermissionAllow, UpdatedInput: in(`{"P":"rm -rf"}`)}, nil
	})
	wantCode(t, do(t, session(t, opt, f), Call{Tool: "T", Input: in(`{"P":"ls"}`)}), abi.CodeDeniedRule, abi.TypePermission)
	opt.PermissionHandler = nil
	opt.Hooks = []Hook{{Event: HookPermissionRequest, Run: func(context.Context, HookInput) (HookOutput, error) {
		return HookOutput{ModifiedInput: in(`{"P":"rm -rf"}`)}, nil
	}}}
	wantCode(t, do(t, session(t, opt, f), Call{Tool: "T", Input: in(`{"P":"ls"}`)}), abi.CodeDeniedRule, abi.TypePermission)
	if ran != 0 {
		t.Error("it ran")
	}
}

// SRP-03 EXP-05: a call that plan mode lets through is held to the rest of the selection.
func TestPlanModeLiftsNothingElse(t *testing.T) {
	narrows := func(f *fake) {
		f.resolve = func(in json.RawMessage) (tool.Partial, error) {
			if len(in) > 0 {
				return tool.Partial{Kind: abi.KindReadOnly}, nil
			}
			return tool.Partial{}, nil
		}
	}
	h := newHost(t, Options{Tools: []tool.Tool{fakeTool("T", narrows), fakeTool("D", narrows, func(f *fake) { f.spec.Exposure = &abi.Exposure{Mode: abi.ExposureDeferred} })}})
	wantOK(t, do(t, sessionOn(t, h, SessionOptions{Mode: policy.ModePlan}), Call{Tool: "T"}))
	s := sessionOn(t, h, SessionOptions{Mode: policy.ModePlan, SourcePolicy: SourcePolicy{AllowedSources: []tool.SourceKind{tool.SourceBuiltin}}})
	wantCode(t, do(t, s, Call{Tool: "T"}), abi.CodeDeniedSource, abi.TypePermission)
	s = sessionOn(t, h, SessionOptions{Mode: policy.ModePlan})
	s.runtime.apply(abi.RuntimePatch{Source: "tool", ToolPolicy: &abi.ToolPolicy{Deny: []string{"T"}}})
	wantCode(t, do(t, s, Call{Tool: "T"}), abi.CodeDeniedPolicy, abi.TypePermission)
	wantCode(t, do(t, s, Call{Tool: "D"}), abi.CodeNotDiscovered, abi.TypeExecution)
}

// SessionStart hooks run before the session is there, SessionEnd hooks at its end,
// within their own budget.
func TestSessionHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		hook := func(ev HookEvent, f func(context.Context) error) Hook {
			return Hook{Event: ev, Run: func(ctx context.Context, in HookInput) (HookOutput, error) {
				said = append(said, string(in.Event)+" "+in.SessionID)
				return HookOutput{}, f(ctx)
			}}
		}
		fine := func(context.Context) error { return nil }
		h := newHost(t, Options{Tools: []tool.Tool{fakeTool("T", readOnly)}})
		s := sessionOn(t, h, SessionOptions{ID: "s", Hooks: []Hook{hook(HookSessionStart, fine), hook(HookSessionEnd, fine)}})
		if strings.Join(said, "|") != "SessionStart s" {
			t.Errorf("%v", said)
		}
		wantOK(t, do(t, s, Call{Tool: "T"}))
		for range 2 {
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if strings.Join(said, "|") != "SessionStart s|SessionEnd s" {
			t.Errorf("%v", said)
		}
		_, err := h.NewSession(SessionOptions{Hooks: []Hook{hook(HookSessionStart, func(context.Context) error { return errors.New("not today") })}})
		if abi.CodeOf(err) != abi.CodeHookFailed || !strings.Contains(err.Error(), "not today") {
			t.Errorf("%v", err)
		}
		_, err = h.NewSession(SessionOptions{Hooks: []Hook{hook(HookSessionStart, func(context.Context) error { panic("boom") })}})
		if abi.CodeOf(err) != abi.CodeHookFailed {
			t.Errorf("%v", err)
		}
		s = sessionOn(t, h, SessionOptions{Hooks: []Hook{hook(HookSessionEnd, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })}})
		begun := time.Now()
		if err := s.Close(t.Context()); abi.CodeOf(err) != abi.CodeHookTimeout || time.Since(begun) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("the second close: %v", err)
		}
		// The context of the close does not cut the hooks off.
		ctx, cancel := context.WithCancel(t.Context())
		s = sessionOn(t, h, SessionOptions{Hooks: []Hook{hook(HookSessionEnd, func(ctx context.Context) error { cancel(); return ctx.Err() })}})
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
		out, err := s.FireHooks(t.Context(), HookInput{Event: HookTaskCompleted})
		if err != nil || out.Action != "" {
			t.Errorf("%+v %v", out, err)
		}
	})
}

// Host.Close waits for the calls of all sessions, and then there is nothing any more.
func TestHostClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cleaned atomic.Int64
		h, err := New(Options{Tools: []tool.Tool{fakeTool("T", runs(func(ctx context.Context, _ *tool.Call) (*abi.Result, error) {
			<-ctx.Done()
			time.Sleep(2 * time.Second)
			cleaned.Add(1)
			return nil, context.Cause(ctx)
		}))}})
		if err != nil {
			t.Fatal(err)
		}
		var xs []*Execution
		for range 3 {
			xs = append(xs, sessionOn(t, h, yolo).Start(t.Context(), Call{Tool: "T"}))
		}
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.Close(short); !errors.Is(err, context.DeadlineExceeded) || cleaned.Load() != 0 {
			t.Errorf("%v, %d cleaned", err, cleaned.Load())
		}
		if _, err := h.NewSession(SessionOptions{}); abi.CodeOf(err) != abi.CodeShutdown {
			t.Errorf("a session after the close began: %v", err)
		}
		if err := h.Close(t.Context()); err != nil || cleaned.Load() != 3 {
			t.Errorf("%v, %d cleaned", err, cleaned.Load())
		}
		for _, x := range xs {
			r, err := x.Result()
			if err != nil {
				t.Fatal(err)
			}
			wantCode(t, r, abi.CodeShutdown, abi.TypeExecution)
		}
		if err := h.Close(t.Context()); err != nil {
			t.Errorf("the second close: %v", err)
		}
	})
}

// A sink that panics loses its event and nothing else. One that blocks holds up what is
// published, but neither slots nor deadlines nor the calls of others.
func TestEventSinks(t *testing.T) {
	s := session(t, SessionOptions{Events: func(Event) { panic("boom") }}, yieldsAll())
	wantOK(t, do(t, s, Call{Tool: "Y", Input: yieldInput(every...)}))
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		led := &ledger{rec: &recorder{}}
		opt := SessionOptions{Mode: policy.ModeYolo, ToolTimeout: time.Second, Lifecycle: led, Concurrency: &Concurrency{Execute: 1}, Events: func(e Event) {
			if e.ID == "stuck" && e.Type == EventToolProgress {
				<-release
			}
		}}
		s := session(t, opt, fakeTool("T", runs(func(ctx context.Context, c *tool.Call) (*abi.Result, error) {
			if c.ToolCallID() != "stuck" {
				return abi.Text("ok"), nil
			}
			return nil, c.Progress("p", 1, 2)
		})))
		x := s.Start(t.Context(), Call{ID: "stuck", Tool: "T"})
		time.Sleep(10 * time.Second)
		b := s.slots.buckets[abi.KindExecute]
		b.mu.Lock()
		if b.free != 1 {
			t.Errorf("the stuck call holds its slot past its deadline: %d free", b.free)
		}
		b.mu.Unlock()
		led.mu.Lock()
		if len(led.settled) != 1 || led.settled[0].Result.Error.Type != abi.TypeTimeout {
			t.Errorf("settled: %+v", led.settled)
		}
		led.mu.Unlock()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Abort(short, "enough"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("abort: %v", err)
		}
		close(release)
		r, err := x.Result()
		if err != nil {
			t.Fatal(err)
		}
		wantCode(t, r, abi.CodeTimeoutRan, abi.TypeTimeout)
		wantOK(t, do(t, s, Call{Tool: "T"}))
	})
}

// LIF-15: after a quarantine nothing is settled any more, also of calls that were running.
func TestNothingIsSettledAfterAQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		led := &ledger{rec: &recorder{}}
		s := session(t, SessionOptions{Mode: policy.ModeYolo, Lifecycle: led, Events: rec.event}, fakeTool("T", obeys))
		x := s.Start(t.Context(), Call{Tool: "T"})
		synctest.Wait()
		first := abi.NewError(abi.CodeQuarantine, "the disk is on fire")
		s.Quarantine(first)
		s.Quarantine(abi.NewError(abi.CodeQuarantine, "and wet"))
		if r, err := x.Result(); r != nil || err != error(first) {
			t.Errorf("%v %v", r, err)
		}
		if r, err := s.Run(t.Context(), Call{Tool: "T"}); r != nil || err != error(first) {
			t.Errorf("%v %v", r, err)
		}
		if len(led.settled) != 0 || strings.Join(rec.list(), "|") != "event tool_use" {
			t.Errorf("settled %v, %v", led.settled, rec.list())
		}
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// What a session is given wrongly is a typed error, and no panic.
func TestBadSessionOptions(t *testing.T) {
	h, other := newHost(t, Options{}), newHost(t, Options{})
	p := tinyPlugin(t, other, returns(0, []byte("1")))
	for name, opt := range map[string]SessionOptions{
		"no plugin": {Plugins: []Attachment{{}}}, "a plugin of another host": {Plugins: []Attachment{{Plugin: p}}},
		"mode": {Mode: "odd"}, "timeout": {ToolTimeout: -1}, "hook timeout": {HookTimeout: -1}, "slots": {Concurrency: &Concurrency{Write: -1}},
	} {
		if _, err := h.NewSession(opt); abi.CodeOf(err) != abi.CodeOptions {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := h.NewSession(SessionOptions{Tools: []tool.Tool{nil}}); abi.CodeOf(err) != abi.CodeDefinition {
		t.Errorf("a nil tool: %v", err)
	}
	s := sessionOn(t, h, SessionOptions{Services: map[string]tool.Service{abi.ServiceMemory: nil}, Tools: []tool.Tool{fakeTool("T", readOnly)}})
	wantOK(t, do(t, s, Call{Tool: "T"}))
}

// The history has the last 1000 calls, their digests, and their payloads only on demand; the
// sums are of all calls.
func TestHistory(t *testing.T) {
	for _, keep := range []bool{false, true} {
		s := session(t, SessionOptions{KeepPayloads: keep}, fakeTool("T", readOnly), fakeTool("Asks"))
		for i := range 1005 {
			do(t, s, Call{ID: fmt.Sprint(i), Tool: "T", Input: mustJSON(map[string]int{"i": i})})
		}
		do(t, s, Call{ID: "asked", Tool: "Asks"})
		do(t, s, Call{ID: "nope", Tool: "Nope"})
		list := s.History()
		if len(list) != 1000 || list[0].ToolCallID != "7" || list[997].ToolCallID != "1004" || list[999].ToolCallID != "nope" {
			t.Errorf("%d entries, from %s", len(list), list[0].ToolCallID)
		}
		e := list[0]
		if e.ToolName != "T" || e.Status != abi.StatusSuccess || !strings.HasPrefix(e.ExecutionID, "exec-") || e.InputSHA256.String() != "b55c5bd5f1eadbfad8b3b5a68a0b9be7cc7f4e13fd34f10ecb2bff49fb31e1c1" && e.InputSHA256 == e.ResultSHA256 || e.End.Before(e.Start) {
			t.Errorf("%+v", e)
		}
		if (e.Input != nil) != keep || (e.Result != nil) != keep || (keep && string(e.Input) != `{"i":7}`) {
			t.Errorf("payloads %s %v", e.Input, e.Result)
		}
		if list[998].Code != abi.CodeNoConfirm || list[999].Code != abi.CodeToolNotFound {
			t.Errorf("%+v", list[998:])
		}
		if b := mustJSON(e); !strings.Contains(string(b), `"inputSha256":"`) {
			t.Errorf("%s", b)
		}
		st := s.Stats()
		if st.Total != 1007 || st.Success != 1005 || st.Failed != 2 || st.PerTool["T"] != 1005 || st.PerTool["Nope"] != 1 || len(st.Recent) != 10 || st.Recent[9].ToolCallID != "nope" || st.Mean < 0 {
			t.Errorf("%+v", st)
		}
	}
	if st := session(t, SessionOptions{}).Stats(); st.Total != 0 || st.Mean != 0 || len(st.Recent) != 0 {
		t.Errorf("%+v", st)
	}
}

// Suggest names what is close to what was typed.
func TestSuggest(t *testing.T) {
	names := []string{"WebFetch", "WebSearch", "Read", "Write", "Bash", "Grep"}
	for typed, want := range map[string]string{
		"webfetch": "[WebFetch WebSearch]", "WebFetsh": "[WebFetch]", "Reat": "[Read]", "web": "[WebFetch WebSearch]", "grepp": "[Grep]", "": "[]", "zzzzz": "[]",
		strings.Repeat("x", 1000): "[]", "writ": "[Write]", "basch": "[Bash]",
	} {
		if got := fmt.Sprint(Suggest(typed, names)); got != want {
			t.Errorf("%.20q: %s, want %s", typed, got, want)
		}
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"ab", "ba", 1}, {"hash", "hsah", 1}, {"abcd", "badc", 2}, {"ca", "abc", 3}, {"same", "same", 0}} {
		if got := distance(c.a, c.b); got != c.want || distance(c.b, c.a) != c.want {
			t.Errorf("distance(%q, %q) = %d", c.a, c.b, got)
		}
	}
	if n := len(Suggest("tool", []string{"tool1", "tool2", "tool3", "tool4"})); n != 3 {
		t.Errorf("%d suggestions", n)
	}
	for _, c := range []struct {
		a, b string
		want bool
	}{{"blade-tool-hash", "blade-tool-hash", true}, {"blade-tool-hash", "blade-tool-hush", true}, {"blade-tool-hash", "blade-tool-has", true}, {"blade-tool-hash", "blade-tool-jq", false}} {
		if Similar(c.a, c.b) != c.want {
			t.Errorf("%s, %s", c.a, c.b)
		}
	}
}

// PRM-11: denials are remembered by signature with their count and latest reason; what the
// model may read of them has at most 20 lines.
func TestDenialTracking(t *testing.T) {
	reason := ""
	user := tool.ConfirmFunc(func(context.Context, tool.Confirmation) (tool.ConfirmationAnswer, error) {
		return tool.ConfirmationAnswer{Reason: reason}, nil
	})
	s := session(t, SessionOptions{Confirm: user, Rules: policy.RulesFrom("x", nil, nil, []string{"Ruled"})}, fakeTool("T", matching), fakeTool("Ruled"), fakeTool("Checked", func(f *fake) {
		f.check = func(context.Context, *tool.Call) (tool.Permission, error) {
			return tool.Permission{Behavior: tool.PermissionDeny, Message: "own"}, nil
		}
	}))
	for i, why := range []string{"first", "second"} {
		reason = why
		r := do(t, s, Call{Tool: "T", Input: in(`{"P":"a"}`)})
		wantCode(t, r, abi.CodeDeniedUser, abi.TypePermission)
		d, ok := s.Permissions().Denied(policy.Signature{Tool: "T", Content: "a"})
		if !ok || d.Count != i+1 || d.Reason != why || d.Tool != "T" || d.First.After(d.Last) {
			t.Errorf("%+v %v", d, ok)
		}
	}
	do(t, s, Call{Tool: "Ruled"})
	do(t, s, Call{Tool: "Checked"})
	var tools []string
	for _, d := range s.Permissions().Denials() {
		tools = append(tools, d.Tool)
	}
	if fmt.Sprint(tools) != "[T Ruled Checked]" {
		t.Errorf("%v", tools)
	}
	// It never denies by itself.
	n := 0
	s.opt.Confirm = asked(&n, tool.ConfirmationAnswer{Approved: true})
	wantOK(t, do(t, s, Call{Tool: "T", Input: in(`{"P":"a"}`)}))
	s.Permissions().Forget(policy.Signature{Tool: "T", Content: "a"})
	if _, ok := s.Permissions().Denied(policy.Signature{Tool: "T", Content: "a"}); ok {
		t.Error("it was not forgotten")
	}
	s.opt.Confirm = user
	reason = "because\nof\nmany\nlines, " + strings.Repeat("and more, ", 100)
	for i := range 30 {
		do(t, s, Call{Tool: "T", Input: mustJSON(map[string]string{"P": fmt.Sprintf("%d\nline", i)})})
	}
	text := s.Permissions().Summary()
	if lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n"); len(lines) != 20 || !strings.Contains(lines[19], "13 more") || len(text) > 20*600 {
		t.Errorf("%d lines, %d bytes:\n%.500s", len(lines), len(text), text)
	}
	s.Permissions().Forget(policy.Signature{})
	if s.Permissions().Summary() != "" || len(s.Permissions().Denials()) != 0 {
		t.Error("not all were forgotten")
	}
}

// A service that a tool still calls after its call gives nothing and keeps nothing open.
func TestServicesEndWithTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan error, 1)
		f := fakeTool("T", readOnly, runs(func(_ context.Context, c *tool.Call) (*abi.Result, error) {
			ctx := context.Background()
			a, err := c.Invoke(ctx, abi.ArtifactPut, tool.Request{Body: []byte("x")})
			if err != nil {
				return nil, err
			}
			go func() {
				time.Sleep(time.Second)
				_, err := c.Invoke(ctx, abi.ArtifactOpen, tool.Request{Head: a.Head})
				done <- err
			}()
			return abi.Success(a.Head), nil
		}))
		s := session(t, SessionOptions{}, f)
		r := do(t, s, Call{Tool: "T"})
		wantOK(t, r)
		if err := <-done; err == nil {
			t.Error("a stream was opened for a call that is over")
		}
	})
}

// What the host keeps of an input is its own: the caller may use the bytes again.
func TestCallerMayReuseTheInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got string
		f := fakeTool("T", runs(func(_ context.Context, c *tool.Call) (*abi.Result, error) {
			got = string(c.Input)
			return abi.Text("ok"), nil
		}))
		led := &ledger{rec: &recorder{}}
		s := session(t, SessionOptions{Lifecycle: led, Confirm: tool.ConfirmFunc(func(context.Context, tool.Confirmation) (tool.ConfirmationAnswer, error) {
			time.Sleep(time.Second)
			return tool.ConfirmationAnswer{Approved: true}, nil
		})}, f)
		b := in(`{"a":1}`)
		x := s.Start(t.Context(), Call{Tool: "T", Input: b})
		clear(b)
		r, err := x.Result()
		if err != nil {
			t.Fatal(err)
		}
		wantOK(t, r)
		if got != `{"a":1}` || string(led.scheduled[0].ModelInput) != `{"a":1}` {
			t.Errorf("the tool got %q, the record has %q", got, led.scheduled[0].ModelInput)
		}
	})
}

// CTX-02: nothing is looked up in the process's current folder: not the key of a lock, not a
// root; and a context without roots has an empty list of them.
func TestProcessFolderIsNotUsed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("f", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if got := canonicalPath("link", ""); got != "link" {
		t.Errorf("the key is %s", got)
	}
	if got := canonicalPath("link", dir); filepath.Base(got) != "f" {
		t.Errorf("the key is %s", got)
	}
	f := fakeTool("T", readOnly, runs(func(ctx context.Context, c *tool.Call) (*abi.Result, error) {
		a, err := c.Invoke(ctx, abi.CallContext, tool.Request{})
		return abi.Success(a.Head), err
	}))
	for _, c := range []abi.RuntimeContext{{}, {Capabilities: &abi.ContextCapabilities{Filesystem: &abi.FilesystemFacet{}}}} {
		s := session(t, SessionOptions{Context: c}, f)
		r := do(t, s, Call{Tool: "T"})
		if !strings.Contains(string(r.Data), `"roots":[]`) || strings.Contains(string(r.Data), dir) {
			t.Errorf("%s", r.Data)
		}
	}
}

// TMO-06 TMO-09: a tool that ends in the very moment of its expiry does not hang the call.
func TestExpiryAndEndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := session(t, SessionOptions{Mode: policy.ModeYolo}, fakeTool("T", obeys))
		for range 2000 {
			wantCode(t, do(t, s, Call{Tool: "T", Timeout: time.Millisecond}), abi.CodeTimeoutRan, abi.TypeTimeout)
		}
	})
}

// INT-04 INT-06: an abort waits for the calls that were there, not for those that come while it
// waits, and reaches a call that was started a moment ago.
func TestAbortWaitsForItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := session(t, yolo, fakeTool("Cleans", runs(func(ctx context.Context, _ *tool.Call) (*abi.Result, error) {
			<-ctx.Done()
			time.Sleep(2 * time.Second)
			return nil, context.Cause(ctx)
		})), fakeTool("Later", runs(func(ctx context.Context, _ *tool.Call) (*abi.Result, error) {
			select {
			case <-time.After(5 * time.Minute):
				return abi.Text("ok"), nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		})))
		first := s.Start(t.Context(), Call{Tool: "Cleans"})
		synctest.Wait()
		later := make(chan *Execution, 1)
		go func() {
			time.Sleep(time.Second)
			later <- s.Start(t.Context(), Call{Tool: "Later"})
		}()
		begun := time.Now()
		if err := s.Abort(t.Context(), "enough"); err != nil || time.Since(begun) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		<-first.Done()
		r, err := (<-later).Result()
		if err != nil {
			t.Fatal(err)
		}
		wantOK(t, r)
		for range 100 {
			x := s.Start(t.Context(), Call{ID: "", Tool: "Later"})
			if err := s.Abort(t.Context(), "at once"); err != nil {
				t.Fatal(err)
			}
			r, _ := x.Result()
			wantCode(t, r, abi.CodeAborted, abi.TypeExecution)
		}
	})
}

// LIF-11 INT-04 PLN-01: what was never dispatched when a turn is aborted or steered ends in a
// result of its own and is not recorded; it does not run.
func TestUndispatchedCalls(t *testing.T) {
	for _, steer := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var rec recorder
			led := &ledger{rec: &recorder{}}
			s := session(t, SessionOptions{Mode: policy.ModePlan, Lifecycle: led, Events: rec.event}, fakeTool("T", readOnly, runs(func(ctx context.Context, _ *tool.Call) (*abi.Result, error) {
				select {
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				case <-time.After(time.Second):
					return abi.Text("ok"), nil
				}
			})))
			turn := s.Turn(t.Context(), []Call{{ID: "a", Tool: "T"}, {ID: "b", Tool: "T"}, {ID: "c", Tool: "T"}})
			synctest.Wait()
			var err error
			want := []abi.Code{abi.CodeAborted, abi.CodeAborted, abi.CodeAborted}
			if steer { // a blocks, so it ends first
				want = []abi.Code{"", abi.CodeSteering, abi.CodeSteering}
				err = s.Steer(t.Context(), "input")
			} else {
				err = s.Abort(t.Context(), "enough")
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, o := range turn.Wait() {
				code := abi.Code("")
				if o.Result.Error != nil {
					code = o.Result.Error.Code
				}
				if code != want[i] {
					t.Errorf("%s ended with %q, want %q", o.ID, code, want[i])
				}
			}
			if len(led.scheduled) != 1 || len(led.settled) != 1 {
				t.Errorf("scheduled %v, settled %v", led.scheduled, led.settled)
			}
			uses, results := 0, 0
			for _, e := range rec.seen() {
				switch e.Type {
				case EventToolUse:
					uses++
				case EventToolResult:
					results++
				}
			}
			if uses != 3 || results != 3 {
				t.Errorf("%d tool_use, %d tool_result", uses, results)
			}
		})
	}
}
