package pdk

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// decoder reads JSON from b. Its methods return false where it gives up.
type decoder struct {
	b     []byte
	i     int
	depth int
	text  []byte // scratch for strings with escapes
}

// space skips white space and returns the next byte, or 0 at the end.
func (d *decoder) space() byte {
	for d.i < len(d.b) {
		c := d.b[d.i]
		if c > ' ' {
			return c
		}
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return 0
		}
		d.i++
	}
	return 0
}

// end reports whether nothing follows.
func (d *decoder) end() bool {
	d.space()
	return d.i == len(d.b)
}

// take skips white space and the byte c, if it is next.
func (d *decoder) take(c byte) bool {
	if d.space() != c {
		return false
	}
	d.i++
	return true
}

func (d *decoder) word(s string) bool {
	if len(d.b)-d.i < len(s) || string(d.b[d.i:d.i+len(s)]) != s {
		return false
	}
	d.i += len(s)
	return true
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plain is how many bytes from the start of b need no thought inside a JSON
// string: ASCII from the space on, without quote and backslash.
func plain(b []byte) int {
	n := 0
	for len(b)-n >= 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		quote, back := w^ones*'"', w^ones*'\\'
		// The top bit of each byte that is below a space, is one of the two, or
		// is not ASCII. A borrow can mark a byte too many, never one too few,
		// and only above one that is marked rightly.
		odd := ((w - ones*' ') | (quote - ones) | (back - ones) | w) & highs
		if odd != 0 {
			return n + bits.TrailingZeros64(odd)/8
		}
		n += 8
	}
	for n < len(b) && b[n] >= ' ' && b[n] < utf8.RuneSelf && b[n] != '"' && b[n] != '\\' {
		n++
	}
	return n
}

// plainText is plain for a string.
func plainText(s string) int { return plain(unsafe.Slice(unsafe.StringData(s), len(s))) }

// str reads a string. The bytes are good until the next one is read.
func (d *decoder) str() ([]byte, bool) {
	if !d.take('"') {
		return nil, false
	}
	start, ascii := d.i, true
	for {
		d.i += plain(d.b[d.i:])
		if d.i == len(d.b) {
			return nil, false
		}
		switch c := d.b[d.i]; {
		case c == '"':
			s := d.b[start:d.i]
			d.i++
			return s, ascii || utf8.Valid(s)
		case c >= utf8.RuneSelf:
			ascii = false
			d.i++
		case c == '\\':
			return d.escaped(start)
		default:
			return nil, false
		}
	}
}

// escaped reads on from the first escape of a string.
func (d *decoder) escaped(start int) ([]byte, bool) {
	text := append(d.text[:0], d.b[start:d.i]...)
	for {
		n := plain(d.b[d.i:])
		text = append(text, d.b[d.i:d.i+n]...)
		if d.i += n; d.i == len(d.b) {
			return nil, false
		}
		switch c := d.b[d.i]; {
		case c == '"':
			d.i++
			d.text = text
			return text, utf8.Valid(text)
		case c >= utf8.RuneSelf:
			text = append(text, c)
			d.i++
		case c == '\\':
			var ok bool
			if text, ok = d.escape(text); !ok {
				return nil, false
			}
		default:
			return nil, false
		}
	}
}

func (d *decoder) escape(text []byte) ([]byte, bool) {
	if d.i+1 == len(d.b) {
		return nil, false
	}
	c := d.b[d.i+1]
	d.i += 2
	switch c {
	case '"', '\\', '/':
		return append(text, c), true
	case 'n':
		return append(text, '\n'), true
	case 't':
		return append(text, '\t'), true
	case 'r':
		return append(text, '\r'), true
	case 'b':
		return append(text, '\b'), true
	case 'f':
		return append(text, '\f'), true
	case 'u':
		r, ok := d.unit()
		if ok && utf16.IsSurrogate(r) {
			ok = d.word(`\u`)
			var low rune
			if ok {
				low, ok = d.unit()
			}
			if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
				return nil, false
			}
		}
		return utf8.AppendRune(text, r), ok
	}
	return nil, false
}

// unit reads four hex digits.
func (d *decoder) unit() (r rune, ok bool) {
	if len(d.b)-d.i < 4 {
		return 0, false
	}
	for _, c := range d.b[d.i : d.i+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	d.i += 4
	return r, true
}

// number reads a number; whole says that it has neither a point nor an exponent.
func (d *decoder) number() (text []byte, whole, ok bool) {
	d.space()
	start := d.i
	if d.i < len(d.b) && d.b[d.i] == '-' {
		d.i++
	}
	first := d.i
	d.digits()
	if d.i == first || d.b[first] == '0' && d.i > first+1 {
		return nil, false, false
	}
	whole = true
	if d.i < len(d.b) && d.b[d.i] == '.' {
		whole = false
		d.i++
		if d.digits() == 0 {
			return nil, false, false
		}
	}
	if d.i < len(d.b) && d.b[d.i]|0x20 == 'e' {
		whole = false
		d.i++
		if d.i < len(d.b) && (d.b[d.i] == '+' || d.b[d.i] == '-') {
			d.i++
		}
		if d.digits() == 0 {
			return nil, false, false
		}
	}
	return d.b[start:d.i], whole, true
}

func (d *decoder) digits() int {
	start := d.i
	for d.i < len(d.b) && d.b[d.i] >= '0' && d.b[d.i] <= '9' {
		d.i++
	}
	return d.i - start
}

// skip reads any value and reports whether it has no white space in it.
func (d *decoder) skip() (compact, ok bool) {
	compact = true
	if d.depth++; d.depth > maxNesting {
		return false, false
	}
	defer func() { d.depth-- }()
	switch c := d.space(); c {
	case '"':
		_, ok = d.str()
		return true, ok
	case 't':
		return true, d.word("true")
	case 'f':
		return true, d.word("false")
	case 'n':
		return true, d.word("null")
	case '{', '[':
		d.i++
		closing := c + 2 // both pairs lie two apart in ASCII
		for first := true; ; first = false {
			at := d.i
			next := d.space()
			compact = compact && d.i == at
			if next == closing && first {
				d.i++
				return compact, true
			}
			if c == '{' {
				if _, ok := d.str(); !ok {
					return false, false
				}
				at := d.i
				if !d.take(':') {
					return false, false
				}
				compact = compact && d.i == at+1
			}
			at = d.i
			d.space()
			compact = compact && d.i == at
			inner, ok := d.skip()
			if !ok {
				return false, false
			}
			at = d.i
			next = d.space()
			compact = compact && inner && d.i == at
			if d.i++; next == closing {
				return compact, true
			}
			if next != ',' {
				return false, false
			}
		}
	}
	_, _, ok = d.number()
	return true, ok
}
