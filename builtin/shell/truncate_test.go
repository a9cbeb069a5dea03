package shell

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

type truncated struct {
	Command string          `json:"command"`
	Lines   int             `json:"lines"`
	Width   int             `json:"width"`
	Info    *string         `json:"truncation_info"`
	Stdout  json.RawMessage `json:"stdout"`
}

var (
	ourMarker   = regexp.MustCompile(`\.\.\. \((\d+) lines left out: the first (\d+) and the last (\d+) of (\d+) are shown\) \.\.\.`)
	theirMarker = regexp.MustCompile(`<marker (\d+),(\d+),(\d+),(\d+)>`)
	summary     = regexp.MustCompile(`\[Summary: [^\]]*\]$`)
)

// The handed vectors: the same lines are shown, with our words in between.
func TestFitHanded(t *testing.T) {
	for _, c := range handed[truncated](t, "bash-truncation.jsonl") {
		var lines []string
		for i := range c.Lines {
			lines = append(lines, fmt.Sprintf("%0*d", max(1, c.Width), i+1))
		}
		got := fit(c.Command, captured{head: strings.Join(lines, "\n") + "\n"})
		if got.truncated != (c.Info != nil) {
			t.Errorf("%s, %d lines: truncated %v", c.Command, c.Lines, got.truncated)
		}
		text := ourMarker.ReplaceAllString(got.text, "<marker $1,$2,$3,$4>")
		var whole string
		var ends struct{ Head, Tail string }
		switch {
		case json.Unmarshal(c.Stdout, &whole) == nil:
			want := summary.ReplaceAllString(whole, fmt.Sprintf("[Summary: %d lines of output]", c.Lines))
			if text != want {
				t.Errorf("%s, %d lines: %q\nwant %q", c.Command, c.Lines, text, want)
			}
		case json.Unmarshal(c.Stdout, &ends) == nil:
			if !strings.HasPrefix(text, ends.Head) || !strings.HasSuffix(text, ends.Tail) {
				t.Errorf("%s, %d lines of %d: %q", c.Command, c.Lines, c.Width, text)
			}
			head, tail, _ := strings.Cut(text, "\n\n... (the output is over")
			if _, tail, _ = strings.Cut(tail, "...\n\n"); len(head) != budgetFor(c.Command).chars/2-50 || len(tail) != len(head) {
				t.Errorf("%s: %d and %d characters", c.Command, len(head), len(tail))
			}
		default:
			t.Fatalf("%s", c.Stdout)
		}
	}
	if theirMarker.FindString("<marker 1,2,3,4>") == "" {
		t.Error("the vectors have another marker")
	}
}

// What is not in the vectors.
func TestFit(t *testing.T) {
	many := strings.Repeat("line\n", 1000)
	for name, c := range map[string]struct {
		line        string
		c           captured
		starts, has string
		most        int
	}{
		"nothing":          {c: captured{}, most: 0},
		"blanks":           {c: captured{head: "  \n\t"}, most: 0},
		"one long line":    {c: captured{head: strings.Repeat("x", 16000)}, starts: "xxx", has: "over 15000", most: 15000},
		"never twice":      {c: captured{head: strings.Repeat("x", 8000) + "\n" + strings.Repeat("y", 8000)}, starts: "xxx", has: "over 15000", most: 15000},
		"surrogates":       {c: captured{head: strings.Repeat("𝄞", 9000)}, starts: "𝄞", has: "over", most: 15000},
		"dropped":          {c: captured{head: many, tail: many, dropped: 7, lines: 5000}, starts: "line", has: "of 5000 are shown", most: 15000},
		"dropped one line": {c: captured{head: strings.Repeat("a", keepEnd), tail: strings.Repeat("b", keepEnd), dropped: 99}, starts: "aaa", has: "bbb", most: 15000},
		"summary":          {line: "npm install", c: captured{head: many}, starts: "line", has: "[Summary: 1000 lines of output]", most: 3000},
		"wide word":        {line: "npminstall x", c: captured{head: strings.Repeat("line\n", 140)}, starts: "line", has: "line", most: 15000},
	} {
		got := fit(c.line, c.c)
		if !strings.HasPrefix(got.text, c.starts) || !strings.Contains(got.text, c.has) || utf16Len(got.text) > c.most+100 || !utf8.ValidString(got.text) {
			t.Errorf("%s: %d units, %.100q", name, utf16Len(got.text), got.text)
		}
	}
	got := fit("", captured{head: strings.Repeat("x", 8000) + "\n" + strings.Repeat("y", 8000)})
	if strings.Count(got.text, "x") != 7450 || strings.Count(got.text, "y") != 7450 {
		t.Error("a part is shown twice or lost")
	}
}
