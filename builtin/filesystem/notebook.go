package filesystem

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bladehost/bladehost/abi"
)

// notebook is a Jupyter notebook as its bytes, and where in them its cells are. Changes
// are made in the bytes: what is not changed stays as it is, unknown members, order,
// numbers and layout included.
type notebook struct {
	src []byte
	// open and close are the offsets behind the [ and of the ] of the cells.
	open, close int
	cells       []cell
	// ids says that the format demands ids of cells (nbformat 4.5).
	ids bool
	// unit is one step of indentation and nl the end of a line, both empty in a file of one line;
	// colon parts name and value.
	unit, nl, colon string
}

// cell is one cell.
type cell struct {
	start, end int // in notebook.src
	members    []jsonMember
}

// jsonMember is a member of an object, with its value as it is in the file.
type jsonMember struct {
	name  string
	value json.RawMessage
}

// errNoCells: it is JSON, but no notebook.
type errNoCells struct{ why string }

func (e errNoCells) Error() string { return e.why }

// parseNotebook finds the cells. The error is an errNoCells where the JSON is none of a
// notebook.
func parseNotebook(src []byte) (*notebook, error) {
	body := bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(body) {
		return nil, errors.New("it is not UTF-8")
	}
	if !json.Valid(body) {
		var v any
		return nil, fmt.Errorf("it is no JSON: %w", json.Unmarshal(body, &v))
	}
	n := &notebook{src: src, open: -1}
	base := len(src) - len(body)
	top, err := objectOf(body, func(name string, dec *json.Decoder) (bool, error) {
		if name != "cells" {
			return false, nil
		}
		if n.open >= 0 {
			return false, errNoCells{"it has cells twice"}
		}
		return true, n.parseCells(base, body, dec)
	})
	if err != nil {
		return nil, err
	}
	if n.open < 0 {
		return nil, errNoCells{"it has no cells"}
	}
	n.ids = formatOf(top) >= 4005
	n.layout(body)
	return n, nil
}

// formatOf is major*1000 + minor of the notebook's format, 0 if it does not say.
func formatOf(top []jsonMember) int {
	v := func(name string) (i int) {
		k := slices.IndexFunc(top, func(m jsonMember) bool { return m.name == name })
		if k < 0 || json.Unmarshal(top[k].value, &i) != nil {
			return 0
		}
		return i
	}
	return v("nbformat")*1000 + v("nbformat_minor")
}

// objectOf reads the members of an object. take may read a value itself.
func objectOf(src []byte, take func(name string, dec *json.Decoder) (bool, error)) ([]jsonMember, error) {
	dec := json.NewDecoder(bytes.NewReader(src))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, errNoCells{"it is no object"}
	}
	var out []jsonMember
	seen := map[string]bool{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := tok.(string) // names are strings
		if seen[name] {
			return nil, errNoCells{fmt.Sprintf("it has the member %q twice", name)}
		}
		seen[name] = true
		if take != nil {
			if taken, err := take(name, dec); err != nil {
				return nil, err
			} else if taken {
				continue
			}
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, err
		}
		out = append(out, jsonMember{name, raw})
	}
	return out, nil
}

func (n *notebook) parseCells(base int, body []byte, dec *json.Decoder) error {
	if tok, err := dec.Token(); err != nil || tok != json.Delim('[') {
		return errNoCells{"its cells are no list"}
	}
	n.open = base + int(dec.InputOffset())
	for dec.More() {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return err
		}
		end := int(dec.InputOffset())
		members, err := objectOf(body[end-len(raw):end], nil)
		if err != nil {
			return errNoCells{fmt.Sprintf("cell %d: %v", len(n.cells), err)}
		}
		n.cells = append(n.cells, cell{base + end - len(raw), base + end, members})
	}
	if _, err := dec.Token(); err != nil {
		return err
	}
	n.close = base + int(dec.InputOffset()) - 1
	return nil
}

// layout looks at how the first member is written.
func (n *notebook) layout(body []byte) {
	rest := body[bytes.IndexByte(body, '{')+1:]
	blank := rest[:len(rest)-len(bytes.TrimLeft(rest, " \t\r\n"))]
	n.colon = ":"
	if i := bytes.LastIndexByte(blank, '\n'); i >= 0 {
		n.unit, n.nl = string(blank[i+1:]), "\n"
		if i > 0 && blank[i-1] == '\r' {
			n.nl = "\r\n"
		}
	}
	// The first colon behind the first name: a name in a notebook has none.
	if i := bytes.Index(rest, []byte(`":`)); i >= 0 && bytes.HasPrefix(rest[i+2:], []byte(" ")) {
		n.colon = ": "
	}
}

func (c *cell) get(name string) (json.RawMessage, bool) {
	i := slices.IndexFunc(c.members, func(m jsonMember) bool { return m.name == name })
	if i < 0 {
		return nil, false
	}
	return c.members[i].value, true
}

func (c *cell) text(name string) string {
	var s string
	raw, _ := c.get(name)
	_ = json.Unmarshal(raw, &s) // another type counts as none
	return s
}

