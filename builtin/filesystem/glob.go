package filesystem

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/args"
	"github.com/bladehost/bladehost/builtin/internal/file"
	"github.com/bladehost/bladehost/builtin/internal/search"
	"github.com/bladehost/bladehost/host/caps/fs"
	"github.com/bladehost/bladehost/host/tool"
)

const globSchema = `{"type":"object","properties":{` +
	`"pattern":{"type":"string","minLength":1,"description":"Glob pattern for paths below the folder, such as **/*.go or src/{a,b}/*.ts."},` +
	`"path":{"type":"string","description":"Folder to search; the session's current folder where it is not given."},` +
	`"max_results":{"type":"integer","minimum":1,"maximum":1000,"default":100},` +
	`"include_directories":{"type":"boolean","default":false,"description":"Also find folders and links."},` +
	`"case_sensitive":{"type":"boolean","default":false}},` +
	`"required":["pattern"],"additionalProperties":false}`

type globIn struct {
	Pattern       string    `json:"pattern"`
	Path          string    `json:"path"`
	Max           *args.Int `json:"max_results"`
	Dirs          bool      `json:"include_directories"`
	CaseSensitive bool      `json:"case_sensitive"`
}

// defaultMatches and maxMatches are the default and the bound of max_results.
const (
	defaultMatches = 100
	maxMatches     = 1000
)

// anyRule is the wider rule of a search: any pattern.
func anyRule(string) string { return "*" }

// glob is the tool Glob.
func (c *core) glob() tool.Tool {
	return &native{core: c, key: "pattern", wide: anyRule,
		shape: args.Shape{Known: []string{"pattern", "path", "max_results", "include_directories", "case_sensitive"}, Numbers: []string{"max_results"}},
		spec: must(&abi.ToolSpec{
			Name: "Glob", DisplayName: "File Pattern Match", Group: abi.GroupFilesystem,
			Description: abi.Description{
				Short: "Finds files by a pattern for their paths, the newest first.",
				UsageNotes: []string{
					"* and ? match within a name, ** any folders, [a-c] one letter of a set, {a,b} one of several. Names that start with a dot are found too.",
					"What .gitignore files leave out is not found, nor node_modules, .git, dist, build and the like, nor logs, locks and temporary files.",
					"Links are not followed. At most max_results paths are returned; how many more there are is said.",
				},
				Examples: []abi.Example{{Description: "All Go tests", Params: json.RawMessage(`{"pattern":"**/*_test.go"}`)}},
			},
			Parameters: json.RawMessage(globSchema), Kind: abi.KindReadOnly, SideEffect: abi.SideEffectPure, Interrupt: abi.InterruptCancel,
			PathParams: []string{"/path"}, LockPaths: []string{}, Yields: &[]abi.YieldKind{abi.YieldProgress},
		}),
		check: func(_ context.Context, a *file.Access, input json.RawMessage) error {
			_, _, err := globArgs(a, input)
			return err
		},
		run: func(ctx context.Context, a *file.Access, call *tool.Call) (*abi.Result, error) {
			in, q, err := globArgs(a, call.Input)
			if err != nil {
				return nil, err
			}
			return runGlob(ctx, in, q, call)
		},
	}
}

func globArgs(a *file.Access, input json.RawMessage) (*globIn, search.GlobQuery, error) {
	in := &globIn{}
	if err := decode(input, in); err != nil {
		return nil, search.GlobQuery{}, err
	}
	q := search.GlobQuery{Pattern: in.Pattern, Max: defaultMatches, Dirs: in.Dirs, CaseSensitive: in.CaseSensitive}
	if in.Pattern == "" {
		return nil, q, file.Invalid("/pattern", "pattern is empty; give a glob pattern such as **/*.go.")
	}
	if err := search.CheckGlob("/pattern", in.Pattern); err != nil {
		return nil, q, err
	}
	if err := within("/max_results", in.Max, 1, maxMatches); err != nil {
		return nil, q, err
	}
	if in.Max != nil {
		q.Max = int(*in.Max)
	}
	folder := in.Path
	if folder == "" && filepath.IsAbs(in.Pattern) {
		start := a.Cwd()
		base, rest := search.Relative(start, in.Pattern)
		if q.Pattern = rest; base != "" {
			folder = filepath.FromSlash(base)
		}
	}
	t, err := a.Folder(folder)
	if err != nil {
		return nil, q, err
	}
	if folder == in.Path {
		base, rest := search.Relative(t.Path, in.Pattern)
		if base != "" { // somewhere else
			if t, err = a.Folder(filepath.FromSlash(base)); err != nil {
				return nil, q, err
			}
		}
		q.Pattern = rest
	}
	q.Start = t
	return in, q, reachable(t)
}

