package filesystem

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/args"
	"github.com/bladehost/bladehost/builtin/internal/file"
	"github.com/bladehost/bladehost/host/caps/fs"
	"github.com/bladehost/bladehost/host/tool"
)

const readSchema = `{"type":"object","properties":{` +
	`"file_path":{"type":"string","minLength":1,"description":"Absolute path of the file."},` +
	`"offset":{"type":"integer","minimum":0,"description":"Lines to skip: 0 starts at the first line."},` +
	`"limit":{"type":"integer","minimum":1,"maximum":10000,"description":"How many lines to read at most; 2000 where it is not given."},` +
	`"encoding":{"type":"string","enum":["utf8","base64","binary"],"default":"utf8","description":"utf8 reads text; base64 and binary return the bytes of any file."}},` +
	`"required":["file_path"],"additionalProperties":false}`

type readIn struct {
	FilePath string    `json:"file_path"`
	Offset   *args.Int `json:"offset"`
	Limit    *args.Int `json:"limit"`
	Encoding string    `json:"encoding"`
}

func (in *readIn) sliced() bool { return in.Offset != nil || in.Limit != nil }

func (in *readIn) lines() (offset, limit int) {
	limit = defaultLines
	if in.Limit != nil {
		limit = int(*in.Limit)
	}
	if in.Offset != nil {
		offset = int(*in.Offset)
	}
	return offset, limit
}

// maxOffset is the largest offset: more lines than any file can have that is read in the life of
// a call.
const maxOffset = 1 << 40

// read is the tool Read.
func (c *core) read() tool.Tool {
	note := "A text is returned with line numbers: each line is its number, right-aligned to six places, an arrow (→) and the line."
	if c.opt.RawRead {
		note = "A text is returned as it is, or with line numbers (number, arrow, line) where offset or limit is given."
	}
	return &native{core: c, key: "file_path", wide: byExtension,
		shape: args.Shape{Known: []string{"file_path", "offset", "limit", "encoding"}, Numbers: []string{"offset", "limit"}},
		spec: must(&abi.ToolSpec{
			Name: "Read", DisplayName: "File Read", Group: abi.GroupFilesystem,
			Description: abi.Description{
				Short: "Reads a file of the workspace: text, an image, a PDF or a notebook.",
				UsageNotes: []string{
					note,
					"Without limit the first 2000 lines are read. Lines of more than 2000 characters are cut. What was left out is said at the end.",
					"UTF-8, UTF-16 with a byte order mark and Latin-1 are understood. Images come as an image, PDFs as their text where the host can read it, notebooks as their cells with ids and outputs.",
					"A file must be read before Edit, Write or NotebookEdit may change it.",
				},
				Examples: []abi.Example{{Description: "Ten lines from line 101 on", Params: json.RawMessage(`{"file_path":"/project/main.go","offset":100,"limit":10}`)}},
			},
			Parameters: json.RawMessage(readSchema), Kind: abi.KindReadOnly, SideEffect: abi.SideEffectPure, Interrupt: abi.InterruptCancel,
			MaxResultSize: 500_000, PathParams: []string{"/file_path"}, LockPaths: []string{"/file_path"},
			Yields: &[]abi.YieldKind{abi.YieldMessage},
		}),
		check: func(_ context.Context, a *file.Access, input json.RawMessage) error {
			_, _, err := readArgs(a, input)
			return err
		},
		run: func(ctx context.Context, a *file.Access, call *tool.Call) (*abi.Result, error) {
			in, t, err := readArgs(a, call.Input)
			if err != nil {
				return nil, err
			}
			return c.runRead(ctx, &reader{c: c, in: in, t: t, call: call})
		},
	}
}

// must is for definitions, which are fixed.
func must(s *abi.ToolSpec) *abi.ToolSpec {
	if err := tool.CheckSpec(s); err != nil {
		panic(err)
	}
	return s
}

func readArgs(a *file.Access, input json.RawMessage) (*readIn, *file.Target, error) {
	in := &readIn{}
	if err := decode(input, in); err != nil {
		return nil, nil, err
	}
	for _, err := range []error{
		within("/offset", in.Offset, 0, maxOffset), within("/limit", in.Limit, 1, maxLines),
		oneOf("/encoding", in.Encoding, "utf8", "base64", "binary"),
	} {
		if err != nil {
			return nil, nil, err
		}
	}
	t, err := a.File("/file_path", in.FilePath)
	if err != nil {
		return nil, nil, err
	}
	return in, t, reachable(t)
}

