package search

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	re2 "github.com/wasilibs/go-re2"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/file"
)

// maxPattern bounds a pattern, in bytes.
const maxPattern = 64 << 10

// regex is a compiled pattern.
type regex struct {
	re *re2.Regexp
	// need is a text that every match has, or empty.
	need []byte
	// whole says that it looks for the start or the end of the text.
	whole bool
	// lines says that a match is always within a line, and tree is the pattern then.
	lines bool
	tree  *syntax.Regexp
	// literal says that the pattern is need, and nothing else, in ASCII.
	literal bool
	// rust is the same pattern for ripgrep, or empty where it has no form there.
	rust string
}

// compile compiles a pattern of RE2's grammar. Unless it is for several lines, nothing in it matches
// the end of a line, so that a match is always within one.
func compile(pattern string, fold, multiline bool) (*regex, error) {
	bad := func(err error) error {
		return file.Error(abi.TypeValidation, file.CodeBadRegex, "pattern is no regular expression: %v. The grammar is RE2's: no look-around and no back-references; put a backslash in front of ( ) [ ] { } . * + ? | ^ $ to find them as they are.", err)
	}
	if len(pattern) > maxPattern {
		return nil, bad(fmt.Errorf("it has %d bytes, at most %d are allowed", len(pattern), maxPattern))
	}
	if !utf8.ValidString(pattern) {
		return nil, bad(fmt.Errorf("it is not UTF-8"))
	}
	flags := syntax.Perl &^ syntax.OneLine
	if fold {
		flags |= syntax.FoldCase
	}
	if multiline {
		flags |= syntax.DotNL
	}
	tree, err := syntax.Parse(pattern, flags)
	if err != nil {
		return nil, bad(err)
	}
	if !multiline {
		if tree, err = withinLine(tree); err != nil {
			return nil, bad(err)
		}
	} else {
		tree = carriage(tree)
	}
	x := &regex{need: []byte(required(tree)), whole: anchored(tree)}
	if !multiline && !x.whole {
		x.lines, x.tree = true, tree
		x.literal = tree.Op == syntax.OpLiteral && tree.Flags&syntax.FoldCase == 0 && !strings.ContainsFunc(string(tree.Rune), func(r rune) bool { return r >= utf8.RuneSelf })
	}
	if x.re, err = re2.Compile(tree.String()); err != nil {
		return nil, bad(err)
	}
	var b strings.Builder
	if !mayBeEmpty(tree) && rust(&b, tree) { // ripgrep sees no empty match at the end of a file
		x.rust = b.String()
	}
	return x, nil
}

// carriage lets the end of a line also be a CR LF.
func carriage(t *syntax.Regexp) *syntax.Regexp {
	if t.Op == syntax.OpEndLine {
		cr := &syntax.Regexp{Op: syntax.OpQuest, Sub: []*syntax.Regexp{{Op: syntax.OpLiteral, Rune: []rune{'\r'}}}}
		return &syntax.Regexp{Op: syntax.OpConcat, Sub: []*syntax.Regexp{cr, {Op: syntax.OpEndLine}}}
	}
	out := *t
	out.Sub = slices.Clone(t.Sub)
	for i := range out.Sub {
		out.Sub[i] = carriage(out.Sub[i])
	}
	return &out
}

// withinLine takes the LF out of everything that could match it.
func withinLine(t *syntax.Regexp) (*syntax.Regexp, error) {
	out := *t
	switch t.Op {
	case syntax.OpLiteral:
		if slices.Contains(t.Rune, '\n') {
			return nil, fmt.Errorf("it has a line end in it, which only matches with multiline set")
		}
	case syntax.OpAnyChar:
		out.Op = syntax.OpAnyCharNotNL
	case syntax.OpCharClass:
		out.Rune = without(t.Rune, '\n')
		if len(out.Rune) == 0 {
			if len(t.Rune) > 0 {
				return nil, fmt.Errorf("it has a line end in it, which only matches with multiline set")
			}
			out.Op = syntax.OpNoMatch
		}
	case syntax.OpEndLine:
		return carriage(t), nil
	}
	out.Sub = slices.Clone(t.Sub)
	for i := range out.Sub {
		sub, err := withinLine(out.Sub[i])
		if err != nil {
			return nil, err
		}
		out.Sub[i] = sub
	}
	return &out, nil
}

// without is a class, in pairs of bounds, less one rune.
func without(pairs []rune, r rune) (out []rune) {
	for i := 0; i+1 < len(pairs); i += 2 {
		lo, hi := pairs[i], pairs[i+1]
		if r < lo || r > hi {
			out = append(out, lo, hi)
			continue
		}
		if lo < r {
			out = append(out, lo, r-1)
		}
		if r < hi {
			out = append(out, r+1, hi)
		}
	}
	return out
}

// required is the longest text that is in every match, as far as can be seen.
func required(t *syntax.Regexp) string {
	switch t.Op {
	case syntax.OpLiteral:
		if t.Flags&syntax.FoldCase == 0 {
			return string(t.Rune)
		}
		// Only letters fold; what is left of the rest counts.
		best, run := "", ""
		for _, r := range t.Rune {
			if unicode.SimpleFold(r) != r {
				run = ""
				continue
			}
			if run += string(r); len(run) > len(best) {
				best = run
			}
		}
		return best
	case syntax.OpConcat:
		best := ""
		for _, s := range t.Sub {
			if r := required(s); len(r) > len(best) {
				best = r
			}
		}
		return best
	case syntax.OpCapture, syntax.OpPlus:
		return required(t.Sub[0])
	case syntax.OpRepeat:
		if t.Min > 0 {
			return required(t.Sub[0])
		}
	}
	return ""
}