// globMatch is a match in data and metadata.
type globMatch struct {
	Path     string `json:"path"`
	Relative string `json:"relative_path"`
	IsDir    bool   `json:"is_directory"`
	Size     *int64 `json:"size,omitempty"`
	Modified string `json:"modified,omitempty"`
}

// folderOf holds the start of a search to a folder that exists.
func folderOf(t *file.Target) error {
	st, err := t.Stat()
	if err != nil {
		return err
	}
	if !st.IsDir() {
		return file.Error(abi.TypeValidation, file.CodeNotADirectory, "%s is not a folder. Give the folder to search; Read reads a file.", t.Path)
	}
	return nil
}

func runGlob(ctx context.Context, in *globIn, q search.GlobQuery, call *tool.Call) (*abi.Result, error) {
	raw, err := abi.Marshal(map[string]string{"pattern": in.Pattern, "searchRoot": q.Start.Path})
	if err != nil {
		return nil, err
	}
	if err := call.Yield(abi.Yield{Kind: abi.YieldProgress, Message: "Looking for " + clip(in.Pattern), Data: raw}); err != nil {
		return nil, err
	}
	if err := folderOf(q.Start); err != nil {
		return nil, err
	}
	a, err := search.Glob(ctx, q)
	if err != nil {
		return nil, err
	}
	list := make([]globMatch, len(a.Matches))
	for i, m := range a.Matches {
		list[i] = globMatch{Path: valid(filepath.Join(q.Start.Path, filepath.FromSlash(m.Path))), Relative: valid(m.Path), IsDir: m.Info.IsDir(), Modified: isoTime(m.Info.Mtim)}
		if m.Info.Type == fs.TypeRegular {
			list[i].Size = ptr(m.Info.Size)
		}
	}
	cut := a.Incomplete || a.Found > len(list)
	meta := map[string]any{
		"search_path": q.Start.Path, "pattern": in.Pattern, "total_matches": len(list), "returned_matches": len(list), "total_found": a.Found,
		"max_results": q.Max, "include_directories": in.Dirs, "case_sensitive": in.CaseSensitive, "truncated": cut, "matches": list,
	}
	if a.Denied > 0 {
		meta["unreadable_folders"] = a.Denied
	}
	data := struct {
		Matches   []globMatch `json:"matches"`
		Truncated bool        `json:"truncated"`
	}{list, cut}
	return result(globText(in, q, a, list), data, fmt.Sprintf("%d files match %s", len(list), clip(in.Pattern)), meta)
}

// valid is a path as JSON can have it.
func valid(p string) string { return strings.ToValidUTF8(p, "\uFFFD") }

// oneLine is a path that stays on its line: one with control characters, such as a line end, is quoted.
func oneLine(p string) string {
	if strings.ContainsFunc(p, unicode.IsControl) || !utf8.ValidString(p) {
		return strconv.Quote(p)
	}
	return p
}

// globText is what the model reads.
func globText(in *globIn, q search.GlobQuery, a search.GlobAnswer, list []globMatch) string {
	var b strings.Builder
	if len(list) == 0 {
		fmt.Fprintf(&b, "Nothing in %s matches %s.", q.Start.Path, clip(in.Pattern))
	} else {
		if a.Found > len(list) {
			fmt.Fprintf(&b, "%d of %d matches, the newest first (cut at max_results):\n\n", len(list), a.Found)
		} else {
			fmt.Fprintf(&b, "%d matches, the newest first:\n\n", len(list))
		}
		for _, m := range a.Matches {
			b.WriteString("- " + oneLine(filepath.Join(q.Start.Path, filepath.FromSlash(m.Path))) + "\n")
		}
		b.WriteString("\nThe paths can be given to Read and Edit as they are.")
	}
	if a.Incomplete {
		fmt.Fprintf(&b, " Not all was looked at: %s. Search a smaller folder.", a.Why)
	}
	if a.Denied > 0 {
		fmt.Fprintf(&b, " %d folders could not be read.", a.Denied)
	}
	return b.String()
}