func (c *cell) set(name string, value json.RawMessage) {
	i := slices.IndexFunc(c.members, func(m jsonMember) bool { return m.name == name })
	if i < 0 {
		c.members = append(c.members, jsonMember{name, value})
		return
	}
	c.members[i].value = value
}

func (c *cell) remove(names ...string) {
	c.members = slices.DeleteFunc(c.members, func(m jsonMember) bool { return slices.Contains(names, m.name) })
}

// label is the cell's id, or cell-<index> where it has none.
func (n *notebook) label(i int) string {
	if id := n.cells[i].text("id"); id != "" {
		return id
	}
	return fmt.Sprintf("cell-%d", i)
}

// find is the index of a cell by its id or label, or -1.
func (n *notebook) find(id string) int {
	for i := range n.cells {
		if n.cells[i].text("id") == id {
			return i
		}
	}
	for i := range n.cells {
		if n.cells[i].text("id") == "" && n.label(i) == id {
			return i
		}
	}
	return -1
}

// named is how many cells have an id.
func (n *notebook) named(id string) (count int) {
	for i := range n.cells {
		if n.cells[i].text("id") == id {
			count++
		}
	}
	return count
}

// indent is the start of a line at a depth.
func (n *notebook) indent(depth int) string { return n.nl + strings.Repeat(n.unit, depth) }

// source is a text as the value of source: its lines, or a string where asString.
func (n *notebook) source(text string, asString bool) json.RawMessage {
	if asString {
		return abi.String(text)
	}
	var b bytes.Buffer
	b.WriteByte('[')
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if i > 0 {
			b.WriteByte(',')
			if n.nl == "" && n.colon == ": " {
				b.WriteByte(' ')
			}
		}
		b.WriteString(n.indent(4))
		b.Write(abi.String(line))
	}
	b.WriteString(n.indent(3) + "]")
	return b.Bytes()
}

// render is a cell in the file's layout.
func (n *notebook) render(c *cell) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range c.members {
		if i > 0 {
			b.WriteByte(',')
			if n.nl == "" && n.colon == ": " {
				b.WriteByte(' ')
			}
		}
		b.WriteString(n.indent(3))
		b.Write(abi.String(m.name))
		b.WriteString(n.colon)
		b.Write(m.value)
	}
	b.WriteString(n.indent(2) + "}")
	return b.Bytes()
}

// splice puts text in the place of src[from:to].
func (n *notebook) splice(from, to int, text []byte) []byte {
	return slices.Concat(n.src[:from], text, n.src[to:])
}

// replace gives a cell another source, and another type if kind is not empty. What a run
// left in a code cell goes with the source that it came from.
func (n *notebook) replace(i int, text, kind string) []byte {
	c := &n.cells[i]
	old := c.text("cell_type")
	if kind == "" {
		kind = old
	}
	if kind != old {
		c.set("cell_type", abi.String(kind))
	}
	raw, _ := c.get("source")
	c.set("source", n.source(text, len(raw) > 0 && raw[0] == '"'))
	switch kind {
	case "code":
		c.set("execution_count", json.RawMessage("null"))
		c.set("outputs", json.RawMessage("[]"))
		c.remove("attachments")
	case old:
	default:
		c.remove("execution_count", "outputs")
	}
	return n.splice(c.start, c.end, n.render(c))
}

// insert puts a new cell behind the cell at, or in front of all with -1.
func (n *notebook) insert(at int, text, kind string) (src []byte, id string) {
	c := &cell{}
	if n.ids {
		id = n.newID()
		c.set("id", abi.String(id))
	}
	c.members = slices.Insert(c.members, 0, jsonMember{"cell_type", abi.String(kind)})
	if kind == "code" {
		c.set("execution_count", json.RawMessage("null"))
	}
	c.set("metadata", json.RawMessage("{}"))
	if kind == "code" {
		c.set("outputs", json.RawMessage("[]"))
	}
	c.set("source", n.source(text, false))
	body := n.render(c)
	sep := []byte("," + n.indent(2))
	switch {
	case len(n.cells) == 0:
		return n.splice(n.open, n.close, slices.Concat([]byte(n.indent(2)), body, []byte(n.indent(1)))), id
	case at < 0:
		return n.splice(n.cells[0].start, n.cells[0].start, slices.Concat(body, sep)), id
	}
	return n.splice(n.cells[at].end, n.cells[at].end, slices.Concat(sep, body)), id
}

// newID is an id that no cell has.
func (n *notebook) newID() string {
	for {
		var b [4]byte
		_, _ = rand.Read(b[:]) // never fails
		if id := hex.EncodeToString(b[:]); n.find(id) < 0 {
			return id
		}
	}
}

// remove takes a cell out.
func (n *notebook) remove(i int) []byte {
	switch {
	case len(n.cells) == 1:
		return n.splice(n.open, n.close, nil)
	case i == len(n.cells)-1:
		return n.splice(n.cells[i-1].end, n.cells[i].end, nil)
	}
	return n.splice(n.cells[i].start, n.cells[i+1].start, nil)
}
