package secrets

import (
	"bytes"
	"html"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// match is how many bytes at the start of b spell text, or 0; short says that b may
// go on so that they are more. Where a character can be read in two ways, both are tried.
func (f *form) match(text string, b []byte) (n int, short bool) {
	for at := 0; len(text) > 0; {
		if f.soft && at > 0 {
			at += breaks(b[at:])
		}
		plain, spelled, of, more := spellings(text, b[at:])
		switch {
		case plain > 0 && spelled > 0:
			n, s := f.match(text[of:], b[at+spelled:])
			if short = short || s || more; n > 0 || len(text) == of {
				return at + spelled + n, short
			}
			at, text = at+plain, text[1:]
		case spelled > 0:
			at, text = at+spelled, text[of:]
			short = short || more
		case plain > 0:
			at, text = at+plain, text[1:]
			short = short || more
		default:
			return 0, short || more
		}
		n = at
	}
	return n, short
}

// mostBreaks is how many characters of line breaks may follow each other.
const mostBreaks = 4

// breaks is the length of the line break that b starts with: encoders of base64 put
// one after each 64 or 76 characters, and it may be spelled out as any character.
func breaks(b []byte) int {
	n := 0
	for range mostBreaks {
		if n == len(b) {
			break
		}
		s := decode(b[n:])
		switch {
		case b[n] == '\r' || b[n] == '\n':
			n++
		case s.n > 0 && s.size == 1 && (s.text[0] == '\r' || s.text[0] == '\n'):
			n += s.n
		case bytes.HasPrefix(b[n:], []byte(`\r`)), bytes.HasPrefix(b[n:], []byte(`\n`)):
			n += 2
		default:
			return n
		}
	}
	return n
}

// longestSpelling bounds the spelling of one character as an entity: &#x00002f;
const longestSpelling = 10

// spelling is what the start of a text spells out.
type spelling struct {
	// n is its length, 0 where it is none; text has size bytes.
	n, size int
	text    [utf8.UTFMax]byte
	// raw is the single byte that it may be as well, where two is set.
	raw byte
	two bool
	// more says that the text may go on so that it is one, or a longer one.
	more bool
}

// spellings is how long the first character of text is at the start of b: as it stands,
// and spelled out, then for of bytes of text; 0 where it is not. More says that b may be
// the start of a spelling.
func spellings(text string, b []byte) (plain, spelled, of int, more bool) {
	if len(b) == 0 {
		return 0, 0, 0, true
	}
	if b[0] == text[0] {
		plain = 1
	}
	s := decode(b)
	switch {
	case s.n == 0:
	case strings.HasPrefix(text, string(s.text[:s.size])):
		spelled, of = s.n, s.size
	case s.two && text[0] == s.raw:
		spelled, of = s.n, 1
	}
	return plain, spelled, of, s.more
}

// begins reports whether a character that starts with c may be spelled.
func (s *spelling) begins(c byte) bool {
	return s.n > 0 && (s.text[0] == c || s.two && s.raw == c)
}

// decode is what the start of b, which is not empty, spells out.
func decode(b []byte) spelling {
	switch b[0] {
	case '+':
		return ofByte(' ', 1)
	case '%':
		v, more := hexDigits(b, 1, 2)
		if v < 0 {
			return spelling{more: more}
		}
		return ofByte(byte(v), 3)
	case '\\':
		return escape(b)
	case '&':
		return entity(b)
	}
	return spelling{}
}

func ofByte(c byte, n int) spelling {
	return spelling{n: n, size: 1, text: [utf8.UTFMax]byte{c}}
}

func ofRune(r rune, n int) spelling {
	s := spelling{}
	if utf8.ValidRune(r) {
		s.n, s.size = n, utf8.EncodeRune(s.text[:], r)
	}
	return s
}

// hexDigits are the n hexadecimal digits at b[from:], or -1.
func hexDigits(b []byte, from, n int) (v int, more bool) {
	if len(b) < from+n {
		return -1, true
	}
	u, ok := number(b[from:from+n], 16)
	if !ok {
		return -1, false
	}
	return int(u), false
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

func escape(b []byte) spelling {
	if len(b) == 1 {
		return spelling{more: true}
	}
	switch b[1] {
	case 'u':
		return unicodeEscape(b)
	case 'x': // a byte in C, a character in JavaScript
		v, more := hexDigits(b, 2, 2)
		if v < 0 {
			return spelling{more: more}
		}
		s := ofRune(rune(v), 4)
		s.raw, s.two = byte(v), true
		return s
	case '"', '\'', '\\', '/':
		return ofByte(b[1], 2)
	case 't':
		return ofByte('\t', 2)
	}
	return spelling{}
}

// unicodeEscape reads \uXXXX, and two of them for characters beyond 16 bits.
func unicodeEscape(b []byte) spelling {
	v, more := hexDigits(b, 2, 4)
	if v < 0 {
		return spelling{more: more}
	}
	if !utf16.IsSurrogate(rune(v)) {
		return ofRune(rune(v), 6)
	}
	rest := b[6:]
	if len(rest) < 2 && string(rest) == `\u`[:len(rest)] {
		return spelling{more: true}
	}
	if len(rest) < 2 || string(rest[:2]) != `\u` {
		return spelling{}
	}
	low, more := hexDigits(rest, 2, 4)
	if r := utf16.DecodeRune(rune(v), rune(low)); low >= 0 && r != utf8.RuneError {
		return ofRune(r, 12)
	}
	return spelling{more: more}
}

func entity(b []byte) spelling {
	end := bytes.IndexByte(b[:min(len(b), longestSpelling)], ';')
	if end < 0 {
		// The oldest four go without a semicolon, too.
		for _, name := range [...]string{"&amp", "&lt", "&gt", "&quot"} {
			if bytes.HasPrefix(b, []byte(name)) {
				s := ofByte(named[name[1:]], len(name))
				s.more = len(b) < longestSpelling
				return s
			}
		}
		return spelling{more: len(b) < longestSpelling}
	}
	name := b[1:end]
	if len(name) > 0 && name[0] == '#' {
		digits, base := name[1:], uint32(10)
		if len(digits) > 0 && digits[0]|0x20 == 'x' {
			digits, base = digits[1:], 16
		}
		if v, ok := number(digits, base); ok && v <= utf8.MaxRune {
			return ofRune(rune(v), end+1)
		}
		return spelling{}
	}
	if c, ok := named[string(name)]; ok {
		return ofByte(c, end+1)
	}
	if text := html.UnescapeString(string(b[:end+1])); len(text) <= utf8.UTFMax && utf8.RuneCountInString(text) == 1 {
		s := spelling{n: end + 1, size: len(text)}
		copy(s.text[:], text)
		return s
	}
	return spelling{}
}

// named are the entities that are met most.
var named = map[string]byte{"amp": '&', "lt": '<', "gt": '>', "quot": '"', "apos": '\'', "plus": '+', "sol": '/', "equals": '='}
