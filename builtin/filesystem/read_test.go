package filesystem

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/file"
	"github.com/bladehost/bladehost/host"
)

type readOut struct {
	Content   string
	Encoding  string
	StartLine *int `json:"start_line"`
	EndLine   *int `json:"end_line"`
	Total     *int `json:"total_lines"`
	Truncated bool
	Lossy     bool
}

// Lines, their numbers and what is said of the rest.
func TestReadLines(t *testing.T) {
	r := newRoom(t, map[string]string{
		"a.txt": "alpha\nbeta\ngamma\n", "noeol.txt": "x\ny", "empty.txt": "", "nl.txt": "\n", "crlf.txt": "one\r\ntwo\r\n", "long.txt": strings.Repeat("x", 2001) + "\n" + strings.Repeat("😀", 1001),
		"big.txt": strings.Repeat("line\n", 5000),
	})
	for _, c := range []struct {
		file          string
		offset, limit any
		model         string
		content       string
	}{
		{"a.txt", nil, nil, "     1→alpha\n     2→beta\n     3→gamma\n     4→", "alpha\nbeta\ngamma\n"},
		{"a.txt", 1, 1, "     2→beta", "beta"},
		{"a.txt", "1", " 1 ", "     2→beta", "beta"},
		{"a.txt", 1.0, 1e0, "     2→beta", "beta"},
		{"a.txt", 3, 5, "     4→", ""},
		{"a.txt", 2, nil, "     3→gamma\n     4→", "gamma\n"},
		{"noeol.txt", nil, nil, "     1→x\n     2→y", "x\ny"},
		{"nl.txt", nil, nil, "     1→\n     2→", "\n"},
		{"empty.txt", nil, nil, "The file is empty.", ""},
		{"crlf.txt", nil, 1, "     1→one\r", "one\r"},
		{"long.txt", nil, nil, "     1→" + strings.Repeat("x", 2000) + "...\n     2→" + strings.Repeat("😀", 1000) + "...", strings.Repeat("x", 2001) + "\n" + strings.Repeat("😀", 1001)},
		{"big.txt", 4999, 10, "  5000→line\n  5001→", "line\n"},
	} {
		in := map[string]any{"file_path": c.file}
		if c.offset != nil {
			in["offset"] = c.offset
		}
		if c.limit != nil {
			in["limit"] = c.limit
		}
		res := r.ok("Read", in)
		if res.ModelText() != c.model {
			t.Errorf("%v: %q, not %q", in, res.ModelText(), c.model)
		}
		if d := data[readOut](t, res); d.Content != c.content {
			t.Errorf("%v: the content is %.100q", in, d.Content)
		}
	}
	res := r.ok("Read", map[string]any{"file_path": "big.txt"})
	d := data[readOut](t, res)
	if !strings.Contains(res.ModelText(), "  2000→line\n\n[lines 1 to 2000 of 5001;") || strings.Contains(res.ModelText(), "2001→") || !d.Truncated || *d.Total != 5001 || *d.EndLine != 2000 {
		t.Errorf("%.60q … %q", res.ModelText(), res.ModelText()[len(res.ModelText())-200:])
	}
	res = r.ok("Read", map[string]any{"file_path": "a.txt", "offset": 9})
	if d := data[readOut](t, res); d.Content != "" || d.StartLine != nil || *d.Total != 4 || !strings.Contains(res.ModelText(), "4 lines") {
		t.Errorf("%s %s", res.Model, res.Data)
	}
	for k, want := range map[string]any{"file_path": r.path("a.txt"), "file_type": ".txt", "encoding": "utf8", "total_lines": 4} {
		if got := res.Metadata[k]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s is %v", k, got)
		}
	}
}