// rust writes the pattern so that Rust's regex matches at least what RE2 does: every class is spelled
// out, and where RE2 takes a byte that is no character for U+FFFD, any such byte fits. It reports false
// where there is no such form.
func rust(b *strings.Builder, t *syntax.Regexp) bool {
	switch t.Op {
	case syntax.OpEmptyMatch:
		b.WriteString("(?:)")
	case syntax.OpLiteral:
		for _, r := range t.Rune {
			rustRune(b, r, t.Flags&syntax.FoldCase != 0)
		}
	case syntax.OpCharClass:
		return rustClass(b, t.Rune)
	case syntax.OpAnyCharNotNL:
		b.WriteString(`(?:[^\n]|` + surrogate + `|(?-u:[\x80-\xff]))`)
	case syntax.OpAnyChar:
		b.WriteString(`(?:(?s:.)|` + surrogate + `|(?-u:[\x80-\xff]))`)
	case syntax.OpBeginLine:
		b.WriteString("(?m:^)")
	case syntax.OpEndLine:
		b.WriteString("(?m:$)")
	case syntax.OpBeginText:
		b.WriteString(`\A`)
	case syntax.OpEndText:
		b.WriteString(`\z`)
	case syntax.OpWordBoundary:
		b.WriteString(`(?-u:\b)`)
	case syntax.OpNoWordBoundary:
		b.WriteString(`(?-u:\B)`)
	case syntax.OpCapture:
		return rustGroup(b, t.Sub[0], "")
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		return rustGroup(b, t.Sub[0], suffix(t))
	case syntax.OpConcat, syntax.OpAlternate:
		b.WriteString("(?:")
		for i, s := range t.Sub {
			if i > 0 && t.Op == syntax.OpAlternate {
				b.WriteByte('|')
			}
			if !rust(b, s) {
				return false
			}
		}
		b.WriteByte(')')
	default:
		return false
	}
	return true
}

func rustGroup(b *strings.Builder, t *syntax.Regexp, suffix string) bool {
	b.WriteString("(?:")
	if !rust(b, t) {
		return false
	}
	b.WriteString(")" + suffix)
	return true
}

func suffix(t *syntax.Regexp) string {
	s := map[syntax.Op]string{syntax.OpStar: "*", syntax.OpPlus: "+", syntax.OpQuest: "?"}[t.Op]
	if t.Op == syntax.OpRepeat {
		s = fmt.Sprintf("{%d,%d}", t.Min, t.Max)
		if t.Max < 0 {
			s = fmt.Sprintf("{%d,}", t.Min)
		}
	}
	if t.Flags&syntax.NonGreedy != 0 {
		s += "?"
	}
	return s
}

func rustRune(b *strings.Builder, r rune, fold bool) {
	if !fold || unicode.SimpleFold(r) == r {
		fmt.Fprintf(b, `\x{%x}`, r)
		return
	}
	b.WriteByte('[')
	fmt.Fprintf(b, `\x{%x}`, r)
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		fmt.Fprintf(b, `\x{%x}`, f)
	}
	b.WriteByte(']')
}

// rustClass writes a class; Rust has no surrogates.
func rustClass(b *strings.Builder, pairs []rune) bool {
	const low, high = 0xd800, 0xdfff
	var set strings.Builder
	broken, half := false, false
	put := func(lo, hi rune) {
		if lo <= hi {
			fmt.Fprintf(&set, `\x{%x}-\x{%x}`, lo, hi)
		}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		lo, hi := pairs[i], pairs[i+1]
		broken = broken || (lo <= utf8.RuneError && utf8.RuneError <= hi)
		half = half || (lo <= high && low <= hi)
		put(lo, min(hi, low-1))
		put(max(lo, high+1), hi)
	}
	if set.Len() == 0 {
		return false
	}
	b.WriteString("(?:[" + set.String() + "]")
	if half {
		b.WriteString("|" + surrogate)
	}
	if broken {
		b.WriteString(`|(?-u:[\x80-\xff])`)
	}
	b.WriteByte(')')
	return true
}

// surrogate is half of a pair in the form of UTF-8, which RE2 takes for one character.
const surrogate = `(?-u:\xed[\xa0-\xbf][\x80-\xbf])`

// anchored reports whether a pattern looks for the start or the end of the text.
func anchored(t *syntax.Regexp) bool {
	return t.Op == syntax.OpBeginText || t.Op == syntax.OpEndText || slices.ContainsFunc(t.Sub, anchored)
}

// mayBeEmpty reports whether a match can have no letters.
func mayBeEmpty(t *syntax.Regexp) bool {
	switch t.Op {
	case syntax.OpLiteral, syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL, syntax.OpNoMatch:
		return false
	case syntax.OpCapture, syntax.OpPlus:
		return mayBeEmpty(t.Sub[0])
	case syntax.OpRepeat:
		return t.Min == 0 || mayBeEmpty(t.Sub[0])
	case syntax.OpConcat:
		return !slices.ContainsFunc(t.Sub, func(s *syntax.Regexp) bool { return !mayBeEmpty(s) })
	case syntax.OpAlternate:
		return slices.ContainsFunc(t.Sub, mayBeEmpty)
	}
	return true
}
