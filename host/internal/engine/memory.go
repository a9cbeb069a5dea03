package engine

import "github.com/tetratelabs/wazero/experimental"

// memory is the linear memory of one instance, within the plugin's limit.
type memory struct {
	limit uint64
	buf   []byte
	// refused says that the guest asked for more than the limit.
	refused bool
}

// Allocate implements the runtime's allocator: one instance, one memory.
func (m *memory) Allocate(_, _ uint64) experimental.LinearMemory { return m }

// Reallocate grows to size bytes, or returns nil, which the guest sees as a
// failed memory.grow. Capacity doubles, so that a guest that grows page by page
// does not copy its memory each time.
func (m *memory) Reallocate(size uint64) []byte {
	if size > m.limit {
		m.refused = true
		return nil
	}
	if size > uint64(cap(m.buf)) {
		grown := make([]byte, size, min(m.limit, max(size, 2*uint64(cap(m.buf)))))
		copy(grown, m.buf)
		m.buf = grown
	}
	m.buf = m.buf[:size]
	return m.buf
}

// Free lets go of the memory.
func (m *memory) Free() { m.buf = nil }
