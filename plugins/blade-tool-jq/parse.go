package main

import (
	"fmt"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A parser reads JSON documents one after the other into the values gojq works
// on, straight from a stream: encoding/json would keep the whole text beside
// the values. Whole numbers that fit are int; a number whose shortest float64
// form is its text is float64; any other stays a json.Number and keeps its
// digits. Keys are shared. Of two equal keys the last one counts, invalid UTF-8
// becomes U+FFFD.
type parser struct {
	src  io.Reader
	err  error // of src
	buf  []byte
	pos  int
	base int64 // offset of buf
	line int
	bol  int64 // offset of the beginning of the line
	keys map[string]string
	text []byte // scratch for strings and numbers
	// each is called once per piece read with its length; its error ends the
	// parse.
	each func(n int) error
}

const (
	pieceSize = 256 << 10
	// maxDepth bounds the nesting of a document.
	maxDepth = 10_000
	// maxKeys and maxKey bound what is shared.
	maxKeys = 1 << 16
	maxKey  = 64
)

// syntaxError is where and why a document is no JSON.
type syntaxError struct {
	Line   int   `json:"line"`
	Column int   `json:"column"`
	Offset int64 `json:"offset"`
	text   string
}

func (e *syntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.text)
}

func newParser(src io.Reader, each func(n int) error) *parser {
	return &parser{src: src, buf: make([]byte, 0, pieceSize), line: 1, keys: map[string]string{}, each: each}
}

// next is the next document; ok is false at the end.
func (p *parser) next() (v any, ok bool, err error) {
	c, err := p.space()
	if err == io.EOF {
		return nil, false, nil
	}
	if err == nil && p.base == 0 && p.pos == 0 && c == 0xef {
		c, err = p.mark()
	}
	if err != nil {
		return nil, false, err
	}
	v, err = p.value(c, 0)
	if err == nil {
		// Two numbers or words in a row need something between them.
		if c, e := p.peek(); e == nil && word(c) {
			err = p.fail("%s after a value", quote(c))
		}
	}
	return v, err == nil, err
}

// word reports whether c would go on with a number or a literal.
func word(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '+' || c == '.'
}

// mark skips a byte order mark.
func (p *parser) mark() (byte, error) {
	for _, want := range []byte("\ufeff") {
		if c, err := p.peek(); err != nil || c != want {
			return 0, p.fail("the text does not start with JSON")
		}
		p.pos++
	}
	p.bol = 3
	return p.space()
}

func (p *parser) fill() error {
	if p.err != nil {
		return p.err
	}
	p.base += int64(len(p.buf))
	n, err := p.src.Read(p.buf[:cap(p.buf)])
	p.buf, p.pos, p.err = p.buf[:n], 0, err
	if n == 0 && err == nil {
		p.err = io.ErrNoProgress
	}
	if n > 0 && p.each != nil {
		if stop := p.each(n); stop != nil {
			p.err, p.buf = stop, p.buf[:0]
		}
	}
	if len(p.buf) == 0 {
		return p.err
	}
	return nil
}

func (p *parser) peek() (byte, error) {
	for p.pos == len(p.buf) {
		if err := p.fill(); err != nil {
			return 0, err
		}
	}
	return p.buf[p.pos], nil
}

// space skips white space and peeks.
func (p *parser) space() (byte, error) {
	if p.pos < len(p.buf) && p.buf[p.pos] > ' ' {
		return p.buf[p.pos], nil
	}
	for {
		c, err := p.peek()
		if err != nil {
			return 0, err
		}
		switch c {
		case '\n':
			p.line++
			p.bol = p.base + int64(p.pos) + 1
		case ' ', '\t', '\r':
		default:
			return c, nil
		}
		p.pos++
	}
}

// inside is space where the document must go on.
func (p *parser) inside() (byte, error) {
	c, err := p.space()
	if err == io.EOF {
		return 0, p.fail("the text ends inside a value")
	}
	return c, err
}

func (p *parser) fail(format string, args ...any) error { return p.failBefore(0, format, args...) }

// failBefore is about the place that lies n bytes back on the same line.
func (p *parser) failBefore(n int, format string, args ...any) error {
	at := p.base + int64(p.pos-n)
	return &syntaxError{Line: p.line, Column: int(at-p.bol) + 1, Offset: at, text: fmt.Sprintf(format, args...)}
}

func quote(c byte) string { return strconv.QuoteRuneToASCII(rune(c)) }

func (p *parser) value(c byte, depth int) (any, error) {
	if depth > maxDepth {
		return nil, p.fail("nested deeper than %d levels", maxDepth)
	}
	switch c {
	case '{':
		return p.object(depth)
	case '[':
		return p.array(depth)
	case '"':
		b, err := p.str()
		return string(b), err
	case 't':
		return true, p.literal("true")
	case 'f':
		return false, p.literal("false")
	case 'n':
		return nil, p.literal("null")
	}
	if c == '-' || c >= '0' && c <= '9' {
		return p.number()
	}
	return nil, p.fail("%s where a value should start", quote(c))
}

