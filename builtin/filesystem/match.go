package filesystem

import (
	"context"
	"sort"
	"strings"
	"unicode/utf8"
)

// span is a range of bytes.
type span struct{ from, to int }

// Strategies of finding the text to replace, in the order they are tried.
const (
	strategyExact    = "exact"
	strategyQuotes   = "normalize_quotes"
	strategyUnescape = "unescape"
	strategyIndent   = "flexible"
)

// found is where an old_string is in a text.
type found struct {
	strategy string
	spans    []span
	// fresh makes the replacement for one of the spans.
	fresh func(s span) string
}

// locate finds old in text. fresh text is written the way the file is: with its
// line ends, quotes and indentation.
func locate(ctx context.Context, text, old, fresh string) found {
	if f := literal(text, old, fresh); f.spans != nil {
		return f
	}
	// Line ends do not count; what is put in gets those of the file.
	flat, back := flatten(text)
	eol := "\n"
	if crlf(text) {
		eol = "\r\n"
	}
	f := approach(ctx, flat, lf(old), lf(fresh))
	if f.spans == nil {
		return found{}
	}
	return f.through(back, eol)
}

// literal is the plain case: the bytes as they are. Where the file has CR LF and the
// texts do not, it is left to what knows about line ends.
func literal(text, old, fresh string) found {
	if strings.Contains(text, "\r\n") && !strings.Contains(old, "\r") && strings.Contains(old+fresh, "\n") {
		return found{}
	}
	spans := occurrences(text, old)
	if spans == nil {
		return found{}
	}
	if !strings.Contains(text, "\r\n") && !strings.Contains(old, "\r") && strings.Contains(text, "\n") {
		fresh = lf(fresh)
	}
	if strings.Contains(old, "\r\n") && !strings.Contains(fresh, "\r") && lf(old) != fresh { // only the line ends were to change, else
		if strings.Count(old, "\r\n") == strings.Count(old, "\n") || crlf(text) {
			fresh = strings.ReplaceAll(fresh, "\n", "\r\n")
		}
	}
	return found{strategyExact, spans, func(span) string { return fresh }}
}

// approach tries the strategies on texts with plain line ends.
func approach(ctx context.Context, text, old, fresh string) found {
	if spans := occurrences(text, old); spans != nil {
		return found{strategyExact, spans, func(span) string { return fresh }}
	}
	if f := byQuotes(text, old, fresh); f.spans != nil {
		return f
	}
	if plain := unescape(old); plain != old {
		if spans := occurrences(text, plain); spans != nil {
			fresh := unescape(fresh)
			return found{strategyUnescape, spans, func(span) string { return fresh }}
		}
	}
	return byIndent(ctx, text, old, fresh)
}

// occurrences are where old is in text, from left to right without overlaps.
func occurrences(text, old string) (out []span) {
	if old == "" {
		return nil
	}
	for at := 0; ; {
		i := strings.Index(text[at:], old)
		if i < 0 {
			return out
		}
		out = append(out, span{at + i, at + i + len(old)})
		at += i + len(old)
	}
}

// back leads from offsets of a shortened text to those of the text it was made of.
type back struct{ at, lost []int } // behind offset at[i], lost[i] bytes are missing

func (b back) offset(p int) int {
	i := sort.SearchInts(b.at, p) // the first at >= p: what was lost before p counts
	if i == 0 {
		return p
	}
	return p + b.lost[i-1]
}

func (b *back) lose(at, n int) {
	if k := len(b.lost); k > 0 {
		n += b.lost[k-1]
	}
	b.at, b.lost = append(b.at, at), append(b.lost, n)
}

// flatten is text with LF for every CR LF.
func flatten(text string) (string, back) {
	if !strings.Contains(text, "\r\n") {
		return text, back{}
	}
	var out strings.Builder
	out.Grow(len(text))
	var b back
	for {
		i := strings.Index(text, "\r\n")
		if i < 0 {
			out.WriteString(text)
			return out.String(), b
		}
		out.WriteString(text[:i])
		b.lose(out.Len(), 1) // an offset behind the LF has lost the CR
		out.WriteByte('\n')
		text = text[i+2:]
	}
}

// through turns spans of the flat text into those of the file, and line ends into its.
func (f found) through(b back, eol string) found {
	inner, flat := f.fresh, map[span]span{}
	spans := make([]span, len(f.spans))
	for i, s := range f.spans {
		spans[i] = span{b.offset(s.from), b.offset(s.to)}
		flat[spans[i]] = s
	}
	f.spans = spans
	f.fresh = func(s span) string { return strings.ReplaceAll(inner(flat[s]), "\n", eol) }
	return f
}

