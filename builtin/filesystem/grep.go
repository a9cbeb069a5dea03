package filesystem

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/args"
	"github.com/bladehost/bladehost/builtin/internal/file"
	"github.com/bladehost/bladehost/builtin/internal/search"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

const grepSchema = `{"type":"object","properties":{` +
	`"pattern":{"type":"string","minLength":1,"description":"Regular expression (RE2)."},` +
	`"path":{"type":"string","description":"File or folder to search; the session's current folder where it is not given."},` +
	`"glob":{"type":"string","description":"Only files whose name, or path where it has a slash, matches, such as *.go; with ! in front, all others."},` +
	`"type":{"type":"string","description":"Only files of this type, such as go, py, js, ts, rust, md."},` +
	`"output_mode":{"type":"string","enum":["content","files_with_matches","count"],"default":"files_with_matches"},` +
	`"-i":{"type":"boolean","description":"Letters' cases are the same."},` +
	`"-n":{"type":"boolean","default":true,"description":"Line numbers in content."},` +
	`"-B":{"type":"integer","minimum":0,"description":"Lines of context before a match in content."},` +
	`"-A":{"type":"integer","minimum":0,"description":"Lines of context after a match in content."},` +
	`"-C":{"type":"integer","minimum":0,"description":"Lines of context on both sides; wins over -A and -B."},` +
	`"head_limit":{"type":"integer","minimum":1,"description":"How many entries to return at most."},` +
	`"offset":{"type":"integer","minimum":0,"description":"How many entries to leave out first."},` +
	`"multiline":{"type":"boolean","default":false,"description":"A match may span lines, and . matches line ends."}},` +
	`"required":["pattern"],"additionalProperties":false}`

type grepIn struct {
	Pattern   string    `json:"pattern"`
	Path      string    `json:"path"`
	Glob      string    `json:"glob"`
	Type      string    `json:"type"`
	Mode      string    `json:"output_mode"`
	Fold      bool      `json:"-i"`
	Numbers   *bool     `json:"-n"`
	Before    *args.Int `json:"-B"`
	After     *args.Int `json:"-A"`
	Context   *args.Int `json:"-C"`
	Head      *args.Int `json:"head_limit"`
	Offset    *args.Int `json:"offset"`
	Multiline bool      `json:"multiline"`
}

const (
	// maxEntries bounds head_limit, offset and the lines of context: no file has more lines.
	maxEntries = 1 << 40
	// maxGrepModel is where the entries for the model end, in UTF-16 code units of their JSON: the
	// tool's maxResultSizeChars.
	maxGrepModel = 100_000
)

// grep is the tool Grep.
func (c *core) grep() tool.Tool {
	return &native{core: c, key: "pattern", wide: anyRule,
		shape: args.Shape{
			Known:   []string{"pattern", "path", "glob", "type", "output_mode", "-i", "-n", "-B", "-A", "-C", "head_limit", "offset", "multiline"},
			Numbers: []string{"-B", "-A", "-C", "head_limit", "offset"},
		},
		spec: must(&abi.ToolSpec{
			Name: "Grep", DisplayName: "Content Search", Group: abi.GroupFilesystem,
			Description: abi.Description{
				Short: "Looks for a regular expression in files.",
				UsageNotes: []string{
					"The grammar is RE2's: classes, groups, alternatives, repetition, \\b, (?i), but no look-around and no back-references, and repeat counts of at most 1000. \\w, \\d and \\b know ASCII only. $ also matches before CR LF.",
					"Unless multiline is set, a match is within one line, and a pattern with a line end in it is refused.",
					"output_mode says what is returned: the paths of files with a match, the lines with a match (with context where -A, -B or -C ask for it), or how many lines match in each file. The order is that of the paths.",
					"Not searched are what .gitignore files leave out, node_modules, .git, dist, build and the like, logs, lock files and temporary files, names that start with a dot, links, and binary files; a glob that names a file brings it back.",
					"Files that usually hold secrets, such as keys and .env, are searched only where path names them. What is not in the answer is said in a last entry, note.",
					"Lines of more than 2000 characters are cut. Use head_limit and offset to page through many entries.",
				},
				Examples: []abi.Example{{Description: "Where a function is called, with two lines around", Params: json.RawMessage(`{"pattern":"\\bparse\\(","type":"go","output_mode":"content","-C":2}`)}},
			},
			Parameters: json.RawMessage(grepSchema), Kind: abi.KindReadOnly, SideEffect: abi.SideEffectPure, Interrupt: abi.InterruptCancel,
			MaxResultSize: maxGrepModel, PathParams: []string{"/path"}, LockPaths: []string{},
		}),
		check: func(_ context.Context, a *file.Access, input json.RawMessage) error {
			_, _, err := grepArgs(a, input)
			return err
		},
		run: func(ctx context.Context, a *file.Access, call *tool.Call) (*abi.Result, error) {
			in, q, err := grepArgs(a, call.Input)
			if err != nil {
				return nil, err
			}
			q.Ripgrep = search.LookRipgrep(c.opt.Ripgrep)
			return runGrep(ctx, in, q, call)
		},
	}
}

