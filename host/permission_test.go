package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bladehost/bladehost/abi"
	capfs "github.com/bladehost/bladehost/host/caps/fs"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// asked makes a handler that approves and counts.
func asked(n *int, ans tool.ConfirmationAnswer) tool.ConfirmationHandler {
	return tool.ConfirmFunc(func(context.Context, tool.Confirmation) (tool.ConfirmationAnswer, error) { *n++; return ans, nil })
}

// PRM-02 PRM-03 BLT-04: what each mode does with each kind.
func TestModes(t *testing.T) {
	kinds := map[string]func(*fake){"r": readOnly, "w": writes, "x": func(*fake) {}, "d": func(f *fake) { f.spec.Destructive = true }}
	for mode, want := range map[policy.Mode]string{
		policy.ModeDefault:  "r:run w:ask x:ask d:ask",
		policy.ModeAutoEdit: "r:run w:run x:ask d:ask",
		policy.ModeYolo:     "r:run w:run x:run d:ask",
		policy.ModePlan:     "r:run w:DENIED_MODE x:DENIED_MODE d:DENIED_MODE",
	} {
		var got []string
		for _, k := range []string{"r", "w", "x", "d"} {
			n := 0
			s := session(t, SessionOptions{Mode: mode, Confirm: asked(&n, tool.ConfirmationAnswer{Approved: true})}, fakeTool("T", kinds[k]))
			r := do(t, s, Call{Tool: "T"})
			word := "run"
			if r.IsError() {
				word = string(r.Error.Code)
			} else if n > 0 {
				word = "ask"
			}
			got = append(got, k+":"+word)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", mode, got, want)
		}
	}
}

// BLT-04: a narrowed call of an execute tool is judged as what it is.
func TestResolvedBehaviourDecides(t *testing.T) {
	f := fakeTool("Bash", func(f *fake) {
		f.resolve = func(in json.RawMessage) (tool.Partial, error) {
			if strings.Contains(string(in), "ls") {
				return tool.Partial{Kind: abi.KindReadOnly, SideEffect: abi.SideEffectPure}, nil
			}
			return tool.Partial{}, nil
		}
	})
	s := session(t, SessionOptions{}, f)
	wantOK(t, do(t, s, Call{Tool: "Bash", Input: in(`{"c":"ls"}`)}))
	wantCode(t, do(t, s, Call{Tool: "Bash", Input: in(`{"c":"rm"}`)}), abi.CodeNoConfirm, abi.TypePermission)
	wantOK(t, do(t, s, Call{Tool: "Bash", Input: in(`{"c":"ls"}`), Mode: policy.ModePlan}))
}

// PRM-10: nobody to ask means no.
func TestNoConfirmationHandler(t *testing.T) {
	wantCode(t, do(t, session(t, SessionOptions{}, fakeTool("T")), Call{Tool: "T"}), abi.CodeNoConfirm, abi.TypePermission)
	wantOK(t, do(t, session(t, SessionOptions{AutoApprove: true}, fakeTool("T")), Call{Tool: "T"}))
	wantOK(t, do(t, session(t, SessionOptions{}, fakeTool("T")), Call{Tool: "T", Approved: true}))
}

func matching(f *fake) {
	f.match = func(in json.RawMessage) (string, string) {
		var v struct{ P string }
		_ = json.Unmarshal(in, &v)
		return v.P, ""
	}
}

