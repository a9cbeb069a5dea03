package shell

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// keepEnd is how much is kept of each end of a stream of a foreground command, in
// bytes: far more than a model is shown.
const keepEnd = 1 << 20

// capture keeps the two ends of a stream and counts the rest.
type capture struct {
	mu    sync.Mutex
	head  []byte
	tail  ring
	bytes int64
	lines int64 // line ends
	units units
}

// Write never fails.
func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(p)
	c.bytes += int64(n)
	c.units.add(p)
	for _, b := range p {
		if b == '\n' {
			c.lines++
		}
	}
	if room := keepEnd - len(c.head); room > 0 {
		k := min(room, len(p))
		c.head = append(c.head, p[:k]...)
		p = p[k:]
	}
	c.tail.most = keepEnd
	c.tail.add(p)
	return n, nil
}

// captured is what a capture held at one moment.
type captured struct {
	head, tail string
	// dropped is how many bytes between head and tail are lost; without any, all
	// is in head.
	dropped int64
	// lines counts line ends, units UTF-16 code units, of the whole stream.
	lines, units int64
}

func (c *capture) read() captured {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := captured{dropped: c.tail.dropped, lines: c.lines, units: c.units.total()}
	tail := c.tail.bytes()
	if out.dropped == 0 {
		out.head = valid(string(c.head) + string(tail))
		return out
	}
	// Cut between characters.
	head := c.head
	for i := 1; i <= utf8.UTFMax && i < len(head); i++ {
		if r := head[len(head)-i]; utf8.RuneStart(r) {
			if !utf8.FullRune(head[len(head)-i:]) {
				out.dropped += int64(i)
				head = head[:len(head)-i]
			}
			break
		}
	}
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		out.dropped++
		tail = tail[1:]
	}
	out.head, out.tail = valid(string(head)), valid(string(tail))
	return out
}

// valid puts U+FFFD in the place of every byte that is no UTF-8.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		b.WriteRune(r)
		i += n
	}
	return b.String()
}

// ring keeps the newest bytes of a stream.
type ring struct {
	most    int
	buf     []byte
	at      int // where the oldest byte is, once the ring is full
	dropped int64
}

func (r *ring) add(p []byte) {
	if over := len(p) - r.most; over > 0 {
		r.dropped += int64(over + len(r.buf))
		r.buf, r.at = append(r.buf[:0], p[over:]...), 0
		return
	}
	if room := r.most - len(r.buf); room > 0 {
		k := min(room, len(p))
		r.buf = append(r.buf, p[:k]...)
		p = p[k:]
	}
	for len(p) > 0 {
		k := copy(r.buf[r.at:], p)
		r.dropped += int64(k)
		r.at = (r.at + k) % r.most
		p = p[k:]
	}
}

// bytes are what is kept, oldest first.
func (r *ring) bytes() []byte {
	out := make([]byte, 0, len(r.buf))
	out = append(out, r.buf[r.at:]...)
	return append(out, r.buf[:r.at]...)
}

// units counts the UTF-16 code units of a stream of UTF-8.
type units struct {
	n    int64
	part []byte // an unfinished character
}

func (u *units) add(p []byte) {
	if len(u.part) > 0 {
		for len(p) > 0 && len(u.part) < utf8.UTFMax && !utf8.FullRune(u.part) {
			u.part = append(u.part, p[0])
			p = p[1:]
		}
		if !utf8.FullRune(u.part) {
			return
		}
		part := u.part
		u.part = nil
		u.count(part)
		if len(u.part) > 0 { // the first byte was none of a character
			u.add(p)
			return
		}
	}
	u.count(p)
}

func (u *units) count(p []byte) {
	for len(p) > 0 {
		if p[0] < utf8.RuneSelf {
			u.n++
			p = p[1:]
			continue
		}
		if !utf8.FullRune(p) {
			u.part = append([]byte(nil), p...)
			return
		}
		r, size := utf8.DecodeRune(p)
		u.n++
		if r > 0xffff {
			u.n++
		}
		p = p[size:]
	}
}

func (u *units) total() int64 { return u.n + int64(len(u.part)) }
