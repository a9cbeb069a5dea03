package filesystem

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/file"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/tool"
)

const (
	vErr = abi.TypeValidation
	xErr = abi.TypeExecution
	pErr = abi.TypePermission
)

// The catalogue of errors: a row a tool and code.
func TestErrorCatalogue(t *testing.T) {
	nb := `{"cells":[{"cell_type":"code","id":"c","metadata":{},"outputs":[],"execution_count":null,"source":["1"]}],"nbformat":4,"nbformat_minor":5}`
	files := map[string]string{
		"a.txt": "one\ntwo\none\n", "d/x.txt": "x", "latin1.txt": "caf\xe9\n", "broken.txt": "a\x80b\xc3\xa9\n", "n.ipynb": nb, "nocells.ipynb": `{"metadata":{}}`, "nojson.ipynb": "{", "list.ipynb": "[]", "bin.dat": "a\x00b",
	}
	in := func(kv ...any) map[string]any {
		m := map[string]any{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i].(string)] = kv[i+1]
		}
		return m
	}
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("s"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, tool string
		input      map[string]any
		code       abi.Code
		kind       abi.ErrorType
		read       bool // read the file first
	}{
		{"relative", "Read", in("file_path", "=a.txt"), file.CodeArguments, vErr, false},
		{"relative", "Edit", in("file_path", "=a.txt", "old_string", "a", "new_string", "b"), file.CodeArguments, vErr, false},
		{"relative", "Write", in("file_path", "=a.txt", "content", ""), file.CodeArguments, vErr, false},
		{"relative", "NotebookEdit", in("notebook_path", "=n.ipynb", "new_source", "", "cell_id", "c"), file.CodeArguments, vErr, false},
		{"schema", "Read", in("file_path", "a.txt", "limit", 0), abi.CodeValidation, vErr, false},
		{"schema", "Glob", in("pattern", ""), abi.CodeValidation, vErr, false},
		{"glob", "Grep", in("pattern", "x", "glob", "[z"), file.CodeArguments, vErr, false},
		{"outside", "Read", in("file_path", outside), file.CodeOutside, pErr, false},
		{"outside", "Edit", in("file_path", outside, "old_string", "s", "new_string", "b"), file.CodeOutside, pErr, false},
		{"outside", "Write", in("file_path", outside, "content", ""), file.CodeOutside, pErr, false},
		{"outside", "NotebookEdit", in("notebook_path", outside, "new_source", "", "cell_id", "c"), file.CodeOutside, pErr, false},
		{"outside", "Glob", in("pattern", "*", "path", filepath.Dir(outside)), file.CodeOutside, pErr, false},
		{"outside", "Grep", in("pattern", "s", "path", outside), file.CodeOutside, pErr, false},
		{"missing", "Read", in("file_path", "nope"), file.CodeNotFound, xErr, false},
		{"missing", "Edit", in("file_path", "nope", "old_string", "a", "new_string", "b"), file.CodeNotFound, xErr, false},
		{"no folder", "Write", in("file_path", "nope/x", "content", "", "create_directories", false), file.CodeNotFound, xErr, false},
		{"missing", "NotebookEdit", in("notebook_path", "nope.ipynb", "new_source", "", "cell_id", "c"), file.CodeNotFound, xErr, false},
		{"missing", "Glob", in("pattern", "*", "path", "nope"), file.CodeNotFound, xErr, false},
		{"missing", "Grep", in("pattern", "x", "path", "nope"), file.CodeNotFound, xErr, false},
		{"folder", "Read", in("file_path", "d"), file.CodeIsDirectory, xErr, false},
		{"folder", "Edit", in("file_path", "d", "old_string", "a", "new_string", "b"), file.CodeIsDirectory, xErr, false},
		{"folder that was read", "Write", in("file_path", "d", "content", "x"), file.CodeIsDirectory, xErr, true},
		{"new folder", "Write", in("file_path", "e/", "content", "x"), file.CodeIsDirectory, xErr, false},
		{"folder is a file", "Write", in("file_path", "a.txt/x", "content", "x"), file.CodeIO, xErr, false},
		{"no base64", "Write", in("file_path", "b", "content", "a", "encoding", "base64"), file.CodeBase64, vErr, false},
		{"url base64", "Write", in("file_path", "b", "content", "-_8=", "encoding", "base64"), file.CodeBase64, vErr, false},
		{"no byte", "Write", in("file_path", "b", "content", "Ā", "encoding", "binary"), file.CodeArguments, vErr, false},
		{"not read", "Edit", in("file_path", "a.txt", "old_string", "two", "new_string", "b"), file.CodeNotRead, vErr, false},
		{"not read", "Write", in("file_path", "a.txt", "content", ""), file.CodeNotRead, vErr, false},
		{"folder not read", "Write", in("file_path", "d", "content", ""), file.CodeNotRead, vErr, false},
		{"not read", "NotebookEdit", in("notebook_path", "n.ipynb", "new_source", "", "cell_id", "c"), file.CodeNotRead, vErr, false},
		{"the same", "Edit", in("file_path", "a.txt", "old_string", "two", "new_string", "two"), file.CodeNoChange, vErr, true},
		{"twice", "Edit", in("file_path", "a.txt", "old_string", "one", "new_string", "1"), file.CodeNotUnique, vErr, true},
		{"nowhere", "Edit", in("file_path", "a.txt", "old_string", "three", "new_string", "3"), file.CodeNoMatch, xErr, true},
		{"no text", "Edit", in("file_path", "broken.txt", "old_string", "a", "new_string", "b"), file.CodeEncoding, vErr, true},
		{"binary", "Edit", in("file_path", "bin.dat", "old_string", "a", "new_string", "b"), file.CodeEncoding, vErr, true},
		{"no Latin-1", "Edit", in("file_path", "latin1.txt", "old_string", "caf", "new_string", "日"), file.CodeEncoding, vErr, true},
		{"no cells", "NotebookEdit", in("notebook_path", "nocells.ipynb", "new_source", "", "cell_id", "c"), file.CodeNotANotebook, vErr, true},
		{"a list", "NotebookEdit", in("notebook_path", "list.ipynb", "new_source", "", "cell_id", "c"), file.CodeNotANotebook, vErr, true},
		{"no JSON", "NotebookEdit", in("notebook_path", "nojson.ipynb", "new_source", "", "cell_id", "c"), file.CodeNotANotebook, xErr, true},
		{"no cell", "NotebookEdit", in("notebook_path", "n.ipynb", "new_source", "", "cell_id", "zzz"), file.CodeCellNotFound, vErr, true},
		{"no cell to insert behind", "NotebookEdit", in("notebook_path", "n.ipynb", "new_source", "", "cell_id", "zzz", "edit_mode", "insert", "cell_type", "code"), file.CodeCellNotFound, vErr, true},
		{"no cell id", "NotebookEdit", in("notebook_path", "n.ipynb", "new_source", ""), file.CodeCellIDRequired, vErr, true},
		{"no cell id", "NotebookEdit", in("notebook_path", "n.ipynb", "new_source", "", "edit_mode", "delete"), file.CodeCellIDRequired, vErr, true},
		{"no cell type", "NotebookEdit", in("notebook_path", "n.ipynb", "new_source", "", "edit_mode", "insert"), file.CodeCellType, vErr, true},
		{"no folder", "Glob", in("pattern", "*", "path", "a.txt"), file.CodeNotADirectory, vErr, false},
		{"no regex", "Grep", in("pattern", "("), file.CodeBadRegex, vErr, false},
		{"no type", "Grep", in("pattern", "x", "type", "nope"), file.CodeUnknownType, vErr, false},
	} {
		t.Run(c.tool+" "+c.name, func(t *testing.T) {
			r := newRoom(t, files)
			if c.read {
				p := c.input["file_path"]
				if p == nil {
					p = c.input["notebook_path"]
				}
				r.run("Read", map[string]any{"file_path": p})
			}
			before := r.tree()
			res := r.fails(c.tool, c.input, c.code, c.kind)
			if res.Error != nil && len(res.Error.Message) < 20 {
				t.Errorf("says little: %q", res.Error.Message)
			}
			if want := c.code == file.CodeNotRead; (res.Metadata["requiresRead"] == true) != want {
				t.Errorf("requiresRead is %v", res.Metadata["requiresRead"])
			}
			if after := r.tree(); after != before {
				t.Errorf("a call that failed changed something:\n%s\nnow\n%s", before, after)
			}
		})
	}
}

