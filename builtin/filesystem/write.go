package filesystem

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/args"
	"github.com/bladehost/bladehost/builtin/internal/file"
	"github.com/bladehost/bladehost/host/caps/fs"
	"github.com/bladehost/bladehost/host/tool"
)

const writeSchema = `{"type":"object","properties":{` +
	`"file_path":{"type":"string","minLength":1,"description":"Absolute path of the file."},` +
	`"content":{"type":"string","description":"The whole content."},` +
	`"encoding":{"type":"string","enum":["utf8","base64","binary"],"default":"utf8","description":"How content stands for bytes: as text, as base64, or a character (U+0000 to U+00FF) a byte."},` +
	`"create_directories":{"type":"boolean","default":true,"description":"Make the folders above the file where they are missing."}},` +
	`"required":["file_path","content"],"additionalProperties":false}`

type writeIn struct {
	FilePath string  `json:"file_path"`
	Content  *string `json:"content"`
	Encoding string  `json:"encoding"`
	Mkdir    *bool   `json:"create_directories"`
}

// write is the tool Write.
func (c *core) write() tool.Tool {
	return writer{&native{core: c, key: "file_path", wide: byExtension,
		shape: args.Shape{Known: []string{"file_path", "content", "encoding", "create_directories"}},
		spec: must(&abi.ToolSpec{
			Name: "Write", DisplayName: "File Write", Group: abi.GroupFilesystem,
			Description: abi.Description{
				Short: "Makes a file, or replaces the whole content of one.",
				UsageNotes: []string{
					"A file that exists must be read first, so that nothing is lost unseen. Edit is better for small changes.",
					"The content is stored as it is given: as UTF-8, without a byte order mark, with the line ends it has.",
					"The file is replaced as a whole, keeping its mode: others see the old or the new content. Only a file with several names (hard links) is written in place.",
					"Git's hooks and configuration (.git/hooks, .git/config) are written by no tool; what shells, editors and the like obey, such as .bashrc, .envrc and .vscode, needs a permission of its own.",
				},
				Examples: []abi.Example{{Description: "A new file", Params: json.RawMessage(`{"file_path":"/project/notes.txt","content":"first line\n"}`)}},
			},
			Parameters: json.RawMessage(writeSchema), Kind: abi.KindWrite, SideEffect: abi.SideEffectIdempotent, Strict: true,
			PathParams: []string{"/file_path"}, LockPaths: []string{"/file_path"}, Yields: &[]abi.YieldKind{abi.YieldMessage},
		}),
		check: func(_ context.Context, a *file.Access, input json.RawMessage) error {
			_, _, _, err := writeArgs(a, input)
			return err
		},
		resolve: func(input json.RawMessage) tool.Partial { return sensitivePath(input) },
		run: func(ctx context.Context, a *file.Access, call *tool.Call) (*abi.Result, error) {
			in, t, data, err := writeArgs(a, call.Input)
			if err != nil {
				return nil, err
			}
			return c.runWrite(ctx, in, t, data, call)
		},
	}}
}

func writeArgs(a *file.Access, input json.RawMessage) (*writeIn, *file.Target, []byte, error) {
	in := &writeIn{}
	if err := decode(input, in); err != nil {
		return nil, nil, nil, err
	}
	if in.Content == nil {
		return nil, nil, nil, file.Invalid("/content", "content is missing; give the whole content, which may be empty.")
	}
	if err := oneOf("/encoding", in.Encoding, "utf8", "base64", "binary"); err != nil {
		return nil, nil, nil, err
	}
	if in.Encoding == "" {
		in.Encoding = "utf8"
	}
	t, err := a.File("/file_path", in.FilePath)
	if err != nil {
		return nil, nil, nil, err
	}
	data, err := bytesOf(*in.Content, in.Encoding)
	if err != nil {
		return nil, nil, nil, err
	}
	return in, t, data, reachable(t)
}

// bytesOf are the bytes that a content stands for.
func bytesOf(content, encoding string) ([]byte, error) {
	switch encoding {
	case "base64":
		b, err := base64.StdEncoding.Strict().DecodeString(content)
		if err != nil {
			return nil, file.Error(abi.TypeValidation, file.CodeBase64, "content is no base64: %v. Give it in the standard alphabet with padding.", err)
		}
		return b, nil
	case "binary":
		out := make([]byte, 0, len(content))
		for i, r := range content {
			if r > 0xff {
				return nil, file.Invalid("/content", "content has %q (U+%04X) at byte %d, but with encoding binary each character stands for one byte, at most U+00FF.", r, r, i)
			}
			out = append(out, byte(r))
		}
		return out, nil
	}
	return []byte(content), nil
}

