package filesystem

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/args"
	"github.com/bladehost/bladehost/builtin/internal/file"
	"github.com/bladehost/bladehost/host/tool"
)

const editSchema = `{"type":"object","properties":{` +
	`"file_path":{"type":"string","minLength":1,"description":"Absolute path of the file."},` +
	`"old_string":{"type":"string","minLength":1,"description":"The text to replace, as it is in the file, without line numbers."},` +
	`"new_string":{"type":"string","description":"The text to put in its place; may be empty."},` +
	`"replace_all":{"type":"boolean","default":false,"description":"Replace every occurrence instead of the only one."}},` +
	`"required":["file_path","old_string","new_string"],"additionalProperties":false}`

type editIn struct {
	FilePath   string  `json:"file_path"`
	Old        string  `json:"old_string"`
	New        *string `json:"new_string"`
	ReplaceAll bool    `json:"replace_all"`
}

// edit is the tool Edit.
func (c *core) edit() tool.Tool {
	return writer{&native{core: c, key: "file_path", wide: byExtension,
		shape: args.Shape{Known: []string{"file_path", "old_string", "new_string", "replace_all"}},
		spec: must(&abi.ToolSpec{
			Name: "Edit", DisplayName: "File Edit", Group: abi.GroupFilesystem,
			Description: abi.Description{
				Short: "Replaces a text in a file by another.",
				UsageNotes: []string{
					"Read the file first: a file that was not read, or that someone changed since, is not changed.",
					"old_string must be in the file exactly once; add lines around it until it is, or set replace_all.",
					"Give the text without the line numbers and arrows that Read shows. Line ends and encoding of the file are kept.",
					"Where old_string differs from the file only in curly quotes, in doubled escapes or in the indentation of a whole block, the place is found all the same and new_string is adapted.",
					"Files of up to 64 MiB can be edited. A file with several names (hard links) is changed in place, others are replaced as a whole.",
				},
				Examples: []abi.Example{{Description: "Rename a variable everywhere", Params: json.RawMessage(`{"file_path":"/project/main.go","old_string":"cnt","new_string":"count","replace_all":true}`)}},
			},
			Parameters: json.RawMessage(editSchema), Kind: abi.KindWrite, SideEffect: abi.SideEffectNonIdempotent, Strict: true,
			PathParams: []string{"/file_path"}, LockPaths: []string{"/file_path"},
		}),
		check: func(_ context.Context, a *file.Access, input json.RawMessage) error {
			_, _, err := editArgs(a, input)
			return err
		},
		resolve: func(input json.RawMessage) tool.Partial { return sensitivePath(input) },
		run: func(ctx context.Context, a *file.Access, call *tool.Call) (*abi.Result, error) {
			in, t, err := editArgs(a, call.Input)
			if err != nil {
				return nil, err
			}
			return c.runEdit(ctx, in, t, call)
		},
	}}
}

func editArgs(a *file.Access, input json.RawMessage) (*editIn, *file.Target, error) {
	in := &editIn{}
	if err := decode(input, in); err != nil {
		return nil, nil, err
	}
	switch {
	case in.Old == "":
		return nil, nil, file.Invalid("/old_string", "old_string is empty; give the text to replace. Write makes new files.")
	case in.New == nil:
		return nil, nil, file.Invalid("/new_string", "new_string is missing; give the text to put in, which may be empty.")
	}
	t, err := a.File("/file_path", in.FilePath)
	if err != nil {
		return nil, nil, err
	}
	if in.Old == *in.New {
		return nil, nil, file.Error(abi.TypeValidation, file.CodeNoChange, "old_string and new_string are the same, so nothing would change.")
	}
	return in, t, reachable(t)
}

// place is where an ambiguous text was found.
type place struct {
	Line   int `json:"line"`
	Column int `json:"column"`
}

