package filesystem

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/file"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

type honestOut struct {
	Matches   []grepEntry
	Truncated bool
	Notes     []string
}

// strategies are the ways to search: with ripgrep where there is one, and without.
func strategies(t *testing.T) []string {
	t.Helper()
	out := []string{"-"}
	if p, err := exec.LookPath("rg"); err == nil {
		out = append(out, p)
	}
	return out
}

// A search over folders gives nothing out that Read would not, whatever the glob names; what was left out is said.
func TestGrepSecrets(t *testing.T) {
	secret := []string{".env", ".env.local", "id_rsa", "sub/server.pem", "sub/.ssh/config", ".aws/x", "secrets.yaml", "sub/My.KEY"}
	files := map[string]string{"a.txt": "KEY=0\n", "environment": "KEY=1\n", "data.sql": "KEY=2\n"}
	for _, n := range secret {
		files[n] = "KEY=top\n"
	}
	for _, rg := range strategies(t) {
		r := newRoom(t, files, Options{StateDir: t.TempDir(), Ripgrep: rg})
		r.link("sub/.ssh", "keys")
		for _, in := range []map[string]any{
			{}, {"glob": "**/.ssh/*"}, {"glob": ".*"}, {"glob": ".env"}, {"glob": "*.pem"}, {"glob": "!*.txt"}, {"path": "."}, {"path": "sub"}, {"glob": "{.env,id_rsa}", "output_mode": "count"},
		} {
			in["pattern"] = "KEY"
			if in["output_mode"] == nil {
				in["output_mode"] = "content"
			}
			res := r.ok("Grep", in)
			if strings.Contains(string(res.Model)+string(res.Data), "top") {
				t.Errorf("%s %v: %s", rg, in, res.Model)
			}
			n, _ := res.Metadata["skipped_sensitive"].(int64)
			for _, m := range data[honestOut](t, res).Matches {
				for _, s := range secret {
					if strings.HasSuffix(m.FilePath, "/"+s) {
						t.Errorf("%s %v: finds %s", rg, in, s)
					}
				}
			}
			if in["glob"] != "*.pem" && in["glob"] != nil && n == 0 && in["glob"] != "**/.ssh/*" {
				t.Errorf("%s %v: %v", rg, in, res.Metadata)
			}
			if n > 0 && !strings.Contains(res.ModelText(), "hold secrets") {
				t.Errorf("%s %v: the model is not told: %s", rg, in, res.Model)
			}
		}
		// Named, they are judged as those of Read; in a folder that was asked for by its name they are what was asked for.
		r.fails("Grep", map[string]any{"pattern": "KEY", "path": r.path("id_rsa")}, abi.CodeDeniedPath, abi.TypePermission)
		r.fails("Grep", map[string]any{"pattern": "KEY", "path": r.path("keys")}, abi.CodeDeniedPath, abi.TypePermission)
		for name, want := range map[string]int{".env": 1, "id_rsa": 1, "sub/.ssh": 1, "keys": 1} {
			res := r.direct("Grep", tool.Config{Input: r.input(map[string]any{"pattern": "KEY", "path": r.path(name)})})
			if got := data[honestOut](t, res); len(got.Matches) != want {
				t.Errorf("%s: %s", name, res.Model)
			}
		}
		// The session's folder is no choice of the caller.
		res := r.direct("Grep", tool.Config{Input: r.input(map[string]any{"pattern": "KEY"}), Snapshot: &tool.Snapshot{Roots: []string{r.root}, Cwd: r.path("sub/.ssh")}})
		if got := data[honestOut](t, res); len(got.Matches) != 0 {
			t.Errorf("%s", res.Model)
		}
	}
}

// Who asks for a part learns that there is more, and nobody else does.
func TestGrepMore(t *testing.T) {
	files := map[string]string{}
	for i := range 50 {
		files[fmt.Sprintf("f%02d.txt", i)] = strings.Repeat("hit\n", 4)
	}
	r := newRoom(t, files)
	for _, c := range []struct {
		mode         string
		head, offset int
		list         int
		more         bool
	}{
		{"files_with_matches", 10, 0, 10, true}, {"files_with_matches", 50, 0, 50, false}, {"files_with_matches", 49, 0, 49, true}, {"files_with_matches", 10, 40, 10, false},
		{"files_with_matches", 10, 39, 10, true}, {"files_with_matches", 10, 90, 0, false}, {"count", 3, 0, 3, true}, {"content", 3, 0, 3, true}, {"content", 200, 0, 200, false}, {"content", 199, 0, 199, true}, {"content", 1, 199, 1, false},
	} {
		res := r.ok("Grep", map[string]any{"pattern": "hit", "output_mode": c.mode, "head_limit": c.head, "offset": c.offset})
		d := data[honestOut](t, res)
		told := strings.Contains(string(res.Model), fmt.Sprintf("offset %d", c.offset+c.head))
		if len(d.Matches) != c.list || d.Truncated != c.more || res.Metadata["truncated"] != c.more || told != c.more || (len(d.Notes) > 0) != c.more {
			t.Errorf("%+v: %d entries, %v, %s", c, len(d.Matches), res.Metadata, d.Notes)
		}
		if total := res.Metadata["original_total"].(int); (total > c.offset+c.list) != c.more && c.list > 0 {
			t.Errorf("%+v: original_total %d", c, total)
		}
	}
}

