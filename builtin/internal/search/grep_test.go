package search

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/file"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func grepAll(t testing.TB, q GrepQuery) GrepAnswer {
	t.Helper()
	a, err := Grep(t.Context(), q)
	if err != nil {
		t.Fatalf("%q: %v", q.Pattern, err)
	}
	return a
}

// rgLines are path:line of what ripgrep finds.
func rgLines(t testing.TB, rg, root string, args ...string) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), rg, append([]string{"--no-config", "--no-ignore", "--hidden", "--json"}, append(args, root)...)...)
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState.ExitCode() != 1 {
		t.Fatalf("rg %v: %v %s", args, err, out)
	}
	type text struct {
		Text  string
		Bytes []byte
	}
	found := map[string]string{}
	for line := range bytes.Lines(out) {
		var m struct {
			Type string
			Data struct {
				Path  text
				Lines text
				Line  int `json:"line_number"`
			}
		}
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatal(err)
		}
		if m.Type != "match" {
			continue
		}
		all := m.Data.Lines.Text + string(m.Data.Lines.Bytes)
		for i, l := range strings.Split(strings.TrimSuffix(all, "\n"), "\n") {
			found[fmt.Sprintf("%s:%d", m.Data.Path.Text, m.Data.Line+i)] = strings.TrimSuffix(l, "\r")
		}
	}
	return found
}

