package builtin_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bladehost/bladehost/builtin"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// surroundings are the keys of "context" that can be made, each with what it changes
// before the session is made.
var surroundings = map[string]func(w *world, raw json.RawMessage) error{
	"fs":         func(w *world, _ json.RawMessage) error { return noFilesystem(w) },
	"noSnapshot": func(w *world, _ json.RawMessage) error { return noFilesystem(w) },
	"noSession":  func(*world, json.RawMessage) error { return nil }, // see world.call
	"messageId":  func(*world, json.RawMessage) error { return nil },
	"cwd": func(w *world, _ json.RawMessage) error {
		w.opt.Context.Capabilities.Filesystem.Cwd = ""
		return nil
	},
	"permissionMode": func(w *world, raw json.RawMessage) error { return json.Unmarshal(raw, &w.opt.Mode) },
	"toolTimeoutMs": func(w *world, raw json.RawMessage) error {
		var ms int64
		err := json.Unmarshal(raw, &ms)
		w.opt.ToolTimeout = time.Duration(ms) * time.Millisecond
		return err
	},
	"confirm": func(w *world, raw json.RawMessage) error {
		var answer struct {
			tool.ConfirmationAnswer
			Throw any `json:"throw"`
		}
		if err := json.Unmarshal(raw, &answer); err != nil {
			return err
		}
		w.opt.Confirm = tool.ConfirmFunc(func(_ context.Context, c tool.Confirmation) (tool.ConfirmationAnswer, error) {
			w.confirms = append(w.confirms, c)
			if answer.Throw != nil {
				return tool.ConfirmationAnswer{}, fmt.Errorf("%v", answer.Throw)
			}
			return answer.ConfirmationAnswer, nil
		})
		return nil
	},
}

func noFilesystem(w *world) error {
	w.opt.Context.Capabilities = nil
	w.opt.Mode = policy.ModeYolo
	return nil
}

// steps are the setup lines.
var steps = map[string]func(w *world, l *caseLine) error{
	"utimes":  stepTimes,
	"fill":    stepFill,
	"write":   stepWrite,
	"rm":      func(w *world, l *caseLine) error { return os.RemoveAll(w.path(l)) },
	"sleep":   func(*world, *caseLine) error { return nil }, // whoever needs to wait, waits for what it needs
	"gitinit": stepGit,
	"chdir":   func(*world, *caseLine) error { return nil }, // a session's folder is its own, never the process's
	"path":    stepPath,
}

func (w *world) path(l *caseLine) string {
	var a struct{ Path string }
	_ = json.Unmarshal(l.Args, &a) // a missing path is the root
	return filepath.Join(w.root, filepath.FromSlash(a.Path))
}

func stepTimes(w *world, l *caseLine) error {
	var a struct{ Mtime, Delta *float64 }
	if err := json.Unmarshal(l.Args, &a); err != nil {
		return err
	}
	fi, err := os.Stat(w.path(l))
	if err != nil {
		return err
	}
	at := fi.ModTime()
	if a.Mtime != nil {
		at = time.Unix(0, int64(*a.Mtime*1e9))
	} else if a.Delta != nil {
		at = at.Add(time.Duration(*a.Delta * 1e9))
	}
	return os.Chtimes(w.path(l), at, at)
}

func stepFill(w *world, l *caseLine) error {
	var a struct {
		Unit  string
		Count int
	}
	if err := json.Unmarshal(l.Args, &a); err != nil {
		return err
	}
	return os.WriteFile(w.path(l), []byte(strings.Repeat(a.Unit, a.Count)), 0o644)
}

func stepWrite(w *world, l *caseLine) error {
	var a struct{ Text, Content string }
	if err := json.Unmarshal(l.Args, &a); err != nil {
		return err
	}
	return os.WriteFile(w.path(l), []byte(a.Text+a.Content), 0o644)
}

func stepGit(w *world, l *caseLine) error {
	out, err := exec.CommandContext(w.t.Context(), "git", "init", "-q", w.path(l)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// stepPath takes ripgrep away.
func stepPath(w *world, _ *caseLine) error {
	w.t.Setenv("PATH", w.t.TempDir())
	return nil
}

// unsupported is what of a scenario no table can make, or "".
func unsupported(s scenario) string {
	for _, l := range s.lines {
		if l.Do != "" && steps[l.Do] == nil {
			return "the step " + l.Do
		}
		for k := range l.Context {
			if surroundings[k] == nil {
				return "the context " + k
			}
		}
	}
	return ""
}

// fixture is fixture.json: the tree that every scenario starts with.
type fixture struct {
	Directories    []string          `json:"directories"`
	DirectoryMtime int64             `json:"directory_mtime_unix"`
	Symlinks       map[string]string `json:"symlinks"`
	Files          []struct {
		Path    string `json:"path"`
		Mtime   int64  `json:"mtime_unix"`
		Content string `json:"content_base64"`
	} `json:"files"`
}

// newWorld builds the fixture in a folder of its own.
func newWorld(t *testing.T, name string) *world {
	t.Helper()
	t.Setenv("LC_ALL", "C") // as recorded; bash complains of a locale that is not installed
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	buildFixture(t, root)
	w := &world{t: t, root: root, name: name, bound: map[string]string{"ROOT": root, "RUNCWD": filepath.Join(root, "ws")},
		builtins: builtin.Options{StateDir: t.TempDir()}}
	if strings.HasPrefix(name, "fetch-") { // recorded against a server of this machine
		w.bound["HTTP"] = webServer(t)
		w.builtins.Web.AllowPrivateNetwork = true
	}
	return w
}

func buildFixture(t testing.TB, root string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(casesDir, "fixture.json"))
	if err != nil {
		t.Fatal(err)
	}
	var f fixture
	if err := json.Unmarshal(raw, &f); err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range f.Directories {
		must(os.MkdirAll(filepath.Join(root, filepath.FromSlash(d)), 0o755))
	}
	for _, x := range f.Files {
		b, err := base64.StdEncoding.DecodeString(x.Content)
		must(err)
		p := filepath.Join(root, filepath.FromSlash(x.Path))
		must(os.MkdirAll(filepath.Dir(p), 0o755))
		must(os.WriteFile(p, b, 0o644))
		must(os.Chtimes(p, time.Unix(x.Mtime, 0), time.Unix(x.Mtime, 0)))
	}
	for link, to := range f.Symlinks {
		must(os.Symlink(to, filepath.Join(root, filepath.FromSlash(link))))
	}
	var dirs []string
	must(filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, p)
		}
		return err
	}))
	slices.Reverse(dirs)
	for _, d := range dirs {
		must(os.Chtimes(d, time.Unix(f.DirectoryMtime, 0), time.Unix(f.DirectoryMtime, 0)))
	}
}

// tools are the tools of this world, made once.
func (w *world) tools() []tool.Tool {
	if w.made == nil {
		w.made = builtin.Tools(w.builtins)
	}
	return w.made
}
