package wasm

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// WriteImage copies the initial content into the memory of a new instance. It
// fails when the memory is smaller than the module's minimum.
func (m *Module) WriteImage(memory []byte) error {
	for _, s := range m.Image {
		if int64(s.Offset)+int64(len(s.Bytes)) > int64(len(memory)) {
			return fmt.Errorf("write image: %d bytes at %d reach past a memory of %d bytes", len(s.Bytes), s.Offset, len(memory))
		}
		copy(memory[s.Offset:], s.Bytes)
	}
	return nil
}

// storedMagic begins a stored module; its last byte is the form's version.
const storedMagic = "bladewm\x01"

// Marshal writes a rewritten module for a cache:
//
//	magic | u32 length, JSON of all but code and image | u32 length, Bytes |
//	u32 number of segments | for each: u32 offset, u32 length, content
//
// Numbers are little-endian. The form is private to this package and version.
// Info.Customs is left out: FindCustom reads them from the input.
func Marshal(m *Module) ([]byte, error) {
	head, info := *m, *m.Info
	head.Bytes, head.Image, head.Info, info.Customs = nil, nil, &info, nil
	meta, err := json.Marshal(&head)
	if err != nil {
		return nil, fmt.Errorf("marshal module: %w", err)
	}
	size := len(storedMagic) + 12 + len(meta) + len(m.Bytes)
	for _, s := range m.Image {
		size += 8 + len(s.Bytes)
	}
	le := binary.LittleEndian
	o := append(make([]byte, 0, size), storedMagic...)
	o = append(le.AppendUint32(o, uint32(len(meta))), meta...)
	o = append(le.AppendUint32(o, uint32(len(m.Bytes))), m.Bytes...)
	o = le.AppendUint32(o, uint32(len(m.Image)))
	for _, s := range m.Image {
		o = le.AppendUint32(o, s.Offset)
		o = append(le.AppendUint32(o, uint32(len(s.Bytes))), s.Bytes...)
	}
	return o, nil
}

var errStored = errors.New("unmarshal module: not a stored module of this version")

// Unmarshal reads what Marshal wrote; the result shares memory with b. It finds
// damage to the frame, not to the content: a cache checks a digest first.
func Unmarshal(b []byte) (*Module, error) {
	if len(b) < len(storedMagic) || string(b[:len(storedMagic)]) != storedMagic {
		return nil, errStored
	}
	b = b[len(storedMagic):]
	bad := false
	u32 := func() uint32 {
		if len(b) < 4 {
			b, bad = nil, true
			return 0
		}
		v := binary.LittleEndian.Uint32(b)
		b = b[4:]
		return v
	}
	part := func() []byte {
		n := u32()
		if int64(n) > int64(len(b)) {
			b, bad = nil, true
			return nil
		}
		p := b[:n:n]
		b = b[n:]
		return p
	}
	m := &Module{}
	if meta := part(); bad || json.Unmarshal(meta, m) != nil || m.Info == nil {
		return nil, errStored
	}
	m.Bytes, m.Image = part(), nil
	for n := u32(); n > 0 && !bad; n-- {
		s := Segment{Offset: u32()}
		s.Bytes = part()
		m.Image = append(m.Image, s)
	}
	if bad || len(b) > 0 {
		return nil, errStored
	}
	return m, nil
}
