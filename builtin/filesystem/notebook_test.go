package filesystem

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/builtin/internal/file"
)

const sample = `{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "md",
   "metadata": {"x": 1.50},
   "source": [
    "# Head\n",
    "text"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 3,
   "id": "code",
   "metadata": {},
   "outputs": [{"output_type": "stream", "name": "stdout", "text": ["1\n"]}],
   "source": "print(1)"
  }
 ],
 "metadata": {"z": 1e5, "a": "<b>"},
 "nbformat": 4,
 "nbformat_minor": 5
}
`

// BLT-12: what each mode changes, and nothing else: the rest of the file is the same to the byte.
func TestNotebookEdit(t *testing.T) {
	for _, c := range []struct {
		name string
		in   map[string]any
		from string // what is replaced in the sample
		to   string
		id   string
	}{
		{"replace markdown", map[string]any{"cell_id": "md", "new_source": "a\nb"}, "\"# Head\\n\",\n    \"text\"", "\"a\\n\",\n    \"b\"", "md"},
		{"a line end at the end", map[string]any{"cell_id": "md", "new_source": "a\n"}, "\"# Head\\n\",\n    \"text\"", "\"a\\n\",\n    \"\"", "md"},
		{"empty", map[string]any{"cell_id": "md", "new_source": ""}, "\"# Head\\n\",\n    \"text\"", "\"\"", "md"},
		{"letters of HTML", map[string]any{"cell_id": "md", "new_source": "<a&b> é"}, "\"# Head\\n\",\n    \"text\"", "\"<a&b> é\"", "md"},
		{"replace code clears its outputs", map[string]any{"cell_id": "code", "new_source": "x"},
			"\"execution_count\": 3,\n   \"id\": \"code\",\n   \"metadata\": {},\n   \"outputs\": [{\"output_type\": \"stream\", \"name\": \"stdout\", \"text\": [\"1\\n\"]}],\n   \"source\": \"print(1)\"",
			"\"execution_count\": null,\n   \"id\": \"code\",\n   \"metadata\": {},\n   \"outputs\": [],\n   \"source\": \"x\"", "code"},
		{"code to markdown", map[string]any{"cell_id": "code", "new_source": "x", "cell_type": "markdown"},
			"\"cell_type\": \"code\",\n   \"execution_count\": 3,\n   \"id\": \"code\",\n   \"metadata\": {},\n   \"outputs\": [{\"output_type\": \"stream\", \"name\": \"stdout\", \"text\": [\"1\\n\"]}],\n   \"source\": \"print(1)\"",
			"\"cell_type\": \"markdown\",\n   \"id\": \"code\",\n   \"metadata\": {},\n   \"source\": \"x\"", "code"},
		{"markdown to code", map[string]any{"cell_id": "md", "new_source": "x", "cell_type": "code"},
			"\"cell_type\": \"markdown\",\n   \"id\": \"md\",\n   \"metadata\": {\"x\": 1.50},\n   \"source\": [\n    \"# Head\\n\",\n    \"text\"\n   ]\n",
			"\"cell_type\": \"code\",\n   \"id\": \"md\",\n   \"metadata\": {\"x\": 1.50},\n   \"source\": [\n    \"x\"\n   ],\n   \"execution_count\": null,\n   \"outputs\": []\n", "md"},
		{"delete the first", map[string]any{"cell_id": "md", "new_source": "", "edit_mode": "delete"}, sample[strings.Index(sample, "  {\n   \"cell_type\": \"markdown\""):strings.Index(sample, "  {\n   \"cell_type\": \"code\"")], "", "md"},
		{"delete the last", map[string]any{"cell_id": "code", "new_source": "", "edit_mode": "delete"}, sample[strings.Index(sample, ",\n  {\n   \"cell_type\": \"code\""):strings.Index(sample, "\n ],\n \"metadata\"")], "", "code"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRoom(t, map[string]string{"n.ipynb": sample})
			r.ok("Read", map[string]any{"file_path": "n.ipynb"})
			c.in["notebook_path"] = "n.ipynb"
			res := r.ok("NotebookEdit", c.in)
			if strings.Count(sample, c.from) != 1 {
				t.Fatalf("the sample has %d times %q", strings.Count(sample, c.from), c.from)
			}
			if got, want := r.get("n.ipynb"), strings.Replace(sample, c.from, c.to, 1); got != want {
				t.Errorf("it is\n%s\nnot\n%s", got, want)
			}
			if d := data[notebookData](t, res); d.CellID != c.id || d.CellCount == 0 {
				t.Errorf("%+v", d)
			}
		})
	}
}