func (c *core) runEdit(ctx context.Context, in *editIn, t *file.Target, call *tool.Call) (*abi.Result, error) {
	if err := call.Yield(abi.Message("Editing " + t.Path)); err != nil {
		return nil, err
	}
	src, ch, err := c.load(ctx, t, call)
	if err != nil {
		return nil, err
	}
	if err := ch.guard(); err != nil {
		return nil, err
	}
	text := file.Decode(src)
	if text.Lossy || file.Binary(src[:min(len(src), file.SniffSize)]) {
		return nil, file.Error(abi.TypeValidation, file.CodeEncoding, "%s is no text in UTF-8, UTF-16 or Latin-1, so a change would damage it. Write can replace the file as a whole.", t.Path)
	}
	f := locate(ctx, text.S, in.Old, *in.New)
	if err := file.Aborted(ctx); err != nil {
		return nil, err
	}
	switch {
	case len(f.spans) == 0:
		missed := noMatch(ctx, t, text.S, in.Old)
		if err := file.Aborted(ctx); err != nil { // then it was not looked for to the end
			return nil, err
		}
		return nil, missed
	case len(f.spans) > 1 && !in.ReplaceAll:
		return nil, notUnique(t, text.S, f.spans)
	}
	y := abi.Yield{Kind: abi.YieldProgress, Message: fmt.Sprintf("Found %d times", len(f.spans)), Data: json.RawMessage(fmt.Sprintf(`{"matches":%d}`, len(f.spans)))}
	if err := call.Yield(y); err != nil {
		return nil, err
	}
	after := applied(text.S, f)
	if after == text.S {
		return nil, file.Error(abi.TypeValidation, file.CodeNoChange, "the change leaves %s as it is.", t.Path)
	}
	out, err := text.Encode(after)
	if err != nil {
		return nil, err
	}
	kept, err := ch.store(out, false)
	if err != nil {
		return nil, err
	}
	return editResult(in, ch, text, f, after, kept)
}

// applied is the text with every span replaced.
func applied(text string, f found) string {
	var b strings.Builder
	b.Grow(len(text))
	at := 0
	for _, s := range f.spans {
		b.WriteString(text[at:s.from])
		b.WriteString(f.fresh(s))
		at = s.to
	}
	b.WriteString(text[at:])
	return b.String()
}

func editResult(in *editIn, ch *change, text file.Text, f found, after string, kept bool) (*abi.Result, error) {
	n := len(f.spans)
	before, now := file.Units(text.S), file.Units(after)
	if text.BOM { // the mark counts as a character of the file
		before++
		now++
	}
	d := excerpt(text.S, f.spans, f.fresh).String()
	meta := map[string]any{
		"kind": "edit", "file_path": ch.t.Path, "matches_found": n, "replacements_made": n, "replace_all": in.ReplaceAll,
		"old_string_length": file.Units(in.Old), "new_string_length": file.Units(*in.New),
		"original_size": before, "new_size": now, "size_diff": now - before,
		"last_modified": isoTime(ch.st.Mtim), "snapshot_created": kept, "diff_snippet": d,
		"match_strategy": f.strategy, "encoding": string(text.Encoding),
	}
	identity(meta, ch.call)
	contents(meta, text.S, after)
	model := struct {
		FilePath     string `json:"file_path"`
		Replacements int    `json:"replacements"`
		TotalMatches int    `json:"total_matches"`
		Note         string `json:"note,omitempty"`
	}{ch.t.Path, n, n, ch.readOnly()}
	data := struct {
		FilePath     string `json:"file_path"`
		Replacements int    `json:"replacements"`
		TotalMatches int    `json:"total_matches"`
		Strategy     string `json:"match_strategy"`
		Diff         string `json:"diff_snippet"`
	}{ch.t.Path, n, n, f.strategy, d}
	return result(model, data, fmt.Sprintf("Replaced %d times in %s", n, ch.t.Path), meta)
}

// maxPlaces bounds the places that an error names.
const maxPlaces = 100

// notUnique is the error of a text that is there more than once.
func notUnique(t *file.Target, text string, spans []span) error {
	var places []place
	var lines []string
	line, start, at := 1, 0, 0
	for _, s := range spans[:min(len(spans), maxPlaces)] {
		line += strings.Count(text[at:s.from], "\n")
		if i := strings.LastIndexByte(text[:s.from], '\n'); i >= 0 {
			start = i + 1
		}
		at = s.from
		places = append(places, place{line, file.Units(text[start:s.from]) + 1})
		lines = append(lines, fmt.Sprint(line))
	}
	more := ""
	if len(spans) > maxPlaces {
		more = ", …"
	}
	return file.Error(abi.TypeValidation, file.CodeNotUnique, "old_string is in %s %d times (lines %s%s). Add lines around it until only one place fits, or set replace_all.",
		t.Path, len(spans), strings.Join(lines, ", "), more).With(map[string]any{"matches": places, "count": len(spans)})
}
