package secrets

import "bytes"

// match is how many bytes at the start of b spell text, or 0; short says that b may
// go on so that they are more. Where a character can be read in two ways, both are tried.
func (f *form) match(text string, b []byte) (n int, short bool) {
	for at := 0; len(text) > 0; {
		if f.soft && at > 0 {
			at += breaks(b[at:])
		}
		plain, spelled, more := spellings(text[0], b[at:])
		text = text[1:]
		switch {
		case plain > 0 && spelled > 0:
			n, s := f.match(text, b[at+spelled:])
			if short = short || s; n > 0 || len(text) == 0 {
				return at + spelled + n, short
			}
			at += plain
		case plain+spelled > 0:
			at += plain + spelled
			short = short || more
		default:
			return 0, short || more
		}
		n = at
	}
	return n, short
}

// longestBreak is the longest of them, in bytes: \r\n with letters.
const longestBreak = 4

// breaks is the length of the line break that b starts with: encoders of base64 put
// one after each 64 or 76 characters, and JSON writes it with letters.
func breaks(b []byte) int {
	n := 0
	for {
		switch {
		case n >= longestBreak:
			return n
		case n < len(b) && (b[n] == '\r' || b[n] == '\n'):
			n++
		case bytes.HasPrefix(b[n:], []byte(`\r`)), bytes.HasPrefix(b[n:], []byte(`\n`)):
			n += 2
		default:
			return n
		}
	}
}

// longestSpelling bounds the spelling of one character: &#x00002f;
const longestSpelling = 10

// spellings is how long the character c is at the start of b: as it stands, and
// spelled out; 0 where it is not. More says that b may be the start of a spelling.
func spellings(c byte, b []byte) (plain, spelled int, more bool) {
	if len(b) == 0 {
		return 0, 0, true
	}
	if b[0] == c {
		plain = 1
	}
	is, n, more := decode(b)
	if n > 0 && is == c {
		spelled = n
	}
	return plain, spelled, more
}

// decode is the character that the start of b, which is not empty, spells out, and
// in how many bytes; 0 where it is none. More says that b is too short to tell.
func decode(b []byte) (c byte, n int, more bool) {
	switch b[0] {
	case '+':
		return ' ', 1, false
	case '%':
		return hexSpelling(b, 1, 2)
	case '\\':
		return escape(b)
	case '&':
		return entity(b)
	}
	return 0, 0, false
}

// hexSpelling reads n hexadecimal digits at b[from:].
func hexSpelling(b []byte, from, n int) (c byte, length int, more bool) {
	if len(b) < from+n {
		return 0, 0, true
	}
	v, ok := number(b[from:from+n], 16)
	if !ok || v > 0xff {
		return 0, 0, false
	}
	return byte(v), from + n, false
}

// number reads digits; the few that there are do not overflow.
func number(digits []byte, base uint32) (v uint32, ok bool) {
	for _, c := range digits {
		d := base // none
		switch lower := c | 0x20; {
		case c >= '0' && c <= '9':
			d = uint32(c - '0')
		case lower >= 'a' && lower <= 'f':
			d = uint32(lower-'a') + 10
		}
		if d >= base {
			return 0, false
		}
		v = v*base + d
	}
	return v, len(digits) > 0
}

func escape(b []byte) (c byte, n int, more bool) {
	if len(b) == 1 {
		return 0, 0, true
	}
	switch b[1] {
	case 'u':
		return hexSpelling(b, 2, 4)
	case 'x':
		return hexSpelling(b, 2, 2)
	case '"', '\'', '\\', '/':
		return b[1], 2, false
	case 't':
		return '\t', 2, false
	}
	return 0, 0, false
}

func entity(b []byte) (c byte, n int, more bool) {
	end := bytes.IndexByte(b[:min(len(b), longestSpelling)], ';')
	if end < 0 {
		return 0, 0, len(b) < longestSpelling
	}
	name := b[1:end]
	if len(name) > 0 && name[0] == '#' {
		digits, base := name[1:], uint32(10)
		if len(digits) > 0 && digits[0]|0x20 == 'x' {
			digits, base = digits[1:], 16
		}
		if v, ok := number(digits, base); ok && v <= 0xff {
			return byte(v), end + 1, false
		}
		return 0, 0, false
	}
	if c, ok := named[string(name)]; ok {
		return c, end + 1, false
	}
	return 0, 0, false
}

// named are the entities of characters that values have.
var named = map[string]byte{"amp": '&', "lt": '<', "gt": '>', "quot": '"', "apos": '\'', "plus": '+', "sol": '/', "equals": '='}