// corpus is a tree with everything that makes a difference between two searches.
func corpus(t testing.TB) string {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, root, map[string]string{
		"a.go": "package a\n\nfunc ReadAll(ctx context.Context) error {\n\treturn nil // needle\n}\n\nvar x = 12.5\n", "b.txt": "one\r\ntwo\r\nthree needle\r\n",
		"noeol.txt": "first\nlast needle", "empty": "", "blank.txt": "\n\n\n", "long.txt": strings.Repeat("x", 5000) + "needle\nshort\n",
		"uni.txt": "héllo wörld\n日本語 needle\nNEEDLE Needle nEEdle\n\u212a is kelvin, k and K\nſ is a long s\n", "deep/er/c.py": "def f(a, b):\n    '''doc'''\n    return a+b\n",
		"bad.txt": "ok line\nbroken \xff\xfe bytes needle\nafter \xe9t\xe9\n", "tabs.txt": "\tone\n\t\ttwo \n", "we:ird 12:3.txt": "needle: 4:5\n", "-dash.txt": "needle -x\n",
		"multi.c": "struct {\n  int x;\n  field y;\n}\nstruct {}\n", "repeat.txt": "aaa\naaaa\nab ab ab\n", "brackets.txt": "a[0] = b{1}; c(2) | d.e * f+g ? h ^ $ i\\j\n",
		"bom.txt": "\ufeffbom needle\nnext\n", "many.txt": strings.Repeat("line needle\nother\n", 3000),
	})
	for name, b := range map[string][]byte{
		"utf16.txt": encoded(t, "wide needle\nsecond\n"), "nul.bin": []byte("needle\x00needle\n"),
	} {
		if err := os.WriteFile(filepath.Join(root, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func encoded(t testing.TB, s string) []byte {
	t.Helper()
	b, err := file.Text{Encoding: file.UTF16LE}.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// patterns are compared with ripgrep one by one. Their letters are ASCII where classes are, since \w,
// \d and \b are those of ASCII here.
var patterns = []string{
	`needle`, `Needle`, `(?i)needle`, `(?i)k`, `(?i)s is`, `^needle`, `needle$`, `two$`, `^\s+`, `^\t`, `\s+$`, `^$`, `a+`, `a{2,3}$`, `(ab ?)+`, `[a-c]\[`,
	`\bneedle\b`, `\w+\(`, `\d+\.\d+`, `[^a-z\n ]+`, `.`, `..*needle`, `x{100}`, `func \w+\(ctx`, `日本`, `h.llo`, `[é]`, `one|two|three`, `(?:one|two) ?`, `\x41`, `needle|NEEDLE`,
	`\(2\)`, `\|`, `\\j`, `\^ \$`, `[[:upper:]]{3}`, `[[:digit:]]`, `[^[:space:]]+:`, `broken.*bytes`, `a.{0,3}b`, `-x`, `\.`, `(a)(a)`, `()`, `x*`, `(?s)one.two`, `(?-i:N)eedle`, `\pL+ö`, `[\d-]`, `\Bedle`, `\S{900}`, `[^\x00]`,
}

// compared are the patterns, or some of them where each takes long.
func compared() []string {
	if raced {
		return patterns[:6]
	}
	return patterns
}

// The lines that are found are those that ripgrep finds, with ripgrep's help and without it.
func TestGrepAsRipgrep(t *testing.T) {
	rg := LookRipgrep("")
	if rg == "" {
		t.Fatal("ripgrep is needed (Debian: apt-get install ripgrep)")
	}
	root := corpus(t)
	start := target(t, root, "")
	for _, p := range compared() {
		for _, multiline := range []bool{false, true} {
			args := []string{"-e", asciiClasses(p)}
			if !strings.ContainsAny(p, "[") && !strings.Contains(p, `\s`) { // a CR is a blank here, and no line end
				args = append(args, "--crlf")
			}
			if multiline {
				args = append([]string{"-U", "--multiline-dotall"}, args...)
			}
			want := rgLines(t, rg, root, args...)
			for name := range want {
				// What is in a file with a NUL is not searched, and ripgrep stops there.
				if strings.HasPrefix(name, filepath.Join(root, "nul.bin")) {
					delete(want, name)
				}
			}
			for _, help := range []string{"", rg} {
				q := GrepQuery{Start: start, Pattern: p, Mode: ModeContent, Multiline: multiline, Ripgrep: help}
				a := grepAll(t, q)
				got := map[string]string{}
				for _, f := range a.Files {
					for _, h := range f.Hits {
						got[fmt.Sprintf("%s:%d", f.Path, h.Number)] = h.Text
					}
				}
				if lost := missing(want, got); len(lost) > 0 {
					t.Errorf("%q (multiline %v, %s) misses %q", p, multiline, a.Strategy, lost)
				}
				if more := missing(got, want); len(more) > 0 {
					t.Errorf("%q (multiline %v, %s) has too much: %q", p, multiline, a.Strategy, more)
				}
				for _, m := range []Mode{ModeFiles, ModeCount} {
					q.Mode = m
					files := grepAll(t, q).Files
					if !slices.EqualFunc(files, a.Files, func(x, y FileHits) bool {
						return x.Path == y.Path && (m == ModeFiles || multiline || x.Count == len(y.Hits))
					}) {
						t.Errorf("%q (multiline %v) in mode %s: %d files, %d in content", p, multiline, m, len(files), len(a.Files))
					}
				}
			}
		}
	}
}

// asciiClasses is a pattern for ripgrep whose classes know ASCII only.
func asciiClasses(p string) string {
	return strings.NewReplacer(`\\`, `\\`, `\w`, `[0-9A-Za-z_]`, `[\d-]`, `[0-9-]`, `\d`, `[0-9]`, `\s`, `[\t\n\f\r ]`, `\S`, `[^\t\n\f\r ]`, `\b`, `(?-u:\b)`, `\B`, `(?-u:\B)`).Replace(p)
}

func missing(a, b map[string]string) (out []string) {
	for k := range a {
		if _, ok := b[k]; !ok {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out[:min(len(out), 5)]
}

// With ripgrep and without it the whole answer is the same, for every way to ask.
func TestGrepSameWithRipgrep(t *testing.T) {
	rg := LookRipgrep("")
	if rg == "" {
		t.Fatal("ripgrep is needed (Debian: apt-get install ripgrep)")
	}
	root := corpus(t)
	write(t, root, map[string]string{".gitignore": "tabs.txt\n", ".hidden": "needle\n", "node_modules/x.js": "needle\n"})
	start := target(t, root, "")
	for _, p := range compared() {
		for _, q := range []GrepQuery{{Mode: ModeFiles}, {Mode: ModeCount}, {Mode: ModeContent, Before: 2, After: 1}, {Mode: ModeContent, Fold: true}, {Mode: ModeContent, Glob: "*.txt"}, {Mode: ModeContent, Type: "go"}, {Mode: ModeCount, Multiline: true, Fold: true}, {Mode: ModeContent, Enough: 2}} {
			q.Pattern, q.Start = p, start
			plain := grepAll(t, q)
			q.Ripgrep = rg
			helped := grepAll(t, q)
			if !reflect.DeepEqual(plain.Files, helped.Files) {
				t.Errorf("%+v: %d files natively, %d with ripgrep", q, len(plain.Files), len(helped.Files))
			}
		}
	}
}

// piece is a random piece of a pattern, mostly of letters that the random files have.
func (r random) piece(depth int) string {
	if depth == 0 || r.IntN(3) == 0 {
		return r.pick("a", "b", "ab", "k", "s", "é", ".", `\w`, `\W`, `\d`, `\s`, `\S`, `\b`, `\B`, "^", "$", "[ab]", "[^ab]", "[^a]", `[\W]`, "[[:alpha:]]", `\pL`, `\x{212a}`, `\.`, `\x00`, "-", `\A`, `\z`, "[K-k]", "()", `[^\x00-\x7f]`, `\t`)
	}
	x, y := r.piece(depth-1), r.piece(depth-1)
	switch r.IntN(7) {
	case 0:
		return "(" + x + "|" + y + ")"
	case 1:
		return "(?:" + x + ")" + r.pick("*", "+", "?", "*?", "{2}", "{1,3}", "{2,}?")
	case 2:
		return "(?i:" + x + ")" + y
	case 3:
		return "(?s:" + x + ")" + y
	}
	return x + y
}

// ripgrep leaves out no file that matches: random patterns, over random bytes, in every mode.
func TestGrepRipgrepLeavesNothingOut(t *testing.T) {
	rg := LookRipgrep("")
	if rg == "" {
		t.Fatal("ripgrep is needed (Debian: apt-get install ripgrep)")
	}
	r := random{rand.New(rand.NewPCG(11, 12))}
	root := t.TempDir()
	files := map[string]string{}
	for i := range 60 {
		var b strings.Builder
		for range r.IntN(12) {
			b.WriteString(r.pick("a", "b", "ab", "A", "B", "K", "k", "\u212a", "s", "ſ", "é", "É", "\xff", "\x80\x80", "\xc3", " ", "\t", "\n", "\r\n", "1", "-", "\ufffd", "\xed\xa0\x80"))
		}
		files[fmt.Sprintf("f%d", i)] = b.String()
	}
	write(t, root, files)
	rounds := 250
	if raced {
		rounds = 20
	}
	asked := 0
	start := target(t, root, "")
	for range rounds {
		q := GrepQuery{Start: start, Pattern: r.piece(3), Mode: ModeContent, Fold: r.IntN(3) == 0, Multiline: r.IntN(3) == 0}
		plain, err := Grep(t.Context(), q)
		if err != nil {
			continue // a repetition of what cannot be repeated, say
		}
		q.Ripgrep = rg
		helped := grepAll(t, q)
		if helped.Strategy == "ripgrep" {
			asked++
		}
		if !reflect.DeepEqual(plain.Files, helped.Files) {
			lost := slices.DeleteFunc(plain.Files, func(f FileHits) bool {
				return slices.ContainsFunc(helped.Files, func(h FileHits) bool { return h.Path == f.Path })
			})
			for _, f := range lost {
				t.Errorf("%q (fold %v, multiline %v) is in %q", q.Pattern, q.Fold, q.Multiline, files[filepath.Base(f.Path)])
			}
		}
	}
	if asked < rounds/2 {
		t.Errorf("ripgrep was asked %d times of %d", asked, rounds)
	}
}

// What the model asks for is never an option of the program, and a program that fails is done without.
func TestGrepNoInjection(t *testing.T) {
	root := corpus(t)
	marker := filepath.Join(root, "pwned")
	fake := filepath.Join(t.TempDir(), "rg")
	if err := os.WriteFile(fake, []byte("#!/bin/sh\necho 'no' >&2\nexit 2\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	start := target(t, root, "")
	for _, rg := range []string{LookRipgrep(""), fake, "/does/not/exist"} {
		for _, p := range []string{"--pre=touch " + marker, "-f/etc/passwd", "--files", "-needle", "needle -x"} {
			a := grepAll(t, GrepQuery{Start: start, Pattern: p, Mode: ModeFiles, Ripgrep: rg})
			if want := map[bool]int{true: 1, false: 0}[p == "needle -x"]; len(a.Files) != want {
				t.Errorf("%q with %q: %d files", p, rg, len(a.Files))
			}
		}
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("a pattern ran a program")
	}
}

// Context is what is around, each line once, and lines are numbered from 1.
func TestGrepContext(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{"f": "1\n2\nX3\n4\n5\n6\nX7\nX8\n9"})
	hits := func(before, after int) string {
		a := grepAll(t, GrepQuery{Start: target(t, root, "f"), Pattern: "X", Mode: ModeContent, Before: before, After: after})
		var b strings.Builder
		for _, h := range a.Files[0].Hits {
			fmt.Fprintf(&b, "%v<%d:%s>%v ", h.Before, h.Number, h.Text, h.After)
		}
		return strings.TrimSpace(b.String())
	}
	for _, c := range []struct {
		before, after int
		want          string
	}{
		{0, 0, "[]<3:X3>[] []<7:X7>[] []<8:X8>[]"},
		{1, 0, "[2]<3:X3>[] [6]<7:X7>[] []<8:X8>[]"},
		{0, 1, "[]<3:X3>[4] []<7:X7>[] []<8:X8>[9]"},
		{2, 2, "[1 2]<3:X3>[4 5] [6]<7:X7>[] []<8:X8>[9]"},
		{9, 9, "[1 2]<3:X3>[4 5 6] []<7:X7>[] []<8:X8>[9]"},
	} {
		if got := hits(c.before, c.after); got != c.want {
			t.Errorf("-B%d -A%d: %s, not %s", c.before, c.after, got, c.want)
		}
	}
}

// A file of many windows has the same lines, with context over the seams.
func TestGrepWindows(t *testing.T) {
	root := t.TempDir()
	const small = 64 << 10
	var b strings.Builder
	want := 0
	for i := 0; b.Len() < 20*small+small/2; i++ {
		if i%5_000 == 7 {
			fmt.Fprintf(&b, "line %d needle\n", i)
			want++
		} else {
			fmt.Fprintf(&b, "line %d %s\n", i, strings.Repeat("y", i%80))
		}
	}
	write(t, root, map[string]string{"big.txt": b.String()})
	a := grepAll(t, GrepQuery{Start: target(t, root, ""), Pattern: "needle$", Mode: ModeContent, Before: 3, After: 3, window: small})
	if len(a.Files) != 1 || len(a.Files[0].Hits) != want {
		t.Fatalf("%d hits, not %d", len(a.Files[0].Hits), want)
	}
	for i, h := range a.Files[0].Hits {
		n := i*5_000 + 7
		if h.Number != n+1 || h.Text != fmt.Sprintf("line %d needle", n) || len(h.Before) != 3 || len(h.After) != 3 || !strings.HasPrefix(h.Before[2], fmt.Sprintf("line %d ", n-1)) || !strings.HasPrefix(h.After[0], fmt.Sprintf("line %d ", n+1)) {
			t.Errorf("%+v", h)
		}
	}
	for _, m := range []Mode{ModeFiles, ModeCount} {
		a := grepAll(t, GrepQuery{Start: target(t, root, ""), Pattern: "needle$", Mode: m, window: small})
		if n := map[Mode]int{ModeFiles: 1, ModeCount: want}[m]; len(a.Files) != 1 || a.Files[0].Count != n {
			t.Errorf("%s: %+v", m, a.Files)
		}
	}
}

// However the windows fall, the answer is that of one window.
func TestGrepSeams(t *testing.T) {
	root := t.TempDir()
	r := random{rand.New(rand.NewPCG(3, 4))}
	var b strings.Builder
	for range 400 {
		b.WriteString(strings.Repeat(r.pick("x", "needle ", "é"), r.IntN(12)) + r.pick("\n", "\r\n", "\n\n"))
	}
	write(t, root, map[string]string{"f": b.String() + "needle"})
	for _, q := range []GrepQuery{{Mode: ModeContent}, {Mode: ModeContent, Before: 3, After: 2}, {Mode: ModeContent, Before: 0, After: 9}, {Mode: ModeCount}, {Mode: ModeFiles}} {
		q.Start, q.Pattern = target(t, root, ""), "needle ?$"
		want := grepAll(t, q)
		for _, w := range []int{1, 7, 100, 1000, 5000} {
			q.window = w
			if got := grepAll(t, q); !reflect.DeepEqual(got, want) {
				t.Errorf("%+v: %d files, other than with one window", q, len(got.Files))
			}
		}
	}
}

// Patterns that are refused, each with what is wrong.
func TestGrepBadPatterns(t *testing.T) {
	root := t.TempDir()
	for _, p := range []string{"(", "[a", "a**b[", `\`, "(?=x)", "(?<!x)y", `(a)\1`, "a{1001}", "(((a{100}){100}){100})", "x\ny", `x\ny`, `[\n]`, strings.Repeat("a", maxPattern+1), "\xff", "(?P<n", "*"} {
		_, err := Grep(t.Context(), GrepQuery{Start: target(t, root, ""), Pattern: p, Mode: ModeFiles})
		if abi.CodeOf(err) != file.CodeBadRegex || abi.AsError(err).Type != abi.TypeValidation {
			t.Errorf("%.40q: %v", p, err)
		}
	}
	for _, p := range []string{`x\ny`, "x\ny", `[\n]`} {
		if _, err := Grep(t.Context(), GrepQuery{Start: target(t, root, ""), Pattern: p, Mode: ModeFiles, Multiline: true}); err != nil {
			t.Errorf("multiline %q: %v", p, err)
		}
	}
}

// Which files are searched.
func TestGrepSelection(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{
		"a.go": "x", "b_test.go": "x", "sub/c.go": "x", "sub/d.ts": "x", ".dot.go": "x", ".git/config": "x", "sub/.h/e.go": "x", "app.log": "x", "gen.go": "x",
		".gitignore": "gen.go\nskipped/\n", "skipped/f.go": "x", "Makefile": "x", "x.tsx": "x",
	})
	for _, c := range []struct {
		name string
		q    GrepQuery
		want string
	}{
		{"all", GrepQuery{}, "Makefile a.go b_test.go sub/c.go sub/d.ts x.tsx"},
		{"a glob brings ignored and hidden files back, not folders", GrepQuery{Glob: "*.go"}, ".dot.go a.go b_test.go gen.go sub/c.go"},
		{"a glob that leaves out", GrepQuery{Glob: "!*.go"}, "Makefile sub/d.ts x.tsx"},
		{"a path", GrepQuery{Glob: "sub/*.go"}, "sub/c.go"},
		{"anchored", GrepQuery{Glob: "/*.go"}, ".dot.go a.go b_test.go gen.go"},
		{"braces", GrepQuery{Glob: "*.{ts,tsx}"}, "sub/d.ts x.tsx"},
		{"a hidden folder that is named", GrepQuery{Glob: "sub/.h/*"}, "sub/.h/e.go"},
		{"a default name that is named", GrepQuery{Glob: "*.log"}, "app.log"},
		{"type", GrepQuery{Type: "go"}, "a.go b_test.go sub/c.go"},
		{"type ts", GrepQuery{Type: "ts"}, "sub/d.ts x.tsx"},
		{"type make", GrepQuery{Type: "make"}, "Makefile"},
		{"both", GrepQuery{Type: "go", Glob: "b*"}, "b_test.go"},
	} {
		c.q.Start, c.q.Pattern, c.q.Mode = target(t, root, ""), "x", ModeFiles
		var got []string
		for _, f := range grepAll(t, c.q).Files {
			rel, err := filepath.Rel(root, f.Path)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, filepath.ToSlash(rel))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %s, not %s", c.name, s, c.want)
		}
	}
	for name, q := range map[string]GrepQuery{"type": {Type: "nosuch"}, "glob": {Glob: "[a"}} {
		q.Start, q.Pattern = target(t, root, ""), "x"
		if _, err := Grep(t.Context(), q); abi.CodeOf(err) != map[string]abi.Code{"type": file.CodeUnknownType, "glob": file.CodeArguments}[name] {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// It stops when it is told to, at once, and leaves nothing running.
func TestGrepStops(t *testing.T) {
	root := corpus(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Grep(ctx, GrepQuery{Start: target(t, root, ""), Pattern: "x", Mode: ModeContent}); abi.CodeOf(err) != file.CodeAborted {
		t.Error(err)
	}
	if _, err := Glob(ctx, GlobQuery{Start: target(t, root, ""), Pattern: "**", Max: 10}); abi.CodeOf(err) != file.CodeAborted {
		t.Error(err)
	}
}

// A search that takes too long says so, and how to make it shorter.
func TestGrepTimeout(t *testing.T) {
	_, err := Grep(t.Context(), GrepQuery{Start: target(t, corpus(t), ""), Pattern: "x", Mode: ModeContent, patience: time.Nanosecond})
	if abi.CodeOf(err) != file.CodeTimeout || abi.AsError(err).Type != abi.TypeTimeout {
		t.Error(err)
	}
}

// Files and folders that go, or may not be read, are left out and counted.
func TestGrepUnreadable(t *testing.T) {
	if runtime.GOOS == "windows" || os.Getuid() == 0 {
		// Root reads everything: a link in the place of a listed file does as well.
		root := t.TempDir()
		write(t, root, map[string]string{"a": "x", "b": "x"})
		q := GrepQuery{Start: target(t, root, ""), Pattern: "x", Mode: ModeFiles}
		re, err := compile("x", false, false)
		if err != nil {
			t.Fatal(err)
		}
		g := &grep{ctx: t.Context(), q: q, re: re, files: []string{"a", "b", "gone"}}
		if err := os.Remove(filepath.Join(root, "b")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("a", filepath.Join(root, "b")); err != nil {
			t.Fatal(err)
		}
		var a GrepAnswer
		g.run(&a)
		if len(a.Files) != 1 || g.skipped.Load() != 2 {
			t.Errorf("%+v, %d skipped", a.Files, g.skipped.Load())
		}
		return
	}
	root := t.TempDir()
	write(t, root, map[string]string{"a": "x", "b": "x", "d/c": "x"})
	for _, p := range []string{"b", "d"} {
		if err := os.Chmod(filepath.Join(root, p), 0); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(root, "d"), 0o755) }) // so that it can be removed
	a := grepAll(t, GrepQuery{Start: target(t, root, ""), Pattern: "x", Mode: ModeFiles})
	if len(a.Files) != 1 || a.Skipped != 2 {
		t.Errorf("%+v", a)
	}
}

// What has become a link between the walk and the search is not followed, wherever it leads and however large the
// file is.
func TestGrepSwapped(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs symbolic links")
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root, large := filepath.Join(base, "w"), strings.Repeat("x\n", 300<<10)
	write(t, base, map[string]string{
		"w/a": "x", "w/b": "x", "w/c": large, "w/d/e": "x", "w/d/f": large, "w/g/h": "x", "w/same": "x", "w/i/h": "x",
		"out/a": "x secret", "out/e": "x secret", "out/f": large + "x secret", "w/k/h": "x",
	})
	q := GrepQuery{Start: target(t, root, ""), Pattern: "x", Mode: ModeContent}
	re, err := compile("x", false, false)
	if err != nil {
		t.Fatal(err)
	}
	g := &grep{ctx: t.Context(), q: q, re: re, base: root + "/"}
	f, tree, err := openTree(q.Start)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	g.tree = tree
	var a GrepAnswer
	if err := g.list(&selection{}, &a); err != nil || len(g.files) != 9 {
		t.Fatal(g.files, err)
	}
	for name, to := range map[string]string{"a": "../out/a", "c": "../out/f", "d": "../out", "g": base + "/out", "k": base + "/w/i"} {
		p := filepath.Join(root, name)
		if err := os.RemoveAll(p); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, p); err != nil {
			t.Fatal(err)
		}
	}
	g.run(&a)
	var got []string
	for _, f := range a.Files {
		got = append(got, strings.TrimPrefix(f.Path, root+"/"))
	}
	if s := strings.Join(got, " "); s != "b i/h same" || g.skipped.Load() != 6 {
		t.Errorf("%s are searched, %d skipped", s, g.skipped.Load())
	}
}

// FuzzGrepPattern: a pattern that compiles finds the same with a full scan of each line.
func FuzzGrepPattern(f *testing.F) {
	for _, p := range patterns {
		f.Add(p, "one needle\ntwo\r\nNeedle 12.5\n\nlast")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		std, stdErr := regexp.Compile("(?m)" + pattern)
		if _, err := compile(pattern, false, true); err != nil && stdErr == nil && len(pattern) < 100 && !strings.Contains(pattern, "{") {
			t.Errorf("%q is refused: %v", pattern, err)
		}
		re, err := compile(pattern, false, false)
		if err != nil || len(text) > 10_000 || len(pattern) > 200 || re.whole {
			return
		}
		s := &searcher{g: &grep{ctx: t.Context(), q: GrepQuery{Mode: ModeContent}, re: re}, finder: newFinder(re)}
		w := &windows{s: s, out: &FileHits{}}
		w.take([]byte(text), true)
		var got []int
		for _, h := range w.out.Hits {
			got = append(got, h.Number)
		}
		var want []int
		lines := strings.SplitAfter(text, "\n")
		for i, l := range lines {
			if i == len(lines)-1 && l == "" {
				break
			}
			l = strings.TrimSuffix(l, "\n")
			match := re.re.MatchString(l)
			if match {
				want = append(want, i+1)
			}
			if ascii := strings.ContainsFunc(pattern+l, func(r rune) bool { return r >= 0x80 || r == '\r' }); !ascii && stdErr == nil && std.MatchString(l) != match {
				t.Errorf("%q in %q: %v, other than the standard library", pattern, l, match)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q in %q: lines %v, not %v", pattern, text, got, want)
		}
	})
}
