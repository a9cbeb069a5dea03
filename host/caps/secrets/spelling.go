package secrets

import (
	"bytes"
	"strconv"
	"strings"
)

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
	switch b[0] {
	case '+':
		if c == ' ' {
			spelled = 1
		}
	case '%':
		spelled, more = hexSpelling(c, b, 1, 2)
	case '\\':
		spelled, more = escape(c, b)
	case '&':
		spelled, more = entity(c, b)
	}
	return plain, spelled, more
}

// hexSpelling reads n hexadecimal digits at b[from:].
func hexSpelling(c byte, b []byte, from, n int) (spelled int, more bool) {
	if len(b) < from+n {
		return 0, true
	}
	if v, err := strconv.ParseUint(string(b[from:from+n]), 16, 32); err != nil || v != uint64(c) {
		return 0, false
	}
	return from + n, false
}

func escape(c byte, b []byte) (spelled int, more bool) {
	if len(b) == 1 {
		return 0, true
	}
	switch b[1] {
	case 'u':
		return hexSpelling(c, b, 2, 4)
	case 'x':
		return hexSpelling(c, b, 2, 2)
	case c:
		if strings.IndexByte(`"'\/`, c) >= 0 {
			return 2, false
		}
	case 't':
		if c == '\t' {
			return 2, false
		}
	}
	return 0, false
}

func entity(c byte, b []byte) (spelled int, more bool) {
	end := bytes.IndexByte(b[:min(len(b), longestSpelling)], ';')
	if end < 0 {
		return 0, len(b) < longestSpelling
	}
	name := string(b[1:end])
	digits, numeric := strings.CutPrefix(name, "#")
	base := 10
	if rest, found := strings.CutPrefix(strings.ToLower(digits), "x"); found {
		digits, base = rest, 16
	}
	if numeric {
		v, err := strconv.ParseUint(digits, base, 32)
		if err != nil || v != uint64(c) {
			return 0, false
		}
		return end + 1, false
	}
	for _, e := range []struct {
		c    byte
		name string
	}{{'&', "amp"}, {'<', "lt"}, {'>', "gt"}, {'"', "quot"}, {'\'', "apos"}, {'+', "plus"}, {'/', "sol"}, {'=', "equals"}} {
		if e.c == c && e.name == name {
			return end + 1, false
		}
	}
	return 0, false
}

// spelledChar is the character that the start of b spells out, where that is quickly
// known: most spellings in a text are of characters that no value begins with.
func spelledChar(b []byte) (c byte, known bool) {
	digits := ""
	switch {
	case len(b) < 6:
		return 0, false
	case b[0] == '%':
		digits = string(b[1:3])
	case b[0] == '\\' && b[1] == 'u':
		digits = string(b[2:6])
	case b[0] == '\\' && b[1] == 'x':
		digits = string(b[2:4])
	case b[0] == '\\' && b[1] != 't':
		return b[1], true
	default:
		return 0, false
	}
	v, err := strconv.ParseUint(digits, 16, 8)
	return byte(v), err == nil
}
