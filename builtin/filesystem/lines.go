package filesystem

import (
	"bytes"
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/bladehost/bladehost/builtin/internal/file"
)

// Limits of Read.
const (
	// defaultLines is how many lines are read where no limit is given.
	defaultLines = 2000
	// maxLines is the largest limit.
	maxLines = 10_000
	// maxLineUnits is where a line is cut for the model, in UTF-16 code units.
	maxLineUnits = 2000
	// maxSlice bounds the text of one Read, in bytes: what is beyond is left out, and said.
	maxSlice = 4 << 20
	// maxWhole bounds what is read as a whole: base64, images, PDFs, notebooks.
	maxWhole = 10 << 20
	// countAhead is how many bytes behind the last line are read to tell how many lines
	// there are in all.
	countAhead = 1 << 20
)

// part is a slice of the lines of a text.
type part struct {
	// text has the lines from start on, parted by LF, without the LF behind the last.
	text string
	// start is the number of the first line, from 1; lines is how many there are.
	start, lines int
	// total is the number of lines in all, or -1 if it is not known.
	total int
	// full says that the slice was cut at maxSlice.
	full bool
}

// end is the number of the last line, or 0 without lines.
func (p part) end() int {
	if p.lines == 0 {
		return 0
	}
	return p.start + p.lines - 1
}

// more reports whether there are lines behind the slice.
func (p part) more() bool { return p.full || p.total < 0 || p.end() < p.total }

// slicer takes lines out of a stream.
type slicer struct {
	skip, want int // lines
	out        []byte
	p          part
	newlines   int  // in all of what was read
	done       bool // all wanted lines are there
}

// slice reads lines of r, which is UTF-8 or nearly, from line offset (from 0) on. Behind the last
// line it reads at most ahead further bytes; a negative ahead means all.
func slice(ctx context.Context, r io.Reader, offset, limit int, ahead int64) (part, error) {
	s := slicer{skip: offset, want: limit}
	s.p.start = offset + 1
	buf := make([]byte, 64<<10)
	for {
		if err := file.Aborted(ctx); err != nil {
			return part{}, err
		}
		n, err := r.Read(buf)
		s.take(buf[:n])
		if s.done && ahead >= 0 {
			if ahead -= int64(n); ahead < 0 && err != io.EOF {
				s.p.total = -1
				return s.finish(), nil
			}
		}
		if err == io.EOF {
			s.p.total = s.newlines + 1
			return s.finish(), nil
		}
		if err != nil {
			return part{}, err
		}
	}
}

// take takes the next bytes.
func (s *slicer) take(b []byte) {
	if s.newlines < s.skip {
		if n := bytes.Count(b, newline); s.newlines+n < s.skip {
			s.newlines += n
			return
		}
		for s.newlines < s.skip {
			b = b[bytes.IndexByte(b, '\n')+1:]
			s.newlines++
		}
	}
	for len(b) > 0 && !s.done {
		i := bytes.IndexByte(b, '\n')
		line := b
		if i >= 0 {
			line = b[:i]
		}
		if len(s.out)+len(line)+1 > maxSlice {
			s.out = append(s.out, line[:max(0, maxSlice-len(s.out)-1)]...)
			s.p.full, s.done = true, true
			break
		}
		s.out = append(s.out, line...)
		if i < 0 {
			return
		}
		b = b[i+1:]
		s.newlines++
		if s.newlines-s.skip >= s.want {
			s.done = true
			break
		}
		s.out = append(s.out, '\n')
	}
	s.newlines += bytes.Count(b, newline)
}

var newline = []byte{'\n'}

func (s *slicer) finish() part {
	if s.newlines >= s.skip {
		s.p.lines = bytes.Count(s.out, newline) + 1
	}
	s.p.text = strings.ToValidUTF8(string(s.out), "\uFFFD")
	return s.p
}

// numbered is the slice as a model reads it: each line behind its number, long ones
// cut.
func (p part) numbered() string {
	if p.lines == 0 {
		return ""
	}
	var b strings.Builder
	b.Grow(len(p.text) + 10*p.lines)
	n := p.start
	for line := range strings.SplitSeq(p.text, "\n") {
		if n > p.start {
			b.WriteByte('\n')
		}
		num := strconv.Itoa(n)
		for i := len(num); i < 6; i++ {
			b.WriteByte(' ')
		}
		b.WriteString(num)
		b.WriteString("→")
		short, cut := file.Cut(line, maxLineUnits)
		b.WriteString(short)
		if cut {
			b.WriteString("...")
		}
		n++
	}
	return b.String()
}
