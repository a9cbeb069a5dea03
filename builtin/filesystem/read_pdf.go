package filesystem

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	text, pages, err := pdfText(ctx, b)
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
