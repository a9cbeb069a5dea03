package filesystem

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/file"
	"github.com/bladehost/bladehost/host/tool"
	"github.com/bladehost/bladehost/host/tool/tooltest"
)

// BLT-01 BLT-12: kind, side effect and narrowing, and the other flags.
func TestContracts(t *testing.T) {
	type row struct {
		input  string
		kind   abi.Kind
		effect abi.SideEffect
		safe   bool
		destr  bool
		intr   abi.InterruptBehavior
	}
	const ro, wr, pure, idem, non = abi.KindReadOnly, abi.KindWrite, abi.SideEffectPure, abi.SideEffectIdempotent, abi.SideEffectNonIdempotent
	for name, rows := range map[string][]row{
		"Read":  {{"", ro, pure, true, false, "cancel"}, {`{"file_path":"/a/.env"}`, ro, pure, true, false, "cancel"}},
		"Glob":  {{"", ro, pure, true, false, "cancel"}},
		"Grep":  {{"", ro, pure, true, false, "cancel"}},
		"Edit":  {{"", wr, non, false, false, "block"}, {`{"file_path":"/a/b.txt"}`, wr, non, false, false, "block"}, {`{"file_path":"/a/.env"}`, wr, non, false, true, "block"}},
		"Write": {{"", wr, idem, false, false, "block"}, {`{"file_path":"/a/server.pem"}`, wr, idem, false, true, "block"}},
		"NotebookEdit": {
			{"", wr, non, false, false, "block"}, {`{}`, wr, idem, false, false, "block"}, {`{"edit_mode":"replace"}`, wr, idem, false, false, "block"},
			{`{"edit_mode":"insert"}`, wr, non, false, false, "block"}, {`{"edit_mode":"delete"}`, wr, non, false, true, "block"}, {`{"edit_mode":"nonsense"}`, wr, non, false, false, "block"},
		},
	} {
		x := byName(t, name)
		for _, r := range rows {
			b, widened := tool.Resolve(x, json.RawMessage(r.input))
			want := tool.Behavior{Kind: r.kind, SideEffect: r.effect, ReadOnly: r.kind == ro, ConcurrencySafe: r.safe, Destructive: r.destr, Interrupt: r.intr}
			if b != want || widened != 0 {
				t.Errorf("%s %s: %+v (%d wider), not %+v", name, r.input, b, widened, want)
			}
		}
		if x.Spec().Group != abi.GroupFilesystem || len(x.Spec().Services) != 0 {
			t.Errorf("%s: group %s, services %v", name, x.Spec().Group, x.Spec().Services)
		}
	}
}

func byName(t testing.TB, name string) tool.Tool {
	t.Helper()
	for _, x := range Tools(Options{}) {
		if x.Spec().Name == name {
			return x
		}
	}
	t.Fatalf("there is no %s", name)
	return nil
}

// The handed table of names that hold secrets.
func TestSensitive(t *testing.T) {
	f, err := os.ReadFile("../../testdata/builtin/sensitive-paths.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range splitLines(f) {
		var c struct {
			Path string `json:"path"`
			Flag bool   `json:"destructive_flag"`
		}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		n++
		if got := file.Sensitive(c.Path); got != c.Flag {
			t.Errorf("%s: %v", c.Path, got)
		}
	}
	if n < 20 {
		t.Errorf("only %d rows", n)
	}
}

// What an approval covers.
func TestPermissionSignatures(t *testing.T) {
	for name, c := range map[string]struct{ input, content, rule string }{
		"Read":         {`{"file_path":"/w/a.go"}`, "/w/a.go", "**/*.go"},
		"Edit":         {`{"file_path":"/w/.env"}`, "/w/.env", "**/*"},
		"Write":        {`{"file_path":"/w/a.tar.gz"}`, "/w/a.tar.gz", "**/*.gz"},
		"NotebookEdit": {`{"notebook_path":"/w/a.ipynb"}`, "/w/a.ipynb", "**/*.ipynb"},
		"Glob":         {`{"pattern":"**/*.go"}`, "**/*.go", "*"},
		"Grep":         {`{"pattern":"x"}`, "x", "*"},
	} {
		content, rule := byName(t, name).(tool.PermissionMatcher).PermissionSignature(json.RawMessage(c.input))
		if content != c.content || rule != c.rule {
			t.Errorf("%s: %q %q", name, content, rule)
		}
	}
}

