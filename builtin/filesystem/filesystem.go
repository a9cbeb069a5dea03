// Package filesystem has the built-in tools about files: Read, Edit, Write,
// NotebookEdit, Glob and Grep. They work in the workspace folders of their session
// and nowhere else.
package filesystem

import (
	"context"
	"encoding/json"
	"path"
	"path/filepath"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/args"
	"github.com/bladehost/bladehost/builtin/internal/file"
	"github.com/bladehost/bladehost/host/tool"
)

// Options configures Tools. The zero value works, with the defaults named.
type Options struct {
	// StateDir keeps the copies of files that are changed, below file-history; empty means
	// a private temporary folder, whose copies go with their session.
	StateDir string
	// Deny are absolute folders that cannot be used, even inside a workspace folder. StateDir
	// is one of them by itself.
	Deny []string
	// AllowUnread lets a session change files that it has not read, for one call that a person
	// typed. A file that it has read must still be as it was.
	AllowUnread bool
	// RawRead makes Read return a whole text file as it is when neither offset nor limit
	// is given, instead of its first 2000 lines with numbers.
	RawRead bool
	// PDFChild is a command, with its arguments, that calls PDFMain: the text of PDFs is read there, because
	// broken ones can keep a reader busy for ever. Empty means that PDFs are returned as their
	// bytes.
	PDFChild []string
	// Ripgrep is the program that Grep asks which files may match before it looks for
	// itself: empty means rg in PATH, where there is one. "-" means none.
	Ripgrep string
}

// History is where the copies of changed files are, to list and restore them.
type History = file.History

// Snapshot is one copy of a changed file.
type Snapshot = file.Snapshot

// OpenHistory opens the copies below a StateDir.
func OpenHistory(stateDir string) *History { return file.OpenHistory(stateDir) }

// core is what the tools of one list share.
type core struct {
	opt     Options
	deny    []string
	state   *file.State
	history *file.History
}

// Tools are the tools of the group filesystem. They share what sessions have read, so
// one list serves all sessions of a host.
func Tools(o Options) []tool.Tool {
	c := &core{opt: o, deny: o.Deny, state: &file.State{AllowUnread: o.AllowUnread}, history: file.OpenHistory(o.StateDir)}
	if o.StateDir != "" {
		c.deny = append(c.deny[:len(c.deny):len(c.deny)], o.StateDir)
	}
	return []tool.Tool{c.read(), c.edit(), c.write(), c.notebookEdit(), c.glob(), c.grep()}
}

// native is a tool of this package.
type native struct {
	spec  *abi.ToolSpec
	shape args.Shape
	core  *core
	// check refuses an input that fits the schema.
	check func(ctx context.Context, a *file.Access, input json.RawMessage) error
	run   func(ctx context.Context, a *file.Access, call *tool.Call) (*abi.Result, error)
	// resolve may be nil, and is given whole inputs only.
	resolve func(input json.RawMessage) tool.Partial
	// key is the member that permissions are about.
	key string
	// wide is the suggestion for a wider rule.
	wide func(value string) string
}

func (n *native) Spec() *abi.ToolSpec { return n.spec }

// NormalizeInput drops unknown members and reads numbers out of strings.
func (n *native) NormalizeInput(input json.RawMessage) (json.RawMessage, error) {
	return n.shape.Normalize(input)
}

// ValidateInput refuses what no schema can.
func (n *native) ValidateInput(ctx context.Context, call *tool.Call) error {
	a, err := file.Open(call.Snapshot(), n.core.deny)
	if err != nil {
		return err
	}
	defer a.Close()
	return n.check(ctx, a, call.Input)
}

// ResolveBehavior narrows, or warns of a destructive call.
func (n *native) ResolveBehavior(input json.RawMessage) (tool.Partial, error) {
	if n.resolve == nil || len(input) == 0 {
		return tool.Partial{}, nil
	}
	return n.resolve(input), nil
}

// PermissionSignature is the path or pattern that an approval is about.
func (n *native) PermissionSignature(input json.RawMessage) (content, rule string) {
	content = member(input, n.key)
	return content, n.wide(content)
}

// PermissionAlias is the file that a path leads to, where it has another name.
func (n *native) PermissionAlias(input json.RawMessage) string {
	p := member(input, n.key)
	if n.key == "pattern" || !filepath.IsAbs(p) {
		return ""
	}
	if real := file.RealPath(p); real != p {
		return real
	}
	return ""
}