// PRM-01: deny > allow > ask; the three forms of patterns.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		name             string
		allow, ask, deny []string
		want             string
	}{
		{"none", nil, nil, nil, "ask"},
		{"allow all", []string{"*"}, nil, nil, "run"},
		{"allow tool", []string{"T"}, nil, nil, "run"},
		{"allow exact", []string{"T:/w/a"}, nil, nil, "run"},
		{"allow prefix", []string{"T:/w/*"}, nil, nil, "run"},
		{"prefix of the name", []string{"T*"}, nil, nil, "run"},
		{"other letters", []string{"t:/w/a"}, nil, nil, "ask"},
		{"other path", []string{"T:/w"}, nil, nil, "ask"},
		{"allow beats ask", []string{"T"}, []string{"T"}, nil, "run"},
		{"deny beats all", []string{"*"}, []string{"*"}, []string{"T:/w/*"}, "DENIED_RULE"},
		{"by alias", []string{"Tee:/w/a"}, nil, nil, "run"},
		{"deny by alias", []string{"*"}, nil, []string{"Tee"}, "DENIED_RULE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := 0
			s := session(t, SessionOptions{Rules: policy.RulesFrom("test.yaml", c.allow, c.ask, c.deny), Confirm: asked(&n, tool.ConfirmationAnswer{Approved: true})},
				fakeTool("T", matching, func(f *fake) { f.spec.Aliases = []string{"Tee"} }))
			r := do(t, s, Call{Tool: "T", Input: in(`{"P":"/w/a"}`)})
			got := "run"
			if r.IsError() {
				got = string(r.Error.Code)
				if !strings.Contains(r.Error.Message, "test.yaml") {
					t.Errorf("the source of the rule is not told: %s", r.Error.Message)
				}
			} else if n > 0 {
				got = "ask"
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	n := 0
	s := session(t, SessionOptions{Rules: policy.RulesFrom("x", nil, []string{"T"}, nil), Confirm: asked(&n, tool.ConfirmationAnswer{Approved: true})}, fakeTool("T", readOnly))
	wantOK(t, do(t, s, Call{Tool: "T"}))
	if n != 1 {
		t.Error("an explicit ask rule sticks even where the mode would allow")
	}
}

// PRM-07 PRM-08: an approval covers its signature only, and a deny rule beats it.
func TestSessionApproval(t *testing.T) {
	n := 0
	s := session(t, SessionOptions{Confirm: asked(&n, tool.ConfirmationAnswer{Approved: true, Scope: "session"})}, plain{fakeTool("T")}, fakeTool("K", func(f *fake) { f.spec.PermissionKey = []string{"/host"} }))
	for _, c := range []struct {
		tool, input string
		want        int
	}{{"T", `{"a":1}`, 1}, {"T", `{"a":1}`, 1}, {"T", `{ "a" : 1.0 }`, 1}, {"T", `{"a":2}`, 2}, {"T", `{}`, 3}} {
		wantOK(t, do(t, s, Call{Tool: c.tool, Input: in(c.input)}))
		if n != c.want {
			t.Errorf("%s %s: asked %d times, want %d", c.tool, c.input, n, c.want)
		}
	}
	p := session(t, SessionOptions{Confirm: asked(&n, tool.ConfirmationAnswer{Approved: true, Scope: "session"})}, plain{fakeTool("K", func(f *fake) { f.spec.PermissionKey = []string{"/host"} })})
	n = 0
	for _, c := range []struct {
		input string
		want  int
	}{{`{"host":"a","x":1}`, 1}, {`{"host":"a","x":2}`, 1}, {`{"host":"b"}`, 2}, {`{"x":1}`, 3}, {`{"x":2}`, 4}} {
		wantOK(t, do(t, p, Call{Tool: "K", Input: in(c.input)}))
		if n != c.want {
			t.Errorf("%s: asked %d times, want %d", c.input, n, c.want)
		}
	}
	if err := s.Permissions().Apply([]abi.PermissionUpdate{{Type: "addRules", Behavior: "deny", Rules: []abi.PermissionRule{{ToolName: "T"}}}}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, do(t, s, Call{Tool: "T", Input: in(`{"a":1}`)}), abi.CodeDeniedRule, abi.TypePermission)
}

// PRM-04 PRM-05 PRM-06 PRM-09: the embedder's handler.
func TestHandler(t *testing.T) {
	allow := func(p tool.Permission) policy.Handler {
		return policy.HandlerFunc(func(context.Context, policy.Request) (tool.Permission, error) { return p, nil })
	}
	yes := tool.Permission{Behavior: tool.PermissionAllow}
	t.Run("allow", func(t *testing.T) {
		wantOK(t, do(t, session(t, SessionOptions{PermissionHandler: allow(yes)}, fakeTool("T")), Call{Tool: "T"}))
	})
	t.Run("allow does not break plan mode", func(t *testing.T) {
		wantCode(t, do(t, session(t, SessionOptions{Mode: policy.ModePlan, PermissionHandler: allow(yes)}, fakeTool("T")), Call{Tool: "T"}), abi.CodeDeniedMode, abi.TypePermission)
	})
	t.Run("deny", func(t *testing.T) {
		r := do(t, session(t, SessionOptions{Mode: policy.ModeYolo, PermissionHandler: allow(tool.Permission{Behavior: tool.PermissionDeny, Message: "never", Interrupt: true})}, fakeTool("T")), Call{Tool: "T"})
		wantCode(t, r, abi.CodeDeniedHandler, abi.TypePermission)
		if r.Metadata["shouldExitLoop"] != true || r.Error.Message != "never" {
			t.Errorf("%v %s", r.Metadata, r.Error.Message)
		}
	})
	t.Run("handler wins over canUseTool", func(t *testing.T) {
		opt := SessionOptions{PermissionHandler: allow(yes), CanUseTool: func(context.Context, policy.Request) (tool.Permission, error) { panic("called") }}
		wantOK(t, do(t, session(t, opt, fakeTool("T")), Call{Tool: "T"}))
		opt = SessionOptions{CanUseTool: func(context.Context, policy.Request) (tool.Permission, error) { return yes, nil }}
		wantOK(t, do(t, session(t, opt, fakeTool("T")), Call{Tool: "T"}))
	})
	t.Run("a tool's own ask survives", func(t *testing.T) {
		f := fakeTool("T", func(f *fake) {
			f.check = func(context.Context, *tool.Call) (tool.Permission, error) {
				return tool.Permission{Behavior: tool.PermissionAsk, Message: "sure?"}, nil
			}
		})
		wantCode(t, do(t, session(t, SessionOptions{PermissionHandler: allow(yes)}, f), Call{Tool: "T"}), abi.CodeNoConfirm, abi.TypePermission)
	})
	t.Run("fails and panics", func(t *testing.T) {
		for _, h := range []policy.HandlerFunc{
			func(context.Context, policy.Request) (tool.Permission, error) {
				return tool.Permission{}, errors.New("down")
			},
			func(context.Context, policy.Request) (tool.Permission, error) { panic("boom") },
			func(context.Context, policy.Request) (tool.Permission, error) {
				return tool.Permission{Behavior: "maybe"}, nil
			},
		} {
			wantCode(t, do(t, session(t, SessionOptions{Mode: policy.ModeYolo, PermissionHandler: h}, fakeTool("T")), Call{Tool: "T"}), abi.CodeHandlerFailed, abi.TypeExecution)
		}
	})
	t.Run("it cannot change what it is shown", func(t *testing.T) {
		var got string
		f := fakeTool("T", runs(func(_ context.Context, c *tool.Call) (*abi.Result, error) {
			got = string(c.Input)
			return abi.Text("ok"), nil
		}))
		h := policy.HandlerFunc(func(_ context.Context, r policy.Request) (tool.Permission, error) { clear(r.Input); return yes, nil })
		wantOK(t, do(t, session(t, SessionOptions{PermissionHandler: h}, f), Call{Tool: "T", Input: in(`{"a":1}`)}))
		if got != `{"a":1}` {
			t.Errorf("%s", got)
		}
	})
}

// PRM-06 EFF-09: an allow may change the input, which is validated anew, but not
// the paths; its updates change approvals.
func TestHandlerUpdates(t *testing.T) {
	dir := t.TempDir()
	var got string
	f := fakeTool("T", runs(func(_ context.Context, c *tool.Call) (*abi.Result, error) {
		got = string(c.Input)
		return abi.Text("ok"), nil
	}))
	f.spec.Parameters = in(`{"type":"object","properties":{"n":{"type":"integer"},"path":{"type":"string"}}}`)
	run := func(p tool.Permission) (*Session, *abi.Result) {
		h := policy.HandlerFunc(func(context.Context, policy.Request) (tool.Permission, error) { return p, nil })
		s := session(t, SessionOptions{PermissionHandler: h, Context: roots(dir)}, plain{f})
		return s, do(t, s, Call{Tool: "T", Input: in(fmt.Sprintf(`{"n":1,"path":%q}`, filepath.Join(dir, "a")))})
	}
	_, r := run(tool.Permission{Behavior: tool.PermissionAllow, UpdatedInput: in(`{"n":2}`)})
	wantOK(t, r)
	if !strings.Contains(got, `"n":2`) || !strings.Contains(got, "path") {
		t.Errorf("%s", got)
	}
	_, r = run(tool.Permission{Behavior: tool.PermissionAllow, UpdatedInput: in(`{"n":"x"}`)})
	wantCode(t, r, abi.CodeValidation, abi.TypeValidation)
	_, r = run(tool.Permission{Behavior: tool.PermissionAllow, UpdatedInput: in(fmt.Sprintf(`{"path":%q}`, filepath.Join(dir, "b")))})
	wantCode(t, r, abi.CodeHandlerFailed, abi.TypeExecution)
	_, r = run(tool.Permission{Behavior: tool.PermissionAllow, UpdatedInput: in(`[]`)})
	wantCode(t, r, abi.CodeHandlerFailed, abi.TypeExecution)
	s, r := run(tool.Permission{Behavior: tool.PermissionAllow, Updates: []abi.PermissionUpdate{{Type: "addRules", Behavior: "allow", Rules: []abi.PermissionRule{{ToolName: "X"}}}}})
	wantOK(t, r)
	if !s.Permissions().Approved(policy.Signature{Tool: "X", Content: "anything"}) {
		t.Error("the update was not taken")
	}
}

// The combinators of handlers.
func TestHandlerChains(t *testing.T) {
	h := func(p tool.Permission) policy.Handler {
		return policy.HandlerFunc(func(_ context.Context, r policy.Request) (tool.Permission, error) { return p, nil })
	}
	ask, deny := tool.Permission{Behavior: "ask", Message: "q"}, tool.Permission{Behavior: "deny", Message: "n"}
	a, b := tool.Permission{Behavior: "allow", UpdatedInput: in(`{"a":1}`)}, tool.Permission{Behavior: "allow", UpdatedInput: in(`{"b":2}`)}
	for _, c := range []struct {
		name string
		h    policy.Handler
		want string
	}{
		{"all allow", policy.FirstWins(h(a), h(b)), `allow {"a":1,"b":2,"x":0}`},
		{"first wins ask", policy.FirstWins(h(a), h(ask), h(deny)), "ask "},
		{"deny wins", policy.DenyWins(h(a), h(ask), h(deny)), "deny "},
		{"deny wins, none denies", policy.DenyWins(h(ask), h(a)), "ask "},
		{"empty", policy.FirstWins(), "allow "},
	} {
		p, err := c.h.HandlePermission(t.Context(), policy.Request{Input: in(`{"x":0}`)})
		if got := string(p.Behavior) + " " + string(p.UpdatedInput); err != nil || got != c.want {
			t.Errorf("%s: %s %v", c.name, got, err)
		}
	}
}

func roots(dirs ...string) abi.RuntimeContext {
	return abi.RuntimeContext{Capabilities: &abi.ContextCapabilities{Filesystem: &abi.FilesystemFacet{Roots: dirs, Cwd: dirs[0]}}}
}

// PRM-12: paths outside, protected and sensitive.
func TestPaths(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "w")
	for _, d := range []string{root, dir + "/w-evil", dir + "/secret"} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"out": dir + "/secret", "up": "..", "in": root, "dangling": dir + "/nothing/there"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		path string
		want string
	}{
		{root + "/a.txt", "run"}, {"a.txt", "run"}, {root + "/sub/../a.txt", "run"}, {root, "run"}, {root + "/in/a", "run"}, {root + "/a..b.txt", "run"},
		{dir + "/w-evil/x", "deny"}, {root + "/../w-evil/x", "deny"}, {root + "/out/x", "deny"}, {root + "/up/secret/x", "deny"}, {root + "/dangling", "deny"},
		{"/etc/passwd", "deny"}, {"../x", "deny"}, {root + "/a\x00b", "deny"},
		{root + "/.env", "ask"}, {root + "/.npmrc", "ask"}, {root + "/id_rsa", "deny"}, {root + "/.ssh/config", "deny"}, {root + "/home/x/etc/y", "run"},
	} {
		n := 0
		s := session(t, SessionOptions{Mode: policy.ModeYolo, Context: roots(root), Confirm: asked(&n, tool.ConfirmationAnswer{Approved: true})}, fakeTool("T"))
		r := do(t, s, Call{Tool: "T", Input: mustJSON(map[string]string{"file_path": c.path})})
		got := "run"
		switch {
		case r.IsError() && r.Error.Code == abi.CodeDeniedPath:
			got = "deny"
		case r.IsError():
			got = string(r.Error.Code)
		case n > 0:
			got = "ask"
		}
		if got != c.want {
			t.Errorf("%q: %s, want %s (%v)", c.path, got, c.want, r.Error)
		}
	}
	n := 0
	s := session(t, SessionOptions{Mode: policy.ModeYolo, Context: roots(root), Rules: policy.RulesFrom("x", []string{"T"}, nil, nil), Confirm: asked(&n, tool.ConfirmationAnswer{Approved: true})}, fakeTool("T"))
	wantOK(t, do(t, s, Call{Tool: "T", Input: mustJSON(map[string]string{"file_path": root + "/id_rsa"})}))
	if n != 1 {
		t.Error("a key file is asked about even with an allow rule")
	}
}

