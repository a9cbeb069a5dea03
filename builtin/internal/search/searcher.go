package search

import (
	"bytes"
	"cmp"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/file"
	"github.com/bladehost/bladehost/host/caps/fs"
)

// Limits of one file.
const (
	// window is how much of a file is in memory at once; a file up to it is searched as a whole.
	window = 16 << 20
	// maxMultiline is the largest file that is searched with multiline, as it has to be
	// in memory as a whole. Larger ones are counted as skipped.
	maxMultiline = 128 << 20
	// maxLine is the longest line; a file with a longer one is counted as skipped.
	maxLine = 64 << 20
	// binarySniff is where a NUL at the start of a file makes it binary, so that it is not searched.
	binarySniff = 64 << 10
	// segment is how much is given to the regular expression at once.
	segment = 1 << 20
	// MaxLineUnits is where a line is cut, in UTF-16 code units.
	MaxLineUnits = 2000
)

// searcher searches one file after the other.
type searcher struct {
	g   *grep
	buf []byte
	// out is of the file that is searched, but for its path, which has named bytes.
	out    FileHits
	named  int
	finder *finder
	// at is the folder of the last file, held open: its neighbours come next.
	at     string
	folder *fs.File
}

// close releases the folder.
func (s *searcher) close() {
	if s.folder != nil {
		_ = s.folder.Close() // read only
	}
	s.folder = nil
}

// open opens a file of the list. A link in the place of one is refused.
func (s *searcher) open(rel string) (*fs.File, error) {
	t := s.g.q.Start
	if rel == "" {
		return t.Dir.OpenFile(t.Rel, fs.OpenFlags{Read: true})
	}
	dir := path.Dir(rel)
	if s.folder == nil || s.at != dir {
		s.close()
		f, err := t.Dir.OpenFile(joinPath(t.Rel, dir), fs.OpenFlags{Directory: true})
		if err != nil {
			return nil, err
		}
		s.folder, s.at = f, dir
	}
	d, err := s.folder.Dir()
	if err != nil {
		return nil, err
	}
	return d.OpenFile(path.Base(rel), fs.OpenFlags{Read: true, NoFollow: true})
}

// file searches a file; nil means no match.
func (s *searcher) file(rel string) *FileHits {
	s.out, s.named = FileHits{}, len(s.g.base)+len(rel)
	if rel == "" {
		s.named = len(s.g.q.Start.Path)
	}
	if err := s.look(rel); err != nil {
		s.missed(rel, err)
	}
	if len(s.out.Hits) == 0 && s.out.Count == 0 {
		return nil
	}
	out := s.out
	out.Path = s.g.path(rel)
	return &out
}

// look opens and searches a file. Most fit into the buffer, and are read by one piece.
func (s *searcher) look(rel string) error {
	if s.buf == nil {
		s.buf = make([]byte, 0, 512<<10)
	}
	if s.g.tree != nil && s.g.tree.Direct() && rel != "" && s.g.q.window == 0 {
		n, all, err := s.g.tree.Read(rel, s.buf[:cap(s.buf)])
		switch {
		case err != nil:
			return err
		case all:
			return s.search(nil, s.buf[:n])
		}
	}
	f, err := s.open(rel)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	return s.search(f, s.buf[:0])
}

// missed notes a file that was not searched, or not all of it. Of the start itself the error is told.
func (s *searcher) missed(rel string, err error) {
	s.g.skipped.Add(1)
	if rel == "" { // then there is no other file, and no other searcher
		s.g.failed = file.Failed("search", s.g.q.Start.Path, err)
	}
}

// tooLarge is the error of a file that cannot be searched because all of something does not fit into memory.
func (s *searcher) tooLarge(what string, limit int) error {
	return file.Error(abi.TypeValidation, file.CodeTooLarge, "%s cannot be searched to its end: %s must have at most %d MiB. Read parts of it with offset and limit.", s.g.q.Start.Path, what, limit>>20)
}

