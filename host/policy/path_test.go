package policy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// PRM-12: how likely a file holds credentials, by its name.
func TestSensitivity(t *testing.T) {
	f, err := os.Open("testdata/sensitive-paths.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for lines := bufio.NewScanner(f); lines.Scan(); n++ {
		var c struct {
			Path  string `json:"path"`
			Level string `json:"detector_level"`
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if got := Sensitivity(c.Path); string(got) != c.Level {
			t.Errorf("%s is %q, want %q", c.Path, got, c.Level)
		}
	}
	if n != 20 {
		t.Errorf("%d cases", n)
	}
	for path, want := range map[string]Sensitive{
		"/w/.ssh": SensitiveHigh, "/w/.ssh/": SensitiveHigh, "/w/.SSH/x": SensitiveHigh, "/w/x.ssh/y": "", "/w/id_rsa": SensitiveHigh, "/w/id_rsa.pub": "", "/w/ID_ED25519": SensitiveHigh, "/w/my_id_rsa": "",
		"/h/.config/gcloud/x": SensitiveHigh, "/h/.gnupg": SensitiveHigh, "/h/.docker/config.json": SensitiveMedium, "/h/docker/config.json": "", ".env": SensitiveMedium, ".env.local": SensitiveMedium, "x.env": "", "env": "",
		"/w/.netrc": SensitiveMedium, "/w/.pypirc": SensitiveMedium, "/w/.git-credentials": SensitiveMedium, "/w/x.pfx": SensitiveHigh, "/w/dump.sql": SensitiveLow, "": "", "/": "", "a/secrets.json": SensitiveMedium, "a/mysecrets.json": "",
		`C:\Users\x\.ssh\config`: "",
	} {
		if got := Sensitivity(path); got != want {
			t.Errorf("%q is %q, want %q", path, got, want)
		}
	}
}

// PRM-12: the paths that an input names.
func TestAffectedPaths(t *testing.T) {
	for _, c := range []struct {
		pointers []string
		input    string
		want     string
	}{
		{nil, `{"path":"a","file":"b","directory":"c","file_path":"d","notebookPath":"e","_path":"f"}`, `["f" "c" "b" "d" "e" "a"]`},
		{nil, `{"paths":["a","b",1,{"path":"x"}],"files":["a","c"]}`, `["a" "c" "b"]`},
		{nil, `{"Path":"p","filepath":"x","pathname":"y","url":"z","nested":{"path":"n"},"path":5,"file":["x"]}`, `["p"]`},
		{nil, `{"path":"","file":"  ","directory":null}`, `[]`},
		{nil, `{"path":" /etc/passwd"}`, `[" /etc/passwd" "/etc/passwd"]`},
		{nil, `{"path":"a\n"}`, `["a\n" "a"]`},
		{nil, `[]`, `[]`}, {nil, `"path"`, `[]`}, {nil, `null`, `[]`},
		{[]string{"/opt/where", "/list", "/0"}, `{"path":"ignored","opt":{"where":"w"},"list":["x","y"]}`, `["w" "x" "y"]`},
		{[]string{"/a~1b", "/c~0d"}, `{"a/b":"1","c~d":"2"}`, `["1" "2"]`},
		{[]string{""}, `{"path":"x"}`, `[]`},
	} {
		var doc any
		if err := json.Unmarshal([]byte(c.input), &doc); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%q", AffectedPaths(&abi.ToolSpec{PathParams: c.pointers}, doc)); got != c.want {
			t.Errorf("%v %s: %s, want %s", c.pointers, c.input, got, c.want)
		}
	}
}

// world is a folder with roots, links and things outside.
func world(t testing.TB) (root, outside string) {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root, outside = filepath.Join(base, "root"), filepath.Join(base, "outside")
	for _, d := range []string{root + "/sub", root + "/sub/inner", root + "/.ssh", outside + "/sub", base + "/root-evil"} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{root + "/a", root + "/sub/b", root + "/.env", outside + "/secret"} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"/out": outside, "/up": "..", "/leaf": outside + "/secret", "/in": root + "/sub", "/loop": root + "/loop", "/dangling": outside + "/nothing", "/key": root + "/.ssh", "/sub/back": "../..", "/deep": outside + "/sub", "/near": root + "/sub/inner", "/leaf\n": outside + "/secret"} {
		if err := os.Symlink(to, root+link); err != nil {
			t.Fatal(err)
		}
	}
	return root, outside
}