// PRM-16 D-39: a guest's read-only claim counts only if nothing it was lent can write.
func TestReadOnlyClaimIsEnforced(t *testing.T) {
	h := newHost(t, Options{})
	p := conformance(t, h)
	dir := t.TempDir()
	for _, ro := range []bool{true, false} {
		g, err := capfs.Open(dir, capfs.Options{ReadOnly: ro})
		if err != nil {
			t.Fatal(err)
		}
		s := sessionOn(t, h, SessionOptions{Plugins: []Attachment{{Plugin: p, Grants: Grants{Folders: []*capfs.Grant{g}}}}, Services: map[string]tool.Service{"x-echo": echoService()}})
		r := do(t, s, Call{Tool: "Echo", Input: in(`{"value":1}`)})
		if ro {
			wantOK(t, r)
		} else {
			wantCode(t, r, abi.CodeNoConfirm, abi.TypePermission)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}

// PRM-13: every PreToolUse hook runs on the original input; then they are merged
// to the first that skips or aborts.
func TestPreHooks(t *testing.T) {
	var got, seen string
	hook := func(o HookOutput) Hook {
		return Hook{Event: HookPreToolUse, Run: func(_ context.Context, in HookInput) (HookOutput, error) {
			seen += string(in.ToolInput)
			clear(in.ToolInput)
			return o, nil
		}}
	}
	f := fakeTool("T", readOnly, runs(func(_ context.Context, c *tool.Call) (*abi.Result, error) {
		got = string(c.Input)
		return abi.Text("ok"), nil
	}))
	run := func(hooks ...Hook) *abi.Result {
		got, seen = "", ""
		return do(t, session(t, SessionOptions{Hooks: hooks}, f), Call{Tool: "T", Input: in(`{"a":1}`)})
	}
	wantOK(t, run(hook(HookOutput{ModifiedInput: in(`{"b":2}`)}), hook(HookOutput{ModifiedInput: in(`{"a":3}`)})))
	if got != `{"a":3,"b":2}` || seen != `{"a":1}{"a":1}` {
		t.Errorf("tool %s, hooks %s", got, seen)
	}
	wantCode(t, run(hook(HookOutput{Action: HookAbort, Reason: "no"}), hook(HookOutput{Action: HookSkip})), abi.CodeDeniedHook, abi.TypePermission)
	if seen != `{"a":1}{"a":1}` || got != "" {
		t.Errorf("tool %s, hooks %s", got, seen)
	}
	if r := run(hook(HookOutput{Action: HookSkip, Reason: "why"})); string(r.Model) != `"why"` || got != "" {
		t.Errorf("%s %s", r.Model, got)
	}
	wantCode(t, run(hook(HookOutput{Action: "jump"})), abi.CodeHookFailed, abi.TypeExecution)
	wantCode(t, run(hook(HookOutput{ModifiedInput: in(`[]`)})), abi.CodeHookFailed, abi.TypeExecution)
	wantCode(t, run(Hook{Event: HookPreToolUse, Run: func(context.Context, HookInput) (HookOutput, error) { panic("x") }}), abi.CodeHookFailed, abi.TypeExecution)
	wantCode(t, run(hook(HookOutput{Confirm: true})), abi.CodeNoConfirm, abi.TypePermission)
	wantOK(t, run(Hook{Event: HookPreToolUse, Tools: []string{"Other"}, Run: func(context.Context, HookInput) (HookOutput, error) { panic("x") }}))
}

// PRM-14 RES-18: PostToolUse changes the model only, and the limit holds after it.
func TestPostHooks(t *testing.T) {
	post := func(o HookOutput) SessionOptions {
		return SessionOptions{Hooks: []Hook{{Event: HookPostToolUse, Run: func(context.Context, HookInput) (HookOutput, error) { return o, nil }}}}
	}
	f := fakeTool("T", readOnly, runs(func(context.Context, *tool.Call) (*abi.Result, error) {
		r := abi.Success(in(`"data"`))
		r.Display = &abi.Display{Summary: "shown"}
		return r, nil
	}), func(f *fake) { f.spec.MaxResultSize = 100 })
	r := do(t, session(t, post(HookOutput{ModifiedOutput: in(`"new"`)}), f), Call{Tool: "T"})
	if string(r.Model) != `"new"` || string(r.Data) != `"data"` || r.Display.Summary != "shown" {
		t.Errorf("%+v", r)
	}
	r = do(t, session(t, post(HookOutput{ModifiedOutput: abi.String(strings.Repeat("x", 200))}), f), Call{Tool: "T"})
	if r.Metadata["resultExternalized"] != true || len(r.ModelText()) > 300 {
		t.Errorf("%s", r.Model)
	}
	wantCode(t, do(t, session(t, post(HookOutput{Action: HookAbort}), f), Call{Tool: "T"}), abi.CodeDeniedHook, abi.TypePermission)
	fails := fakeTool("F", readOnly, runs(func(context.Context, *tool.Call) (*abi.Result, error) { return nil, errors.New("mine") }))
	opt := SessionOptions{Hooks: []Hook{{Event: HookPostToolFailure, Run: func(context.Context, HookInput) (HookOutput, error) { return HookOutput{}, errors.New("hook") }}}}
	if r := do(t, session(t, opt, fails), Call{Tool: "F"}); r.Error == nil || r.Error.Message != "mine" {
		t.Errorf("a failing hook replaced the failure: %+v", r.Error)
	}
}

// TMO-07: hooks and middleware cannot hide a timeout or a failure.
func TestTimeoutCannotBeMasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opt := SessionOptions{Mode: policy.ModeYolo, ToolTimeout: time.Second,
			Hooks: []Hook{{Event: HookPostToolFailure, Run: func(context.Context, HookInput) (HookOutput, error) {
				return HookOutput{Action: HookSkip, Reason: "fine"}, nil
			}}},
			Middleware: []Middleware{func(_ context.Context, _ MiddlewareCall, next Next) (*abi.Result, error) {
				if r := next(nil); !r.IsError() {
					return r, nil
				}
				return abi.Text("all is well"), nil
			}}}
		s := session(t, opt, fakeTool("Slow", obeys), fakeTool("Bad", runs(func(context.Context, *tool.Call) (*abi.Result, error) { return nil, errors.New("no") })))
		wantCode(t, do(t, s, Call{Tool: "Slow"}), abi.CodeTimeoutRan, abi.TypeTimeout)
		if r := do(t, s, Call{Tool: "Bad"}); !r.IsError() {
			t.Error("a failure was masked")
		}
		opt.Middleware = []Middleware{func(_ context.Context, _ MiddlewareCall, next Next) (*abi.Result, error) {
			next(nil)
			return abi.Failure(abi.NewError(abi.CodeMiddleware, "other")), nil
		}}
		wantCode(t, do(t, session(t, opt, fakeTool("Slow", obeys)), Call{Tool: "Slow"}), abi.CodeTimeoutRan, abi.TypeTimeout)
	})
}