// search reads the file window by window; nil means that all of it is in buf. The error says that it could not read
// all of it.
func (s *searcher) search(f *fs.File, buf []byte) error {
	most := cmp.Or(s.g.q.window, window)
	once := s.g.q.Multiline || s.g.re.whole
	if once {
		most = maxMultiline
	}
	defer func() { s.keep(buf) }()
	w := &windows{s: s, out: &s.out, named: s.named}
	for first := true; ; {
		if s.g.ctx.Err() != nil || s.g.stopped.Load() {
			return nil // the call says so
		}
		err := io.EOF
		if f != nil {
			buf, err = fillUp(f, buf, most, s.g.stoppedNow)
		}
		if first {
			head := buf[:min(len(buf), binarySniff)]
			switch e, bom := file.SniffEncoding(head[:min(len(head), 3)]); {
			case e == file.UTF16LE, e == file.UTF16BE:
				if err != io.EOF {
					return s.tooLarge("a file in UTF-16", most)
				}
				buf = []byte(file.Decode(buf).S)
			case bytes.IndexByte(head, 0) >= 0:
				s.g.binary.Store(true)
				return nil
			case bom > 0:
				buf = append(buf[:0], buf[bom:]...)
			}
			first = false
		}
		switch {
		case err == io.EOF:
			w.take(buf, true)
			return nil
		case err != nil:
			return err
		case once:
			return s.tooLarge("a file searched as a whole", most)
		}
		used := w.take(buf, false)
		if used == 0 { // a line, with its context, that does not fit
			if most *= 2; most > maxLine {
				return s.tooLarge("a line with its context", maxLine)
			}
			continue
		}
		buf = append(buf[:0], buf[used:]...)
		if w.finished {
			return nil
		}
	}
}

// keep keeps the buffer for the next file, unless it is a large one, or smaller than the one there is.
func (s *searcher) keep(buf []byte) {
	if cap(buf) <= 1<<20 && cap(buf) > cap(s.buf) {
		s.buf = buf
	}
}

func (g *grep) stoppedNow() bool { return g.stopped.Load() || g.ctx.Err() != nil }

// fillUp reads until buf has most bytes or the file ends, which is io.EOF.
func fillUp(f *fs.File, buf []byte, most int, stop func() bool) ([]byte, error) {
	for len(buf) < most {
		if len(buf) == cap(buf) {
			bigger := make([]byte, len(buf), min(most, max(2*cap(buf), 64<<10)))
			copy(bigger, buf)
			buf = bigger
		}
		n, err := f.Read(buf[len(buf):min(cap(buf), most)])
		buf = buf[:len(buf)+n]
		if err != nil {
			return buf, err
		}
		if stop() {
			return buf, io.EOF
		}
	}
	return buf, nil
}

// windows follows a file from window to window.
type windows struct {
	s        *searcher
	out      *FileHits
	named    int // bytes of its path
	line     int // number of the line at the start of the window, from 0
	skip     int // bytes at its start that were searched before
	finished bool
}

// take searches a window of whole lines and returns how much of it is not needed any more.
// Unless it is the last one, the lines at its end stay for the next: they are the context of others.
func (w *windows) take(buf []byte, last bool) int {
	q := &w.s.g.q
	end := len(buf)
	if !last {
		for range q.After + 1 {
			if end = bytes.LastIndexByte(buf[:end], '\n'); end < 0 {
				return 0
			}
		}
		end++
		if end <= w.skip {
			return 0
		}
	}
	w.search(buf, end)
	// Lines in front of the next window are context too.
	from := end
	for range q.Before {
		if from == 0 {
			break
		}
		from = bytes.LastIndexByte(buf[:from-1], '\n') + 1
	}
	w.line += bytes.Count(buf[:from], lineEnd)
	w.skip = end - from
	return from
}

var lineEnd = []byte{'\n'}

// search looks at buf[skip:end]; the rest is context.
func (w *windows) search(buf []byte, end int) {
	g, f := w.s.g, w.s.finder
	body := buf[w.skip:end]
	if len(g.re.need) > 0 && !bytes.Contains(body, g.re.need) {
		return
	}
	f.asked, f.seen = 0, 0
	if g.q.Mode == ModeFiles {
		if w.any(body) {
			w.out.Count, w.finished = 1, true
		}
		return
	}
	v := &view{buf: buf, line: w.line, from: w.skip, q: &g.q, out: w.out, named: w.named, shown: -1}
	if n := len(w.out.Hits); n > 0 {
		v.shown = w.out.Hits[n-1].Number - 1 + len(w.out.Hits[n-1].After)
	}
	for at := w.skip; at < end && !g.stoppedNow() && !w.finished; {
		to := w.segmentEnd(buf, at, end)
		if at = w.lines(v, at, to); at < to && !w.finished && (len(g.re.need) == 0 || bytes.Contains(buf[at:to], g.re.need)) {
			for _, m := range g.re.re.FindAllIndex(buf[at:to], -1) {
				if at+m[0] == to && to < end {
					break // an empty match behind the last line of the segment: the next one sees that place
				}
				v.match(at+m[0], at+m[1], end)
				if w.enough() {
					break
				}
			}
		}
		at = to
	}
}

// enough ends the search of a file with more hits than are kept.
func (w *windows) enough() bool {
	if w.out.size > MaxGrepOutput {
		w.out.cut, w.finished = true, true
	}
	return w.finished
}