// PRM-12 PKG-11 CTX-02: paths are judged after links, by components, from the session's own folder
// and never from the process's.
func TestJudgePaths(t *testing.T) {
	root, outside := world(t)
	t.Chdir(root)
	p := Paths{Roots: []string{root}, Cwd: root}
	for path, want := range map[string]string{
		"a": "allow", "sub/b": "allow", "new/file": "allow", ".": "allow", "": "allow", "sub/../a": "allow", root + "/in/b": "allow", root: "allow", "a..b": "allow", "..a": "allow",
		"..": "deny", "../outside/secret": "deny", "out/secret": "deny", "up/outside": "deny", "leaf": "deny", "loop": "deny", "dangling": "deny", "dangling/x": "deny", "sub/back/outside/secret": "deny",
		outside: "deny", root + "-evil/x": "deny", "/": "deny", "/etc/passwd": "deny", "a\x00": "deny", "leaf\n": "deny", "a/b": "deny",
		".env": "ask", "sub/.env.prod": "ask", "key/config": "deny", ".ssh/config": "deny", "sub/x.pem": "deny", "data.sqlite": "allow",
	} {
		if got := p.Judge(path, false); string(got.Behavior) != want || (want != "allow") != (got.Reason != "") {
			t.Errorf("%q: %+v, want %s", path, got, want)
		}
	}
	// ".." behind a link is what the kernel makes of it, and what a tool does that cleans its path.
	for path, want := range map[string]string{
		"deep/../secret": "deny", "deep/..": "deny", "deep/../../root/a": "allow", root + "/deep/../secret": "deny", "deep/./../secret": "deny", "deep//../secret": "deny", "sub/../deep/../secret": "deny",
		"near/../b": "allow", "near/../../a": "deny", "near/../../.env": "deny", "near/../../../outside/secret": "deny", "near/../../..": "deny", "new/../a": "allow", "new/x/../../a": "allow", "new/../..": "deny", "new/../.env": "ask", "deep/../../root/.env": "ask",
	} {
		if got := p.Judge(path, false); string(got.Behavior) != want || (want != "allow") != (got.Reason != "") {
			t.Errorf("%q: %+v, want %s", path, got, want)
		}
	}
	for path, want := range map[string]string{".ssh/config": "ask", "sub/x.pem": "ask", "key/config": "ask", ".env": "ask", "leaf": "deny", outside: "deny", "a": "allow"} {
		if got := p.Judge(path, true); string(got.Behavior) != want {
			t.Errorf("with a rule, %q: %+v, want %s", path, got, want)
		}
	}
	// Without a current folder, relative paths lead nowhere, whatever the process's is.
	if got := (Paths{Roots: []string{root}}).Judge("a", false); got.Behavior != tool.PermissionDeny {
		t.Errorf("%+v", got)
	}
	if got := (Paths{Roots: []string{"."}, Cwd: root}).Judge("a", false); got.Behavior != tool.PermissionDeny {
		t.Errorf("a root that is relative: %+v", got)
	}
	// Without roots only what is protected or sensitive is judged.
	for path, want := range map[string]string{root + "/a": "allow", "/etc/passwd": "deny", "/proc/self/environ": "deny", "/root/x": "deny", "relative": "allow", "x/.ssh/id": "deny", outside + "/.env": "ask"} {
		if got := (Paths{}).Judge(path, false); string(got.Behavior) != want {
			t.Errorf("no roots, %q: %+v, want %s", path, got, want)
		}
	}
	// A root below a protected folder is the user's own choice; a root that is a link is what it
	// leads to.
	if got := (Paths{Roots: []string{"/etc"}}).Judge("/etc/hostname", false); got.Behavior != tool.PermissionAllow {
		t.Errorf("%+v", got)
	}
	if got := (Paths{Roots: []string{root + "/in"}}).Judge(root+"/sub/b", false); got.Behavior != tool.PermissionAllow || got.Real != root+"/sub/b" {
		t.Errorf("%+v", got)
	}
}

// FuzzJudge: a path that is not denied leads, after links, into a root; a rule never lets out
// what is outside; judging twice says the same.
func FuzzJudge(f *testing.F) {
	root, outside := world(f)
	for _, s := range []string{"a", "..", "../outside/secret", "out/secret", "sub/back/outside", outside, root + "/in/b", "./././a", "sub//b", "up/up/up", "/", "", " a", "a ", "\x00", "leaf\n", "key/x", "~", "~root/x", "deep/../secret", "near/../../a", `\..\x`, "sub/.././../root/a", strings.Repeat("../", 50) + "etc/passwd", strings.Repeat("x/", 2000)} {
		f.Add(s, false)
		f.Add(root+"/"+s, true)
	}
	p := Paths{Roots: []string{root}, Cwd: root}
	f.Fuzz(func(t *testing.T, path string, explicit bool) {
		v := p.Judge(path, explicit)
		if again := p.Judge(path, explicit); again != v {
			t.Fatalf("%+v, then %+v", v, again)
		}
		if v.Behavior == tool.PermissionDeny {
			if v.Reason == "" {
				t.Errorf("%q is denied for no reason", path)
			}
			return
		}
		if !within(root, v.Real) {
			t.Fatalf("%q leads to %q, which is outside, and is not denied", path, v.Real)
		}
		abs := path
		if !filepath.IsAbs(abs) {
			abs = root + "/" + abs // as a tool would open it
		}
		if real, err := filepath.EvalSymlinks(abs); err == nil && !within(root, real) {
			t.Fatalf("%q opens %q, which is outside, and is not denied", path, real)
		}
		if other := p.Judge(path, !explicit); (other.Behavior == tool.PermissionDeny) && Sensitivity(v.Real) != SensitiveHigh {
			t.Errorf("%q: %+v, with the other word %+v", path, v, other)
		}
	})
}
