// Package bladehost has the tests of the whole tree: the README's promises and
// the nested modules, which ./... does not reach.
package bladehost_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// goCommand runs the go command in a folder, without a workspace.
func goCommand(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "GOWORK=off", "GOFLAGS="), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s in %s: %v\n%s", strings.Join(args, " "), dir, err, out)
	}
	return string(out)
}

func plugins(t *testing.T) []string {
	t.Helper()
	mods, err := filepath.Glob("plugins/*/go.mod")
	if err != nil || len(mods) == 0 {
		t.Fatalf("no plugins: %v", err)
	}
	var dirs []string
	for _, m := range mods {
		dirs = append(dirs, filepath.Dir(m))
	}
	return dirs
}

// Each plugin is a module of its own; its tests run with the tree's.
func TestPlugins(t *testing.T) {
	for _, dir := range plugins(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			goCommand(t, dir, nil, "test", "./...")
		})
	}
}

var fence = regexp.MustCompile("(?s)```(go|sh)\n(.*?)```")

func readme(t *testing.T, lang string) []string {
	t.Helper()
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range fence.FindAllStringSubmatch(string(b), -1) {
		if m[1] == lang {
			out = append(out, m[2])
		}
	}
	return out
}

// The README's first command works on a machine with Go and nothing else.
func TestReadmeFirstCommand(t *testing.T) {
	line, _, _ := strings.Cut(readme(t, "sh")[0], "\n")
	cmd := exec.Command("sh", "-c", line)
	cmd.Env = append(os.Environ(), "BLADEHOST_HOME="+t.TempDir())
	var out, msg bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &msg
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, msg.String())
	}
	if !regexp.MustCompile(`"digest":"[0-9a-f]{64}"`).MatchString(out.String()) {
		t.Errorf("%s printed %s", line, out.String())
	}
}

// The README's Go programs build, and the embedding prints what it says.
func TestReadmePrograms(t *testing.T) {
	progs := readme(t, "go")
	if len(progs) != 2 {
		t.Fatalf("the README has %d Go programs", len(progs))
	}
	for i, src := range progs {
		if n := strings.Count(src, "\n"); n > 40 {
			t.Errorf("program %d has %d lines; a newcomer should see it at a glance", i, n)
		}
	}
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	module := func(src string) string {
		dir := t.TempDir()
		mod, err := os.ReadFile("go.mod")
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(string(mod), "module github.com/bladehost/bladehost", "module example.com/readme", 1) +
			"\nrequire github.com/bladehost/bladehost v0.0.0\n\nreplace github.com/bladehost/bladehost => " + root + "\n"
		sum, err := os.ReadFile("go.sum")
		if err != nil {
			t.Fatal(err)
		}
		for name, b := range map[string][]byte{"go.mod": []byte(text), "go.sum": sum, "main.go": []byte(src)} {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	t.Run("plugin", func(t *testing.T) {
		dir := module(progs[0])
		goCommand(t, dir, []string{"GOOS=wasip1", "GOARCH=wasm"}, "build", "-mod=mod", "-buildmode=c-shared", "-o", "x.wasm", ".")
	})
	t.Run("embedding", func(t *testing.T) {
		if out := goCommand(t, module(progs[1]), nil, "run", "-mod=mod", "."); !strings.Contains(out, "5 <nil>") {
			t.Errorf("it printed %s", out)
		}
	})
}
