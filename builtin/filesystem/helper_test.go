package filesystem

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// pdfVerb makes the test's own program the reader of PDFs.
const pdfVerb = "__read-pdf"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == pdfVerb {
		os.Exit(PDFMain(os.Stdin, os.Stdout))
	}
	goleak.VerifyTestMain(m)
}

func pdfChild(t testing.TB) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{self, pdfVerb}
}

// place is a workspace with a session in it.
type room struct {
	t     testing.TB
	root  string
	tools []tool.Tool
	s     *host.Session
	h     *host.Host
	state string
}

// newRoom makes a workspace with files, and a session in yolo mode whose confirmations are all
// approved.
func newRoom(t testing.TB, files map[string]string, opts ...Options) *room {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &room{t: t, root: root, state: t.TempDir()}
	for name, text := range files {
		r.put(name, text)
	}
	o := Options{StateDir: r.state}
	if len(opts) > 0 {
		o = opts[0]
	}
	r.tools = Tools(o)
	if r.h, err = host.New(host.Options{Builtins: r.tools, ArtifactDir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	r.s = r.session("s1", root)
	return r
}

func (r *room) session(id string, roots ...string) *host.Session {
	r.t.Helper()
	cwd := ""
	if len(roots) > 0 {
		cwd = roots[0]
	}
	s, err := r.h.NewSession(host.SessionOptions{ID: id, Mode: policy.ModeYolo, AutoApprove: true,
		Context: abi.RuntimeContext{Capabilities: &abi.ContextCapabilities{Filesystem: &abi.FilesystemFacet{Roots: roots, Cwd: cwd}}}})
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *room) path(name string) string { return filepath.Join(r.root, filepath.FromSlash(name)) }

func (r *room) put(name, text string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(r.path(name)), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(r.path(name), []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *room) get(name string) string {
	r.t.Helper()
	b, err := os.ReadFile(r.path(name))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(b)
}

func (r *room) link(to, name string) {
	r.t.Helper()
	if err := os.Symlink(to, r.path(name)); err != nil {
		r.t.Fatal(err)
	}
}

// run calls a tool in the session. Names in "path" members are relative to the workspace.
func (r *room) run(name string, input map[string]any) *abi.Result {
	r.t.Helper()
	return r.runIn(r.s, host.Call{Tool: name, Input: r.input(input)})
}

func (r *room) input(input map[string]any) json.RawMessage {
	r.t.Helper()
	for _, k := range []string{"file_path", "notebook_path"} {
		if p, ok := input[k].(string); ok && !filepath.IsAbs(p) && !strings.HasPrefix(p, "=") {
			input[k] = r.path(p)
			if strings.HasSuffix(p, "/") {
				input[k] = r.path(p) + "/"
			}
		} else if ok {
			input[k] = strings.TrimPrefix(p, "=")
		}
	}
	raw, err := abi.Marshal(input)
	if err != nil {
		r.t.Fatal(err)
	}
	return raw
}

func (r *room) runIn(s *host.Session, c host.Call) *abi.Result {
	r.t.Helper()
	res, err := s.Run(context.Background(), c)
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}

// ok is run for a call that must succeed.
func (r *room) ok(name string, input map[string]any) *abi.Result {
	r.t.Helper()
	res := r.run(name, input)
	if res.IsError() {
		r.t.Fatalf("%s %v: %s: %s", name, input, res.Error.Code, res.Error.Message)
	}
	return res
}

// fails is run for a call that must fail with a code of a type.
func (r *room) fails(name string, input map[string]any, code abi.Code, kind abi.ErrorType) *abi.Result {
	r.t.Helper()
	res := r.run(name, input)
	if !res.IsError() || res.Error.Code != code || res.Error.Type != kind {
		r.t.Errorf("%s %v: %s %+v, not %s %s", name, input, res.Status, res.Error, kind, code)
	}
	return res
}

// direct calls a tool without a pipeline.
func (r *room) direct(name string, c tool.Config) *abi.Result {
	r.t.Helper()
	if c.Snapshot == nil {
		c.Snapshot = &tool.Snapshot{Roots: []string{r.root}, Cwd: r.root}
	}
	i := slices.IndexFunc(r.tools, func(t tool.Tool) bool { return t.Spec().Name == name })
	res, err := r.tools[i].Execute(context.Background(), tool.NewCall(c))
	if err != nil {
		res = abi.Failure(abi.AsError(err))
	}
	return res
}

func data[T any](t testing.TB, r *abi.Result) (v T) {
	t.Helper()
	if err := json.Unmarshal(r.Data, &v); err != nil {
		t.Fatalf("%s: %v", r.Data, err)
	}
	return v
}

// splitLines are the lines of a file, without empty ones.
func splitLines(b []byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for line := range strings.SplitSeq(string(b), "\n") {
			if line != "" && !yield([]byte(line)) {
				return
			}
		}
	}
}