// reachable finds paths that lead out of the workspace, or nowhere, before anything else is asked about them.
func reachable(t *file.Target) error {
	_, err := t.Stat()
	if err == nil || (abi.CodeOf(err) == file.CodeNotFound && !t.Exists()) {
		return nil // it is there, or may be made
	}
	return t.Missing(err)
}

// reader is one call of Read.
type reader struct {
	c    *core
	in   *readIn
	t    *file.Target
	call *tool.Call
	f    *fs.File
	st   fs.Info
	head []byte
	all  []byte // of whole
}

func (c *core) runRead(ctx context.Context, r *reader) (*abi.Result, error) {
	if err := r.call.Yield(abi.Message("Reading " + r.t.Path)); err != nil {
		return nil, err
	}
	if err := file.Aborted(ctx); err != nil {
		return nil, err
	}
	st, err := r.t.Stat()
	if err != nil {
		return nil, err
	}
	c.state.Saw(r.call.SessionID(), r.t, st, nil)
	if r.f, r.st, err = r.t.Open(); err != nil {
		return nil, err
	}
	defer func() { _ = r.f.Close() }() // read only
	c.state.Saw(r.call.SessionID(), r.t, r.st, nil)
	r.head = make([]byte, file.SniffSize)
	n, err := r.f.ReadAt(r.head, 0)
	if err != nil && err != io.EOF {
		return nil, file.Failed("read", r.t.Path, err)
	}
	r.head = r.head[:n]
	if r.in.Encoding == "base64" || r.in.Encoding == "binary" {
		return r.bytes(ctx, r.in.Encoding)
	}
	switch kind := mediaOf(r.head); {
	case kind == "application/pdf":
		return r.pdf(ctx)
	case kind != "":
		return r.image(ctx, kind)
	case extension(r.t.Path) == ".ipynb":
		return r.notebook(ctx)
	case file.Binary(r.head):
		return r.binary(ctx)
	}
	return r.text(ctx)
}

// whole reads all of the file, and notes that the session has seen it.
func (r *reader) whole(ctx context.Context) ([]byte, error) {
	if r.all != nil {
		return r.all, nil
	}
	b, err := file.ReadAll(ctx, r.t, r.f, r.st, maxWhole)
	if err != nil {
		return nil, err
	}
	r.saw(b)
	r.all = b
	return b, nil
}

func (r *reader) saw(b []byte) {
	st, err := r.f.Stat()
	if err != nil || st.Size != int64(len(b)) {
		return // it is changing: the first look counts
	}
	h := file.Hash(sha256.Sum256(b))
	r.c.state.Saw(r.call.SessionID(), r.t, st, &h)
}

// meta is the metadata that every reading has.
func (r *reader) meta(encoding string) map[string]any {
	return map[string]any{
		"file_path": r.t.Path, "file_size": r.st.Size, "file_type": extension(r.t.Path),
		"last_modified": isoTime(r.st.Mtim), "encoding": encoding,
	}
}

// readData is the data of a Read.
type readData struct {
	FilePath   string `json:"file_path"`
	Content    string `json:"content"`
	Encoding   string `json:"encoding"`
	MediaType  string `json:"media_type,omitempty"`
	StartLine  *int   `json:"start_line,omitempty"`
	EndLine    *int   `json:"end_line,omitempty"`
	TotalLines *int   `json:"total_lines,omitempty"`
	Truncated  bool   `json:"truncated"`
	Lossy      bool   `json:"lossy,omitempty"`
}

// bytes returns the whole file as base64 or as a character a byte.
func (r *reader) bytes(ctx context.Context, encoding string) (*abi.Result, error) {
	b, err := r.whole(ctx)
	if err != nil {
		return nil, err
	}
	var s string
	if encoding == "base64" {
		s = base64.StdEncoding.EncodeToString(b)
	} else {
		var w strings.Builder
		w.Grow(len(b) * 2)
		for _, c := range b {
			w.WriteRune(rune(c))
		}
		s = w.String()
	}
	return result(s, readData{FilePath: r.t.Path, Content: s, Encoding: encoding}, fmt.Sprintf("%d bytes of %s", len(b), r.t.Path), r.meta(encoding))
}

