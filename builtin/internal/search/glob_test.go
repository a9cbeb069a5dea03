package search

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// below never leaves out a folder that holds a match: if a path matches, every folder on its way is
// entered.
func checkBelow(t *testing.T, pattern, path string, fold bool) {
	t.Helper()
	p, ok := newPattern(pattern, fold)
	if !ok || strings.Contains(path, "//") || strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") || !p.match(path) {
		return
	}
	for i, c := range path {
		if c == '/' && !p.below(path[:i]) {
			t.Errorf("%q matches %q, but %q is not entered", pattern, path, path[:i])
		}
	}
}

func TestGlobEntersWhatMatches(t *testing.T) {
	r := random{rand.New(rand.NewPCG(21, 22))}
	matched := 0
	for range 200_000 {
		var pattern, path []string
		for range 1 + r.IntN(4) {
			pattern = append(pattern, r.pick("a", "b", "*", "**", "?", "a*", "[ab]", "{a,b}", "{a,b/a}", "**a", "{**,a}", "{a/**,b}"))
		}
		for range 1 + r.IntN(4) {
			path = append(path, r.pick("a", "b", "ab", "A"))
		}
		p, ok := newPattern(strings.Join(pattern, "/"), false)
		if ok && p.match(strings.Join(path, "/")) {
			matched++
		}
		checkBelow(t, strings.Join(pattern, "/"), strings.Join(path, "/"), r.IntN(2) == 0)
	}
	if matched < 1000 {
		t.Errorf("only %d paths matched", matched)
	}
}

// FuzzGlob: patterns never panic, and a folder that holds a match is entered.
func FuzzGlob(f *testing.F) {
	for _, s := range [][2]string{{"**/*.go", "a/b/c.go"}, {"{a,b/c}/*", "b/c/d"}, {"[a-c]/**", "b/x/y"}, {"a/{b,c}/**/d", "a/c/d"}, {`\*`, "*"}, {"{", "a"}, {"a{b", "a"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if CheckGlob("/pattern", pattern) != nil || len(path) > 200 {
			return
		}
		checkBelow(t, pattern, path, false)
		checkBelow(t, pattern, path, true)
		if g, err := newFileGlob(pattern); err == nil {
			g.match(path)
		}
		Relative("/w", pattern)
	})
}