// A file that is too large to be changed as a whole is not read at all.
func TestTooLargeToEdit(t *testing.T) {
	r := newRoom(t, map[string]string{"big": "x", "big.ipynb": "x"})
	for tl, in := range map[string]map[string]any{"Edit": {"file_path": "big", "old_string": "x", "new_string": "y"}, "NotebookEdit": {"notebook_path": "big.ipynb", "new_source": "", "cell_id": "c"}} {
		for _, f := range []string{"big", "big.ipynb"} {
			if err := os.Truncate(r.path(f), maxEdit+1); err != nil {
				t.Fatal(err)
			}
		}
		r.fails(tl, in, file.CodeTooLarge, vErr)
	}
	r.fails("Glob", map[string]any{"pattern": strings.Repeat("{a,b}", 13)}, file.CodeArguments, vErr)
	r.fails("Glob", map[string]any{"pattern": strings.Repeat("a", 5000)}, file.CodeArguments, vErr)
	r.fails("Grep", map[string]any{"pattern": "x", "glob": strings.Repeat("{a,b}", 13)}, file.CodeArguments, vErr)
	r.ok("Glob", map[string]any{"pattern": strings.Repeat("{a,b}", 12)})
	r.ok("Glob", map[string]any{"pattern": strings.Repeat("*a", 1000)})
	r.ok("Glob", map[string]any{"pattern": strings.Repeat("**/", 1000) + "x"})
}

