package main

import (
	"encoding/json"
	"strconv"
)

// number reads a number: first its characters, then its grammar.
func (p *parser) number() (any, error) {
	var text []byte
	i := p.pos
	for i < len(p.buf) && numeric(p.buf[i]) {
		i++
	}
	if i < len(p.buf) { // it ends in this piece
		text = p.buf[p.pos:i]
		p.pos = i
	} else {
		p.text = p.text[:0]
		for c, err := p.peek(); err == nil && numeric(c); c, err = p.peek() {
			p.text = append(p.text, c)
			p.pos++
		}
		text = p.text
	}
	end, whole := grammar(text)
	if last := text[max(end, 1)-1]; end < len(text) || last < '0' || last > '9' {
		return nil, p.failBefore(len(text)-end, "%q is no number", clip(string(text)))
	}
	return exact(text, whole), nil
}

func numeric(c byte) bool {
	return c >= '0' && c <= '9' || c == '.' || c == '-' || c == '+' || c|0x20 == 'e'
}

// grammar says how much of a text is a number of JSON, and whether it is a whole
// one. A part that lacks its digits ends at its mark.
func grammar(text []byte) (end int, whole bool) {
	i := 0
	digits := func() {
		for i < len(text) && text[i] >= '0' && text[i] <= '9' {
			i++
		}
	}
	if i < len(text) && text[i] == '-' {
		i++
	}
	if i < len(text) && text[i] == '0' {
		i++
	} else {
		digits()
	}
	if i == 0 || text[i-1] == '-' {
		return i, true
	}
	whole = true
	if i < len(text) && text[i] == '.' {
		whole = false
		i++
		digits()
		if text[i-1] == '.' {
			return i, whole
		}
	}
	if i < len(text) && text[i]|0x20 == 'e' {
		whole = false
		i++
		if i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		digits()
	}
	return i, whole
}

// exact is the leanest value that keeps the digits of a number.
func exact(text []byte, whole bool) any {
	if whole && len(text) <= 18 && (text[0] != '-' || text[1] != '0') {
		n, neg := 0, text[0] == '-'
		if neg {
			text = text[1:]
		}
		for _, c := range text {
			n = n*10 + int(c-'0')
		}
		if neg {
			n = -n
		}
		return n
	}
	if !whole {
		var short [32]byte
		if f, err := strconv.ParseFloat(string(text), 64); err == nil && string(strconv.AppendFloat(short[:0], f, 'f', -1, 64)) == string(text) {
			return f
		}
	}
	return json.Number(text)
}