// EndSession forgets what a session has read, and its copies where they are temporary.
func (n *native) EndSession(_ context.Context, session string) error {
	n.core.state.End(session)
	return n.core.history.End(session)
}

// Execute runs the tool; it checks everything again, for callers without a pipeline.
func (n *native) Execute(ctx context.Context, call *tool.Call) (*abi.Result, error) {
	input, err := n.shape.Normalize(call.Input)
	if err != nil {
		return nil, err
	}
	inner := *call
	inner.Input = input
	a, err := file.Open(call.Snapshot(), n.core.deny)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	if err := n.check(ctx, a, input); err != nil {
		return nil, err
	}
	r, err := n.run(ctx, a, &inner)
	if err != nil {
		return failed(err), nil
	}
	return r, nil
}

// failed is the result of an error, with what callers look for in the metadata.
func failed(err error) *abi.Result {
	e := abi.AsError(err)
	r := abi.Failure(e)
	if e.Code == file.CodeNotRead {
		r.SetMeta("requiresRead", true)
	}
	return r
}

// member is a string member of an object, or "".
func member(input json.RawMessage, name string) string {
	var m map[string]json.RawMessage
	var s string
	if json.Unmarshal(input, &m) == nil {
		_ = json.Unmarshal(m[name], &s) // another type is no path
	}
	return s
}

// byExtension suggests a rule for all files of a kind.
func byExtension(p string) string {
	if ext := extension(p); ext != "" {
		return "**/*" + ext
	}
	return "**/*"
}

// extension is the lower-case extension with its dot. A name that starts with its only
// dot has none.
func extension(p string) string {
	base := path.Base(strings.ReplaceAll(p, `\`, "/"))
	ext := strings.ToLower(path.Ext(base))
	if len(ext) == len(base) || ext == "." {
		return ""
	}
	return ext
}

// decode reads the input; the error is invalid_arguments.
func decode(input json.RawMessage, into any) error {
	if err := json.Unmarshal(input, into); err != nil {
		return file.Invalid("", "the input cannot be read: %v.", err)
	}
	return nil
}

// oneOf refuses a value that is none of a list; empty counts as the default.
func oneOf(pointer, value string, list ...string) error {
	for _, x := range list {
		if value == x || value == "" {
			return nil
		}
	}
	return file.Invalid(pointer, "%s is %q; it must be one of %s.", strings.TrimPrefix(pointer, "/"), clip(value), strings.Join(list, ", "))
}

func within(pointer string, v *args.Int, low, high int64) error {
	if v == nil || (int64(*v) >= low && int64(*v) <= high) {
		return nil
	}
	return file.Invalid(pointer, "%s is %d; it must be from %d to %d.", strings.TrimPrefix(pointer, "/"), *v, low, high)
}

func clip(s string) string {
	out, cut := file.Cut(s, 200)
	if cut {
		out += "…"
	}
	return out
}

func ptr[T any](v T) *T { return &v }

// maxResult is what the host takes of model and data together, in bytes.
const maxResult = 2 * abi.MaxResult

// result is a success with a model, data and metadata.
func result(model, data any, summary string, meta map[string]any) (*abi.Result, error) {
	m, err := abi.Marshal(model)
	if err != nil {
		return nil, err
	}
	r := abi.Success(m)
	if data != nil {
		if r.Data, err = abi.Marshal(data); err != nil {
			return nil, err
		}
	}
	if n := len(r.Model) + len(r.Data); n > maxResult { // control characters take six bytes in JSON
		return nil, file.Error(abi.TypeValidation, file.CodeTooLarge, "the result would have %d bytes as JSON; at most %d can be returned. Ask for a smaller part.", n, maxResult)
	}
	for k, v := range meta {
		r.SetMeta(k, v)
	}
	r.SetMeta("summary", summary)
	r.Display = &abi.Display{Summary: summary}
	return r, nil
}

var (
	_ tool.Normalizer        = (*native)(nil)
	_ tool.InputValidator    = (*native)(nil)
	_ tool.BehaviorResolver  = (*native)(nil)
	_ tool.PermissionMatcher = (*native)(nil)
	_ tool.PermissionAliaser = (*native)(nil)
	_ tool.SessionEnder      = (*native)(nil)
)
