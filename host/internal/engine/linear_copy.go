package engine

// plainImage is the portable store.
type plainImage struct{ content []byte }

func newPlainImage(content []byte) (imageStore, error) {
	return &plainImage{append(make([]byte, 0, len(content)), content...)}, nil
}

func (p *plainImage) close() { p.content = nil }

func (p *plainImage) memory(most uint64) (memory, error) {
	return &plainMemory{image: p.content, b: bounds{least: uint64(len(p.content)), most: max(most, uint64(len(p.content)))}}, nil
}

// plainMemory is a slice of the host's heap.
type plainMemory struct {
	b     bounds
	image []byte
	buf   []byte
}

// keepGrown is how much memory beyond the image a reset instance keeps.
const keepGrown = 4 << 20

func (m *plainMemory) bounds() *bounds { return &m.b }

// Reallocate grows to size bytes, or returns nil, which the guest sees as a
// failed memory.grow. Capacity doubles, so that a guest that grows page by page
// does not copy its memory each time.
func (m *plainMemory) Reallocate(size uint64) []byte {
	if size = m.b.fit(size); size == 0 && m.b.least > 0 {
		return nil
	}
	switch {
	case m.buf == nil:
		m.buf = make([]byte, size)
		copy(m.buf, m.image)
	case size > uint64(cap(m.buf)):
		grown := make([]byte, size, min(m.b.most, max(size, 2*uint64(cap(m.buf)))))
		copy(grown, m.buf)
		m.buf = grown
	}
	m.buf = m.buf[:size]
	return m.buf
}

func (m *plainMemory) reset(used uint64) error {
	if used > m.b.least+keepGrown {
		m.buf = nil // the cut that follows makes a new one
		return nil
	}
	copy(m.buf, m.image)
	clear(m.buf[m.b.least:used])
	return nil
}

func (m *plainMemory) populate(_, _ uint64) {}

func (m *plainMemory) cool() {}

// Free lets go of the memory.
func (m *plainMemory) Free() { m.buf = nil }
