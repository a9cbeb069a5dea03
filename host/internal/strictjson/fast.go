package strictjson

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// plainly reports whether b is strict JSON of the kind that tools mostly send. It
// knows a part of the rules only: false means nothing. Every call of a tool passes
// here, and long texts pass at eight bytes a step, for which the decoder takes four
// times as long; docs/adr/0009-why-is-json-checked-twice.md says why.
func plainly(b []byte) bool {
	p := plain{b: b}
	p.space()
	if !p.value(0) {
		return false
	}
	p.space()
	return p.i == len(b)
}

const (
	// plainDepth and plainKeys bound what plainly looks at: nesting, and the members
	// of one object, which it compares each with each.
	plainDepth = 32
	plainKeys  = 16
	plainDigit = 18
)

type plain struct {
	b []byte
	i int
}

func (p *plain) space() {
	for p.i < len(p.b) {
		switch p.b[p.i] {
		case ' ', '\t', '\n', '\r':
			p.i++
		default:
			return
		}
	}
}

// take consumes c after white space.
func (p *plain) take(c byte) bool {
	p.space()
	if p.i < len(p.b) && p.b[p.i] == c {
		p.i++
		return true
	}
	return false
}

func (p *plain) value(depth int) bool {
	if p.i >= len(p.b) || depth > plainDepth {
		return false
	}
	switch p.b[p.i] {
	case '"':
		_, ok := p.text()
		return ok
	case '{':
		return p.object(depth + 1)
	case '[':
		return p.array(depth + 1)
	case 't':
		return p.word("true")
	case 'f':
		return p.word("false")
	case 'n':
		return p.word("null")
	}
	return p.number()
}

func (p *plain) word(w string) bool {
	if len(p.b)-p.i < len(w) || string(p.b[p.i:p.i+len(w)]) != w {
		return false
	}
	p.i += len(w)
	return true
}

func (p *plain) array(depth int) bool {
	p.i++
	if p.take(']') {
		return true
	}
	for {
		p.space()
		if !p.value(depth) {
			return false
		}
		if p.take(']') {
			return true
		}
		if !p.take(',') {
			return false
		}
	}
}

func (p *plain) object(depth int) bool {
	p.i++
	if p.take('}') {
		return true
	}
	var keys [plainKeys][]byte
	for n := 0; n < plainKeys; n++ {
		p.space()
		from := p.i
		escaped, ok := p.text()
		if !ok || escaped { // two spellings of one key must not pass
			return false
		}
		keys[n] = p.b[from:p.i]
		for _, k := range keys[:n] {
			if string(k) == string(keys[n]) {
				return false
			}
		}
		if !p.take(':') {
			return false
		}
		p.space()
		if !p.value(depth) {
			return false
		}
		if p.take('}') {
			return true
		}
		if !p.take(',') {
			return false
		}
	}
	return false
}

// number takes an integer or a decimal fraction of few digits.
func (p *plain) number() bool {
	from := p.i
	if p.b[p.i] == '-' {
		p.i++
	}
	zero := p.i < len(p.b) && p.b[p.i] == '0'
	n := p.digits()
	if n == 0 || n > 1 && zero {
		return false
	}
	if p.i < len(p.b) && p.b[p.i] == '.' {
		p.i++
		if p.digits() == 0 {
			return false
		}
	}
	return p.i-from <= plainDigit
}

func (p *plain) digits() int {
	from := p.i
	for p.i < len(p.b) && p.b[p.i] >= '0' && p.b[p.i] <= '9' {
		p.i++
	}
	return p.i - from
}

// text takes a string and says whether there was an escape in it.
func (p *plain) text() (escaped, ok bool) {
	if p.i >= len(p.b) || p.b[p.i] != '"' {
		return false, false
	}
	p.i++
	for {
		p.i += ordinary(p.b[p.i:])
		if p.i >= len(p.b) {
			return escaped, false
		}
		switch c := p.b[p.i]; {
		case c == '"':
			p.i++
			return escaped, true
		case c == '\\':
			if escaped = true; !p.escape() {
				return escaped, false
			}
		case c < ' ':
			return escaped, false
		default:
			r, size := utf8.DecodeRune(p.b[p.i:])
			if r == utf8.RuneError && size <= 1 {
				return escaped, false
			}
			p.i += size
		}
	}
}

// escape takes an escape of one letter.
func (p *plain) escape() bool {
	if p.i+1 >= len(p.b) {
		return false
	}
	switch p.b[p.i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		p.i += 2
		return true
	}
	return false
}

// ordinary is how many bytes at the start of b are ASCII that stands for itself in a
// string.
func ordinary(b []byte) int {
	n := 0
	for ; len(b)-n >= 32; n += 32 {
		w := b[n : n+32 : n+32]
		if odd(binary.LittleEndian.Uint64(w))|odd(binary.LittleEndian.Uint64(w[8:]))|odd(binary.LittleEndian.Uint64(w[16:]))|odd(binary.LittleEndian.Uint64(w[24:])) != 0 {
			break
		}
	}
	for ; len(b)-n >= 8; n += 8 {
		if o := odd(binary.LittleEndian.Uint64(b[n:])); o != 0 {
			return n + bits.TrailingZeros64(o)/8
		}
	}
	for ; n < len(b); n++ {
		if c := b[n]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
	}
	return n
}

// odd has the high bit of the first byte that is not ordinary, and of no byte before
// it; those after it may be wrong.
func odd(w uint64) uint64 {
	const (
		low  = 0x0101010101010101
		high = 0x8080808080808080
	)
	return (w | (w - ' '*low) | ((w ^ '"'*low) - low) | ((w ^ '\\'*low) - low)) & high
}
