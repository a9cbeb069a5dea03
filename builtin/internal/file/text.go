package file

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/bladehost/bladehost/abi"
)

// Encoding is how a text file stores its characters.
type Encoding string

// Encodings. Only those that start with a byte order mark are taken for UTF-16;
// Latin-1 is what is no UTF-8, but sensible text where every byte is a character.
const (
	UTF8    Encoding = "utf8"
	UTF16LE Encoding = "utf16le"
	UTF16BE Encoding = "utf16be"
	Latin1  Encoding = "latin1"
)

// Text is a decoded text file.
type Text struct {
	// S is the content without the byte order mark.
	S        string
	Encoding Encoding
	// BOM says that the file starts with a byte order mark.
	BOM bool
	// Lossy says that some bytes are no characters; S has U+FFFD for them, and the file
	// cannot be written back from S.
	Lossy bool
}

// SniffSize is how many bytes at the start of a file tell what it is.
const SniffSize = 8 << 10

// Binary reports whether the start of a file is no text: it has a NUL and no byte
// order mark of UTF-16.
func Binary(head []byte) bool {
	e, _ := SniffEncoding(head)
	return (e == UTF8 || e == Latin1) && bytes.IndexByte(head, 0) >= 0
}

// SniffEncoding tells the encoding by the start of a file, and the length of the byte
// order mark. Where it says Latin1, the rest may prove it wrong.
func SniffEncoding(head []byte) (e Encoding, bom int) {
	switch {
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		return UTF8, 3
	case bytes.HasPrefix(head, []byte("\xff\xfe")):
		return UTF16LE, 2
	case bytes.HasPrefix(head, []byte("\xfe\xff")):
		return UTF16BE, 2
	case latin1(head):
		return Latin1, 0
	}
	return UTF8, 0
}

// latin1 reports whether b is no UTF-8, but plausible Latin-1: no control characters
// beside blanks, and nothing in it that would be a character of several bytes in UTF-8.
func latin1(b []byte) bool {
	high := false
	for i := 0; i < len(b); {
		c := b[i]
		if c < utf8.RuneSelf {
			if c < 0x20 && c != '\t' && c != '\n' && c != '\r' && c != '\f' && c != 0x1b {
				return false
			}
			i++
			continue
		}
		if r, n := utf8.DecodeRune(b[i:]); (r != utf8.RuneError && n > 1) || c < 0xa0 {
			return false
		}
		high = true
		i++
	}
	return high
}

// Decode reads a text file.
func Decode(b []byte) Text {
	e, bom := SniffEncoding(b)
	t := Text{Encoding: e, BOM: bom > 0}
	b = b[bom:]
	switch e {
	case UTF16LE:
		t.S, t.Lossy = decode16(b, binary.LittleEndian)
	case UTF16BE:
		t.S, t.Lossy = decode16(b, binary.BigEndian)
	case Latin1:
		var s strings.Builder
		s.Grow(len(b) + len(b)/8)
		for _, c := range b {
			s.WriteRune(rune(c))
		}
		t.S = s.String()
	default:
		if t.Lossy = !utf8.Valid(b); t.Lossy {
			t.S = strings.ToValidUTF8(string(b), "\uFFFD")
		} else {
			t.S = string(b)
		}
	}
	return t
}

func decode16(b []byte, order binary.ByteOrder) (string, bool) {
	var s strings.Builder
	s.Grow(len(b))
	lossy := len(b)%2 != 0
	for i := 0; i+1 < len(b); i += 2 {
		r := rune(order.Uint16(b[i:]))
		if utf16.IsSurrogate(r) {
			next := rune(0)
			if i+3 < len(b) {
				next = rune(order.Uint16(b[i+2:]))
			}
			if r = utf16.DecodeRune(r, next); r == utf8.RuneError {
				lossy = true
			} else {
				i += 2
			}
		}
		s.WriteRune(r)
	}
	if len(b)%2 != 0 {
		s.WriteRune(utf8.RuneError)
	}
	return s.String(), lossy
}

// Encode is s as bytes in the file's encoding, with its byte order mark. The error is
// unsupported_encoding where the encoding has no form for a character.
func (t Text) Encode(s string) ([]byte, error) {
	switch t.Encoding {
	case UTF16LE:
		return encode16(s, binary.LittleEndian), nil
	case UTF16BE:
		return encode16(s, binary.BigEndian), nil
	case Latin1:
		out := make([]byte, 0, len(s))
		for _, r := range s {
			if r > 0xff {
				return nil, Error(abi.TypeValidation, CodeEncoding, "the file is in Latin-1, which has no %q (U+%04X). Leave the character out, or write the file anew in UTF-8 with Write.", r, r)
			}
			out = append(out, byte(r))
		}
		// What would be read as another encoding next time cannot be written as this one.
		if e, _ := SniffEncoding(out); e != Latin1 && !ascii(out) {
			return nil, Error(abi.TypeValidation, CodeEncoding, "the file is in Latin-1, and with this change it could not be told from UTF-8 any more. Write the file anew in UTF-8 with Write.")
		}
		return out, nil
	}
	if t.BOM {
		return append([]byte("\xef\xbb\xbf"), s...), nil
	}
	return []byte(s), nil
}

func ascii(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func encode16(s string, order binary.ByteOrder) []byte {
	out := order.(binary.AppendByteOrder).AppendUint16(make([]byte, 0, 2*len(s)+2), 0xfeff)
	for _, u := range utf16.Encode([]rune(s)) {
		out = order.(binary.AppendByteOrder).AppendUint16(out, u)
	}
	return out
}

// CRLF reports whether most lines of s end in CR LF.
func CRLF(s string) bool {
	crlf := strings.Count(s, "\r\n")
	return crlf > 0 && crlf*2 > strings.Count(s, "\n")
}

// Units is the length of s in UTF-16 code units.
func Units(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r > 0xffff {
			n++
		}
	}
	return n
}

// Cut is s cut to at most n UTF-16 code units, never inside a character, and whether
// something was cut off.
func Cut(s string, n int) (string, bool) {
	if len(s) <= n {
		return s, false
	}
	units := 0
	for i, r := range s {
		units++
		if r > 0xffff {
			units++
		}
		if units > n {
			return s[:i], true
		}
	}
	return s, false
}
