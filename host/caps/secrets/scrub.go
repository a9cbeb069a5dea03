package secrets

import (
	"encoding/base64"
	"encoding/hex"
	"io"
	"sort"
	"strings"
)

// Scrubber replaces values, and the forms in which servers and libraries echo
// them, by [secret:NAME]: base64 and hex, and in all of these each character may be
// percent-encoded, escaped as in JSON or written as an HTML entity. It is immutable
// and safe for concurrent use.
type Scrubber struct {
	forms []form
	// starts are the characters that forms begin with, first the bytes that may spell
	// one of them.
	starts, first [256]bool
}

// form is one spelling of a value. A soft one may have line breaks in it.
type form struct {
	text, mark string
	soft       bool
}

// NewScrubber makes a Scrubber for values by name.
func NewScrubber(values map[string]string) *Scrubber {
	s := &Scrubber{}
	seen := map[string]bool{}
	for value, name := range values {
		m := "[secret:" + name + "]"
		for i, text := range forms(value) {
			if len(text) >= minLength && !seen[text] {
				seen[text] = true
				s.forms = append(s.forms, form{text, m, i > 0})
				s.first[text[0]], s.starts[text[0]] = true, true
				if text[0] == ' ' {
					s.first['+'] = true
				}
			}
		}
	}
	for _, c := range `%\&` {
		s.first[c] = len(s.forms) > 0
	}
	// Longer forms first, so that none is left half.
	sort.Slice(s.forms, func(i, j int) bool {
		if a, b := s.forms[i], s.forms[j]; len(a.text) != len(b.text) {
			return len(a.text) > len(b.text)
		}
		return s.forms[i].text < s.forms[j].text
	})
	return s
}

// forms are the value, and then what encoders make of it.
func forms(v string) []string {
	out := []string{v, hex.EncodeToString([]byte(v)), strings.ToUpper(hex.EncodeToString([]byte(v)))}
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		whole := enc.EncodeToString([]byte(v))
		out = append(out, whole, strings.TrimRight(whole, "="))
	}
	// Inside of something longer a value may start at any of three places; the
	// characters that depend on its neighbours are left out.
	for shift := range 3 {
		padded := append(make([]byte, shift), v...)
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := enc.EncodeToString(padded)
			from := (shift*8 + 5) / 6
			to := len(text)
			if len(padded)%3 != 0 {
				to--
			}
			if from < to {
				out = append(out, text[from:to])
			}
		}
	}
	return out
}

// Empty reports whether there is nothing to take out.
func (s *Scrubber) Empty() bool { return s == nil || len(s.forms) == 0 }

// Text is t without the values.
func (s *Scrubber) Text(t string) string {
	if s.Empty() {
		return t
	}
	return string(s.Bytes([]byte(t)))
}

// Bytes is b without the values; b itself where there is none in it.
func (s *Scrubber) Bytes(b []byte) []byte {
	if s.Empty() {
		return b
	}
	out, _ := s.scan(b, true)
	return out
}

// scan replaces from left to right, the longest form first. Unless b is the end,
// it stops where a value may have begun that is not whole yet, and returns the
// rest.
func (s *Scrubber) scan(b []byte, end bool) (out, rest []byte) {
	from, changed := 0, false
	for i := 0; ; {
		for i < len(b) && !s.first[b[i]] {
			i++
		}
		if i == len(b) {
			break
		}
		mark, n, begun := s.at(b[i:])
		switch {
		case begun && !end:
			return append(out, b[from:i]...), b[i:]
		case n == 0:
			i++
		default:
			out = append(append(out, b[from:i]...), mark...)
			i += n
			from, changed = i, true
		}
	}
	if !changed {
		return b, nil
	}
	return append(out, b[from:]...), nil
}

// at is the longest form that b, which is not empty, starts with; begun says that b is the beginning
// of a longer one.
func (s *Scrubber) at(b []byte) (mark string, n int, begun bool) {
	spelled := b[0] == '%' || b[0] == '\\' || b[0] == '&' || b[0] == '+'
	if c, known := spelledChar(b); spelled && known && !s.starts[c] && !s.starts[b[0]] {
		return "", 0, false
	}
	for i := range s.forms {
		f := &s.forms[i]
		if b[0] != f.text[0] && !spelled {
			continue
		}
		n, short := f.match(f.text, b)
		begun = begun || short
		if n > 0 {
			return f.mark, n, begun
		}
	}
	return "", 0, begun
}

// Reader is r without the values, also where one is parted between two reads.
func (s *Scrubber) Reader(r io.Reader) io.Reader {
	if s.Empty() {
		return r
	}
	return &scrubReader{s: s, r: r}
}

type scrubReader struct {
	s *Scrubber
	r io.Reader
	// buf holds what was read; of its first held bytes nothing was given out yet.
	buf  []byte
	held int
	out  []byte
	err  error
}

const scrubBuffer = 64 << 10

// Read scrubs what is far enough from the end of what was read so far that no
// value can straddle it.
func (r *scrubReader) Read(p []byte) (int, error) {
	for len(r.out) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		if len(r.buf)-r.held < scrubBuffer/2 { // what is held is at most a form
			r.buf = append(r.buf[:r.held], make([]byte, scrubBuffer)...)
		}
		n, err := r.r.Read(r.buf[r.held:])
		raw := r.buf[:r.held+n]
		if r.held = 0; err != nil {
			r.err, r.out = err, r.s.Bytes(raw)
			continue
		}
		var rest []byte
		if r.out, rest = r.s.scan(raw, false); len(rest) > 0 {
			// Out may lie in front of the rest in the same buffer.
			r.buf = append([]byte(nil), rest...)
			r.held = len(rest)
		}
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}