// tree is everything in the workspace, with contents.
func (r *room) tree() string {
	r.t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(r.root, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		b.WriteString(strings.TrimPrefix(p, r.root) + " " + fi.Mode().String())
		if fi.Mode().IsRegular() {
			c, _ := os.ReadFile(p) // its name and mode count then
			b.Write(c)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return b.String()
}

// Without a workspace folder no tool does anything; without a current folder a search needs a path.
func TestNoFilesystem(t *testing.T) {
	r := newRoom(t, map[string]string{"a.txt": "x"})
	inputs := map[string]map[string]any{
		"Read": {"file_path": "a.txt"}, "Edit": {"file_path": "a.txt", "old_string": "x", "new_string": "y"}, "Write": {"file_path": "a.txt", "content": ""},
		"NotebookEdit": {"notebook_path": "a.txt", "new_source": "", "cell_id": "c"}, "Glob": {"pattern": "*"}, "Grep": {"pattern": "x"},
	}
	none := r.session("none")
	for name, in := range inputs {
		res := r.runIn(none, host.Call{Tool: name, Input: r.input(in)})
		if res.Error == nil || res.Error.Code != file.CodeNoFilesystem || res.Error.Type != pErr {
			t.Errorf("%s: %+v", name, res.Error)
		}
		res = r.direct(name, tool.Config{Input: r.input(in), Snapshot: &tool.Snapshot{Roots: []string{filepath.Join(r.root, "gone")}}})
		if res.Error == nil || res.Error.Code != file.CodeNoFilesystem {
			t.Errorf("%s, with a folder that is not there: %+v", name, res.Error)
		}
	}
	for _, name := range []string{"Glob", "Grep"} {
		res := r.direct(name, tool.Config{Input: r.input(inputs[name]), Snapshot: &tool.Snapshot{Roots: []string{r.root}}})
		if res.Error == nil || res.Error.Code != file.CodeNoSearchPath || res.Error.Type != vErr {
			t.Errorf("%s: %+v", name, res.Error)
		}
	}
}

// BLT-03: outside of a session an existing file cannot be changed, a new one can be made.
func TestNoSession(t *testing.T) {
	r := newRoom(t, map[string]string{"a.txt": "x", "n.ipynb": `{"cells":[]}`})
	for name, in := range map[string]map[string]any{
		"Edit": {"file_path": "a.txt", "old_string": "x", "new_string": "y"}, "Write": {"file_path": "a.txt", "content": ""},
		"NotebookEdit": {"notebook_path": "n.ipynb", "new_source": "", "edit_mode": "insert", "cell_type": "code"},
	} {
		r.direct("Read", tool.Config{Input: r.input(map[string]any{"file_path": "a.txt"})})
		res := r.direct(name, tool.Config{Input: r.input(in)})
		if res.Error == nil || res.Error.Code != file.CodeNoSession || res.Error.Type != vErr {
			t.Errorf("%s: %+v", name, res.Error)
		}
	}
	if res := r.direct("Write", tool.Config{Input: r.input(map[string]any{"file_path": "new.txt", "content": "n"})}); res.IsError() {
		t.Error(res.Error)
	}
	if r.get("a.txt") != "x" || r.get("new.txt") != "n" {
		t.Error("wrong content")
	}
}

// Calls that were stopped do nothing.
func TestAborted(t *testing.T) {
	r := newRoom(t, map[string]string{"a.txt": "x", "n.ipynb": `{"cells":[]}`})
	r.ok("Read", map[string]any{"file_path": "a.txt"})
	r.ok("Read", map[string]any{"file_path": "n.ipynb"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, in := range map[string]map[string]any{
		"Read": {"file_path": "a.txt"}, "Edit": {"file_path": "a.txt", "old_string": "x", "new_string": "y"}, "Write": {"file_path": "b.txt", "content": ""},
		"NotebookEdit": {"notebook_path": "n.ipynb", "new_source": "", "edit_mode": "insert", "cell_type": "code"}, "Glob": {"pattern": "*"}, "Grep": {"pattern": "x"},
	} {
		res, err := byIndex(r, name).Execute(ctx, tool.NewCall(tool.Config{SessionID: "s1", Input: r.input(in), Snapshot: &tool.Snapshot{Roots: []string{r.root}, Cwd: r.root}}))
		if err != nil || res.Error == nil || res.Error.Code != file.CodeAborted || res.Error.Type != xErr {
			t.Errorf("%s: %+v %v", name, res, err)
		}
	}
	if r.get("a.txt") != "x" || r.get("n.ipynb") != `{"cells":[]}` {
		t.Error("something was changed")
	}
}

func byIndex(r *room, name string) tool.Tool {
	for _, x := range r.tools {
		if x.Spec().Name == name {
			return x
		}
	}
	return nil
}

// Pipes, sockets and devices are refused, and nothing waits for them.
func TestNotRegular(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no pipes with names here")
	}
	r := newRoom(t, map[string]string{"a.txt": "x"})
	makeFIFO(t, r.path("fifo"))
	for name, in := range map[string]map[string]any{
		"Read": {"file_path": "fifo"}, "Edit": {"file_path": "fifo", "old_string": "x", "new_string": "y"},
	} {
		r.fails(name, in, file.CodeNotRegular, xErr)
	}
	r.fails("Write", map[string]any{"file_path": "fifo", "content": "x"}, file.CodeNotRegular, xErr)
	if res := r.ok("Grep", map[string]any{"pattern": "x"}); !strings.Contains(string(res.Model), "a.txt") {
		t.Errorf("%s", res.Model)
	}
}

// Details are plain values: what was tried, on which path, and how it failed.
func TestErrorDetails(t *testing.T) {
	r := newRoom(t, nil)
	res := r.fails("Read", map[string]any{"file_path": "nope"}, file.CodeNotFound, xErr)
	var d struct{ Op, Path, Errno string }
	if err := json.Unmarshal(res.Error.Details, &d); err != nil || d.Path != r.path("nope") || d.Errno != "not_found" || d.Op == "" {
		t.Errorf("%s %v", res.Error.Details, err)
	}
	res = r.run("Read", map[string]any{"file_path": "=x"})
	var issues abi.IssueDetails
	if err := json.Unmarshal(res.Error.Details, &issues); err != nil || len(issues.Issues) != 1 || issues.Issues[0].Pointer != "/file_path" || !strings.Contains(res.Error.Message, r.path("x")) {
		t.Errorf("%s %v", res.Error.Details, err)
	}
}

// BLT-04: what a session has read is its own, and goes with it.
func TestStateOfSessions(t *testing.T) {
	r := newRoom(t, map[string]string{"a.txt": "x"})
	r.ok("Read", map[string]any{"file_path": "a.txt"})
	other := r.session("s2", r.root)
	edit := map[string]any{"file_path": "a.txt", "old_string": "x", "new_string": "y"}
	if res := r.runIn(other, host.Call{Tool: "Edit", Input: r.input(edit)}); res.Error == nil || res.Error.Code != file.CodeNotRead {
		t.Errorf("another session may change what this one read: %+v", res)
	}
	// The other one reads; that takes nothing from the first.
	r.runIn(other, host.Call{Tool: "Read", Input: r.input(map[string]any{"file_path": "a.txt"})})
	r.ok("Edit", edit)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	r.s = r.session("s1", r.root)
	r.fails("Edit", map[string]any{"file_path": "a.txt", "old_string": "y", "new_string": "z"}, file.CodeNotRead, vErr)
}
