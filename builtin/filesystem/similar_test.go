package filesystem

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/host"
)

// patience is a context that ends when it was asked often enough.
type patience struct {
	context.Context
	left int
}

func (p *patience) Err() error {
	if p.left--; p.left < 0 {
		return context.Canceled
	}
	return nil
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d,%d\n", i, i*7%1000)
	}
	return b.String()
}

// What is done for a text that is not there is bounded, and ends with its context.
func TestSimilarBounded(t *testing.T) {
	text := numbered(400_000)
	for name, old := range map[string]string{
		"much":   strings.Repeat("111,222\n333,444\n555,666\n", 30) + "x",
		"common": strings.Repeat("11,77\n12,84\n", 50) + "x",
		"one":    "1234,56789",
	} {
		lines := strings.Split(text, "\n")
		l := &looker{ctx: t.Context(), lines: lines, height: strings.Count(old, "\n") + 1, want: measure(old)}
		l.all(old)
		if l.measured > maxMeasured+8*compareUnits || l.compared > maxCompared {
			t.Errorf("%s: %d bytes measured, %d compared", name, l.measured, l.compared)
		}
		p := &patience{t.Context(), 3}
		l = &looker{ctx: p, lines: lines, height: l.height, want: l.want}
		if l.all(old); p.left < -20 || l.compared > 3 {
			t.Errorf("%s: went on: asked %d more times, %d compared", name, -p.left, l.compared)
		}
	}
	// Lines that are all alike: each place would be compared to its end.
	p := &patience{t.Context(), 2}
	alike := strings.Repeat("\tsame\n", 100_000)
	if f := byIndent(p, alike, strings.Repeat("  same\n", 500)+"  other", "x"); f.spans != nil || p.left < -2 {
		t.Errorf("%d spans, asked %d more times", len(f.spans), -p.left)
	}
}

// A place far down in a large file is found by a line that it shares.
func TestSimilarFarDown(t *testing.T) {
	text := numbered(300_000) + "func far() {\n\treturn compute(1, 2)\n}\n"
	got := resembling(t.Context(), strings.Split(text, "\n"), "func far() {\n\treturn computed(1, 2)\n}")
	if len(got) == 0 || got[0].Line != 300_001 || got[0].Similarity < 0.9 {
		t.Errorf("%+v", got)
	}
}

// A missed Edit that is stopped says so, and lets the session go on.
func TestEditMissedStopped(t *testing.T) {
	r := newRoom(t, map[string]string{"a.txt": numbered(10)})
	r.ok("Read", map[string]any{"file_path": "a.txt"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	raw, err := json.Marshal(map[string]any{"file_path": r.path("a.txt"), "old_string": "nowhere", "new_string": "x"})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := r.s.Run(ctx, host.Call{Tool: "Edit", Input: raw}); err == nil && !res.IsError() {
		t.Errorf("%s", res.Model)
	}
	r.ok("Edit", map[string]any{"file_path": "a.txt", "old_string": "0,0\n", "new_string": "x\n"})
}

// What is put in has the line ends of the file, however old_string was written.
func TestEditLineEnds(t *testing.T) {
	for _, c := range []struct{ text, old, fresh, want string }{
		{"a\r\nb\r\nc\r\n", "a\r\n", "x\ny\n", "x\r\ny\r\nb\r\nc\r\n"},
		{"a\r\nb\r\nc\r\n", "a\r\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n"},
		{"a\r\nb\r\nc\r\n", "a", "x\ny", "x\r\ny\r\nb\r\nc\r\n"},
		{"a\r\nb\nc\n", "a\r\n", "x\ny\n", "x\r\ny\r\nb\nc\n"},
		{"a\nb\r\n", "b\r\n", "x\ny\r\n", "a\nx\ny\r\n"},           // it says which
		{"a\r\nb\r\nc\r\n", "a\r\nb\r\n", "a\nb\n", "a\nb\nc\r\n"}, // nothing else was to change
		{"a\nb\n", "a\n", "x\r\ny\r\n", "x\ny\nb\n"},
	} {
		m := locate(t.Context(), c.text, c.old, c.fresh)
		if len(m.spans) != 1 || applied(c.text, m) != c.want {
			t.Errorf("%q %q %q: %q", c.text, c.old, c.fresh, applied(c.text, m))
		}
	}
}
