package secrets

import (
	"encoding/base64"
	"encoding/binary"
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
	// pairs are the two bytes, as a little-endian number, in which a spelling may
	// begin or, one byte before, have begun: what a long text is searched for.
	pairs *[1 << 16]bool
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
				s.starts[text[0]], s.first[text[0]] = true, true
				s.first['+'] = s.first['+'] || text[0] == ' '
			}
		}
	}
	if len(s.forms) > 0 {
		s.pair()
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

// escapes are the bytes that spellings of one character begin with.
const escapes = `%\&`

// pair fills pairs. Of a spelling, the first or the second byte is at an even place:
// these two bytes, or the escape that is one of them, are what is looked for.
func (s *Scrubber) pair() {
	s.pairs = new([1 << 16]bool)
	for i := range len(escapes) {
		s.first[escapes[i]] = true
		for c := range 256 {
			s.pairs[int(escapes[i])|c<<8], s.pairs[c|int(escapes[i])<<8] = true, true
		}
	}
	plain := func(c byte) string {
		if c == ' ' {
			return " +"
		}
		return string([]byte{c})
	}
	for i := range s.forms {
		f := &s.forms[i]
		one, two, three := plain(f.text[0]), plain(f.text[1]), plain(f.text[2])
		if f.soft {
			two, three = two+"\r\n", three+two+"\r\n"
		}
		for _, p := range [][2]string{{one, two}, {two, three}} {
			for a := range len(p[0]) {
				for b := range len(p[1]) {
					s.pairs[int(p[0][a])|int(p[1][b])<<8] = true
				}
			}
		}
	}
}

// next is the first place from i on where a form may begin, or len(b).
func (s *Scrubber) next(b []byte, i int) int {
	at := i
	for ; at+8 <= len(b); at += 8 {
		w := binary.LittleEndian.Uint64(b[at:])
		if !s.pairs[uint16(w)] && !s.pairs[uint16(w>>16)] && !s.pairs[uint16(w>>32)] && !s.pairs[uint16(w>>48)] {
			continue
		}
		for k := at; k < at+8; k += 2 {
			if !s.pairs[binary.LittleEndian.Uint16(b[k:])] {
				continue
			}
			for j := max(k-1, i); j < k+2; j++ {
				if s.begins(b, j) {
					return j
				}
			}
		}
	}
	for j := max(at-1, i); j < len(b); j++ {
		if s.begins(b, j) {
			return j
		}
	}
	return len(b)
}

// begins reports whether a form may begin at b[j].
func (s *Scrubber) begins(b []byte, j int) bool {
	return s.first[b[j]] && (j+1 == len(b) || s.pairs[binary.LittleEndian.Uint16(b[j:])])
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
		if i = s.next(b, i); i == len(b) {
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

// at is the longest form that b, which is not empty, starts with; begun says that b
// is the beginning of a longer one.
func (s *Scrubber) at(b []byte) (mark string, n int, begun bool) {
	c := decode(b)
	if !c.more && !s.starts[b[0]] && (c.n == 0 || !s.starts[c.text[0]] && (!c.two || !s.starts[c.raw])) {
		return "", 0, false
	}
	for i := range s.forms {
		f := &s.forms[i]
		if first := f.text[0]; !c.more && first != b[0] && !c.begins(first) {
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
	return &scrubReader{now: func() *Scrubber { return s }, r: r}
}

// Reader is r without the values that were used so far, and those that are used while
// it is read. A nil Vault changes nothing.
func (v *Vault) Reader(r io.Reader) io.Reader { return &scrubReader{now: v.Scrubber, r: r} }

type scrubReader struct {
	now func() *Scrubber
	r   io.Reader
	// buf holds what was read; of its part rest nothing was given out yet, and out is
	// what is to be given out.
	buf, rest, out []byte
	err            error
}

const scrubBuffer = 64 << 10

// Read scrubs what is far enough from the end of what was read so far that no
// value can straddle it.
func (r *scrubReader) Read(p []byte) (int, error) {
	for len(r.out) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		if r.now().Empty() {
			n, err := r.r.Read(p)
			if r.now().Empty() {
				return n, err
			}
			r.take(append([]byte(nil), p[:n]...), err) // one was used meanwhile
			continue
		}
		held := len(r.rest)
		if free := len(r.buf) - held; free < scrubBuffer/2 {
			r.buf = append(append(make([]byte, 0, held+scrubBuffer), r.rest...), make([]byte, scrubBuffer)...)
		} else {
			copy(r.buf, r.rest) // all in front of it was given out
		}
		n, err := r.r.Read(r.buf[held:])
		r.take(r.buf[:held+n], err)
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}

// take scrubs what was read.
func (r *scrubReader) take(raw []byte, err error) {
	if err != nil {
		r.err, r.out, r.rest = err, r.now().Bytes(raw), nil
		return
	}
	r.out, r.rest = r.now().scan(raw, false)
}