// open looks at what is there already, and holds an existing file to what the session has read.
func (ch *change) open() error {
	st, err := ch.t.Stat()
	if abi.CodeOf(err) == file.CodeNotFound && !ch.t.Exists() {
		return nil
	}
	if err != nil {
		return ch.t.Missing(err)
	}
	ch.old, ch.st = &st, st
	guarded := func() (file.Hash, error) {
		f, now, err := ch.t.Open()
		if err != nil {
			return file.Hash{}, err
		}
		defer func() { _ = f.Close() }() // read only
		ch.st = now
		ch.old = &ch.st
		if now.Size > maxDiff { // too large for a diff
			h, err := file.HashOf(ch.ctx, f)
			if err != nil {
				return h, file.Failed("read", ch.t.Path, err)
			}
			return h, nil
		}
		if ch.src, err = file.ReadAll(ch.ctx, ch.t, f, now, maxEdit); err != nil {
			return file.Hash{}, err
		}
		return sha256.Sum256(ch.src), nil
	}
	if err := ch.c.state.Guard(ch.call.SessionID(), ch.t, st, guarded); err != nil {
		return err
	}
	switch {
	case st.IsDir():
		return file.Failed("write", ch.t.Path, fs.EISDIR)
	case ch.src == nil && st.IsRegular() && st.Size <= maxDiff: // it was not asked for, but there is a diff to make
		_, err = guarded()
	}
	return err
}

func (c *core) runWrite(ctx context.Context, in *writeIn, t *file.Target, data []byte, call *tool.Call) (*abi.Result, error) {
	if err := call.Yield(abi.Message("Writing " + t.Path)); err != nil {
		return nil, err
	}
	ch := &change{c: c, ctx: ctx, t: t, call: call}
	if err := file.Aborted(ctx); err != nil {
		return nil, err
	}
	if err := ch.open(); err != nil {
		return nil, err
	}
	mkdir := in.Mkdir == nil || *in.Mkdir
	existed := ch.old != nil
	made := !existed && mkdir && !t.FolderExists()
	kept, err := ch.store(data, mkdir)
	if err != nil {
		return nil, err
	}
	meta := map[string]any{
		"kind": "edit", "file_path": t.Path, "content_size": file.Units(*in.Content), "file_size": len(data), "encoding": in.Encoding,
		"created_directories": mkdir, "directories_made": made, "created": !existed,
		"snapshot_created": kept, "last_modified": isoTime(ch.st.Mtim), "has_diff": false,
	}
	identity(meta, call)
	old := file.Decode(ch.src)
	meta["oldContent"] = ""
	if in.Encoding == "utf8" {
		contents(meta, old.S, *in.Content)
		if old.S != "" && !old.Lossy && old.S != *in.Content && len(old.S) < maxDiff && len(*in.Content) < maxDiff {
			meta["has_diff"] = true
			meta["diff_snippet"] = whole(old.S, *in.Content).String()
		}
	}
	model := struct {
		FilePath string `json:"file_path"`
		Size     int    `json:"size"`
		Modified string `json:"modified"`
		Note     string `json:"note,omitempty"`
	}{t.Path, len(data), isoTime(ch.st.Mtim), ch.readOnly()}
	verb := "Wrote"
	if !existed {
		verb = "Made"
	}
	return result(model, model, fmt.Sprintf("%s %s, %d bytes", verb, t.Path, len(data)), meta)
}

// stopReader reads until its context ends.
type stopReader struct {
	ctx context.Context
	r   io.Reader
}

func (s stopReader) Read(b []byte) (int, error) {
	if err := file.Aborted(s.ctx); err != nil {
		return 0, err
	}
	return s.r.Read(b)
}

// whole is the diff of two whole texts.
func whole(before, after string) snippet {
	line := 1
	for i := 0; i < len(before) && i < len(after) && before[i] == after[i]; i++ {
		if before[i] == '\n' {
			line++
		}
	}
	return snippet{Patch: unified(before, after, 1), StartLine: max(1, line-diffContext), MatchLine: line}
}
