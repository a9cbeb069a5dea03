package filesystem

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/ledongthuc/pdf"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/file"
)

// Limits of the text of PDFs. The library was made for honest files.
const (
	maxPages = 1000
	// maxPageBytes bounds what one page may unpack to.
	maxPageBytes = 8 << 20
	// maxPDFText bounds the text in all.
	maxPDFText = 8 << 20
	// maxPDFTime is how long the text of one file may take.
	maxPDFTime = 20 * time.Second
)

// pdf returns the text of a PDF, or its bytes where it has none that can be read.
func (r *reader) pdf(ctx context.Context) (*abi.Result, error) {
	if err := r.call.Yield(abi.Message("It is a PDF")); err != nil {
		return nil, err
	}
	b, err := r.whole(ctx)
	if err != nil {
		return nil, err
	}
	text, pages, err := r.c.pdfChild(ctx, b)
	if e := file.Aborted(ctx); e != nil {
		return nil, e
	}
	if err != nil || strings.TrimSpace(text) == "" {
		res, e := r.bytes(ctx, "base64")
		if e == nil {
			why := "it has no text, perhaps only pictures of it"
			if err != nil {
				why = err.Error()
			}
			res.SetMeta("is_binary", true)
			res.SetMeta("media_type", "application/pdf")
			res.SetMeta("note", "the text of the PDF could not be read: "+why)
		}
		return res, e
	}
	offset, limit := r.in.lines()
	p, err := slice(ctx, strings.NewReader(text), offset, limit, -1)
	if err != nil {
		return nil, err
	}
	res, err := r.lines(p, "utf8", false)
	if err == nil {
		res.SetMeta("is_binary", true)
		res.SetMeta("media_type", "application/pdf")
		res.SetMeta("pages", pages)
	}
	return res, err
}

// maxPDFMemory is where the process that reads a PDF ends, in bytes.
const maxPDFMemory = 1 << 30

// pdfAnswer is what that process writes.
type pdfAnswer struct {
	Text  string `json:"text"`
	Pages int    `json:"pages"`
	Error string `json:"error,omitempty"`
}

// pdfChild has a process of its own read the text of a PDF: the library loops for ever on some broken
// files, and a process can be ended.
func (c *core) pdfChild(ctx context.Context, b []byte) (string, int, error) {
	if len(c.opt.PDFChild) == 0 {
		return "", 0, errors.New("this host has no reader of PDFs (Options.PDFChild)")
	}
	limited, cancel := context.WithTimeout(ctx, maxPDFTime)
	defer cancel()
	cmd := exec.CommandContext(limited, c.opt.PDFChild[0], c.opt.PDFChild[1:]...)
	cmd.Stdin = bytes.NewReader(b)
	cmd.WaitDelay = time.Second
	cmd.Dir = os.TempDir()
	out, err := cmd.Output()
	switch {
	case limited.Err() != nil:
		return "", 0, fmt.Errorf("it took more than %v", maxPDFTime)
	case err != nil:
		return "", 0, errors.New("its reader failed, as on a broken file")
	}
	var a pdfAnswer
	if err := json.Unmarshal(out, &a); err != nil {
		return "", 0, errors.New("its reader gave no answer")
	}
	if a.Error != "" {
		return "", 0, errors.New(a.Error)
	}
	return a.Text, a.Pages, nil
}

// PDFMain is the whole of the process that Options.PDFChild names: it reads a PDF from in, writes its text to
// out, and returns the exit code. It ends the process it runs in when that uses too much memory, so it
// is not for any other process.
func PDFMain(in io.Reader, out io.Writer) int {
	debug.SetMemoryLimit(maxPDFMemory / 2)
	go func() { // ends with the process
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			if m.Sys > maxPDFMemory {
				os.Exit(3)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	b, err := io.ReadAll(io.LimitReader(in, maxWhole+1))
	if err != nil || len(b) > maxWhole {
		return 2
	}
	var a pdfAnswer
	if a.Text, a.Pages, err = pdfText(context.Background(), b); err != nil {
		a = pdfAnswer{Error: err.Error()}
	}
	raw, err := abi.Marshal(a)
	if err != nil {
		return 2
	}
	if _, err := out.Write(raw); err != nil {
		return 2
	}
	return 0
}

// pdfText is the text of all pages, each behind a line with its number.
func pdfText(ctx context.Context, b []byte) (text string, pages int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the PDF is damaged: %v", p)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, maxPDFTime)
	defer cancel()
	doc, err := pdf.NewReader(&guardedBytes{ctx: ctx, b: b}, int64(len(b)))
	if err != nil {
		return "", 0, err
	}
	pages = doc.NumPage()
	if pages < 0 || pages > maxPages {
		return "", 0, fmt.Errorf("it claims %d pages, at most %d are read", pages, maxPages)
	}
	var out strings.Builder
	for i := 1; i <= pages; i++ {
		if ctx.Err() != nil {
			return "", 0, errors.New("it took too long")
		}
		fmt.Fprintf(&out, "--- page %d of %d ---\n", i, pages)
		s, err := pageText(doc.Page(i))
		if err != nil {
			s = "[this page cannot be read: " + err.Error() + "]"
		}
		out.WriteString(strings.TrimSpace(strings.ToValidUTF8(s, "\uFFFD")) + "\n")
		if out.Len() > maxPDFText {
			out.WriteString("[cut here: the text is too long]\n")
			break
		}
	}
	return strings.TrimRight(out.String(), "\n"), pages, nil
}

// pageText is the text of one page whose content unpacks to a sane size.
func pageText(p pdf.Page) (s string, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("it is damaged: %v", v)
		}
	}()
	if p.V.IsNull() {
		return "", errors.New("it is missing")
	}
	content := p.V.Key("Contents")
	streams := []pdf.Value{content}
	if content.Kind() == pdf.Array {
		streams = streams[:0]
		for i := range min(content.Len(), 1000) {
			streams = append(streams, content.Index(i))
		}
	}
	size := int64(0)
	for _, v := range streams {
		if v.Kind() != pdf.Stream {
			continue
		}
		rc := v.Reader()
		n, err := io.Copy(io.Discard, io.LimitReader(rc, maxPageBytes-size+1))
		_ = rc.Close() // read only
		if size += n; size > maxPageBytes {
			return "", fmt.Errorf("it unpacks to more than %d bytes", maxPageBytes)
		}
		if err != nil {
			return "", err
		}
	}
	return p.GetPlainText(nil)
}

// guardedBytes can be read until its context ends: what loops over them ends with it.
type guardedBytes struct {
	ctx context.Context
	b   []byte
}

func (g *guardedBytes) ReadAt(p []byte, off int64) (int, error) {
	if g.ctx.Err() != nil {
		return 0, context.Cause(g.ctx)
	}
	if off < 0 || off >= int64(len(g.b)) {
		return 0, io.EOF
	}
	n := copy(p, g.b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