// The contract of middleware.
func TestMiddleware(t *testing.T) {
	var got string
	f := fakeTool("T", readOnly, runs(func(_ context.Context, c *tool.Call) (*abi.Result, error) {
		got = string(c.Input)
		return abi.Text("core"), nil
	}))
	run := func(ms ...Middleware) *abi.Result {
		return do(t, session(t, SessionOptions{Middleware: ms}, f), Call{Tool: "T", Input: in(`{"a":1}`)})
	}
	wrap := func(mark string) Middleware {
		return func(_ context.Context, _ MiddlewareCall, next Next) (*abi.Result, error) {
			r := next(nil)
			r.Model = abi.String(mark + r.ModelText())
			return r, nil
		}
	}
	if r := run(wrap("outer "), wrap("inner ")); r.ModelText() != "outer inner core" {
		t.Errorf("%s", r.ModelText())
	}
	wantOK(t, run(func(_ context.Context, c MiddlewareCall, next Next) (*abi.Result, error) {
		clear(c.Input)
		return next(in(`{"a":2}`)), nil
	}))
	if got != `{"a":2}` {
		t.Errorf("%s", got)
	}
	for name, m := range map[string]Middleware{
		"twice": func(_ context.Context, _ MiddlewareCall, next Next) (*abi.Result, error) {
			next(nil)
			return next(nil), nil
		},
		"nil":   func(context.Context, MiddlewareCall, Next) (*abi.Result, error) { return nil, nil },
		"error": func(context.Context, MiddlewareCall, Next) (*abi.Result, error) { return nil, errors.New("x") },
		"panic": func(context.Context, MiddlewareCall, Next) (*abi.Result, error) { panic("x") },
		"invalid": func(context.Context, MiddlewareCall, Next) (*abi.Result, error) {
			return &abi.Result{Status: "odd"}, nil
		},
	} {
		if r := run(m); r.Error == nil || r.Error.Code != abi.CodeMiddleware {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// PRM-15: the budget of hooks, and one that ignores it.
func TestHookBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		opt := SessionOptions{HookTimeout: time.Second, Hooks: []Hook{{Event: HookPreToolUse, Tools: []string{"T"}, Run: func(context.Context, HookInput) (HookOutput, error) {
			<-release
			return HookOutput{}, nil
		}}, {Event: HookPreToolUse, Tools: []string{"U"}, Run: func(context.Context, HookInput) (HookOutput, error) { return HookOutput{}, nil }}}}
		s := session(t, opt, fakeTool("T", readOnly), fakeTool("U", readOnly), fakeTool("V", readOnly))
		begun := time.Now()
		wantCode(t, do(t, s, Call{Tool: "T"}), abi.CodeHookTimeout, abi.TypeExecution)
		if time.Since(begun) != time.Second {
			t.Errorf("after %v", time.Since(begun))
		}
		wantCode(t, do(t, s, Call{Tool: "U"}), abi.CodeHookPending, abi.TypeExecution)
		wantOK(t, do(t, s, Call{Tool: "V"}))
		if err := s.Close(t.Context()); abi.CodeOf(err) != abi.CodeHookPending {
			t.Errorf("close: %v", err)
		}
		close(release)
		synctest.Wait()
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// A decision can be explained to a person.
func TestExplanation(t *testing.T) {
	s := session(t, SessionOptions{Rules: policy.RulesFrom("blade.yaml", nil, nil, []string{"T:*"})}, plain{fakeTool("T")})
	r := do(t, s, Call{Tool: "T"})
	d, ok := r.Metadata["permission"].(policy.Decision)
	if !ok || !strings.Contains(d.Explain(), "→ rule says deny by the rule T:* (blade.yaml)") || !strings.Contains(d.Explain(), "decision: deny") {
		t.Errorf("%s", d.Explain())
	}
}