// The contract suite, for each tool.
func TestSuite(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path := func(name string) string { return filepath.Join(root, name) }
	for name, text := range map[string]string{"a.txt": "one\ntwo\n", "n.ipynb": `{"cells":[{"cell_type":"code","id":"c","metadata":{},"outputs":[],"execution_count":null,"source":[]}],"nbformat":4,"nbformat_minor":5}`} {
		if err := os.WriteFile(path(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	in := func(v map[string]any) json.RawMessage {
		raw, err := abi.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	for name, c := range map[string]struct {
		input map[string]any
		bad   []map[string]any
		fails bool
	}{
		"Read": {input: map[string]any{"file_path": path("a.txt")}, bad: []map[string]any{
			{}, {"file_path": ""}, {"file_path": "a.txt"}, {"file_path": 1}, {"file_path": path("a.txt"), "offset": -1}, {"file_path": path("a.txt"), "limit": 0}, {"file_path": path("a.txt"), "limit": 10001},
			{"file_path": path("a.txt"), "limit": 1.5}, {"file_path": path("a.txt"), "encoding": "latin1"}, {"file_path": "/etc/passwd"}, {"file_path": path("../x")}}},
		// Of eight callers at once all but one find that the file was changed: the suite's input fails for all.
		"Edit": {input: map[string]any{"file_path": path("a.txt"), "old_string": "zwei", "new_string": "2"}, fails: true, bad: []map[string]any{
			{}, {"file_path": path("a.txt"), "old_string": "", "new_string": "x"}, {"file_path": path("a.txt"), "old_string": "a", "new_string": "a"}, {"file_path": "a.txt", "old_string": "a", "new_string": "b"}, {"file_path": path("a.txt"), "old_string": "a"}}},
		"Write": {input: map[string]any{"file_path": path("a.txt"), "content": "x"}, fails: true, bad: []map[string]any{
			{}, {"file_path": path("b.txt")}, {"file_path": "b.txt", "content": ""}, {"file_path": path("b.txt"), "content": "x", "encoding": "base64"}, {"file_path": path("b.txt"), "content": "ā", "encoding": "binary"}}},
		"NotebookEdit": {input: map[string]any{"notebook_path": path("n.ipynb"), "cell_id": "c", "new_source": "1"}, fails: true, bad: []map[string]any{
			{}, {"notebook_path": path("n.ipynb"), "new_source": ""}, {"notebook_path": path("n.ipynb"), "new_source": "", "edit_mode": "insert"}, {"notebook_path": "n.ipynb", "new_source": "", "cell_id": "c"}, {"notebook_path": path("n.ipynb"), "new_source": "", "cell_id": "c", "edit_mode": "x"}}},
		"Glob": {input: map[string]any{"pattern": "**"}, bad: []map[string]any{
			{}, {"pattern": ""}, {"pattern": "*", "max_results": 0}, {"pattern": "*", "max_results": 1001}, {"pattern": "*", "path": "/etc"}, {"pattern": "*", "path": "nope"}, {"pattern": "*", "path": "a.txt"}, {"pattern": "/etc/*"}}},
		"Grep": {input: map[string]any{"pattern": "o", "output_mode": "content"}, bad: []map[string]any{
			{}, {"pattern": ""}, {"pattern": "("}, {"pattern": "x", "type": "nope"}, {"pattern": "x", "-C": -1}, {"pattern": "x", "head_limit": 0}, {"pattern": "x", "output_mode": "all"}, {"pattern": "x", "path": "/etc"}, {"pattern": "x", "path": "nope"}, {"pattern": "x", "glob": "["}}},
	} {
		var bad []json.RawMessage
		for _, b := range c.bad {
			bad = append(bad, in(b))
		}
		t.Run(name, func(t *testing.T) {
			tooltest.Run(t, tooltest.Case{
				New:   func(testing.TB) tool.Tool { return byName(t, name) },
				Input: in(c.input), Bad: bad, Fails: c.fails,
				Config: func(cfg *tool.Config) {
					cfg.Snapshot = &tool.Snapshot{Roots: []string{root}, Cwd: root}
				},
			})
		})
	}
}