func (p *parser) literal(s string) error {
	for i := range len(s) {
		c, err := p.peek()
		if err == io.EOF {
			return p.fail("the text ends inside a value")
		}
		if err != nil {
			return err
		}
		if c != s[i] {
			return p.fail("%s in %s", quote(c), s)
		}
		p.pos++
	}
	return nil
}

func (p *parser) array(depth int) (any, error) {
	p.pos++
	list := []any{}
	for c, err := p.inside(); ; c, err = p.inside() {
		if err != nil {
			return nil, err
		}
		if c == ']' && len(list) == 0 {
			p.pos++
			return list, nil
		}
		v, err := p.value(c, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		if c, err = p.inside(); err != nil {
			return nil, err
		}
		if p.pos++; c == ']' {
			if cap(list)-len(list) > len(list)/8 && len(list) > 64 {
				list = append(make([]any, 0, len(list)), list...)
			}
			return list, nil
		}
		if c != ',' {
			p.pos--
			return nil, p.fail("%s where a comma or ] should be", quote(c))
		}
	}
}

func (p *parser) object(depth int) (any, error) {
	p.pos++
	m := map[string]any{}
	for first := true; ; first = false {
		c, err := p.inside()
		if err != nil {
			return nil, err
		}
		if c == '}' && first {
			p.pos++
			return m, nil
		}
		if c != '"' {
			return nil, p.fail("%s where a name should start", quote(c))
		}
		b, err := p.str()
		if err != nil {
			return nil, err
		}
		key := p.key(b)
		if c, err = p.inside(); err != nil {
			return nil, err
		}
		if c != ':' {
			return nil, p.fail("%s where a colon should be", quote(c))
		}
		p.pos++
		if c, err = p.inside(); err != nil {
			return nil, err
		}
		if m[key], err = p.value(c, depth+1); err != nil {
			return nil, err
		}
		if c, err = p.inside(); err != nil {
			return nil, err
		}
		if p.pos++; c == '}' {
			return m, nil
		}
		if c != ',' {
			p.pos--
			return nil, p.fail("%s where a comma or } should be", quote(c))
		}
	}
}

// key is b as a string that equal keys share.
func (p *parser) key(b []byte) string {
	if k, ok := p.keys[string(b)]; ok {
		return k
	}
	k := string(b)
	if len(k) <= maxKey && len(p.keys) < maxKeys {
		p.keys[k] = k
	}
	return k
}

// str reads a string. The bytes are good until the next call.
func (p *parser) str() ([]byte, error) {
	p.pos++
	// Mostly it ends in this piece and has no escapes.
	for i := p.pos; i < len(p.buf); i++ {
		c := p.buf[i]
		if c == '"' {
			b := p.buf[p.pos:i]
			p.pos = i + 1
			return b, nil
		}
		if c == '\\' || c < ' ' || c >= utf8.RuneSelf {
			break
		}
	}
	p.text = p.text[:0]
	ascii := true
	for {
		c, err := p.peek()
		switch {
		case err == io.EOF:
			return nil, p.fail("the text ends inside a string")
		case err != nil:
			return nil, err
		case c == '"':
			p.pos++
			if !ascii && !utf8.Valid(p.text) {
				p.text = []byte(string([]rune(string(p.text))))
			}
			return p.text, nil
		case c < ' ':
			return nil, p.fail("a control character in a string")
		case c == '\\':
			p.pos++
			if err := p.escape(); err != nil {
				return nil, err
			}
		default:
			ascii = ascii && c < utf8.RuneSelf
			p.text = append(p.text, c)
			p.pos++
		}
	}
}

func (p *parser) escape() error {
	c, err := p.peek()
	if err == io.EOF {
		return p.fail("the text ends inside a string")
	}
	if err != nil {
		return err
	}
	const from, to = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	for i := range len(from) {
		if c == from[i] {
			p.text = append(p.text, to[i])
			p.pos++
			return nil
		}
	}
	if c != 'u' {
		return p.fail("%s after a backslash", quote(c))
	}
	p.pos++
	r, err := p.unit()
	if err != nil {
		return err
	}
	for utf16.IsSurrogate(r) {
		// The other half follows, or this one is replaced.
		if c, err := p.peek(); err != nil || c != '\\' {
			r = utf8.RuneError
			break
		}
		p.pos++
		if c, err := p.peek(); err != nil || c != 'u' {
			p.text = utf8.AppendRune(p.text, utf8.RuneError)
			return p.escape()
		}
		p.pos++
		low, err := p.unit()
		if err != nil {
			return err
		}
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			r = pair
			break
		}
		p.text = utf8.AppendRune(p.text, utf8.RuneError)
		r = low
	}
	p.text = utf8.AppendRune(p.text, r)
	return nil
}

// unit reads four hex digits.
func (p *parser) unit() (rune, error) {
	var r rune
	for range 4 {
		c, err := p.peek()
		if err == io.EOF {
			return 0, p.fail("the text ends inside a string")
		}
		if err != nil {
			return 0, err
		}
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, p.fail("%s where a hex digit should be", quote(c))
		}
		r = r<<4 | rune(c)
		p.pos++
	}
	return r, nil
}
