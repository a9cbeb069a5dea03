package search

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// hitsOf are the hits of a pattern in a text, for each mode; plain leaves the finding to RE2.
func hitsOf(t testing.TB, re *regex, text string, plain bool) []FileHits {
	var all []FileHits
	for _, q := range []GrepQuery{{Mode: ModeContent, Before: 1, After: 2}, {Mode: ModeCount}, {Mode: ModeFiles}} {
		q.plain = plain
		s := &searcher{g: &grep{ctx: t.Context(), q: q, re: re}, finder: newFinder(re)}
		w := &windows{s: s, out: &FileHits{}}
		w.take([]byte(text), true)
		w.out.size = 0
		all = append(all, *w.out)
	}
	return all
}

func checkLines(t testing.TB, pattern, text string, fold bool) {
	t.Helper()
	re, err := compile(pattern, fold, false)
	if err != nil {
		return
	}
	// Long enough to be looked at in parts too, with what does not match in front.
	long := strings.Repeat("-\n", len(text)%700) + strings.Repeat(text+"\n.\n", minDFAParts/(len(text)+3)+1) + text
	for _, text := range []string{text, long} {
		if got, want := hitsOf(t, re, text, false), hitsOf(t, re, text, true); !reflect.DeepEqual(got, want) {
			t.Errorf("%q (fold %v) in %q:\n%+v, not\n%+v", pattern, fold, text, got, want)
		}
	}
}

// FuzzLines: the automaton and the texts that are looked for first find the lines that RE2 finds, in every mode.
func FuzzLines(f *testing.F) {
	for _, p := range patterns {
		f.Add(p, "one needle\ntwo\r\nNeedle 12.5\n\nlast", false)
		f.Add(p, "größer\nk \u212a ſ\n\xff needle\nNEEDLE\n", true)
	}
	f.Add(`(a|b)*a(a|b){12}c`, strings.Repeat("abbaab", 50)+"c\n", false)
	f.Fuzz(func(t *testing.T, pattern, text string, fold bool) {
		if len(pattern) < 200 && len(text) < 10_000 {
			checkLines(t, pattern, text, fold)
		}
	})
}

// Random patterns over random lines: what is found does not depend on how.
func TestLines(t *testing.T) {
	r := random{rand.New(rand.NewPCG(41, 42))}
	rounds := 1500
	if raced {
		rounds = 100
	}
	for range rounds {
		var b strings.Builder
		for range r.IntN(60) {
			b.WriteString(r.pick("a", "b", "ab", "A", "B", "K", "k", "\u212a", "s", "ſ", "é", "É", "\xff", " ", "\t", "\n", "\n", "\r\n", "1", "-", "\ufffd", "aab", "\x00", "."))
		}
		pattern := r.piece(3)
		for range r.IntN(3) {
			pattern += r.pick("", "|") + r.piece(2)
		}
		checkLines(t, pattern, b.String(), r.IntN(3) == 0)
	}
}

// Where the automaton would be too large, or most lines are not ASCII, the answer is the same.
func TestLinesGiveUp(t *testing.T) {
	r := random{rand.New(rand.NewPCG(43, 44))}
	var b strings.Builder
	for i := range 3000 {
		for range 30 {
			b.WriteString(r.pick("a", "b"))
		}
		fmt.Fprintf(&b, "%s\n", r.pick("", "c", "x", "größer c"))
		if i == 1500 {
			b.WriteString(strings.Repeat("日本語 aac\n", 200))
		}
	}
	const large = `(a|b)*a(a|b){12}c`
	checkLines(t, large, b.String(), false)
	for _, p := range []string{`aa?c`, `a c|b c`, `日本|aab+x`, `[^a]c$`, `er c`} {
		checkLines(t, p, b.String(), false)
	}
	re, err := compile(large, false, false)
	if err != nil {
		t.Fatal(err)
	}
	f := newFinder(re)
	f.re = &regex{re: re.re} // no text to look for first
	text, at, what := []byte(b.String()), 0, foundLine
	for what == foundLine {
		_, at, what = f.next(text, at, len(text))
		at++
	}
	if what != foundLong || f.dfa != nil {
		t.Errorf("an automaton of %s is made to its end: %v", large, what)
	}
	re, err = compile(`\w{600}x`, false, false)
	if err != nil {
		t.Fatal(err)
	}
	if newFinder(re).dfa != nil {
		t.Error("the automaton of a long pattern is begun")
	}
}

// The place behind a part that RE2 gets is no line of its own.
func TestEmptyMatchBetweenSegments(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "f"), []byte(strings.Repeat("é is no empty line\n", 2*segment/20)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"^$", `^\s*$`} {
		if a := grepAll(t, GrepQuery{Start: target(t, root, ""), Pattern: p, Mode: ModeCount}); len(a.Files) > 0 {
			t.Errorf("%s: %+v", p, a.Files)
		}
	}
}
