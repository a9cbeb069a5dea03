package filesystem

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/file"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// everyTool are inputs of all tools for one path.
func everyTool(p string) map[string]map[string]any {
	return map[string]map[string]any{
		"Read": {"file_path": p}, "Edit": {"file_path": p, "old_string": "s", "new_string": "x"}, "Write": {"file_path": p, "content": "x"},
		"NotebookEdit": {"notebook_path": p, "new_source": "x", "cell_id": "c"}, "Glob": {"pattern": "**", "path": p}, "Grep": {"pattern": ".", "path": p},
	}
}

// hideout makes a workspace beside a folder with a secret, in one parent.
func hideout(t *testing.T) (r *room, secret string) {
	t.Helper()
	parent, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r = newRoom(t, nil)
	r.root = filepath.Join(parent, "w")
	secret = filepath.Join(parent, "w-evil", "secret.txt")
	for _, p := range []string{filepath.Dir(secret), r.root} {
		if err := os.MkdirAll(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.put("in.txt", "inside")
	r.s = r.session("hideout", r.root)
	return r, secret
}

// Every trick to leave the workspace is refused by every tool, in a session and called directly.
func TestPathsStayInside(t *testing.T) {
	r, secret := hideout(t)
	r.link("/etc/passwd", "abs")
	r.link("../w-evil/secret.txt", "rel")
	r.link("../w-evil", "dir")
	r.link("rel", "chain")
	r.link("..", "up")
	r.link("../w-evil/secret.txt/", "slash")
	r.link("../w-evil/new.txt", "dangling")
	for name, p := range map[string]string{
		"a neighbour with the same beginning": secret,
		"dot dot":                             r.root + "/../w-evil/secret.txt",
		"a system file":                       "/etc/passwd",
		"the root":                            "/",
		"an absolute link":                    r.path("abs"),
		"a link with a slash behind":          r.path("abs") + "/",
		"a relative link":                     r.path("rel"),
		"a link to a link":                    r.path("chain"),
		"through a link to a folder":          r.path("dir") + "/secret.txt",
		"through a link upwards":              r.path("up") + "/w-evil/secret.txt",
		"a link that ends in a slash":         r.path("slash"),
		"a link to what is not there yet":     r.path("dangling"),
		"a NUL":                               r.root + "/in.txt\x00/../../w-evil/secret.txt",
		"a process's view of the root":        "/proc/self/root" + secret,
	} {
		for tl, in := range everyTool(p) {
			for way, res := range map[string]*abi.Result{
				"session": r.run(tl, in), "direct": r.direct(tl, tool.Config{SessionID: "hideout", Input: r.input(in)}),
			} {
				if res.Error == nil || (res.Error.Type != pErr && res.Error.Code != file.CodeNotFound && res.Error.Type != vErr) {
					t.Errorf("%s, %s, %s: %s %+v", name, tl, way, res.Status, res.Error)
				}
				if strings.Contains(string(res.Model), `"secret"`) || strings.Contains(string(res.Data), `secret"`) || strings.Contains(string(res.Model), "root:") {
					t.Errorf("%s, %s, %s: it tells %s", name, tl, way, res.Model)
				}
			}
		}
	}
	if b, err := os.ReadFile(secret); err != nil || string(b) != "secret" {
		t.Errorf("the secret is %q %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(secret), "new.txt")); err == nil {
		t.Error("a file was made outside")
	}
	for tl, in := range map[string]map[string]any{
		"Glob": {"pattern": "**", "include_directories": true}, "Grep": {"pattern": "e"},
	} {
		if res := r.ok(tl, in); strings.Contains(string(res.Model), "w-evil") || strings.Contains(string(res.Model), "secret") {
			t.Errorf("%s: %s", tl, res.Model)
		}
	}
	for _, p := range []string{"../*", "../w-evil/*", "dir/*", "up/**", "**/../../w-evil/*", "{..,x}/w-evil/*"} {
		if res := r.ok("Glob", map[string]any{"pattern": p}); strings.Contains(string(res.Model), "secret") {
			t.Errorf("Glob %s: %s", p, res.Model)
		}
	}
}

// Codes of links and paths.
func TestPathCodes(t *testing.T) {
	r, secret := hideout(t)
	r.link(secret, "abs")
	r.link("../w-evil/secret.txt", "rel")
	r.link("nope", "broken")
	r.link("in.txt", "good")
	r.fails("Read", map[string]any{"file_path": "abs"}, file.CodeEscape, pErr)
	r.fails("Read", map[string]any{"file_path": "rel"}, file.CodeEscape, pErr)
	r.fails("Write", map[string]any{"file_path": "rel", "content": "x"}, file.CodeEscape, pErr)
	r.fails("Read", map[string]any{"file_path": secret}, file.CodeOutside, pErr)
	r.fails("Read", map[string]any{"file_path": "broken"}, file.CodeNotFound, xErr)
	if res := r.ok("Read", map[string]any{"file_path": "good"}); !strings.Contains(res.ModelText(), "inside") {
		t.Error(res.ModelText())
	}
}

// While a name changes between a file and a link outwards, nothing from outside is ever read or
// written.
func TestPathRace(t *testing.T) {
	r, secret := hideout(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // ends with stop
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			tmp := r.path("tmp")
			if i%2 == 0 {
				_ = os.Symlink(secret, tmp)
			} else {
				_ = os.WriteFile(tmp, []byte("inside"), 0o644)
			}
			_ = os.Rename(tmp, r.path("x"))
		}
	})
	var reads atomic.Int64
	rounds := 300
	if raced {
		rounds = 30
	}
	for range rounds {
		for tl, in := range map[string]map[string]any{"Read": {"file_path": "x"}, "Grep": {"pattern": "s", "output_mode": "content"}, "Edit": {"file_path": "x", "old_string": "s", "new_string": "X"}, "Write": {"file_path": "x", "content": "written"}} {
			res := r.direct(tl, tool.Config{SessionID: "race", Input: r.input(in)})
			if strings.Contains(string(res.Model)+string(res.Data), "secret") && !res.IsError() {
				t.Errorf("%s tells %s", tl, res.Model)
			}
			if !res.IsError() {
				reads.Add(1)
			}
		}
	}
	close(stop)
	wg.Wait()
	if b, err := os.ReadFile(secret); err != nil || string(b) != "secret" {
		t.Errorf("the secret is %q %v", b, err)
	}
	if reads.Load() == 0 {
		t.Error("nothing was ever read")
	}
}

// A path is never a command, nor a pattern.
func TestPathsAreNotCommands(t *testing.T) {
	r := newRoom(t, nil)
	name := `a"$(touch pwned)" ; touch pwned *.txt`
	r.put(name, "text needle\n")
	if res := r.ok("Read", map[string]any{"file_path": name}); !strings.Contains(res.ModelText(), "needle") {
		t.Error(res.ModelText())
	}
	for tl, in := range map[string]map[string]any{"Grep": {"pattern": "needle", "path": r.path(name)}, "Glob": {"pattern": "a*"}} {
		if res := r.ok(tl, in); !strings.Contains(string(res.Model), "pwned") {
			t.Errorf("%s: %s", tl, res.Model)
		}
	}
	r.ok("Grep", map[string]any{"pattern": `"; touch pwned; "`})
	if _, err := os.Stat(r.path("pwned")); err == nil {
		t.Error("it was run")
	}
}

// Folders of the host itself cannot be used, whether they exist or not.
func TestDeny(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "own")
	r := newRoom(t, nil, Options{StateDir: filepath.Join(dir, "state"), Deny: []string{own}})
	r.root = dir
	r.s = r.session("deny", dir)
	for _, p := range []string{filepath.Join(own, "grants.json"), filepath.Join(dir, "state", "x")} {
		if res := r.run("Write", map[string]any{"file_path": p, "content": "x"}); res.Error == nil || res.Error.Type != pErr {
			t.Errorf("%s: %+v", p, res)
		}
		if _, err := os.Stat(p); err == nil {
			t.Errorf("%s was made", p)
		}
	}
	r.put("own/grants.json", "needle")
	r.put("free.txt", "needle")
	r.link("own/grants.json", "link")
	for _, p := range []string{"own/grants.json", "link"} {
		if res := r.run("Read", map[string]any{"file_path": p}); res.Error == nil || res.Error.Code != file.CodeProtected {
			t.Errorf("%s: %+v", p, res)
		}
	}
	for tl, in := range map[string]map[string]any{"Grep": {"pattern": "needle"}, "Glob": {"pattern": "**"}} {
		if res := r.ok(tl, in); strings.Contains(string(res.Model), "grants") || !strings.Contains(string(res.Model), "free") {
			t.Errorf("%s: %s", tl, res.Model)
		}
	}
	// A workspace inside of a folder that is denied is none.
	if res := r.runIn(r.session("inside", own), host.Call{Tool: "Read", Input: r.input(map[string]any{"file_path": "own/grants.json"})}); res.Error == nil || res.Error.Code != file.CodeNoFilesystem {
		t.Errorf("%+v", res)
	}
}