// lines takes the lines of a segment, as far as it is worth while, and returns where RE2 has to go on.
func (w *windows) lines(v *view, at, to int) int {
	if f := w.s.finder; w.s.g.re.lines && !w.s.g.q.plain {
		for at < to {
			start, stop, what := f.next(v.buf, at, to)
			switch what {
			case foundNone:
				return to
			case foundLong:
				return start
			}
			v.hit(start, stop)
			v.any, v.hitEnd = true, stop+1
			if at = stop + 1; w.enough() {
				break
			}
		}
	}
	return min(at, to)
}

// segmentEnd is where the next part for the regular expression ends. No match of a pattern within lines
// crosses the end of a line, but one that looks for the ends of the text needs all of it.
func (w *windows) segmentEnd(buf []byte, at, end int) int {
	if w.s.g.q.Multiline || w.s.g.re.whole || end-at <= segment {
		return end
	}
	if i := bytes.IndexByte(buf[at+segment:end], '\n'); i >= 0 {
		return at + segment + i + 1
	}
	return end
}

// any reports whether there is a match that is in a line.
func (w *windows) any(body []byte) bool {
	if re := w.s.g.re; re.lines && !w.s.g.q.plain {
		start, _, what := w.s.finder.next(body, 0, len(body))
		if what != foundLong {
			return what == foundLine
		}
		body = body[start:]
	}
	m := w.s.g.re.re.FindIndex(body)
	if m == nil {
		return false
	}
	return m[0] < len(body) || (len(body) > 0 && body[len(body)-1] != '\n')
}

// view finds the lines of matches in a window.
type view struct {
	buf     []byte
	line    int // number of the line at counted, from 0
	counted int
	from    int
	q       *GrepQuery
	out     *FileHits
	named   int
	// shown is the last line that was given out, as a hit or as context.
	shown int
	// hit is the last line that was a hit, and its end.
	hitEnd int
	any    bool
}

// match takes a match. Only lines that begin before end count.
func (v *view) match(from, to, end int) {
	if from >= end && (end == 0 || v.buf[end-1] == '\n') {
		return // behind the last line
	}
	if v.q.Mode == ModeCount && v.q.Multiline {
		v.out.Count++
		return
	}
	start := bytes.LastIndexByte(v.buf[:from], '\n') + 1
	last := max(from, to-1)
	for start <= last {
		stop := len(v.buf)
		if i := bytes.IndexByte(v.buf[start:], '\n'); i >= 0 {
			stop = start + i
		}
		if !v.any || start >= v.hitEnd {
			v.any, v.hitEnd = true, stop+1
			v.hit(start, stop)
		}
		start = stop + 1
		if start >= len(v.buf) {
			return
		}
	}
}

// hit takes a line with a match.
func (v *view) hit(start, stop int) {
	if v.q.Mode == ModeCount {
		v.out.Count++
		return
	}
	v.line += bytes.Count(v.buf[v.counted:start], lineEnd)
	v.counted = start
	v.trim()
	h := Hit{Number: v.line + 1}
	h.Text, h.Cut = clean(v.buf[start:stop])
	for k, at := 1, start; k <= v.q.Before && at > 0 && v.line-k > v.shown; k++ {
		begin := bytes.LastIndexByte(v.buf[:at-1], '\n') + 1
		text, _ := clean(v.buf[begin : at-1])
		h.Before = append([]string{text}, h.Before...)
		at = begin
	}
	v.shown = v.line
	for k, at := 0, stop+1; k < v.q.After && at < len(v.buf); k++ {
		stop := len(v.buf)
		if i := bytes.IndexByte(v.buf[at:], '\n'); i >= 0 {
			stop = at + i
		}
		text, _ := clean(v.buf[at:stop])
		h.After = append(h.After, text)
		at = stop + 1
	}
	v.shown += len(h.After)
	v.out.Hits = append(v.out.Hits, h)
	v.out.size += len(h.Text) + v.named
	for _, c := range slices.Concat(h.Before, h.After) {
		v.out.size += len(c)
	}
}

// trim takes the lines that are hits themselves out of the context of the one before.
func (v *view) trim() {
	n := len(v.out.Hits)
	if n == 0 {
		return
	}
	last := &v.out.Hits[n-1]
	if room := v.line + 1 - last.Number - 1; room < len(last.After) {
		last.After = last.After[:max(0, room)]
		v.shown = last.Number - 1 + len(last.After)
	}
}

// clean is a line as text, without CR, and cut where it is long.
func clean(b []byte) (string, bool) {
	b = bytes.TrimSuffix(b, []byte{'\r'})
	s := string(b[:min(len(b), 4*MaxLineUnits)])
	if !utf8.ValidString(s) {
		if s = file.Decode(b[:min(len(b), 4*MaxLineUnits)]).S; !utf8.ValidString(s) {
			s = strings.ToValidUTF8(s, "\uFFFD")
		}
	}
	s, cut := file.Cut(s, MaxLineUnits)
	return s, cut || len(b) > 4*MaxLineUnits
}
