package http

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
)

// DecodeText turns the bytes of an answer into UTF-8 text. The encoding is the one
// of a byte order mark, of the Content-Type, or of the document's own declaration,
// in this order; without any it is UTF-8 if the bytes are, else windows-1252. What
// the encoding does not know becomes U+FFFD. It returns the encoding's name too.
func DecodeText(body []byte, contentType string) (text, name string) {
	enc, name, certain := charset.DetermineEncoding(body, contentType)
	if !certain && utf8.Valid(body) {
		return unmarked(string(body)), "utf-8"
	}
	out, err := enc.NewDecoder().Bytes(body)
	if err != nil { // an encoding that refuses: nothing of it is text
		return string([]rune(string(body))), "utf-8"
	}
	return unmarked(string(out)), name
}

// unmarked is a text without its byte order mark.
func unmarked(s string) string { return strings.TrimPrefix(s, "\ufeff") }