// binary is a file that is no text and nothing else that is known.
func (r *reader) binary(ctx context.Context) (*abi.Result, error) {
	if err := r.call.Yield(abi.Message("It is a binary file, so its bytes are read as base64")); err != nil {
		return nil, err
	}
	res, err := r.bytes(ctx, "base64")
	if err == nil {
		res.SetMeta("is_binary", true)
	}
	return res, err
}

// text reads lines. A file of up to maxWhole bytes is decoded as a whole, a larger one as
// it is read.
func (r *reader) text(ctx context.Context) (*abi.Result, error) {
	if r.st.Size <= maxWhole {
		b, err := r.whole(ctx)
		if err != nil {
			return nil, err
		}
		return r.decoded(ctx, file.Decode(b))
	}
	if r.c.opt.RawRead && !r.in.sliced() {
		return nil, file.TooLarge(r.t, r.st.Size, maxWhole)
	}
	offset, limit := r.in.lines()
	dec := file.NewReader(r.f, r.head)
	p, err := slice(ctx, dec, offset, limit, countAhead)
	if err != nil {
		return nil, file.Failed("read", r.t.Path, err)
	}
	return r.lines(p, string(dec.Encoding()), dec.Lossy())
}

// decoded returns lines of a text that is in memory.
func (r *reader) decoded(ctx context.Context, text file.Text) (*abi.Result, error) {
	if text.S == "" {
		if r.in.sliced() || r.c.opt.RawRead {
			return r.lines(part{start: 1, total: 1}, string(text.Encoding), false)
		}
		return result("The file is empty.", readData{FilePath: r.t.Path, Encoding: string(text.Encoding), TotalLines: ptr(0)}, r.t.Path+" is empty", r.meta(string(text.Encoding)))
	}
	if r.c.opt.RawRead && !r.in.sliced() {
		meta := r.meta(string(text.Encoding))
		if text.Lossy {
			meta["lossy"] = true
		}
		return result(text.S, readData{FilePath: r.t.Path, Content: text.S, Encoding: string(text.Encoding), Lossy: text.Lossy}, "Read "+r.t.Path, meta)
	}
	offset, limit := r.in.lines()
	p, err := slice(ctx, strings.NewReader(text.S), offset, limit, -1)
	if err != nil {
		return nil, err
	}
	return r.lines(p, string(text.Encoding), text.Lossy)
}

// lines makes the result of a slice of lines.
func (r *reader) lines(p part, encoding string, lossy bool) (*abi.Result, error) {
	meta := r.meta(encoding)
	data := readData{FilePath: r.t.Path, Content: p.text, Encoding: encoding, Truncated: p.more(), Lossy: lossy}
	meta["lines_read"] = p.lines
	if p.total >= 0 {
		meta["total_lines"] = p.total
		data.TotalLines = ptr(p.total)
	}
	if p.lines > 0 {
		meta["start_line"], meta["end_line"] = p.start, p.end()
		data.StartLine, data.EndLine = ptr(p.start), ptr(p.end())
	}
	if lossy {
		meta["lossy"] = true
	}
	if p.full {
		meta["truncated"] = true
	}
	return result(p.numbered()+r.remark(p), data, fmt.Sprintf("Read %d lines of %s", p.lines, r.t.Path), meta)
}

// remark says what of the file is not there, where the model did not ask for a part.
func (r *reader) remark(p part) string {
	switch {
	case p.lines == 0 && p.total >= 0 && p.start > p.total:
		return fmt.Sprintf("[%s has %d lines; there is no line %d]", r.t.Path, p.total, p.start)
	case p.full:
		return fmt.Sprintf("\n\n[cut after %d MiB of text; give an offset after line %d, or search with Grep]", maxSlice>>20, p.end())
	case r.in.sliced() || !p.more():
		return ""
	case p.total < 0:
		return fmt.Sprintf("\n\n[lines %d to %d of a file of %d bytes; give offset and limit for other lines, or search with Grep]", p.start, p.end(), r.st.Size)
	}
	return fmt.Sprintf("\n\n[lines %d to %d of %d; give offset and limit for other lines, or search with Grep]", p.start, p.end(), p.total)
}
