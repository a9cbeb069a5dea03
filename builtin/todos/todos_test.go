package todos

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
	"github.com/bladehost/bladehost/host/tool/tooltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTool(dir string) *write { return newWrite(&lists{dir: dir, open: map[string]*todoList{}}) }

func run(t testing.TB, w *write, session, input string) (writeOut, *abi.Result) {
	t.Helper()
	r, err := w.Execute(t.Context(), tool.NewCall(tool.Config{SessionID: session, Input: json.RawMessage(input)}))
	if err != nil {
		return writeOut{}, abi.Failure(abi.AsError(err))
	}
	var out writeOut
	if err := json.Unmarshal(r.Model, &out); err != nil {
		t.Fatal(err)
	}
	return out, r
}

// list is an input of items as "content status [priority] [id]".
func list(items ...string) string {
	var out []string
	for _, s := range items {
		f := strings.Fields(s)
		m := map[string]string{"content": f[0], "activeForm": f[0] + "ing", "status": map[string]string{"p": "pending", "i": "in_progress", "c": "completed"}[f[1]]}
		for _, x := range f[2:] {
			if priority(x).valid() {
				m["priority"] = x
			} else {
				m["id"] = x
			}
		}
		b, _ := json.Marshal(m)
		out = append(out, string(b))
	}
	return `{"todos":[` + strings.Join(out, ",") + `]}`
}

func names(items []item) string {
	var out []string
	for _, it := range items {
		out = append(out, it.Content)
	}
	return strings.Join(out, " ")
}

// What is done comes first, then what is being done; the urgent before the rest.
func TestOrderAndStats(t *testing.T) {
	out, r := run(t, newTool(""), "s", list("a p low", "b i", "c c high", "d p high", "e p", "f p high", "g c"))
	if names(out.Todos) != "c g b d f e a" || out.Stats != (stats{7, 2, 1, 4}) || r.Metadata["stats"] != out.Stats || r.Metadata["summary"] == "" || string(r.Data) != string(r.Model) {
		t.Errorf("%s %+v", names(out.Todos), out.Stats)
	}
	if out.Todos[2].Priority != medium {
		t.Errorf("%+v", out.Todos[2])
	}
}

// Items keep their identity and times by id or content, one old item for each.
func TestIdentity(t *testing.T) {
	w := newTool("")
	now := time.Unix(1700000000, 0)
	w.now = func() time.Time { now = now.Add(time.Second); return now }
	first, _ := run(t, w, "s", list("a i", "b p", "same p", "same p", "d p d-1"))
	ids := map[string]bool{}
	for _, it := range first.Todos {
		ids[it.ID] = true
	}
	if len(ids) != 5 || first.Todos[0].Started == "" || first.Todos[0].Created != "2023-11-14T22:13:21.000Z" {
		t.Fatalf("%+v", first.Todos)
	}
	second, _ := run(t, w, "s", list("a c", "b i", "same p", "same p", "renamed p d-1", "new p"))
	by := map[string]item{}
	for _, it := range append(first.Todos, second.Todos...) {
		by[it.Content+"@"+it.Created+it.ID] = it
	}
	ids = map[string]bool{}
	for _, it := range second.Todos {
		ids[it.ID] = true
		if it.Content != "new" && it.Created != "2023-11-14T22:13:21.000Z" {
			t.Errorf("%+v is new", it)
		}
	}
	if len(ids) != 6 || !ids["d-1"] {
		t.Errorf("%v", ids)
	}
	if a := second.Todos[0]; a.Started != first.Todos[0].Started || a.Completed != "2023-11-14T22:13:22.000Z" || a.ID != first.Todos[0].ID {
		t.Errorf("%+v", a)
	}
	third, _ := run(t, w, "s", list("a p", "b i"))
	if a := third.Todos[1]; a.Content != "a" || a.Started != "" || a.Completed != "" || a.Created == "" {
		t.Errorf("%+v", a)
	}
	if b := third.Todos[0]; b.Started != "2023-11-14T22:13:22.000Z" {
		t.Errorf("%+v", b)
	}
	// An id that is given twice, or that belongs to another content, is one item only.
	for _, in := range []string{list("x p q", "y p q"), list("b p z", "z p "+third.Todos[0].ID)} {
		out, r := run(t, w, "s", in)
		if r.IsError() || out.Todos[0].ID == out.Todos[1].ID {
			t.Errorf("%s: %+v", in, out.Todos)
		}
	}
}

