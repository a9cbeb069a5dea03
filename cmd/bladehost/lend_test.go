package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	capfs "github.com/bladehost/bladehost/host/caps/fs"
	"github.com/bladehost/bladehost/host/policy"
)

// lendWorld is a place with the plugin hash installed and a folder for its two tools.
type lendWorld struct {
	t   *testing.T
	env map[string]string
	dir string
}

func newLendWorld(t *testing.T) *lendWorld {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &lendWorld{t: t, env: ownPlaces(t), dir: dir}
	w.ok("install", plugins(t)["hash"])
	for name, text := range map[string]string{"f": "text", "SHA256SUMS": fmt.Sprintf("%x  f\n", sha256.Sum256([]byte("text")))} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// ok is what a command line that must succeed says.
func (w *lendWorld) ok(args ...string) string {
	w.t.Helper()
	r := runCLI(w.t.Context(), w.env, "", args...)
	if r.code != 0 {
		w.t.Fatalf("%q: %s", args, r.err)
	}
	return r.out + r.err
}

// granted is the verdict of grants why for one of the tools.
func (w *lendWorld) granted(toolName string) bool {
	w.t.Helper()
	var v struct{ Tools map[string]bool }
	if err := json.Unmarshal([]byte(w.ok("--json", "grants", "why", "blade-tool-hash", "read", filepath.Join(w.dir, "f"), "--tool", toolName)), &v); err != nil || len(v.Tools) != 1 {
		w.t.Fatalf("%+v %v", v, err)
	}
	return v.Tools[toolName]
}

// lendTalk is a session in a process of its own.
type lendTalk struct {
	*lendWorld
	in    io.WriteCloser
	lines *bufio.Scanner
	n     int
	wait  func() error
}

func (w *lendWorld) session(args ...string) *lendTalk {
	w.t.Helper()
	cmd := process(w.t, w.env, append([]string{"session", "--auto-approve"}, args...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	return &lendTalk{lendWorld: w, in: in, lines: bufio.NewScanner(out), wait: cmd.Wait}
}

// call makes a call of a tool and returns why it failed, or nothing. At is called when it
// reports progress.
func (s *lendTalk) call(toolName string, at ...func()) (failed string) {
	s.t.Helper()
	s.n++
	id := fmt.Sprintf("c%d", s.n)
	path := map[string]string{"Hash": "f", "VerifySums": "SHA256SUMS"}[toolName]
	input, _ := json.Marshal(map[string]string{"path": filepath.Join(s.dir, path)})
	if _, err := fmt.Fprintf(s.in, `{"type":"call","id":%q,"tool":%q,"input":%s}`+"\n", id, toolName, input); err != nil {
		s.t.Fatal(err)
	}
	for s.lines.Scan() {
		var l struct {
			Type, ID, Status string
			Error            struct{ Message string }
		}
		if json.Unmarshal(s.lines.Bytes(), &l) == nil && l.Type == "tool_result" && l.ID == id {
			if l.Status != "success" && l.Error.Message == "" {
				s.t.Fatalf("%s", s.lines.Bytes())
			}
			return l.Error.Message
		}
		for _, f := range at {
			if l.Type == "tool_progress" && l.ID == id {
				f()
			}
		}
	}
	s.t.Fatal("the session ended")
	return ""
}

// comesTo calls both tools until each works or not, as wanted. The test's own deadline is
// the bound; it takes some 200 ms. Then why must say the same.
func (s *lendTalk) comesTo(hash, verify bool) {
	s.t.Helper()
	for (s.call("Hash") == "") != hash || (s.call("VerifySums") == "") != verify {
	}
	if s.granted("Hash") != hash || s.granted("VerifySums") != verify {
		s.t.Errorf("why says %v %v, the session does %v %v", s.granted("Hash"), s.granted("VerifySums"), hash, verify)
	}
}

func (s *lendTalk) end() {
	s.t.Helper()
	if err := s.in.Close(); err != nil {
		s.t.Fatal(err)
	}
	for s.lines.Scan() {
	}
	if err := s.wait(); err != nil {
		s.t.Fatal(err)
	}
}

// A grant that another process revokes ends the access of a running session.
func TestRevokedByAnotherProcess(t *testing.T) {
	w := newLendWorld(t)
	w.ok("grant", "blade-tool-hash", "--allow-read", w.dir)
	s := w.session()
	if got := s.call("Hash"); got != "" {
		t.Fatalf("with the grant: %s", got)
	}
	w.ok("grants", "revoke", "blade-tool-hash")
	s.comesTo(false, false)
	s.end()
}

// A running call loses what is taken back from its tool.
func TestRevokedWhileItRuns(t *testing.T) {
	w := newLendWorld(t)
	if err := os.Truncate(filepath.Join(w.dir, "f"), 64<<30); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	w.ok("grant", "blade-tool-hash", "--tool", "Hash", "--allow-read", w.dir)
	s := w.session()
	revoke := sync.OnceFunc(func() { w.ok("grants", "revoke", "blade-tool-hash") })
	if got := s.call("Hash", revoke); !strings.Contains(got, "f") || strings.Contains(got, "NOT_GRANTED") {
		t.Errorf("it ended with %q", got)
	}
	if got := s.call("Hash"); !strings.Contains(got, "bladehost grant blade-tool-hash --tool Hash") {
		t.Errorf("afterwards: %q", got)
	}
	s.end()
}

var grantCommandIn = regexp.MustCompile(`bladehost (grant blade-tool-hash .*)$`)

// The command in a refusal, typed, makes the running session work, for that tool alone;
// what takes it back ends it there.
func TestGrantsForOneToolInASession(t *testing.T) {
	w := newLendWorld(t)
	s := w.session()
	typed := func(toolName string) {
		t.Helper()
		m := grantCommandIn.FindStringSubmatch(s.call(toolName))
		if m == nil || !strings.Contains(m[1], "--tool "+toolName+" ") {
			t.Fatalf("%s is refused with: %s", toolName, s.call(toolName))
		}
		w.ok(strings.Fields(m[1])...)
	}
	s.comesTo(false, false)
	typed("Hash")
	s.comesTo(true, false)
	typed("VerifySums")
	s.comesTo(true, true)
	w.ok("grants", "revoke", w.id("Hash"))
	s.comesTo(false, true)
	w.ok("grant", "blade-tool-hash", "--tool", "VerifySums", "--deny-read", w.dir)
	s.comesTo(false, false)
	w.ok("grant", "blade-tool-hash", "--allow-read", w.dir)
	s.comesTo(true, false) // the denial is for one tool, and wins there
	w.ok("grants", "revoke", "blade-tool-hash", "--denials")
	s.comesTo(false, false)
	w.ok("grant", "blade-tool-hash", "--tool", "VerifySums", "--allow-read", w.dir, "--for", "1h")
	s.comesTo(false, true)
	w.expire()
	s.comesTo(false, false)
	s.end()
	s = w.session() // another session has what is granted from its start
	s.comesTo(false, false)
	w.ok("grant", "blade-tool-hash", "--tool", "Hash", "--allow-read", w.dir)
	s.end()
	s = w.session("--deny-read", filepath.Join(w.dir, "f"))
	if got := s.call("Hash"); !strings.Contains(got, "was denied") {
		t.Errorf("a flag denies it: %s", got)
	}
	s.end()
}

// id is the id of the grant for a tool.
func (w *lendWorld) id(toolName string) string {
	w.t.Helper()
	var v struct{ Grants []policy.Grant }
	if err := json.Unmarshal([]byte(w.ok("--json", "grants", "ls")), &v); err != nil {
		w.t.Fatal(err)
	}
	for _, g := range v.Grants {
		if g.Tool == toolName {
			return g.ID
		}
	}
	w.t.Fatalf("no grant for %s", toolName)
	return ""
}

var expiry = regexp.MustCompile(`"expires": "[^"]*"`)

// expire makes the grants that end at a time end a minute ago.
func (w *lendWorld) expire() {
	w.t.Helper()
	f := policy.OwnFile{Path: filepath.Join(w.env["XDG_CONFIG_HOME"], "bladehost", "grants.json")}
	ago := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	if err := f.Change(w.t.Context(), func(old []byte) ([]byte, error) {
		return expiry.ReplaceAll(old, []byte(`"expires": "`+ago+`"`)), nil
	}); err != nil {
		w.t.Fatal(err)
	}
}

// lendHere is a session of this process with its lender.
func (w *lendWorld) lendHere() (*lender, *host.Session, []*host.Plugin) {
	w.t.Helper()
	a := &app{in: strings.NewReader(""), out: io.Discard, err: new(bytes.Buffer), getenv: func(k string) string {
		if k == "XDG_CACHE_HOME" {
			return filepath.Join(shared.dir, "cache")
		}
		return w.env[k]
	}}
	var f hostFlags
	f.lend.add(pflag.NewFlagSet("", pflag.ContinueOnError))
	g, err := a.openGuests(w.t.Context(), f, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(g.close)
	s, err := g.host.NewSession(host.SessionOptions{AutoApprove: true, Plugins: g.attached})
	if err != nil {
		w.t.Fatal(err)
	}
	return g.lender, s, g.plugins
}

func works(f *capfs.Grant) bool {
	_, err := f.View(capfs.Limits{}).Root().Stat("f")
	return err == nil
}

// Two tools that are lent the same folder share it, so that they share instances. When
// one loses it, its running calls do at once, and the other gets it anew.
func TestLostByOneTool(t *testing.T) {
	w := newLendWorld(t)
	w.ok("grant", "blade-tool-hash", "--allow-read", w.dir)
	w.ok("grant", "blade-tool-hash", "--tool", "Hash", "--allow-env", "HOME")
	l, s, plugins := w.lendHere()
	p := plugins[slices.IndexFunc(plugins, func(p *host.Plugin) bool { return p.Manifest().Name == "blade-tool-hash" })]
	has := func(toolName string) *capfs.Grant {
		t.Helper()
		list := l.had[p][toolName]
		if len(list) > 1 {
			t.Fatalf("%s has %d folders", toolName, len(list))
		}
		return append(list, nil)[0]
	}
	first := has("Hash")
	if first == nil || first != has("VerifySums") || !works(first) {
		t.Fatal("they do not share it")
	}
	l.refresh(s, plugins)
	if has("Hash") != first || !works(first) {
		t.Error("nothing changed, and it was opened anew")
	}
	w.ok("grant", "blade-tool-hash", "--tool", "VerifySums", "--deny-read", w.dir)
	l.refresh(s, plugins)
	if works(first) {
		t.Error("running calls keep the folder that was denied to their tool")
	}
	if again := has("Hash"); has("VerifySums") != nil || again == nil || again == first || !works(again) {
		t.Error("the other tool did not get it anew")
	}
	if runtime.GOOS == "windows" {
		return // it has no such links for everybody
	}
	// A folder that is another one now is lent to nobody who did not have it.
	moved, elsewhere := w.dir+".moved", t.TempDir()
	if err := os.Rename(w.dir, moved); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, w.dir); err != nil {
		t.Fatal(err)
	}
	w.ok("grants", "revoke", w.id("VerifySums"))
	kept := has("Hash")
	l.refresh(s, plugins)
	if got := has("VerifySums"); has("Hash") != kept || !works(kept) || got != nil && got.RealPath() != w.dir {
		t.Errorf("%v %v", has("Hash"), got)
	}
}

// What is granted for the one call of the process stays while it runs, until it is denied.
func TestOnceIsKeptForTheCall(t *testing.T) {
	w := newLendWorld(t)
	l, s, plugins := w.lendHere()
	p := plugins[0]
	l.once[policy.GrantRead], l.onceTool = []string{w.dir}, "Hash"
	once := func() []*capfs.Grant {
		t.Helper()
		g, err := l.lentOnce(p)
		if err != nil {
			t.Fatal(err)
		}
		return g.Folders
	}
	list := once()
	if len(list) != 1 {
		t.Fatal("it is not lent")
	}
	w.ok("grant", "blade-tool-hash", "--tool", "VerifySums", "--deny-read", w.dir)
	l.refresh(s, plugins)
	if got := once(); !works(list[0]) || len(got) != 1 || got[0] != list[0] {
		t.Error("a denial for another tool took it back")
	}
	w.ok("grant", "blade-tool-hash", "--tool", "Hash", "--deny-read", w.dir)
	l.refresh(s, plugins)
	if works(list[0]) || len(once()) != 0 {
		t.Error("it is lent though it is denied")
	}
}

// A file of grants that cannot be read grants nothing.
func TestBrokenGrantsTakeBack(t *testing.T) {
	w := newLendWorld(t)
	w.ok("grant", "blade-tool-hash", "--allow-read", w.dir)
	s := w.session()
	if got := s.call("Hash"); got != "" {
		t.Fatal(got)
	}
	if err := os.WriteFile(filepath.Join(w.env["XDG_CONFIG_HOME"], "bladehost", "grants.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for s.call("Hash") == "" {
	}
	s.end()
}

// A grant for an alias of a tool is one for the tool.
func TestCanonicalTool(t *testing.T) {
	m := &abi.Manifest{Tools: []abi.ToolSpec{{Name: "A", Aliases: []string{"B"}}, {Name: "C"}}}
	for in, want := range map[string]string{"A": "A", "B": "A", "C": "C", "D": "D"} {
		if got := canonicalTool(m, in); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}
