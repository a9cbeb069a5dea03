package shell

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// budget is how much of one stream a model is shown.
type budget struct {
	lines, chars int // most lines, and UTF-16 code units
	ends         int // lines kept at each end of what is longer
	summary      bool
}

// The budgets, by what a command line starts with. The numbers are those that
// agents were tuned with.
func budgetFor(line string) budget {
	small, medium, large := budget{30, 3000, 10, true}, budget{100, 10000, 40, true}, budget{200, 20000, 80, false}
	for _, row := range []struct {
		start *regexp.Regexp
		b     budget
	}{
		{gitChange, small}, {packageChange, small}, {packageBuild, medium}, {packageTest, large},
		{gitState, budget{100, 10000, 40, false}}, {gitHistory, large}, {listing, medium}, {search, medium},
		{container, small}, {python, small}, {rust, medium}, {golang, medium},
	} {
		if row.start.MatchString(line) {
			return row.b
		}
	}
	return budget{150, 15000, 50, false}
}

var (
	gitChange     = regexp.MustCompile(`(?i)^git\s+(rm|add)\b`)
	packageChange = regexp.MustCompile(`(?i)^(npm|pnpm|yarn|bun)\s+(install|i|add|remove|uninstall)\b`)
	packageBuild  = regexp.MustCompile(`(?i)^(npm|pnpm|yarn|bun)\s+(run|exec)\s+(build|compile|bundle)\b`)
	packageTest   = regexp.MustCompile(`(?i)^(npm|pnpm|yarn|bun)\s+(run|exec)\s+(test|lint|check)\b`)
	gitState      = regexp.MustCompile(`(?i)^git\s+(status|branch|remote)\b`)
	gitHistory    = regexp.MustCompile(`(?i)^git\s+(log|diff|show)\b`)
	listing       = regexp.MustCompile(`(?i)^(ls|dir|tree|find)\s`)
	search        = regexp.MustCompile(`(?i)^(grep|rg|ag)\s`)
	container     = regexp.MustCompile(`(?i)^(docker|podman)\s+(build|pull|push)\b`)
	python        = regexp.MustCompile(`(?i)^(pip|pip3|poetry|pipenv)\s+(install|uninstall)\b`)
	rust          = regexp.MustCompile(`(?i)^(cargo|rustup)\s+(build|install|update)\b`)
	golang        = regexp.MustCompile(`(?i)^go\s+(build|get|mod)\b`)
)

// shown is a stream as a model is shown it.
type shown struct {
	text      string
	before    int64 // lines
	after     int
	truncated bool
}

// fit cuts a stream to the budget of its command.
func fit(line string, c captured) shown {
	b := budgetFor(line)
	out := shown{text: strings.TrimSpace(c.head), before: 1}
	if c.dropped > 0 {
		out.text = strings.TrimLeft(c.head, spaces) + fmt.Sprintf("\n... (%d bytes are left out here) ...\n", c.dropped) + strings.TrimRight(c.tail, spaces)
		out.before = c.lines + 1
		if strings.HasSuffix(c.tail, "\n") {
			out.before--
		}
	} else {
		out.before = int64(strings.Count(out.text, "\n")) + 1
	}
	out.after = int(out.before)
	if c.dropped == 0 && out.before <= int64(b.lines) && utf16Len(out.text) <= b.chars {
		return out
	}
	out.truncated = true
	out.text = cutLines(out.text, out.before, b)
	if n := utf16Len(out.text); n > b.chars {
		keep := b.chars/2 - 50
		out.text = firstUnits(out.text, keep) + fmt.Sprintf("\n\n... (the output is over %d characters; its middle is left out) ...\n\n", b.chars) + lastUnits(out.text, keep)
	}
	if b.summary {
		out.text += fmt.Sprintf("\n\n[Summary: %d lines of output]", out.before)
	}
	out.after = strings.Count(out.text, "\n") + 1
	return out
}

const spaces = " \t\r\n\v\f"

// cutLines keeps the first and the last lines of what has more than the budget.
func cutLines(text string, total int64, b budget) string {
	if total <= int64(b.lines) {
		return text
	}
	lines := strings.Split(text, "\n")
	if len(lines) <= 2*b.ends {
		return text // long lines of which some are lost already
	}
	return strings.Join(lines[:b.ends], "\n") +
		fmt.Sprintf("\n\n... (%d lines left out: the first %d and the last %d of %d are shown) ...\n\n", total-int64(2*b.ends), b.ends, b.ends, total) +
		strings.Join(lines[len(lines)-b.ends:], "\n")
}

// utf16Len is the length of a text in UTF-16 code units.
func utf16Len(s string) int {
	n := 0
	for _, r := range s {
		if n++; r > 0xffff {
			n++
		}
	}
	return n
}

// firstUnits is the longest beginning of s that has at most n units and cuts no
// character.
func firstUnits(s string, n int) string {
	for i, r := range s {
		if n--; r > 0xffff {
			n--
		}
		if n < 0 {
			return s[:i]
		}
	}
	return s
}

// lastUnits is the longest end of s that has at most n units and cuts no
// character.
func lastUnits(s string, n int) string {
	i := len(s)
	for i > 0 {
		r, size := utf8.DecodeLastRuneInString(s[:i])
		if n--; r > 0xffff {
			n--
		}
		if n < 0 {
			break
		}
		i -= size
	}
	return s[i:]
}