// A list of a hundred thousand equal items takes no longer than it must.
func TestManyItems(t *testing.T) {
	one := `{"content":"same","status":"pending","activeForm":"x"}`
	in := `{"todos":[` + strings.Repeat(one+",", 100000) + one + `]}`
	w := newTool("")
	first, _ := run(t, w, "s", in)
	second, r := run(t, w, "s", in)
	if r.IsError() || second.Stats.Total != 100001 || second.Todos[100000].ID != first.Todos[100000].ID {
		t.Errorf("%+v %+v", second.Stats, r.Error)
	}
}

// The catalogue of errors: nothing changes.
func TestErrors(t *testing.T) {
	w := newTool("")
	run(t, w, "s", list("a i"))
	for in, want := range map[string]abi.Code{
		list("a i", "b i"): codeSeveral, list("a i", "b i", "c i"): codeSeveral, `{"todos":[]}`: abi.CodeValidation, `{}`: abi.CodeValidation, `{"todos":[{"content":"A","status":"done","activeForm":"x"}]}`: abi.CodeValidation,
		`{"todos":[{"content":"","status":"pending","activeForm":"x"}]}`: abi.CodeValidation, `{"todos":[{"content":"A","status":"pending"}]}`: abi.CodeValidation, `{"todos":"x"}`: abi.CodeValidation, `{"todos":[{"content":"A","status":"pending","activeForm":"x","priority":"top"}]}`: abi.CodeValidation,
	} {
		_, r := run(t, w, "s", in)
		if r.Error == nil || r.Error.Code != want || r.Error.Type != abi.TypeValidation {
			t.Errorf("%s: %+v", in, r.Error)
		}
		if err := w.ValidateInput(t.Context(), tool.NewCall(tool.Config{Input: json.RawMessage(in)})); abi.CodeOf(err) != want {
			t.Errorf("%s: before it runs: %v", in, err)
		}
	}
	if l := w.of("s"); names(l.items) != "a" {
		t.Errorf("%+v", l.items)
	}
}

// Each session has its own list, which ends with it, or is kept in a file.
func TestSessions(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		w := newTool(dir)
		one, _ := run(t, w, "one", list("a i"))
		if two, _ := run(t, w, "two", list("a i")); two.Todos[0].ID == one.Todos[0].ID {
			t.Error("two sessions share a list")
		}
		if none, _ := run(t, w, "", list("a i")); none.Todos[0].ID == one.Todos[0].ID {
			t.Error("nobody's session has the list of another")
		}
		if err := w.EndSession(t.Context(), "one"); err != nil || len(w.open) != 1 {
			t.Errorf("%v, %d open", err, len(w.open))
		}
		again, _ := run(t, newTool(dir), "one", list("a c"))
		if kept := again.Todos[0].ID == one.Todos[0].ID; kept != (dir != "") {
			t.Errorf("in %q: kept %v", dir, kept)
		}
	}
}

// Files are private and whole, whatever the session is called; a broken one is no
// list, and one that cannot be written leaves the list as it was.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	w := newTool(dir)
	for _, session := range []string{"../../x", "a/b", strings.Repeat("s", 5000), "s\x00", "CON", "ä"} {
		if _, r := run(t, w, session, list("a p")); r.IsError() {
			t.Errorf("%q: %+v", session, r.Error)
		}
		if got := w.load(session); len(got) != 1 || got[0].Content != "a" {
			t.Errorf("%q: %+v", session, got)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "todos", "*"))
	if err != nil || len(files) != 6 {
		t.Fatalf("%q %v", files, err)
	}
	for _, f := range files {
		if fi, err := os.Lstat(f); err != nil || fi.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v %v", f, fi.Mode(), err)
		}
	}
	p := w.path("x")
	for name, content := range map[string]string{"empty": "", "junk": "{", "another's": `{"sessionId":"y","todos":[{"content":"a","status":"pending","priority":"low"}]}`, "odd": `{"sessionId":"x","todos":[{"content":"a","status":"odd"}]}`} {
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := w.load("x"); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if err := os.Remove(p); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(w.path("a/b"), p); err == nil && w.load("x") != nil {
		t.Error("a link is followed")
	}
	blocked := newTool(filepath.Join(files[0], "below-a-file"))
	if _, r := run(t, blocked, "s", list("a p")); r.Error == nil || r.Error.Code != codeIO {
		t.Errorf("%+v", r.Error)
	}
	if l := blocked.of("s"); l.items != nil {
		t.Error("the list changed all the same")
	}
}

