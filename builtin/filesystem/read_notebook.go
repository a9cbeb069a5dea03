package filesystem

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/file"
)

// maxOutput is where one output of a cell is cut, in UTF-16 code units.
const maxOutput = 10_000

// notebook returns the cells of a notebook as text; one that is broken comes as the text it is.
func (r *reader) notebook(ctx context.Context) (*abi.Result, error) {
	if r.st.Size > maxWhole {
		return r.text(ctx)
	}
	b, err := r.whole(ctx)
	if err != nil {
		return nil, err
	}
	n, err := parseNotebook(b)
	if err != nil {
		res, e := r.decoded(ctx, file.Decode(b))
		if e == nil {
			res.SetMeta("note", "shown as text, because it is no notebook: "+err.Error())
		}
		return res, e
	}
	text := n.text()
	if text == "" {
		text = "[the notebook has no cells]"
	}
	offset, limit := r.in.lines()
	p, err := slice(ctx, strings.NewReader(text), offset, limit, -1)
	if err != nil {
		return nil, err
	}
	res, err := r.lines(p, "utf8", false)
	if err != nil {
		return nil, err
	}
	if !r.in.sliced() && !p.more() { // all of it: cells need no numbers
		res.Model = abi.String(p.text)
	}
	res.SetMeta("cell_count", len(n.cells))
	return res, nil
}

// text is the notebook for reading: each cell behind a line with its id and type.
func (n *notebook) text() string {
	var b strings.Builder
	for i := range n.cells {
		c := &n.cells[i]
		if i > 0 {
			b.WriteString("\n\n")
		}
		fmt.Fprintf(&b, "--- cell %s (%s", n.label(i), c.text("cell_type"))
		if raw, ok := c.get("execution_count"); ok && string(raw) != "null" {
			fmt.Fprintf(&b, ", run %s", raw)
		}
		b.WriteString(") ---\n")
		raw, _ := c.get("source")
		b.WriteString(joined(raw))
		raw, _ = c.get("outputs")
		var outputs []map[string]json.RawMessage
		_ = json.Unmarshal(raw, &outputs) // another type counts as none
		for _, o := range outputs {
			head, text := output(o)
			if short, cut := file.Cut(text, maxOutput); cut {
				text = fmt.Sprintf("%s\n[cut: %d characters in all]", short, file.Units(text))
			}
			fmt.Fprintf(&b, "\n--- output: %s ---\n%s", head, strings.TrimRight(text, "\n"))
		}
	}
	return b.String()
}

// joined is a multi-line string of a notebook: a string or a list of them.
func joined(raw json.RawMessage) string {
	var s string
	var list []string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	_ = json.Unmarshal(raw, &list) // another type counts as empty
	return strings.Join(list, "")
}

var ansi = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

// output is what an output is, and its text.
func output(o map[string]json.RawMessage) (head, text string) {
	str := func(name string) string { return joined(o[name]) }
	switch kind := str("output_type"); kind {
	case "stream":
		return str("name"), str("text")
	case "error":
		var trace []string
		_ = json.Unmarshal(o["traceback"], &trace) // another type counts as none
		text = str("ename") + ": " + str("evalue")
		if len(trace) > 0 {
			text = ansi.ReplaceAllString(strings.Join(trace, "\n"), "")
		}
		return "error", text
	default:
		var data map[string]json.RawMessage
		_ = json.Unmarshal(o["data"], &data) // another type counts as none
		var parts []string
		for _, mime := range slices.Sorted(maps.Keys(data)) {
			switch {
			case mime == "text/plain":
				parts = append(parts, joined(data[mime]))
			case strings.HasPrefix(mime, "image/"):
				parts = append(parts, fmt.Sprintf("[%s, %d characters]", mime, len(joined(data[mime]))))
			case data["text/plain"] == nil:
				parts = append(parts, fmt.Sprintf("[%s] %s", mime, joined(data[mime])))
			}
		}
		return kind, strings.Join(parts, "\n")
	}
}
