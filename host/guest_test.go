package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	capfs "github.com/bladehost/bladehost/host/caps/fs"
	"github.com/bladehost/bladehost/host/internal/guesttest"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
	"github.com/bladehost/bladehost/host/tool/tooltest"
)

var oddModule struct {
	once sync.Once
	b    []byte
}

// odd is the guest of testdata/guests/odd, loaded into h.
func odd(t testing.TB, h *Host, trust tool.Trust) *Plugin {
	t.Helper()
	m := guesttest.Go(t, "..", "./host/testdata/guests/odd")
	oddModule.once.Do(func() { oddModule.b = signed(t, h, m) })
	if oddModule.b == nil {
		t.Fatal("the guest could not be signed; see the first test that uses it")
	}
	p, err := h.LoadPlugin(oddModule.b, PluginOptions{Trust: trust})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// oddSession is a session with the odd guest in it, and nothing lent.
func oddSession(t testing.TB, opt SessionOptions, trust tool.Trust, grants Grants) *Session {
	t.Helper()
	h := newHost(t, Options{CacheDir: guestCache(t)})
	opt.Plugins = []Attachment{{Plugin: odd(t, h, trust), Grants: grants}}
	return sessionOn(t, h, opt)
}

func folder(t testing.TB, dir string, readOnly bool) *capfs.Grant {
	t.Helper()
	g, err := capfs.Open(dir, capfs.Options{ReadOnly: readOnly})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

func into[T any](t testing.TB, r *abi.Result) T {
	t.Helper()
	wantOK(t, r)
	var v T
	if err := json.Unmarshal(r.Data, &v); err != nil {
		t.Fatalf("%v in %s", err, r.Data)
	}
	return v
}

// WSM-01 CTX-02: a guest that was lent nothing reaches nothing: no file, not the
// process's current folder, no network, no process, no variable, no descriptor.
func TestGuestReachesNothing(t *testing.T) {
	t.Setenv("LISTED", "of the process")
	h := newHost(t, Options{CacheDir: guestCache(t)})
	p := odd(t, h, tool.TrustWorkspace)
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("relative.txt", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := sessionOn(t, h, SessionOptions{Mode: policy.ModeYolo, Context: roots(dir), Plugins: []Attachment{{Plugin: p}}})
	if got := into[[]string](t, do(t, s, Call{Tool: "Reach"})); len(got) > 0 {
		t.Errorf("it reached %v", got)
	}
	env := into[struct {
		Environ, Args []string
		Cwd           string
		Hostname      string
	}](t, do(t, s, Call{Tool: "Env"}))
	if real, _ := os.Hostname(); len(env.Environ) > 0 || len(env.Args) > 0 || strings.Contains(env.Cwd, dir) || env.Hostname == real {
		t.Errorf("it sees %+v", env)
	}
	for _, path := range []string{"relative.txt", filepath.Join(dir, "relative.txt"), "/etc/passwd", "../x"} {
		for _, op := range []string{"read", "write", "list"} {
			r := do(t, s, Call{Tool: "Files", Input: mustJSON(map[string]string{"op": op, "where": path})})
			if r.Error == nil || r.Error.Code != "io" {
				t.Errorf("%s %s: %s %+v", op, path, r.Data, r.Error)
			}
		}
	}
	if _, err := os.Stat("/tmp/odd-was-here"); err == nil {
		t.Error("it wrote a file")
	}
}

// CTX-04: of the environment a guest sees what its manifest lists and the user
// granted, and only that.
func TestGuestEnvironment(t *testing.T) {
	t.Setenv("LISTED_TOO", "of the process")
	s := oddSession(t, SessionOptions{Context: abi.RuntimeContext{Environment: map[string]string{"CONTEXT": "c"}}}, tool.TrustWorkspace,
		Grants{Env: map[string]string{"LISTED": "granted", "OTHER": "not asked for"}})
	env := into[struct{ Environ []string }](t, do(t, s, Call{Tool: "Env"}))
	if fmt.Sprint(env.Environ) != "[LISTED=granted]" {
		t.Errorf("environ %v", env.Environ)
	}
	if info := into[abi.CallInfo](t, do(t, s, Call{Tool: "Info"})); !reflect.DeepEqual(info.Environment, map[string]string{"LISTED": "granted"}) {
		t.Errorf("call.context has %v", info.Environment)
	}
}

// CTX-03 PKG-11 B19: a guest sees the granted folders under the user's paths, each as it
// was granted, and nothing through "..", absolute paths or links.
func TestGuestMounts(t *testing.T) {
	base := t.TempDir()
	ro, rw, out := filepath.Join(base, "ro"), filepath.Join(base, "rw"), filepath.Join(base, "outside")
	for _, d := range []string{ro, rw, out} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{ro + "/a.txt": "read me", out + "/secret": "secret"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{rw + "/leaf": out + "/secret", rw + "/dir": out, ro + "/up": ".."} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	s := oddSession(t, SessionOptions{Mode: policy.ModeYolo}, tool.TrustWorkspace, Grants{Folders: []*capfs.Grant{folder(t, ro, true), folder(t, rw, false)}})
	info := into[abi.CallInfo](t, do(t, s, Call{Tool: "Info"}))
	if fmt.Sprint(info.Roots) != fmt.Sprint([]string{ro, rw}) || info.Cwd != ro {
		t.Errorf("roots %v, cwd %s", info.Roots, info.Cwd)
	}
	for _, c := range []struct {
		op, where, text string
		ok              bool
	}{
		{"read", ro + "/a.txt", "", true},
		{"write", rw + "/new.txt", "mine", true},
		{"read", rw + "/new.txt", "", true},
		{"rename", rw + "/new.txt", rw + "/newer.txt", true},
		{"list", rw, "", true},
		{"write", ro + "/a.txt", "changed", false},
		{"write", ro + "/new.txt", "mine", false},
		{"remove", ro + "/a.txt", "", false},
		{"rename", ro + "/a.txt", rw + "/a.txt", false},
		{"rename", rw + "/newer.txt", ro + "/a.txt", false},
		{"read", out + "/secret", "", false},
		{"read", rw + "/../outside/secret", "", false},
		{"read", rw + "/leaf", "", false},
		{"write", rw + "/leaf", "overwritten", false},
		{"read", rw + "/dir/secret", "", false},
		{"write", rw + "/dir/new", "x", false},
		{"read", ro + "/up/outside/secret", "", false},
		{"list", base, "", false},
		{"list", "/", "", false},
		{"link", rw + "/mine", out + "/secret", false},
		{"read", "/etc/passwd", "", false},
	} {
		r := do(t, s, Call{Tool: "Files", Input: mustJSON(map[string]string{"op": c.op, "where": c.where, "text": c.text})})
		if r.IsError() == c.ok {
			t.Errorf("%s %s: ok %v, %s %+v", c.op, c.where, !r.IsError(), r.Data, r.Error)
		}
	}
	if b, _ := os.ReadFile(out + "/secret"); string(b) != "secret" {
		t.Errorf("the file outside is %q", b)
	}
	if b, _ := os.ReadFile(ro + "/a.txt"); string(b) != "read me" {
		t.Errorf("the read-only file is %q", b)
	}
	// Where the manifest names the parameter, the rules refuse the same before it runs.
	for _, p := range []string{out + "/secret", rw + "/../outside/secret", rw + "/leaf", "/etc/passwd"} {
		wantCode(t, do(t, s, Call{Tool: "JudgedFiles", Input: mustJSON(map[string]string{"op": "read", "where": p})}), abi.CodeDeniedPath, abi.TypePermission)
	}
	wantOK(t, do(t, s, Call{Tool: "JudgedFiles", Input: mustJSON(map[string]string{"op": "read", "where": ro + "/a.txt"})}))
}

// QUE-12: a guest's relative path is locked where the guest opens it, also where the session
// has no folder.
func TestGuestLocksWhereItWorks(t *testing.T) {
	mine := t.TempDir()
	if err := os.WriteFile(filepath.Join(mine, "a.txt"), []byte(mine), 0o600); err != nil {
		t.Fatal(err)
	}
	h := newHost(t, Options{LockWait: 50 * time.Millisecond})
	s := sessionOn(t, h, SessionOptions{Mode: policy.ModeYolo, Plugins: []Attachment{{Plugin: odd(t, h, tool.TrustWorkspace), Grants: Grants{Folders: []*capfs.Grant{folder(t, mine, false)}}}}})
	call := Call{Tool: "JudgedFiles", Input: in(`{"op":"read","where":"a.txt"}`)}
	if got := into[string](t, do(t, s, call)); got != mine {
		t.Fatalf("it reads in %s", got)
	}
	release, err := h.locks.acquire(t.Context(), []string{canonicalPath(filepath.Join(mine, "a.txt"), "")}, true, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	wantCode(t, do(t, s, call), abi.CodeLockTimeout, abi.TypeExecution)
}

// SRV-06: a service that the manifest asks for and nobody granted is not granted,
// one that it does not ask for not declared, and settings come from the user.
func TestGuestAsksForServices(t *testing.T) {
	s := oddSession(t, SessionOptions{}, tool.TrustWorkspace, Grants{Config: in(`{"url":"https://example.com"}`)})
	for name, want := range map[string]abi.Code{
		"http.request": abi.CodeNotGranted, "kv.get": abi.CodeNotDeclared, "secret.exists": abi.CodeNotDeclared, "runtime.fence": abi.CodeNotDeclared,
		"memoryManager.read": abi.CodeNotDeclared, "x-nobody.calls": abi.CodeNotDeclared, "nonsense": abi.CodeUnknownService, "a.b": abi.CodeUnknownService,
	} {
		r := do(t, s, Call{Tool: "Ask", Input: mustJSON(map[string]any{"name": name, "head": map[string]string{"url": "https://example.com", "key": "k", "name": "N"}})})
		if r.Error == nil || r.Error.Message != string(want) {
			t.Errorf("%s: %+v, want %s", name, r.Error, want)
		}
	}
	if r := do(t, s, Call{Tool: "Ask", Input: in(`{"name":"config.get"}`)}); string(r.Data) != `{"url":"https://example.com"}` {
		t.Errorf("config %s %+v", r.Data, r.Error)
	}
	s = oddSession(t, SessionOptions{}, tool.TrustWorkspace, Grants{})
	if r := do(t, s, Call{Tool: "Ask", Input: in(`{"name":"config.get"}`)}); string(r.Data) != `{}` {
		t.Errorf("without settings %s %+v", r.Data, r.Error)
	}
}

// WSM-07: what a guest returns is UTF-8 and strict JSON, or an error.
func TestGuestOutput(t *testing.T) {
	h := newHost(t, Options{})
	for name, c := range map[string]struct {
		status int32
		bytes  string
		want   abi.Code
	}{
		"data":               {0, `{"a":1}`, ""},
		"bad UTF-8":          {0, "\"\xff\"", abi.CodeResultNotJSON},
		"lone surrogate":     {0, `"\ud800"`, abi.CodeResultNotJSON},
		"UTF-16":             {0, "\xff\xfe\"\x00a\x00\"\x00", abi.CodeResultNotJSON},
		"text":               {0, `hello`, abi.CodeResultNotJSON},
		"two values":         {0, `1 2`, abi.CodeResultNotJSON},
		"a key twice":        {0, `{"a":1,"a":2}`, abi.CodeResultNotJSON},
		"a huge number":      {0, `1e400`, abi.CodeResultNotJSON},
		"NaN":                {0, `NaN`, abi.CodeResultNotJSON},
		"deep":               {0, strings.Repeat("[", 200) + strings.Repeat("]", 200), abi.CodeResultNotJSON},
		"nothing":            {0, ``, abi.CodeResultNotJSON},
		"byte order mark":    {0, "\xef\xbb\xbf1", abi.CodeResultNotJSON},
		"explicit":           {1, `{"model":"m"}`, ""},
		"explicit bad UTF-8": {1, "{\"model\":\"\xc0\x80\"}", abi.CodeResultNotJSON},
		"no model":           {1, `{"data":1}`, abi.CodeResultShape},
		"error bad UTF-8":    {2, "{\"message\":\"\xff\"}", abi.CodeResultNotJSON},
		"no message":         {2, `{"code":"x"}`, abi.CodeResultShape},
		"unknown status":     {7, `1`, abi.CodeGuestProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			s := sessionOn(t, h, SessionOptions{Plugins: []Attachment{{Plugin: tinyPlugin(t, h, returns(c.status, []byte(c.bytes)))}}})
			r := do(t, s, Call{Tool: "Tiny"})
			if c.want == "" {
				wantOK(t, r)
				return
			}
			wantCode(t, r, c.want, abi.TypeExecution)
		})
	}
}

// WSM-10: what a guest prints is kept up to a limit, for the log; a model never
// reads it.
func TestGuestPrints(t *testing.T) {
	var log bytes.Buffer
	w := &lockedWriter{w: &log}
	h := newHost(t, Options{CacheDir: guestCache(t), Log: slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug - 8}))})
	s := sessionOn(t, h, SessionOptions{Plugins: []Attachment{{Plugin: odd(t, h, tool.TrustWorkspace)}}})
	r := do(t, s, Call{Tool: "Print", Input: in(`{"out":300000,"err":300000}`)})
	wantOK(t, r)
	whole, err := abi.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if string(r.Model) != `"printed"` || strings.Contains(string(whole), "oooo") || strings.Contains(string(whole), "eeee") || strings.Contains(string(whole), "nobody") {
		t.Errorf("the result is %.300s", whole)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range []string{"o", "e"} {
		if n := strings.Count(log.String(), c+c+c+c) * 4; n == 0 || n > 2*abi.MaxOutput {
			t.Errorf("the log has about %d letters %s, want some, and at most %d", n, c, abi.MaxOutput)
		}
	}
}

// WSM-05 INT-09: nothing of a call is seen by the next, of the same session or
// another; not of one that was stopped by force either.
func TestGuestState(t *testing.T) {
	h := newHost(t, Options{CacheDir: guestCache(t)})
	p := odd(t, h, tool.TrustWorkspace)
	a := sessionOn(t, h, SessionOptions{Plugins: []Attachment{{Plugin: p}}})
	b := sessionOn(t, h, SessionOptions{Plugins: []Attachment{{Plugin: p}}})
	clean := `{"count":0,"kept":0,"secret":"","tmp":""}`
	for i := range 6 {
		s := a
		if i%2 == 1 {
			s = b
		}
		r := do(t, s, Call{Tool: "Remember", Input: mustJSON(map[string]string{"secret": fmt.Sprint("call ", i)})})
		if string(r.Data) != clean {
			t.Errorf("call %d sees %s", i, r.Data)
		}
	}
	wantCode(t, do(t, a, Call{Tool: "Work", Input: in(`{"deaf":true}`), Timeout: 20 * time.Millisecond}), abi.CodeTimeout, abi.TypeTimeout)
	for range 3 {
		if r := do(t, b, Call{Tool: "Remember"}); string(r.Data) != clean {
			t.Errorf("after a stopped call: %s", r.Data)
		}
	}
}

// INT-08 INT-10 CLN-06: a guest that does not listen is stopped well within the
// budget; other sessions work meanwhile, and the session works on.
func TestGuestThatDoesNotListen(t *testing.T) {
	h := newHost(t, Options{CacheDir: guestCache(t), RunningGuests: 2})
	p := odd(t, h, tool.TrustWorkspace)
	a := sessionOn(t, h, SessionOptions{Plugins: []Attachment{{Plugin: p}}})
	b := sessionOn(t, h, SessionOptions{Plugins: []Attachment{{Plugin: p}}})
	wantOK(t, do(t, a, Call{Tool: "Work"}))
	for _, input := range []string{`{"deaf":true}`, `{"forever":true}`} {
		x := a.Start(t.Context(), Call{Tool: "Work", Input: in(input)})
		for y := range x.Yields() {
			if y.Kind == abi.YieldMessage {
				wantOK(t, do(t, b, Call{Tool: "Work"})) // while the other loops
				x.Cancel("enough")
			}
		}
		begun := time.Now()
		r, err := x.Result()
		if err != nil {
			t.Fatal(err)
		}
		wantCode(t, r, abi.CodeAborted, abi.TypeExecution)
		if d := time.Since(begun); d > abi.CleanupTime {
			t.Errorf("%s: it ended %v after the cancel", input, d)
		}
		if err := a.Pending(); err != nil {
			t.Errorf("%s: %v", input, err)
		}
		wantOK(t, do(t, a, Call{Tool: "Work"}))
	}
}

// WSM-04: the memory of an instance has a limit; a guest that wants more fails
// alone.
func TestGuestMemoryLimit(t *testing.T) {
	h := newHost(t, Options{CacheDir: guestCache(t), MemoryLimit: 64 << 20})
	s := sessionOn(t, h, SessionOptions{Plugins: []Attachment{{Plugin: odd(t, h, tool.TrustWorkspace)}}})
	wantOK(t, do(t, s, Call{Tool: "Grow", Input: in(`{"mib":8}`)}))
	wantCode(t, do(t, s, Call{Tool: "Grow", Input: in(`{"mib":200}`)}), abi.CodeGuestOOM, abi.TypeExecution)
	wantOK(t, do(t, s, Call{Tool: "Grow", Input: in(`{"mib":8}`)}))
}

// WSM-11: compiled or interpreted, a plugin gives the same results and yields.
func TestGuestEnginesAgree(t *testing.T) {
	type said struct {
		Result string
		Yields []string
	}
	run := func(interpreter bool) []said {
		opt := Options{Interpreter: interpreter}
		if !interpreter {
			opt.CacheDir = guestCache(t)
		}
		h := newHost(t, opt)
		s := sessionOn(t, h, SessionOptions{Plugins: []Attachment{{Plugin: conformance(t, h)}}, Services: map[string]tool.Service{"x-echo": echoService()}, AutoApprove: true})
		var out []said
		for _, c := range []struct{ tool, input string }{
			{"Echo", `{"value":{"b":[1,2.50,1e3],"a":"é"}}`}, {"Stream", `{"steps":5}`}, {"Fail", `{"message":"m","code":"c","details":[1]}`},
			{"Parallel", `{"calls":5,"size":10}`}, {"Panic", `{"message":"boom"}`}, {"Large", `{"text":"abc","count":1000}`}, {"Service", `{"name":"x-echo.nope"}`},
		} {
			x := s.Start(t.Context(), Call{Tool: c.tool, Input: in(c.input)})
			var one said
			for y := range x.Yields() {
				one.Yields = append(one.Yields, string(mustJSON(y)))
			}
			r, err := x.Result()
			if err != nil {
				t.Fatal(err)
			}
			one.Result = fmt.Sprintf("%s %s %s", r.Status, r.Model, r.Data)
			if r.Error != nil {
				one.Result += fmt.Sprintf(" %s %s %s", r.Error.Type, r.Error.Code, r.Error.Details)
			}
			out = append(out, one)
		}
		return out
	}
	if compiled, interpreted := run(false), run(true); !reflect.DeepEqual(compiled, interpreted) {
		t.Errorf("compiled    %+v\ninterpreted %+v", compiled, interpreted)
	}
}

// The odd guest's well-behaved tools pass the suite too, with an input that runs
// until it is cancelled, one that does not listen.
func TestGuestCancelContract(t *testing.T) {
	h := newHost(t, Options{CacheDir: guestCache(t)})
	p := odd(t, h, tool.TrustWorkspace)
	for _, slow := range []string{`{"forever":true}`, `{"deaf":true}`} {
		t.Run(slow, func(t *testing.T) {
			tooltest.Run(t, tooltest.Case{
				New:   func(t testing.TB) tool.Tool { return guestTool(t, Attachment{Plugin: p}, "Work") },
				Input: in(`{}`), Slow: in(slow), Bad: raws(`{"forever":1}`),
			})
		})
	}
}

var guestCacheDir = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "bladehost-test-cache-") })

// guestCache is a folder for compiled guests that the tests of this process share.
func guestCache(t testing.TB) string {
	t.Helper()
	dir, err := guestCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
