package filesystem

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/bladehost/bladehost/abi"
)

const (
	// diffContext is how many lines around a change a diff shows.
	diffContext = 4
	// maxDiff bounds the texts that are compared, and the diff, in bytes.
	maxDiff = 1 << 20
)

// snippet is a diff as callers find it in a text.
type snippet struct {
	Patch     string `json:"patch"`
	StartLine int    `json:"startLine"`
	MatchLine int    `json:"matchLine"`
}

func (s snippet) String() string {
	raw, err := abi.Marshal(s)
	if err != nil { // strings and numbers always have a JSON form
		return ""
	}
	return "\n<<<DIFF>>>\n" + string(raw) + "\n<<</DIFF>>>\n"
}

// unified is a unified diff of two texts whose first line has the number start.
func unified(before, after string, start int) string {
	var b strings.Builder
	b.WriteString("Index: file\n" + strings.Repeat("=", 67) + "\n--- file\n+++ file\n")
	u, err := udiff.ToUnifiedDiff("file", "file", before, udiff.Lines(before, after), diffContext)
	if err != nil { // the edits are of these texts
		return ""
	}
	for _, h := range u.Hunks {
		var old, fresh int
		var lines strings.Builder
		for _, l := range h.Lines {
			mark := " "
			switch l.Kind {
			case udiff.Delete:
				mark = "-"
				old++
			case udiff.Insert:
				mark = "+"
				fresh++
			default:
				old++
				fresh++
			}
			lines.WriteString(mark + l.Content)
			if !strings.HasSuffix(l.Content, "\n") {
				lines.WriteString("\n\\ No newline at end of file\n")
			}
		}
		fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n%s", h.FromLine+start-1, old, h.ToLine+start-1, fresh, lines.String())
		if b.Len() > maxDiff {
			return ""
		}
	}
	return b.String()
}

// excerpt is the diff around the first of several replacements.
func excerpt(text string, spans []span, fresh func(span) string) snippet {
	first := spans[0]
	line := strings.Count(text[:first.from], "\n") + 1
	from, to := first.from, first.to
	for range diffContext + 1 {
		from = strings.LastIndexByte(text[:from], '\n')
		if from < 0 {
			break
		}
	}
	from++
	for i := 0; i <= diffContext && to < len(text); i++ {
		k := strings.IndexByte(text[to:], '\n')
		if k < 0 {
			to = len(text)
			break
		}
		to += k + 1
	}
	var after strings.Builder
	at := from
	for _, s := range spans {
		if s.to > to { // not as a whole in the excerpt
			break
		}
		after.WriteString(text[at:s.from] + fresh(s))
		at = s.to
	}
	after.WriteString(text[at:to])
	start := max(1, line-diffContext)
	if to-from > maxDiff || after.Len() > maxDiff {
		return snippet{StartLine: start, MatchLine: line}
	}
	return snippet{Patch: unified(text[from:to], after.String(), start), StartLine: start, MatchLine: line}
}

func hexHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
