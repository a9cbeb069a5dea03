package search

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bladehost/bladehost/builtin/internal/file"
	"github.com/bladehost/bladehost/host/tool"
)

func target(t testing.TB, root, path string) *file.Target {
	t.Helper()
	x, end := opened(t, root, path)
	t.Cleanup(end)
	return x
}

func opened(t testing.TB, root, path string) (x *file.Target, end func()) {
	t.Helper()
	a, err := file.Open(tool.Snapshot{Roots: []string{root}, Cwd: root}, nil)
	if err != nil {
		t.Fatal(err)
	}
	x, err = a.Folder(path)
	if err != nil {
		a.Close()
		t.Fatal(err)
	}
	return x, a.Close
}

func write(t testing.TB, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func git(t testing.TB, dir string, stdin []byte, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState.ExitCode() != 1 { // 1: none is ignored
		t.Fatalf("git %v: %v", args, err)
	}
	return out
}

// visited are the files that a walk finds and does not ignore.
func visited(t testing.TB, root, start string) []string {
	t.Helper()
	var mu sync.Mutex
	var out []string
	folder, end := opened(t, root, start)
	defer end()
	_, err := Walk{Start: folder, Hidden: true, Visit: func(string) func(*Entry) bool {
		return func(e *Entry) bool {
			mu.Lock()
			defer mu.Unlock()
			if !e.Ignored && e.Type != 2 {
				out = append(out, e.Path)
			}
			return true
		}
	}}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

// random makes names and patterns of few letters, so that they meet.
type random struct{ *rand.Rand }

func (r random) pick(list ...string) string { return list[r.IntN(len(list))] }

func (r random) name() string {
	return r.pick("a", "b", "ab", "a.c", "b.c", "x y", "#n", "!n", "a\\b", "é", "a b ", "[a]", "A", "aa", "-", "z]", "a*")
}

func (r random) element() string {
	return r.pick("a", "b", "ab", "*", "**", "?", "*.c", "a*", "*b", "[ab]", "[!a]", "[^b]*", "[a-c]", "[[:alpha:]]", "[[:nope:]]", "[a", "[]a]", "[a\\]]",
		"\\a", "\\*", "\\#n", "\\!n", "#n", "x y", "x\\ y", "a\\\\b", "é", "??", "[\xc3]*", "a**", "**b", "***", "a b\\ ", "[a-]", "[--a]", "[z-a]", "!n", "[!]]*", "[/]", "a[/]b", "\\", "a\\", "A", "aa", "z]", "a\\*")
}

func (r random) line() string {
	var b strings.Builder
	if r.IntN(4) == 0 {
		b.WriteString("!")
	}
	if r.IntN(4) == 0 {
		b.WriteString("/")
	}
	for i := range 1 + r.IntN(3) {
		if i > 0 {
			b.WriteString("/")
		}
		b.WriteString(r.element())
	}
	if r.IntN(4) == 0 {
		b.WriteString("/")
	}
	switch r.IntN(12) {
	case 0:
		b.WriteString(" ")
	case 1:
		b.WriteString("  \t")
	case 2:
		b.WriteString("\r")
	case 3:
		b.WriteString("//")
	}
	return b.String()
}

// A tree is made of random names and random .gitignore files, and what is ignored in it is what
// git check-ignore says, folder by folder as Git does.
func TestIgnoreAsGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal("git is needed: ", err)
	}
	seeds := uint64(60)
	if raced {
		seeds = 10
	}
	for seed := range seeds {
		r := random{rand.New(rand.NewPCG(seed, 1))}
		root := t.TempDir()
		git(t, root, nil, "init", "-q")
		dirs := []string{""}
		for range 12 {
			d := dirs[r.IntN(len(dirs))] + r.name() + "/"
			if os.MkdirAll(filepath.Join(root, d), 0o755) == nil {
				dirs = append(dirs, d)
			}
		}
		for range 60 {
			_ = os.WriteFile(filepath.Join(root, dirs[r.IntN(len(dirs))]+r.name()), nil, 0o644) // some names are folders
		}
		var rules []string
		for range 1 + r.IntN(4) {
			d := dirs[r.IntN(len(dirs))]
			var lines []string
			for range 1 + r.IntN(6) {
				lines = append(lines, r.line())
			}
			text := strings.Join(lines, r.pick("\n", "\r\n"))
			rules = append(rules, fmt.Sprintf("%q: %q", d, text))
			if os.WriteFile(filepath.Join(root, d+".gitignore"), []byte(text), 0o644) != nil {
				t.Fatal(d)
			}
		}
		if r.IntN(2) == 0 {
			_ = os.WriteFile(filepath.Join(root, ".git/info/exclude"), []byte(r.line()+"\n"+r.line()), 0o644) // or there is none
		}
		var all []string
		err := filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
			rel, _ := filepath.Rel(root, p) // it is below
			if d.IsDir() && d.Name() == ".git" {
				return filepath.SkipDir
			}
			if !d.IsDir() {
				all = append(all, rel)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		ignored := map[string]bool{}
		for p := range strings.SplitSeq(string(git(t, root, []byte(strings.Join(all, "\x00")+"\x00"), "check-ignore", "-z", "--no-index", "--stdin")), "\x00") {
			ignored[p] = true
		}
		want := slices.DeleteFunc(all, func(p string) bool { return ignored[p] })
		slices.Sort(want)
		if got := visited(t, root, ""); !slices.Equal(got, want) {
			t.Errorf("seed %d, with %s:\nfound      %q\nbut Git    %q", seed, strings.Join(rules, ", "), minus(got, want), minus(want, got))
		}
		// A walk that starts below finds the same there.
		for _, d := range dirs[1:min(4, len(dirs))] {
			d = strings.TrimSuffix(d, "/")
			if ignored[d+"/"] || slices.ContainsFunc(all, func(p string) bool { return false }) {
				continue
			}
			var below []string
			for _, p := range want {
				if rest, ok := strings.CutPrefix(p, d+"/"); ok {
					below = append(below, rest)
				}
			}
			if len(below) > 0 {
				if got := visited(t, root, d); !slices.Equal(got, below) {
					t.Errorf("seed %d, from %q, with %s:\nfound   %q\nbut Git %q", seed, d, strings.Join(rules, ", "), minus(got, below), minus(below, got))
				}
			}
		}
	}
}

func minus(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(x string) bool { return slices.Contains(b, x) })
}