// Lists that nobody took up for a month are forgotten when the next one is kept.
func TestOldFiles(t *testing.T) {
	dir := t.TempDir()
	w := newTool(dir)
	run(t, w, "old", list("a p"))
	run(t, w, "new", list("a p"))
	past := time.Now().Add(-keepFiles - time.Hour)
	if err := os.Chtimes(w.path("old"), past, past); err != nil {
		t.Fatal(err)
	}
	again := newTool(dir)
	run(t, again, "third", list("a p"))
	if again.load("old") != nil || again.load("new") == nil || again.load("third") == nil {
		t.Error("the wrong ones are kept")
	}
}

// FuzzLoad: a file of whatever content is a sound list or none.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"sessionId":"s","todos":[{"id":"1","content":"a","status":"pending","activeForm":"x","priority":"low","createdAt":"x"}]}`))
	f.Add([]byte("["))
	w := newTool(f.TempDir())
	p := w.path("s")
	if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(p, b, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, it := range w.load("s") {
			if it.Content == "" || it.Status.rank() < 0 || it.Priority.rank() < 0 {
				t.Fatalf("%+v", it)
			}
		}
	})
}

// Calls at once leave one whole list.
func TestConcurrent(t *testing.T) {
	w := newTool(t.TempDir())
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if _, err := w.Execute(context.Background(), tool.NewCall(tool.Config{SessionID: "s", Input: json.RawMessage(list(fmt.Sprintf("a%d p", i), "b c"))})); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got, kept := w.of("s").items, w.load("s"); len(got) != 2 || names(got) != names(kept) {
		t.Errorf("%s, in the file %s", names(got), names(kept))
	}
}

// BLT-01: in a session, in plan mode too, with lenient input.
func TestInSession(t *testing.T) {
	h, err := host.New(host.Options{Builtins: Tools(Options{})})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close(context.Background()) }()
	s, err := h.NewSession(host.SessionOptions{Mode: policy.ModePlan})
	if err != nil {
		t.Fatal(err)
	}
	in := `{"todos":[{"content":"a","status":"pending","activeForm":"x","note":"dropped"}],"more":1}`
	for _, in := range []string{in, `{"todos":` + string(abi.String(`[{"content":"a","status":"pending","activeForm":"x"}]`)) + `}`} {
		x := s.Start(t.Context(), host.Call{Tool: "TodoWrite", Input: json.RawMessage(in)})
		var yields []string
		for y := range x.Yields() {
			b, _ := json.Marshal(y)
			yields = append(yields, string(b))
		}
		r, err := x.Result()
		if err != nil || r.IsError() {
			t.Fatalf("%+v %v", r, err)
		}
		if strings.Join(yields, " ") != `{"kind":"progress","data":{"total":1}} {"kind":"progress","completed":0,"total":1}` {
			t.Errorf("%s", yields)
		}
	}
	i := s.Tools()[0]
	if i.Behavior.Kind != abi.KindReadOnly || i.Behavior.SideEffect != abi.SideEffectIdempotent || i.Behavior.ConcurrencySafe || !i.Behavior.ReadOnly || i.Behavior.Interrupt != abi.InterruptBlock || i.Group != abi.GroupTodos {
		t.Errorf("%+v", i)
	}
	r, err := s.Run(t.Context(), host.Call{Tool: "TodoWrite", Input: json.RawMessage(list("a i", "b i"))})
	if err != nil || r.Error == nil || r.Error.Code != codeSeveral || r.Error.Type != abi.TypeValidation {
		t.Errorf("%+v %v", r.Error, err)
	}
}

func TestSuite(t *testing.T) {
	tooltest.Run(t, tooltest.Case{
		New: func(t testing.TB) tool.Tool { return newTool(t.TempDir()) }, Input: json.RawMessage(list("a i", "b p")),
		Bad:    []json.RawMessage{json.RawMessage(`{}`), json.RawMessage(`{"todos":[]}`), json.RawMessage(list("a i", "b i")), json.RawMessage(`{"todos":[{"content":"a"}]}`)},
		Config: func(c *tool.Config) { c.SessionID = "s" },
	})
	w := newTool("")
	if got, rule := w.PermissionSignature(json.RawMessage(list("a p", "b p"))); got != "2 todos" || rule != "*" {
		t.Errorf("%s %s", got, rule)
	}
}