// The form of the recorded version, where an embedder wants it.
func TestReadRaw(t *testing.T) {
	r := newRoom(t, map[string]string{"a.txt": "alpha\nbeta\n", "big.txt": strings.Repeat("line\n", 5000), "huge.txt": strings.Repeat("x", maxWhole+1), "empty": ""}, Options{RawRead: true})
	if res := r.ok("Read", map[string]any{"file_path": "a.txt"}); res.ModelText() != "alpha\nbeta\n" {
		t.Errorf("%q", res.ModelText())
	}
	if res := r.ok("Read", map[string]any{"file_path": "big.txt"}); len(res.ModelText()) != 25_000 {
		t.Errorf("%d", len(res.ModelText()))
	}
	if res := r.ok("Read", map[string]any{"file_path": "a.txt", "limit": 1}); res.ModelText() != "     1→alpha" {
		t.Errorf("%q", res.ModelText())
	}
	res := r.fails("Read", map[string]any{"file_path": "huge.txt"}, file.CodeTooLarge, vErr)
	var d map[string]int64
	if err := json.Unmarshal(res.Error.Details, &d); err != nil || d["limit"] != maxWhole {
		t.Errorf("%s", res.Error.Details)
	}
	if res := r.ok("Read", map[string]any{"file_path": "huge.txt", "limit": 1}); len(res.ModelText()) > 3000 {
		t.Errorf("%d", len(res.ModelText()))
	}
	if strings.Contains(byName(t, "Read").Spec().Description.Text(), "is returned as it is") {
		t.Error("the description of the other form")
	}
}

// Encodings are told by the start of the file, and the bytes that are no characters are said.
func TestReadEncodings(t *testing.T) {
	r := newRoom(t, nil)
	long := strings.Repeat("0123456789 wörld 日本 😀\n", 50_000) // over the seams of blocks
	for name, c := range map[string]struct {
		bytes    []byte
		text     string
		encoding string
		lossy    bool
	}{
		"bom":        {[]byte("\xef\xbb\xbfbom"), "bom", "utf8", false},
		"utf16le":    {enc(t, file.UTF16LE, "hé😀"), "hé😀", "utf16le", false},
		"utf16be":    {enc(t, file.UTF16BE, "hé😀"), "hé😀", "utf16be", false},
		"odd":        {append(enc(t, file.UTF16LE, "ab"), 'x'), "ab\uFFFD", "utf16le", true},
		"surrogate":  {[]byte("\xff\xfe\x00\xd8a\x00"), "\uFFFDa", "utf16le", true},
		"latin1":     {[]byte("caf\xe9 na\xefve"), "café naïve", "latin1", false},
		"broken":     {[]byte("h\xc3\xa9 \xff"), "hé \uFFFD", "utf8", true},
		"c1":         {[]byte("a\x80b"), "a\uFFFDb", "utf8", true},
		"long16":     {enc(t, file.UTF16LE, long), long, "utf16le", false},
		"longutf8":   {[]byte(long), long, "utf8", false},
		"longlatin1": {bytes.Repeat([]byte("caf\xe9\n"), 100_000), strings.Repeat("café\n", 100_000), "latin1", false},
	} {
		if err := os.WriteFile(r.path(name), c.bytes, 0o644); err != nil {
			t.Fatal(err)
		}
		res := r.ok("Read", map[string]any{"file_path": name, "limit": 10_000})
		d := data[readOut](t, res)
		if !strings.HasPrefix(c.text, d.Content) || d.Content == "" || d.Encoding != c.encoding || d.Lossy != c.lossy || (res.Metadata["lossy"] == true) != c.lossy {
			t.Errorf("%s: %.60q %s lossy %v", name, d.Content, d.Encoding, d.Lossy)
		}
		// The same while it is read, as larger files are.
		dec := file.NewReader(bytes.NewReader(c.bytes), c.bytes[:min(len(c.bytes), file.SniffSize)])
		all, err := io.ReadAll(dec)
		if got := strings.ToValidUTF8(string(all), "\uFFFD"); err != nil || got != c.text || string(dec.Encoding()) != c.encoding || dec.Lossy() != c.lossy {
			t.Errorf("%s, streamed: %.60q %s lossy %v, %v", name, got, dec.Encoding(), dec.Lossy(), err)
		}
	}
}

