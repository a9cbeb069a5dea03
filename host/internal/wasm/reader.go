package wasm

import (
	"fmt"
	"unicode/utf8"
)

// reader is a cursor over one section. b is the module cut off at the section's
// end, so that pos is an offset in the file. The first fault stays in err; from
// then on every method returns zero and loops must look at err.
type reader struct {
	b   []byte
	pos int
	err *Error
	// what names the section in messages; fn, when not negative, the function.
	what string
	fn   int
	// loose is set by each LEB128 number that is longer than it need be.
	loose bool
}

func newReader(b []byte, pos, end int, what string) *reader {
	return &reader{b: b[:end:end], pos: pos, what: what, fn: -1}
}

func (r *reader) left() int { return len(r.b) - r.pos }

// subject is the beginning of a message.
func (r *reader) subject() string {
	if r.fn >= 0 {
		return fmt.Sprintf("function %d", r.fn)
	}
	return r.what
}

func (r *reader) fail(reason Reason, format string, args ...any) {
	if r.err == nil {
		r.err = refuse(reason, r.pos, "%s: %s", r.subject(), fmt.Sprintf(format, args...))
		r.pos = len(r.b)
	}
}

// missing reports a feature that is not offered.
func (r *reader) missing(feature string) {
	if r.err == nil {
		r.err = refuse(Unsupported, r.pos, "%s (%s)", feature, r.subject())
		r.pos = len(r.b)
	}
}

func (r *reader) byte() byte {
	if r.pos >= len(r.b) {
		r.fail(Malformed, "ends in the middle of an entry")
		return 0
	}
	c := r.b[r.pos]
	r.pos++
	return c
}

func (r *reader) skip(n int) []byte {
	if n > r.left() {
		r.fail(Malformed, "needs %d bytes where %d are left", n, r.left())
		return nil
	}
	s := r.b[r.pos : r.pos+n : r.pos+n]
	r.pos += n
	return s
}

// u32 reads an unsigned LEB128 number of at most 32 bits.
func (r *reader) u32() uint32 {
	if r.pos < len(r.b) && r.b[r.pos] < 0x80 {
		r.pos++
		return uint32(r.b[r.pos-1])
	}
	var v uint32
	for i := 0; i < 5; i++ {
		c := r.byte()
		if r.err != nil {
			return 0
		}
		if i == 4 && c > 0x0f {
			break
		}
		v |= uint32(c&0x7f) << (7 * i)
		if c < 0x80 {
			r.loose = r.loose || c == 0
			return v
		}
	}
	r.fail(Malformed, "has a number that does not fit 32 bits or is longer than five bytes")
	return 0
}

// signed reads a signed LEB128 number of the given width (32, 33 or 64 bits).
// The unused bits of the last byte must repeat the sign.
func (r *reader) signed(width int) int64 {
	var v int64
	var prev byte
	last := (width+6)/7 - 1
	for i := 0; i <= last; i++ {
		c := r.byte()
		if r.err != nil {
			return 0
		}
		v |= int64(c&0x7f) << (7 * i)
		if c >= 0x80 {
			prev = c
			continue
		}
		if c&0x40 != 0 && 7*(i+1) < 64 {
			v |= -1 << (7 * (i + 1))
		}
		if i == last && !signFits(c, width-7*last) {
			break
		}
		redundant := c == 0 && prev&0x40 == 0 || c == 0x7f && prev&0x40 != 0
		r.loose = r.loose || i > 0 && redundant
		return v
	}
	r.fail(Malformed, "has a number that does not fit %d bits", width)
	return 0
}

// signFits says whether the last byte of a number, of which the low bits are
// used, repeats the sign in the others.
func signFits(c byte, used int) bool {
	rest := c >> (used - 1)
	return rest == 0 || rest == 0x7f>>(used-1)
}

// count reads the length of a vector. An entry takes at least size bytes, so the
// number can be held against what is left before anything is made of it.
func (r *reader) count(what string, size, limit int) int {
	n := r.u32()
	if r.err != nil {
		return 0
	}
	if uint64(n)*uint64(size) > uint64(r.left()) {
		r.err = refuse(Malformed, r.pos, "%s: claims %d entries in %d bytes", r.subjectOf(what), n, r.left())
		r.pos = len(r.b)
		return 0
	}
	if int64(n) > int64(limit) {
		r.over(what, int64(n), int64(limit))
		return 0
	}
	return int(n)
}

// subjectOf is subject for a vector inside a section or function.
func (r *reader) subjectOf(what string) string {
	if what == r.what && r.fn < 0 {
		return what
	}
	return r.subject() + ": " + what
}

func (r *reader) over(what string, n, limit int64) {
	if r.err == nil {
		r.err = refuse(OverLimit, r.pos, "%s: %d is over the limit of %d", r.subjectOf(what), n, limit)
		r.pos = len(r.b)
	}
}

// name reads a string and checks that it is UTF-8.
func (r *reader) name(limit int) string {
	n := r.u32()
	if r.err == nil && int64(n) > int64(r.left()) {
		r.fail(Malformed, "claims a name of %d bytes in %d bytes", n, r.left())
	}
	if r.err == nil && int64(n) > int64(limit) {
		r.over("length of a name", int64(n), int64(limit))
	}
	if r.err != nil {
		return ""
	}
	s := r.skip(int(n))
	if !utf8.Valid(s) {
		r.fail(Malformed, "has a name that is not UTF-8")
		return ""
	}
	return string(s)
}

// valType reads one value type.
func (r *reader) valType() ValType {
	c := r.byte()
	switch t := ValType(c); t {
	case I32, I64, F32, F64, V128, FuncRef, ExternRef:
		return t
	}
	switch c {
	case 0x63, 0x64:
		r.missing("typed function references are not supported")
	case 0x69, 0x74:
		r.missing("exception handling is not supported")
	case 0x65, 0x66, 0x67, 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x71, 0x72, 0x73:
		r.missing("garbage-collected types are not supported")
	default:
		r.fail(Malformed, "has an unknown value type 0x%02x", c)
	}
	return 0
}

func (r *reader) refType() ValType {
	t := r.valType()
	if r.err == nil && !t.reference() {
		r.fail(Malformed, "has %s where a reference type belongs", t)
	}
	return t
}

// done checks that the section was used up.
func (r *reader) done() error {
	if r.err == nil && r.left() > 0 {
		r.fail(Malformed, "has %d bytes after its last entry", r.left())
	}
	if r.err != nil {
		return r.err
	}
	return nil
}