// What is ignored without a .gitignore, and what a repository inside another one means.
func TestIgnoreDefaults(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{
		".gitignore": "*.skip\nsub/gone\n", "a.go": "", "a.skip": "", "x/node_modules/p/i.js": "", "x/dist/o.js": "", "x/y/app.log": "", "x/yarn.lock": "",
		"x/b~": "", "npm-debug.log.1": "", "x/z.seed": "", "inner/.git/info/exclude": "*.out\n", "inner/a.skip": "", "inner/b.out": "", "inner/c": "",
		"sub/gone/f": "", "sub/kept": "", "node_modules": "a file by that name", "big/.gitignore": "!*.skip\n", "big/b.skip": "",
	})
	want := []string{".gitignore", "a.go", "big/.gitignore", "big/b.skip", "inner/a.skip", "inner/c", "node_modules", "sub/kept"}
	if got := visited(t, root, ""); !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
	if got := visited(t, root, "sub"); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("%q", got)
	}
	if got := visited(t, root, "x/node_modules"); !slices.Equal(got, []string{"p/i.js"}) {
		t.Errorf("a folder that is named is searched: %q", got)
	}
	if got := visited(t, root, "inner"); !slices.Equal(got, []string{"a.skip", "c"}) {
		t.Errorf("%q", got)
	}
}

// A hostile pattern costs no more than the product of the lengths.
func TestWildIsNotExponential(t *testing.T) {
	w := compileWild(strings.Repeat("a*", 2000)+"b", true)
	if w.match(strings.Repeat("a", 4000)) {
		t.Error("it matches")
	}
	w = compileWild(strings.Repeat("**/", 500)+"x", true)
	if !w.match(strings.Repeat("a/", 500) + "x") {
		t.Error("it does not match")
	}
}

// FuzzIgnore: reading and matching never panic, and the last line that matches counts.
func FuzzIgnore(f *testing.F) {
	for _, s := range []string{"*.log\n!a.log", "/a/**/b", "[a-z]/", "\\", "[[:alpha:]", "**", "a\\ ", "!", "a/\r\n"} {
		f.Add(s, "a/b/a.log")
	}
	f.Fuzz(func(t *testing.T, text, path string) {
		rs := parseIgnore(text)
		name := path[strings.LastIndexByte(path, '/')+1:]
		ignored, decided := rs.judge(path, name, false)
		if ignored && !decided {
			t.Error("ignored by no line")
		}
		if len(rs) > 0 {
			last := rs[len(rs)-1]
			s := name
			if last.path {
				s = path
			}
			if !last.dirOnly && last.pattern.match(s) && (!decided || ignored == last.negated) {
				t.Errorf("the last line of %q does not count for %q", text, path)
			}
		}
	})
}