func enc(t testing.TB, e file.Encoding, s string) []byte {
	t.Helper()
	b, err := file.Text{Encoding: e}.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// 2,000 lines at the start of a file of 1 GB are read without the rest: counted by what is read.
func TestReadHuge(t *testing.T) {
	r := newRoom(t, nil)
	f, err := os.Create(r.path("huge.log"))
	if err != nil {
		t.Fatal(err)
	}
	block := []byte(strings.Repeat("a line of the log of about sixty letters, more or less, or so\n", 10_000))
	if _, err := f.Write(block); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(1 << 30); err != nil { // a hole
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	before := readBytes(t)
	res := r.ok("Read", map[string]any{"file_path": "huge.log"})
	if n := readBytes(t) - before; before >= 0 && n > 4<<20 {
		t.Errorf("%d bytes were read", n)
	}
	d := data[readOut](t, res)
	if *d.EndLine != 2000 || d.Total != nil || !d.Truncated || !strings.Contains(res.ModelText(), "[lines 1 to 2000 of a file of 1073741824 bytes;") {
		t.Errorf("%s", res.ModelText()[len(res.ModelText())-200:])
	}
	res = r.ok("Read", map[string]any{"file_path": "huge.log", "offset": 9_000, "limit": 3})
	if d := data[readOut](t, res); *d.StartLine != 9001 || d.Content != strings.TrimSuffix(strings.Repeat("a line of the log of about sixty letters, more or less, or so\n", 3), "\n") {
		t.Errorf("%+v", d)
	}
	// A line without an end is cut, and the rest of it not kept.
	if res = r.ok("Read", map[string]any{"file_path": "huge.log", "offset": 10_000}); len(res.ModelText()) > 20_000 || !strings.Contains(res.ModelText(), "cut after") {
		t.Errorf("%d", len(res.ModelText()))
	}
	for _, e := range []string{"base64", "binary"} {
		r.fails("Read", map[string]any{"file_path": "huge.log", "encoding": e}, file.CodeTooLarge, vErr)
	}
}

// readBytes is what this process has read so far, or -1 where the system does not say.
func readBytes(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return -1
	}
	var n int64
	if _, err := fmt.Sscanf(string(b), "rchar: %d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A slice of lines is what a plain split gives, however the blocks fall.
func TestSlice(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		var b strings.Builder
		for range r.IntN(40) {
			b.WriteString(strings.Repeat("x", r.IntN(5)) + "\n")
		}
		b.WriteString([]string{"", "end"}[r.IntN(2)])
		lines := strings.Split(b.String(), "\n")
		offset, limit := r.IntN(45), 1+r.IntN(45)
		p, err := slice(t.Context(), &dribble{strings.NewReader(b.String()), r}, offset, limit, -1)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		if offset < len(lines) {
			want = lines[offset:min(len(lines), offset+limit)]
		}
		if p.text != strings.Join(want, "\n") || p.lines != len(want) || p.total != len(lines) || p.start != offset+1 {
			t.Errorf("%q from %d, %d: %+v, not %q", b.String(), offset, limit, p, want)
		}
	}
}

// dribble reads a few bytes at a time.
type dribble struct {
	r io.Reader
	n *rand.Rand
}

func (d *dribble) Read(b []byte) (int, error) { return d.r.Read(b[:min(len(b), 1+d.n.IntN(4))]) }

// Images come as images, large ones smaller; what claims to be one and is not, is an error.
func TestReadImages(t *testing.T) {
	r := newRoom(t, nil)
	small := image.NewRGBA(image.Rect(0, 0, 2, 3))
	noise := image.NewRGBA(image.Rect(0, 0, 1800, 900))
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range noise.Pix {
		noise.Pix[i] = uint8(rnd.Uint32())
	}
	small.Set(0, 0, color.White)
	var tiny, big, bomb, wide bytes.Buffer
	for w, img := range map[*bytes.Buffer]image.Image{&tiny: small, &big: noise, &wide: image.NewGray(image.Rect(0, 0, 6000, 600))} {
		if err := png.Encode(w, img); err != nil {
			t.Fatal(err)
		}
	}
	// A header that claims 60,000 by 60,000 pixels.
	header := append(append([]byte{}, tiny.Bytes()[12:16]...), 0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60)
	header = append(header, tiny.Bytes()[24:29]...)
	bomb.Write(tiny.Bytes()[:12])
	bomb.Write(header)
	bomb.Write(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(header)))
	bomb.Write(tiny.Bytes()[33:])
	for name, b := range map[string][]byte{"tiny.png": tiny.Bytes(), "tiny.dat": tiny.Bytes(), "big.png": big.Bytes(), "bomb.png": bomb.Bytes(), "fake.png": []byte("text in a picture"), "wide.png": wide.Bytes(), "three.jpg": []byte("\xff\xd8\xff"), "head.png": tiny.Bytes()[:33], "half.png": big.Bytes()[:big.Len()/2], "cut.jpg": append([]byte("\xff\xd8\xff"), make([]byte, maxImage)...)} {
		if err := os.WriteFile(r.path(name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"tiny.png", "tiny.dat", "big.png"} {
		res := r.ok("Read", map[string]any{"file_path": name})
		var block imageBlock
		if err := json.Unmarshal(res.Model, &block); err != nil || block.Type != "image" {
			t.Fatalf("%s: %.100s %v", name, res.Model, err)
		}
		b, err := base64.StdEncoding.DecodeString(block.Base64)
		if err != nil || len(res.Model) > 500_000 || res.Metadata["is_binary"] != true {
			t.Errorf("%s: %d bytes, %v", name, len(res.Model), err)
		}
		switch name {
		case "big.png":
			img, err := jpeg.Decode(bytes.NewReader(b))
			if err != nil || block.MediaType != "image/jpeg" || img.Bounds().Dx() > maxEdge || img.Bounds().Dx() != 2*img.Bounds().Dy() || res.Metadata["width"] != 1800 {
				t.Errorf("%s %v", block.MediaType, err)
			}
		default:
			if block.MediaType != "image/png" || !bytes.Equal(b, tiny.Bytes()) {
				t.Errorf("%s: %s", name, block.MediaType)
			}
		}
	}
	r.fails("Read", map[string]any{"file_path": "bomb.png"}, file.CodeTooLarge, vErr)
	for _, name := range []string{"cut.jpg", "three.jpg", "head.png", "half.png"} {
		r.fails("Read", map[string]any{"file_path": name}, file.CodeBadImage, xErr)
	}
	// One with too many pixels is made smaller however few bytes it has.
	res := r.ok("Read", map[string]any{"file_path": "wide.png"})
	var block imageBlock
	if err := json.Unmarshal(res.Model, &block); err != nil {
		t.Fatal(err)
	}
	b, err := base64.StdEncoding.DecodeString(block.Base64)
	if err != nil {
		t.Fatal(err)
	}
	if cfg, err := jpeg.DecodeConfig(bytes.NewReader(b)); err != nil || cfg.Width > maxEdge || cfg.Width < maxEdge-1 || res.Metadata["resized"] != true {
		t.Errorf("%+v %v %v", cfg, err, res.Metadata)
	}
	if res := r.ok("Read", map[string]any{"file_path": "fake.png"}); !strings.Contains(res.ModelText(), "text in a picture") {
		t.Error(res.ModelText())
	}
}

// pdfOf makes a PDF of one page with a text.
func pdfOf(text string) []byte {
	var b bytes.Buffer
	var at []int
	obj := func(s string) {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", len(at), s)
	}
	b.WriteString("%PDF-1.4\n")
	obj("<< /Type /Catalog /Pages 2 0 R >>")
	obj("<< /Type /Pages /Kids [3 0 R] /Count 1 >>")
	obj("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>")
	content := "BT /F1 12 Tf 10 100 Td (" + text + ") Tj ET"
	obj(fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(content), content))
	obj("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
	xref := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, o := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", o)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, xref)
	return b.Bytes()
}

// PDFs come as their text, and as their bytes where there is none.
func TestReadPDF(t *testing.T) {
	r := newRoom(t, nil, Options{PDFChild: pdfChild(t)})
	good := pdfOf("Hello from page one")
	for name, b := range map[string][]byte{"good.pdf": good, "empty.pdf": []byte("%PDF-1.4\n1 0 obj<<>>endobj\ntrailer<<>>\n%%EOF\n"), "cut.pdf": good[:len(good)/2]} {
		if err := os.WriteFile(r.path(name), b, 0o644); err != nil {
			t.Fatal(err)
		}
		res := r.ok("Read", map[string]any{"file_path": name})
		if name == "good.pdf" {
			if !strings.Contains(res.ModelText(), "Hello from page one") || res.Metadata["pages"] != 1 {
				t.Errorf("%s %v", res.ModelText(), res.Metadata)
			}
			continue
		}
		if got, err := base64.StdEncoding.DecodeString(res.ModelText()); err != nil || !bytes.Equal(got, b) || res.Metadata["note"] == nil {
			t.Errorf("%s: %.60s %v", name, res.ModelText(), res.Metadata["note"])
		}
	}
}

// A PDF whose reader does not end, fails or is missing comes as its bytes, and a call that is stopped ends.
func TestReadPDFChild(t *testing.T) {
	bad := pdfOf("x")
	bad = bytes.Replace(bad, []byte("(x) Tj"), []byte("<<<< <"), 1) // a string without an end: the library waits for it
	for name, child := range map[string][]string{"none": nil, "missing": {"/does/not/exist"}, "fails": {"false"}, "babbles": {"echo", "no JSON"}} {
		r := newRoom(t, nil, Options{PDFChild: child})
		if err := os.WriteFile(r.path("a.pdf"), bad, 0o644); err != nil {
			t.Fatal(err)
		}
		res := r.ok("Read", map[string]any{"file_path": "a.pdf"})
		if got, err := base64.StdEncoding.DecodeString(res.ModelText()); err != nil || !bytes.Equal(got, bad) || res.Metadata["note"] == nil {
			t.Errorf("%s: %v %v", name, res.Metadata, err)
		}
	}
	r := newRoom(t, nil, Options{PDFChild: pdfChild(t)})
	if err := os.WriteFile(r.path("a.pdf"), bad, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	x := r.s.Start(ctx, host.Call{Tool: "Read", Input: r.input(map[string]any{"file_path": "a.pdf"})})
	for y := range x.Yields() {
		if strings.Contains(y.Content.Summary, "PDF") {
			cancel()
		}
	}
	if res, err := x.Result(); err != nil || !res.IsError() {
		t.Errorf("%+v %v", res, err)
	}
	cancel()
}

// The bytes of any file, and a file that is no text.
func TestReadBytes(t *testing.T) {
	r := newRoom(t, map[string]string{"bin": "a\x00\xff", "a.txt": "alpha\n", "late": strings.Repeat("x", file.SniffSize) + "\x00"})
	for _, c := range []struct{ file, encoding, want, meta string }{
		{"bin", "", "YQD/", "base64"}, {"bin", "base64", "YQD/", "base64"}, {"bin", "binary", "a\x00ÿ", "binary"}, {"a.txt", "base64", "YWxwaGEK", "base64"}, {"a.txt", "binary", "alpha\n", "binary"},
	} {
		in := map[string]any{"file_path": c.file, "limit": 1}
		if c.encoding != "" {
			in["encoding"] = c.encoding
		}
		if res := r.ok("Read", in); res.ModelText() != c.want || res.Metadata["encoding"] != c.meta || (res.Metadata["is_binary"] == true) != (c.file == "bin" && c.encoding == "") {
			t.Errorf("%v: %q %v", c, res.ModelText(), res.Metadata)
		}
	}
	if res := r.ok("Read", map[string]any{"file_path": "late"}); !strings.Contains(res.ModelText(), "1→xxx") {
		t.Errorf("%.40q", res.ModelText())
	}
}

// Notebooks come as cells with their labels and outputs; a broken one as text.
func TestReadNotebook(t *testing.T) {
	r := newRoom(t, map[string]string{
		"a.ipynb": `{"cells":[{"cell_type":"markdown","id":"m","metadata":{},"source":["# T\n","x"]},{"cell_type":"code","id":"c","execution_count":2,"metadata":{},"source":"1/0","outputs":[` +
			`{"output_type":"stream","name":"stderr","text":["warn\n"]},{"output_type":"error","ename":"E","evalue":"v","traceback":["\u001b[31mred\u001b[0m"]},` +
			`{"output_type":"display_data","data":{"image/png":"aGk=","text/plain":["<fig>"]}},{"output_type":"execute_result","data":{"text/html":"<b>"}}]},{"cell_type":"code","metadata":{},"source":[],"outputs":7}],"nbformat":4,"nbformat_minor":5}`,
		"broken.ipynb": "{\"cells\": [\n", "none.ipynb": `{"cells":[]}`,
	})
	res := r.ok("Read", map[string]any{"file_path": "a.ipynb"})
	want := "--- cell m (markdown) ---\n# T\nx\n\n--- cell c (code, run 2) ---\n1/0\n--- output: stderr ---\nwarn\n--- output: error ---\nred\n--- output: display_data ---\n[image/png, 4 characters]\n<fig>\n--- output: execute_result ---\n[text/html] <b>\n\n--- cell cell-2 (code) ---\n"
	if res.ModelText() != want {
		t.Errorf("%s", res.ModelText())
	}
	if res := r.ok("Read", map[string]any{"file_path": "a.ipynb", "offset": 1, "limit": 1}); res.ModelText() != "     2→# T" {
		t.Errorf("%q", res.ModelText())
	}
	if res := r.ok("Read", map[string]any{"file_path": "broken.ipynb"}); !strings.Contains(res.ModelText(), `1→{"cells"`) || res.Metadata["note"] == nil {
		t.Errorf("%q %v", res.ModelText(), res.Metadata)
	}
	if res := r.ok("Read", map[string]any{"file_path": "none.ipynb"}); !strings.Contains(res.ModelText(), "no cells") {
		t.Errorf("%q", res.ModelText())
	}
}

// A file that grows, shrinks or goes while it is read ends in a result or a plain error.
func TestReadMoving(t *testing.T) {
	r := newRoom(t, nil)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { // ends with stop; the test waits for done
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			switch i % 3 {
			case 0:
				_ = os.WriteFile(r.path("x"), bytes.Repeat([]byte("line\n"), i%5000), 0o644)
			case 1:
				_ = os.Truncate(r.path("x"), int64(i%100))
			default:
				_ = os.Remove(r.path("x"))
			}
		}
	}()
	for range 200 {
		res := r.run("Read", map[string]any{"file_path": "x"})
		if res.IsError() && res.Error.Code != file.CodeNotFound {
			t.Errorf("%+v", res.Error)
		}
	}
	close(stop)
	<-done
}

// A file that may not be read is a plain error; root may read everything.
func TestReadUnreadable(t *testing.T) {
	r := newRoom(t, map[string]string{"a.txt": "x", "d/b.txt": "x"})
	for _, p := range []string{"a.txt", "d"} {
		if err := os.Chmod(r.path(p), 0); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.Chmod(r.path("d"), 0o755) }) // so that it can be removed
	free := os.Getuid() == 0 || runtime.GOOS == "windows"
	for _, p := range []string{"a.txt", "d/b.txt"} {
		res := r.run("Read", map[string]any{"file_path": p})
		if res.IsError() == free || (!free && (res.Error.Code != file.CodeIO || res.Error.Type != xErr)) {
			t.Errorf("%s: %s %+v", p, res.Status, res.Error)
		}
	}
}

// What Read hands out fits what the host takes, also where JSON makes it longer.
func TestReadLargest(t *testing.T) {
	r := newRoom(t, nil)
	if err := os.WriteFile(r.path("ctl"), bytes.Repeat([]byte("\x01\x02\n"), 3<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, in := range []map[string]any{{"file_path": "ctl", "limit": 10_000}, {"file_path": "ctl", "encoding": "binary"}} {
		res := r.run("Read", in)
		if res.IsError() && res.Error.Type == abi.TypeExecution {
			t.Errorf("%v: %+v", in, res.Error)
		}
	}
}

// BenchmarkRead: 2,000 lines from a file of 1 GB, and the bytes that were read for them.
func BenchmarkRead(b *testing.B) {
	r := newRoom(b, nil)
	path := filepath.Join(r.root, "huge.log")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := f.WriteString(strings.Repeat("a line of a log that has about fifty letters in it\n", 20_000)); err != nil {
		b.Fatal(err)
	}
	if err := f.Truncate(1 << 30); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	in := r.input(map[string]any{"file_path": path})
	for b.Loop() {
		if res := r.runIn(r.s, host.Call{Tool: "Read", Input: in}); res.IsError() {
			b.Fatal(res.Error)
		}
	}
}
