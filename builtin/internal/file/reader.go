package file

import (
	"encoding/binary"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// Reader decodes a text while it is read: what comes out is UTF-8 without a byte order
// mark, or nearly, where bytes of the file are no characters. For one goroutine.
type Reader struct {
	r     io.Reader
	enc   Encoding
	skip  int
	lossy bool
	order binary.ByteOrder
	raw   []byte // read, not decoded
	out   []byte // decoded, not given out
	tail  []byte // of UTF-8: a character that the last block cut
	err   error
}

// NewReader decodes r, which starts with head; head is not consumed from r.
func NewReader(r io.Reader, head []byte) *Reader {
	e, bom := SniffEncoding(whole(head))
	d := &Reader{r: r, enc: e, skip: bom, order: binary.LittleEndian}
	if e == UTF16BE {
		d.order = binary.BigEndian
	}
	return d
}

// whole is b without a character that its end cuts.
func whole(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// Encoding is what the start of the text says.
func (d *Reader) Encoding() Encoding { return d.enc }

// Lossy reports whether some bytes so far were no characters.
func (d *Reader) Lossy() bool { return d.lossy }

// Read fills b with decoded text.
func (d *Reader) Read(b []byte) (int, error) {
	for len(d.out) == 0 {
		if d.err != nil {
			return 0, d.err
		}
		if err := d.fill(len(b)); err != nil {
			d.err = err
		}
	}
	n := copy(b, d.out)
	d.out = d.out[n:]
	return n, nil
}

// fill reads and decodes a block of about n bytes.
func (d *Reader) fill(n int) error {
	if cap(d.raw) < n+4 {
		d.raw = append(make([]byte, 0, n+4), d.raw...)
	}
	have := len(d.raw)
	k, err := d.r.Read(d.raw[have : have+n])
	d.raw = d.raw[:have+k]
	if d.skip > 0 {
		if len(d.raw) < d.skip && err == nil {
			return nil
		}
		d.raw = append(d.raw[:0], d.raw[min(d.skip, len(d.raw)):]...)
		d.skip = 0
	}
	switch d.enc {
	case UTF16LE, UTF16BE:
		d.decode16(err != nil)
	case Latin1:
		d.out = d.out[:0]
		for _, c := range d.raw {
			d.out = utf8.AppendRune(d.out, rune(c))
		}
		d.raw = d.raw[:0]
	default:
		d.checkUTF8()
	}
	return err
}

// checkUTF8 hands the block on as it is.
func (d *Reader) checkUTF8() {
	d.out = append(d.out[:0], d.raw...)
	d.raw = d.raw[:0]
	if d.lossy {
		return
	}
	b := d.out
	if len(d.tail) > 0 {
		b = append(d.tail, b...)
	}
	full := whole(b)
	d.lossy = !utf8.Valid(full)
	d.tail = append([]byte(nil), b[len(full):]...)
}

func (d *Reader) decode16(last bool) {
	d.out = d.out[:0]
	i := 0
	for ; i+1 < len(d.raw); i += 2 {
		r := rune(d.order.Uint16(d.raw[i:]))
		if utf16.IsSurrogate(r) {
			if i+3 >= len(d.raw) && !last {
				break
			}
			next := rune(0)
			if i+3 < len(d.raw) {
				next = rune(d.order.Uint16(d.raw[i+2:]))
			}
			if r = utf16.DecodeRune(r, next); r == utf8.RuneError {
				d.lossy = true
			} else {
				i += 2
			}
		}
		d.out = utf8.AppendRune(d.out, r)
	}
	d.raw = append(d.raw[:0], d.raw[min(i, len(d.raw)):]...)
	if last && len(d.raw) > 0 {
		d.lossy = true
		d.out = utf8.AppendRune(d.out, utf8.RuneError)
		d.raw = d.raw[:0]
	}
}