// New cells: where they go, and the id that newer formats demand.
func TestNotebookInsert(t *testing.T) {
	for _, c := range []struct {
		name, text, after, kind string
		want                    string // %s is the id
		index                   int
	}{
		{"at the top", sample, "", "code", "{\n \"cells\": [\n  {\n   \"cell_type\": \"code\",\n   \"id\": \"%s\",\n   \"execution_count\": null,\n   \"metadata\": {},\n   \"outputs\": [],\n   \"source\": [\n    \"s\"\n   ]\n  },\n  {\n   \"cell_type\": \"markdown\"", 0},
		{"behind one", sample, "md", "markdown", "\"text\"\n   ]\n  },\n  {\n   \"cell_type\": \"markdown\",\n   \"id\": \"%s\",\n   \"metadata\": {},\n   \"source\": [\n    \"s\"\n   ]\n  },\n  {\n   \"cell_type\": \"code\"", 1},
		{"at the end", sample, "code", "markdown", "\"source\": \"print(1)\"\n  },\n  {\n   \"cell_type\": \"markdown\",\n   \"id\": \"%s\",\n   \"metadata\": {},\n   \"source\": [\n    \"s\"\n   ]\n  }\n ],\n \"metadata\"", 2},
		{"into none", "{\n  \"cells\": [],\n  \"nbformat\": 4,\n  \"nbformat_minor\": 4\n}", "", "markdown", "{\n  \"cells\": [\n    {\n      \"cell_type\": \"markdown\",\n      \"metadata\": {},\n      \"source\": [\n        \"s\"\n      ]\n    }\n  ],\n", 0},
		{"on one line", `{"cells":[{"cell_type":"raw","source":[]}],"nbformat":4}`, "cell-0", "code", `{"cells":[{"cell_type":"raw","source":[]},{"cell_type":"code","execution_count":null,"metadata":{},"outputs":[],"source":["s"]}],"nbformat":4}`, 1},
		{"on one line with blanks", `{"cells": [], "nbformat": 4}`, "", "markdown", `{"cells": [{"cell_type": "markdown", "metadata": {}, "source": ["s"]}], "nbformat": 4}`, 0},
		{"with CR LF", "{\r\n \"cells\": []\r\n}\r\n", "", "markdown", "{\r\n \"cells\": [\r\n  {\r\n   \"cell_type\": \"markdown\",\r\n   \"metadata\": {},\r\n   \"source\": [\r\n    \"s\"\r\n   ]\r\n  }\r\n ]\r\n}\r\n", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRoom(t, map[string]string{"n.ipynb": c.text})
			r.ok("Read", map[string]any{"file_path": "n.ipynb"})
			in := map[string]any{"notebook_path": "n.ipynb", "new_source": "s", "edit_mode": "insert", "cell_type": c.kind}
			if c.after != "" {
				in["cell_id"] = c.after
			}
			d := data[notebookData](t, r.ok("NotebookEdit", in))
			want := c.want
			if strings.Contains(want, "%s") {
				want = fmt.Sprintf(want, d.CellID)
				if len(d.CellID) != 8 {
					t.Errorf("the id is %q", d.CellID)
				}
			}
			got := r.get("n.ipynb")
			if !strings.Contains(got, want) || d.CellIndex != c.index || !json.Valid([]byte(got)) {
				t.Errorf("%+v\n%s\nhas not\n%s", d, got, want)
			}
			// The id it was told works for the next call, without reading again.
			r.ok("NotebookEdit", map[string]any{"notebook_path": "n.ipynb", "new_source": "t", "cell_id": d.CellID})
		})
	}
}

// Cells without ids have labels, those that Read shows.
func TestNotebookLabels(t *testing.T) {
	r := newRoom(t, map[string]string{"n.ipynb": `{"cells":[{"cell_type":"code","source":["a"]},{"cell_type":"code","id":"cell-0","source":["b"]}],"nbformat":4}`})
	r.ok("Read", map[string]any{"file_path": "n.ipynb"})
	r.ok("NotebookEdit", map[string]any{"notebook_path": "n.ipynb", "cell_id": "cell-0", "new_source": "B"}) // a real id wins
	r.fails("NotebookEdit", map[string]any{"notebook_path": "n.ipynb", "cell_id": "cell-1", "new_source": "B"}, file.CodeCellNotFound, vErr)
	if got := r.get("n.ipynb"); !strings.Contains(got, `["a"]`) || !strings.Contains(got, `["B"]`) {
		t.Error(got)
	}
}