func grepArgs(a *file.Access, input json.RawMessage) (*grepIn, search.GrepQuery, error) {
	in := &grepIn{}
	if err := decode(input, in); err != nil {
		return nil, search.GrepQuery{}, err
	}
	if in.Mode == "" {
		in.Mode = string(search.ModeFiles)
	}
	q := search.GrepQuery{Pattern: in.Pattern, Glob: in.Glob, Type: in.Type, Mode: search.Mode(in.Mode), Fold: in.Fold, Multiline: in.Multiline}
	if in.Pattern == "" {
		return nil, q, file.Invalid("/pattern", "pattern is empty; give a regular expression.")
	}
	for _, err := range []error{
		oneOf("/output_mode", in.Mode, "content", "files_with_matches", "count"),
		within("/-B", in.Before, 0, maxEntries), within("/-A", in.After, 0, maxEntries), within("/-C", in.Context, 0, maxEntries),
		within("/head_limit", in.Head, 1, maxEntries), within("/offset", in.Offset, 0, maxEntries),
	} {
		if err != nil {
			return nil, q, err
		}
	}
	q.Before, q.After = value(in.Before), value(in.After)
	if in.Context != nil {
		q.Before, q.After = value(in.Context), value(in.Context)
	}
	if in.Head != nil {
		q.Enough = value(in.Head) + value(in.Offset) + 1 // one more tells that there are more
	}
	t, err := a.Folder(in.Path)
	if err != nil {
		return nil, q, err
	}
	q.Start = t
	q.Secret = secrets(in.Path, t)
	if err := reachable(t); err != nil {
		return nil, q, err
	}
	return in, q, search.Check(q)
}

func value(i *args.Int) int {
	if i == nil {
		return 0
	}
	return int(*i)
}

// grepEntry is one entry of the result.
type grepEntry struct {
	FilePath  string   `json:"file_path,omitempty"`
	Line      *int     `json:"line_number,omitempty"`
	Content   *string  `json:"content,omitempty"`
	Count     *int     `json:"count,omitempty"`
	Before    []string `json:"context_before,omitempty"`
	After     []string `json:"context_after,omitempty"`
	Truncated bool     `json:"truncated,omitempty"`
	// Note is what the model has to know of the whole; such an entry has nothing else and is the last.
	Note string `json:"note,omitempty"`
}

// secrets are the files that a search leaves out: those that Read would be refused, or asked for. A path that
// names a folder of secrets was judged before, by its name.
func secrets(asked string, start *file.Target) func(folder string) func(name string) bool {
	known := 0
	if asked != "" {
		known = secrecy(file.RealPath(start.Path))
	}
	return func(folder string) func(string) bool {
		in := policy.SensitivityIn(folder)
		return func(name string) bool { return secrecyOf(in(name)) > known }
	}
}

// secrecy is how much Read would mind a path.
func secrecy(path string) int { return secrecyOf(policy.Sensitivity(path)) }

func secrecyOf(s policy.Sensitive) int {
	switch s {
	case policy.SensitiveMedium:
		return 1
	case policy.SensitiveHigh:
		return 2
	}
	return 0
}

