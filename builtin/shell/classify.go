package shell

import (
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// maxJudged bounds the command lines that may narrow, in bytes. Longer ones are
// only run as they are.
const maxJudged = 4096

// readOnly reports whether a command line is one simple command that reads and
// does nothing else, and gives its words: the words that bash would make of it.
// Those words are then run without a shell, so that what was judged is what runs.
//
// It fails closed: whatever it does not know well is not read-only.
func readOnly(line string) (argv []string, ok bool) {
	words, ok := literalWords(line)
	if !ok {
		return nil, false
	}
	if !ruleFor(words[0]).allows(words) {
		return nil, false
	}
	return words, true
}

// literalWords are the words of a line that is one simple command of literal
// words: no list, pipe, redirection, assignment, expansion, substitution, glob,
// escape or comment.
func literalWords(line string) ([]string, bool) {
	if len(line) > maxJudged || !plainText(line) {
		return nil, false
	}
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true)).Parse(strings.NewReader(line), "")
	if err != nil || len(f.Stmts) != 1 || len(f.Last) > 0 {
		return nil, false
	}
	s := f.Stmts[0]
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(s.Redirs) > 0 || s.Background || s.Coprocess || s.Negated || s.Disown || s.Semicolon.IsValid() ||
		len(s.Comments) > 0 || len(call.Assigns) > 0 || len(call.Args) == 0 {
		return nil, false
	}
	words := make([]string, 0, len(call.Args))
	for _, w := range call.Args {
		text, ok := literal(w)
		if !ok {
			return nil, false
		}
		words = append(words, text)
	}
	return words, true
}

// plainText refuses what parsers and terminals read differently: control
// characters, line ends, comments, odd spaces, marks that turn the reading order,
// and invalid UTF-8.
func plainText(s string) bool {
	for _, r := range s {
		switch {
		case r < ' ' && r != '\t', r == 0x7f, r == '#', r == utf8.RuneError, r >= 0x80 && oddRune(r):
			return false
		}
	}
	return true
}

// oddRune reports spaces that are no blanks for bash, invisible characters and
// direction marks.
func oddRune(r rune) bool {
	switch {
	case r < 0xa1, r == 0xad, r == 0x61c, r == 0x1680, r == 0x180e, r >= 0x2000 && r <= 0x200f, r >= 0x2028 && r <= 0x202f,
		r >= 0x205f && r <= 0x206f, r == 0x3000, r == 0xfeff, r >= 0xfff0 && r <= 0xffff, r >= 0xe0000:
		return true
	}
	return false
}

// special are the characters of an unquoted word that mean something to bash
// there: globs, braces, escapes, expansions, home folders and history.
const special = "*?[]{}\\`$~!^"

// literal is the text of a word without expansions.
func literal(w *syntax.Word) (string, bool) {
	var b strings.Builder
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(p.Value, special) {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			if p.Dollar {
				return "", false
			}
			for _, q := range p.Parts {
				lit, ok := q.(*syntax.Lit)
				if !ok || !inQuotes(&b, lit.Value) {
					return "", false
				}
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

// inQuotes writes what bash makes of text between double quotes. There a
// backslash counts only before another one, a quote, a dollar sign or a backtick.
func inQuotes(b *strings.Builder, s string) bool {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '`', '$', '!', '\n':
			return false
		case '\\':
			if i+1 == len(s) {
				return false
			}
			switch s[i+1] {
			case '\\', '"', '$', '`':
				i++
			case '\n', '!':
				return false
			}
		}
		b.WriteByte(s[i])
	}
	return true
}

// Categories of a command, for the rules that are suggested to a person.
const (
	categoryReadOnly    = "readonly"
	categoryWrite       = "write"
	categoryDestructive = "destructive"
)

// category says which of the three a command line is.
func category(line string) string {
	if _, ok := readOnly(line); ok {
		return categoryReadOnly
	}
	if destructive(line) {
		return categoryDestructive
	}
	return categoryWrite
}

// ruleSuggestion is the wider rule that is suggested for a command: its category
// and first two words.
func ruleSuggestion(line string) string {
	w := strings.Fields(line)
	switch len(w) {
	case 0:
		return category(line) + ":"
	case 1:
		return category(line) + ":" + w[0]
	case 2:
		return category(line) + ":" + w[0] + " " + w[1]
	}
	return category(line) + ":" + w[0] + " " + w[1] + " *"
}