func lf(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

func crlf(s string) bool {
	n := strings.Count(s, "\r\n")
	return n*2 > strings.Count(s, "\n")
}

// straight are the straight forms of curly quotes.
var straight = strings.NewReplacer("‘", "'", "’", "'", "“", `"`, "”", `"`)

// byQuotes finds old where only the shape of quotes differs.
func byQuotes(text, old, fresh string) found {
	if !strings.ContainsAny(text+old, "‘’“”") {
		return found{}
	}
	plain, back := straighten(text)
	want := straight.Replace(old)
	spans := occurrences(plain, want)
	if spans == nil {
		return found{}
	}
	for i, s := range spans {
		spans[i] = span{back.offset(s.from), back.offset(s.to)}
	}
	return found{strategyQuotes, spans, func(s span) string { return requote(text[s.from:s.to], old, fresh) }}
}

func straighten(text string) (string, back) {
	var out strings.Builder
	out.Grow(len(text))
	var b back
	for {
		i := strings.IndexAny(text, "‘’“”")
		if i < 0 {
			out.WriteString(text)
			return out.String(), b
		}
		out.WriteString(text[:i])
		r, n := utf8.DecodeRuneInString(text[i:])
		b.lose(out.Len(), n-1)
		out.WriteString(straight.Replace(string(r)))
		text = text[i+n:]
	}
}

// requote gives fresh the quotes of the text it replaces: what it shares with old at the start and
// the end stays as the file has it, and new quotes are curly where the file's are.
func requote(have, old, fresh string) string {
	h, o, f := []rune(have), []rune(old), []rune(fresh)
	pre := 0
	for pre < len(o) && pre < len(f) && o[pre] == f[pre] {
		pre++
	}
	post := 0
	for post < len(o)-pre && post < len(f)-pre && o[len(o)-1-post] == f[len(f)-1-post] {
		post++
	}
	curlyDouble, curlySingle := strings.ContainsAny(have, "“”"), strings.ContainsAny(have, "‘’")
	out := append([]rune(nil), h[:pre]...)
	for _, r := range f[pre : len(f)-post] {
		last := ' '
		if len(out) > 0 {
			last = out[len(out)-1]
		}
		opens := strings.ContainsRune(" \t\n([{<—–", last)
		switch {
		case !curlyDouble && (r == '“' || r == '”'):
			r = '"'
		case !curlySingle && (r == '‘' || r == '’'):
			r = '\''
		case r == '"' && curlyDouble && opens:
			r = '“'
		case r == '"' && curlyDouble:
			r = '”'
		case r == '\'' && curlySingle && opens:
			r = '‘'
		case r == '\'' && curlySingle:
			r = '’'
		}
		out = append(out, r)
	}
	return string(append(out, h[len(h)-post:]...))
}

// unescape resolves backslashes of a text that was escaped once too often: a run of them with one of n,
// t, r, a quote, a backquote, a backslash or a line end behind it becomes one character.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			i++
			continue
		}
		k := i
		for k < len(s) && s[k] == '\\' {
			k++
		}
		if k < len(s) {
			if c := strings.IndexByte("ntr'\"`\n", s[k]); c >= 0 {
				b.WriteByte("\n\t\r'\"`\n"[c])
				i = k + 1
				continue
			}
		}
		b.WriteByte('\\') // of several, the others escape the last
		i = k
	}
	return b.String()
}

// byIndent finds lines that differ only in how far all of them are indented.
func byIndent(ctx context.Context, text, old, fresh string) found {
	want := strings.Split(old, "\n")
	lead := indentOf(want[0])
	if len(want) < 2 || lead == "" {
		return found{}
	}
	for i := range want {
		want[i] = strings.TrimPrefix(want[i], lead)
	}
	lines := strings.SplitAfter(text, "\n")
	starts := make([]int, len(lines)+1)
	for i, l := range lines {
		starts[i+1] = starts[i] + len(l)
	}
	var out found
	budget := maxLineCompares
	for i := 0; i+len(want) <= len(lines) && budget > 0; i++ {
		if i%1024 == 0 && ctx.Err() != nil {
			break
		}
		own := indentOf(lines[i])
		if !sameLines(lines[i:i+len(want)], want, own, &budget) {
			continue
		}
		last := i + len(want) - 1
		s := span{starts[i], starts[last] + len(strings.TrimSuffix(lines[last], "\n"))}
		if n := len(out.spans); n > 0 && s.from < out.spans[n-1].to {
			continue
		}
		out.spans = append(out.spans, s)
	}
	out.strategy = strategyIndent
	out.fresh = func(s span) string { return reindent(fresh, lead, indentOf(text[s.from:s.to])) }
	return out
}

// maxLineCompares bounds the lines that byIndent compares, a long one counting as several: in a file of lines that are all alike it would
// compare each with each. Beyond it, nothing more is found.
const maxLineCompares = 20_000_000

func sameLines(lines, want []string, own string, budget *int) bool {
	for i, w := range want {
		*budget -= 1 + len(w)/16
		if strings.TrimPrefix(strings.TrimSuffix(lines[i], "\n"), own) != w {
			return false
		}
	}
	return true
}

func indentOf(line string) string {
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}

// reindent puts the indentation of the file in the place of the one old_string had. Text whose
// first line has none was meant to start where the old text does.
func reindent(text, from, to string) string {
	lines := strings.Split(text, "\n")
	bare := indentOf(lines[0]) == "" && lines[0] != ""
	for i, l := range lines {
		switch {
		case strings.TrimLeft(l, " \t") == "":
		case bare:
			lines[i] = to + l
		case strings.HasPrefix(l, from):
			lines[i] = to + l[len(from):]
		}
	}
	return strings.Join(lines, "\n")
}