func runGrep(ctx context.Context, in *grepIn, q search.GrepQuery, call *tool.Call) (*abi.Result, error) {
	raw, err := abi.Marshal(map[string]string{"pattern": in.Pattern})
	if err != nil {
		return nil, err
	}
	if err := call.Yield(abi.Yield{Kind: abi.YieldProgress, Message: "Searching for " + clip(in.Pattern), Data: raw}); err != nil {
		return nil, err
	}
	if err := call.Yield(abi.Message("Searching " + q.Start.Path)); err != nil {
		return nil, err
	}
	if err := file.Aborted(ctx); err != nil {
		return nil, err
	}
	a, err := search.Grep(ctx, q)
	if err != nil {
		return nil, err
	}
	all := grepEntries(in, a)
	list := all[min(value(in.Offset), len(all)):]
	if in.Head != nil {
		list = list[:min(value(in.Head), len(list))]
	}
	more := len(all) - len(list) - min(value(in.Offset), len(all))
	notes := grepNotes(a, in, more)
	model, kept, err := fitting(list, notes)
	if err != nil {
		return nil, err
	}
	cut := a.Incomplete || kept < len(list) || more > 0
	meta := map[string]any{
		"search_pattern": in.Pattern, "search_path": q.Start.Path, "output_mode": in.Mode, "case_insensitive": in.Fold,
		"total_matches": len(list), "original_total": len(all), "strategy": a.Strategy, "exit_code": 1, "truncated": cut, "files_searched": a.Searched,
	}
	if len(list) > 0 {
		meta["exit_code"] = 0
	}
	if in.Offset != nil {
		meta["offset"] = value(in.Offset)
	}
	if in.Head != nil {
		meta["head_limit"] = value(in.Head)
	}
	if kept < len(list) {
		meta["returned_matches"] = kept
	}
	if a.Incomplete {
		meta["incomplete"] = a.Why
	}
	if a.Skipped > 0 {
		meta["skipped"] = a.Skipped
	}
	if a.Secrets > 0 {
		meta["skipped_sensitive"] = a.Secrets
	}
	data := struct {
		Matches   []grepEntry `json:"matches"`
		Truncated bool        `json:"truncated"`
		Notes     []string    `json:"notes,omitempty"`
	}{list, cut, notes}
	return result(model, data, fmt.Sprintf("%d entries for %s", len(list), clip(in.Pattern)), meta)
}

// grepEntries are the hits as entries.
func grepEntries(in *grepIn, a search.GrepAnswer) []grepEntry {
	out := []grepEntry{}
	for _, f := range a.Files {
		switch search.Mode(in.Mode) {
		case search.ModeFiles:
			out = append(out, grepEntry{FilePath: f.Path})
		case search.ModeCount:
			out = append(out, grepEntry{FilePath: f.Path, Count: ptr(f.Count)})
		default:
			for _, h := range f.Hits {
				e := grepEntry{FilePath: f.Path, Content: ptr(h.Text), Before: h.Before, After: h.After, Truncated: h.Cut}
				if in.Numbers == nil || *in.Numbers {
					e.Line = ptr(h.Number)
				}
				out = append(out, e)
			}
		}
	}
	return out
}

// grepNotes are what the entries do not tell: that they are not all.
func grepNotes(a search.GrepAnswer, in *grepIn, more int) (notes []string) {
	add := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if more > 0 {
		add("There are more entries; go on with offset %d.", value(in.Offset)+value(in.Head))
	}
	if a.Incomplete {
		add("Not all was searched: %s. Search a smaller folder, or narrow it with glob or type.", a.Why)
	}
	if a.Secrets > 0 {
		add("Files that usually hold secrets were not searched: %d. Give one as path where it is needed; that needs a permission.", a.Secrets)
	}
	if a.Skipped > 0 {
		add("Files and folders that could not be read, or have lines too long to be searched: %d.", a.Skipped)
	}
	if a.Binary {
		add("The file is no text, so it was not searched.")
	}
	return notes
}

// fitting is what a model gets: as many of the entries as fit, whole ones only, and the notes. kept is how
// many entries are there.
func fitting(list []grepEntry, notes []string) (model []grepEntry, kept int, err error) {
	const rest = "There are more entries than fit here; go on with a larger offset, or narrow the search."
	size := 100 + file.Units(rest)
	for _, n := range notes {
		size += file.Units(n) + 100
	}
	for kept < len(list) {
		raw, err := abi.Marshal(list[kept])
		if err != nil {
			return nil, 0, err
		}
		if size += file.Units(string(raw)) + 1; size > maxGrepModel {
			notes = append([]string{rest}, notes...)
			break
		}
		kept++
	}
	model = list[:kept:kept]
	if len(notes) > 0 {
		model = append(model, grepEntry{Note: strings.Join(notes, " ")})
	}
	return model, kept, nil
}