// A deny rule holds for the file, whatever it is called.
func TestDenyRuleFollowsLinks(t *testing.T) {
	r := newRoom(t, map[string]string{"secret.txt": "s"})
	r.link("secret.txt", "x")
	s, err := r.h.NewSession(host.SessionOptions{ID: "rules", Mode: policy.ModeYolo, AutoApprove: true,
		Rules:   policy.Rules{Deny: []policy.Rule{{Pattern: "Read:" + r.path("secret.txt")}}},
		Context: abi.RuntimeContext{Capabilities: &abi.ContextCapabilities{Filesystem: &abi.FilesystemFacet{Roots: []string{r.root}, Cwd: r.root}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"secret.txt", "x"} {
		if res := r.runIn(s, host.Call{Tool: "Read", Input: r.input(map[string]any{"file_path": p})}); res.Error == nil || res.Error.Type != pErr {
			t.Errorf("%s: %+v", p, res)
		}
	}
}

// Two workspace folders, one in the other and one beside it.
func TestSeveralRoots(t *testing.T) {
	r := newRoom(t, map[string]string{"a/x.txt": "ax", "a/b/y.txt": "by", "c/z.txt": "cz", "d/no.txt": "d"})
	s := r.session("roots", r.path("a"), r.path("a/b"), r.path("c"), r.path("gone"))
	for p, ok := range map[string]bool{"a/x.txt": true, "a/b/y.txt": true, "c/z.txt": true, "d/no.txt": false} {
		if res := r.runIn(s, host.Call{Tool: "Read", Input: r.input(map[string]any{"file_path": p})}); res.IsError() == ok {
			t.Errorf("%s: %+v", p, res.Error)
		}
	}
	res := r.runIn(s, host.Call{Tool: "Glob", Input: r.input(map[string]any{"pattern": "*.txt", "path": r.path("c")})})
	if !strings.Contains(res.ModelText(), "z.txt") {
		t.Error(res.ModelText())
	}
	if res = r.runIn(s, host.Call{Tool: "Glob", Input: r.input(map[string]any{"pattern": r.path("c") + "/*"})}); !strings.Contains(res.ModelText(), "z.txt") {
		t.Error(res.ModelText())
	}
}