// What is no notebook, in all its ways.
func TestNotebookBroken(t *testing.T) {
	for text, json := range map[string]bool{
		"": false, "{": false, "[]": true, "7": true, `{"cells":{}}`: true, `{"cells":[7]}`: true, `{"cells":[],"cells":[]}`: true, `{"cells":[{"source":[],"source":[]}]}`: true,
		`{"cells":null}`: true, "{\"cells\":[]}\xff": false, `{"cells":[]}{}`: false, strings.Repeat("[", 20_000): false,
	} {
		r := newRoom(t, map[string]string{"n.ipynb": text})
		r.ok("Read", map[string]any{"file_path": "n.ipynb"})
		kind := xErr
		if json {
			kind = vErr
		}
		r.fails("NotebookEdit", map[string]any{"notebook_path": "n.ipynb", "cell_id": "x", "new_source": ""}, file.CodeNotANotebook, kind)
		if r.get("n.ipynb") != text {
			t.Errorf("%q was changed", text)
		}
	}
}

// FuzzNotebook: a change of a notebook is JSON again, changes the one cell and leaves all others as they
// are, to the byte.
func FuzzNotebook(f *testing.F) {
	f.Add([]byte(sample), "new\nsource", uint8(0), uint8(0))
	f.Add([]byte(`{"cells":[{},{"id":"\u0061","source":null}]}`), "", uint8(1), uint8(1))
	f.Add([]byte("{\r\n\t\"cells\" :[ { } ] }"), "\xff\u2028", uint8(0), uint8(2))
	f.Fuzz(func(t *testing.T, src []byte, text string, at, mode uint8) {
		n, err := parseNotebook(src)
		if err != nil {
			return
		}
		var before [][]byte
		for _, c := range n.cells {
			before = append(before, src[c.start:c.end])
		}
		_ = n.text() // does not panic
		i, touched := int(at), int(at)
		var out []byte
		switch {
		case mode%3 == 0 && i < len(n.cells):
			out = n.replace(i, text, []string{"", "code", "markdown"}[at%3])
		case mode%3 == 1 && i < len(n.cells):
			out, touched = n.remove(i), -1
			before = append(before[:i:i], before[i+1:]...)
		case i <= len(n.cells):
			out, _ = n.insert(i-1, text, []string{"code", "markdown"}[at%2])
			before = append(before[:i:i], append([][]byte{nil}, before[i:]...)...)
		default:
			return
		}
		m, err := parseNotebook(out)
		if err != nil {
			t.Fatalf("%q became %q: %v", src, out, err)
		}
		if len(m.cells) != len(before) {
			t.Fatalf("%q became %q: %d cells, not %d", src, out, len(m.cells), len(before))
		}
		for k, c := range m.cells {
			changed := k == touched
			if !changed && !bytes.Equal(out[c.start:c.end], before[k]) {
				t.Errorf("cell %d of %q is %q, not %q", k, src, out[c.start:c.end], before[k])
			}
			if changed {
				raw, _ := c.get("source")
				if got := joined(raw); got != string([]rune(text)) {
					t.Errorf("the source is %q, not %q", got, text)
				}
			}
		}
	})
}

// An id that several cells have names none of them.
func TestNotebookSameIDs(t *testing.T) {
	const text = `{"cells":[{"cell_type":"code","id":"a","metadata":{},"outputs":[],"execution_count":null,"source":["1"]},{"cell_type":"code","id":"a","metadata":{},"outputs":[],"execution_count":null,"source":["2"]}],"metadata":{},"nbformat":4,"nbformat_minor":5}`
	r := newRoom(t, map[string]string{"n.ipynb": text})
	r.ok("Read", map[string]any{"file_path": "n.ipynb"})
	for _, mode := range []string{"replace", "delete", "insert"} {
		r.fails("NotebookEdit", map[string]any{"notebook_path": "n.ipynb", "cell_id": "a", "new_source": "x", "edit_mode": mode, "cell_type": "code"}, file.CodeNotUnique, vErr)
	}
	if r.get("n.ipynb") != text {
		t.Error("changed")
	}
}