// What cannot be searched is no empty answer.
func TestGrepCannotSearch(t *testing.T) {
	r := newRoom(t, map[string]string{"bin": "a\x00b", "sub/x.txt": "hit\n", "sub/long.txt": "hit\n" + strings.Repeat("x", 65<<20)})
	fifo := r.path("pipe")
	if makeFIFO(t, fifo); runtime.GOOS != "windows" {
		r.fails("Grep", map[string]any{"pattern": "x", "path": fifo}, file.CodeNotRegular, abi.TypeExecution)
	}
	if got := r.ok("Grep", map[string]any{"pattern": "b", "path": r.path("bin")}).ModelText(); !strings.Contains(got, "no text") {
		t.Errorf("%s", got)
	}
	r.fails("Grep", map[string]any{"pattern": "zz", "path": r.path("sub/long.txt"), "output_mode": "content"}, file.CodeTooLarge, abi.TypeValidation)
	res := r.ok("Grep", map[string]any{"pattern": "hit", "path": "sub", "output_mode": "count"})
	if !strings.Contains(res.ModelText(), "could not be read") || res.Metadata["skipped"] != int64(1) {
		t.Errorf("%s %v", res.Model, res.Metadata)
	}
	if os.Getuid() != 0 {
		if err := os.Chmod(r.path("sub/x.txt"), 0); err != nil {
			t.Fatal(err)
		}
		r.fails("Grep", map[string]any{"pattern": "x", "path": r.path("sub/x.txt")}, file.CodeIO, abi.TypeExecution)
	}
}

// A large file that is no text costs its start only, with ripgrep too.
func TestGrepSparse(t *testing.T) {
	for _, rg := range strategies(t) {
		r := newRoom(t, map[string]string{"a.txt": "hit\n", "late.txt": "hit\n" + strings.Repeat("x\n", 100<<10) + "\x00"}, Options{StateDir: t.TempDir(), Ripgrep: rg})
		for name, head := range map[string]string{"disk.img": "", "hit.img": "hit\n\x00"} {
			r.put(name, head)
			if err := os.Truncate(filepath.Join(r.root, name), 1<<40); err != nil {
				t.Skipf("no sparse files: %v", err)
			}
		}
		res := r.ok("Grep", map[string]any{"pattern": "hit"})
		if d := data[honestOut](t, res); len(d.Matches) != 2 {
			t.Errorf("%s: %s", rg, res.Model)
		}
	}
}

// Relative paths of a session that was started beside its workspace start in the workspace.
func TestRelativeFromBeside(t *testing.T) {
	r := newRoom(t, map[string]string{"src/a.txt": "hit\n"})
	s, err := r.h.NewSession(host.SessionOptions{ID: "beside", Mode: policy.ModeYolo, AutoApprove: true,
		Context: abi.RuntimeContext{Capabilities: &abi.ContextCapabilities{Filesystem: &abi.FilesystemFacet{Roots: []string{r.root}, Cwd: t.TempDir()}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []host.Call{
		{Tool: "Grep", Input: r.input(map[string]any{"pattern": "hit", "path": "src"})}, {Tool: "Grep", Input: r.input(map[string]any{"pattern": "hit"})},
		{Tool: "Glob", Input: r.input(map[string]any{"pattern": "*.txt", "path": "src"})}, {Tool: "Glob", Input: r.input(map[string]any{"pattern": "src/*"})},
	} {
		if res := r.runIn(s, c); res.IsError() || !strings.Contains(string(res.Model), r.path("src/a.txt")) {
			t.Errorf("%s %s: %s %+v", c.Tool, c.Input, res.Model, res.Error)
		}
	}
	if res := r.runIn(s, host.Call{Tool: "Read", Input: r.input(map[string]any{"file_path": "=src/a.txt"})}); !res.IsError() || !strings.Contains(res.Error.Message, r.path("src/a.txt")) {
		t.Errorf("%+v", res.Error)
	}
}

// FuzzPlainName: what is told by the name alone is what the rules tell of the path.
func FuzzPlainName(f *testing.F) {
	for _, n := range []string{"a.go", ".env", ".ENV.x", "id_rsa", "ID_rsa", "x.pem", "X.KEY", "x.\u212aey", "my.cnf", "pgpass", "Credentials.json", "aws-credentials.json", "service-account-1.json", "config.toml", "config.json", "secrets.go", "keystore", "db.sql", "a\n.pem", ".\u0131d_rsa"} {
		for _, dir := range []string{"/w", "/w/.ssh", "/w/.docker", "/w/.config/gcloud/x", "/w/.KUBE", "/"} {
			f.Add(dir, n)
		}
	}
	f.Fuzz(func(t *testing.T, dir, name string) {
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\\x00") || !filepath.IsAbs(dir) {
			return
		}
		if got, want := secrets("", nil)(dir)(name), secrecy(filepath.Join(dir, name)) > 0; got != want {
			t.Errorf("%q in %q: %v, not %v", name, dir, got, want)
		}
	})
}
