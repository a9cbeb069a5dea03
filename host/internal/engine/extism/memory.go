package extism

import (
	"cmp"
	"slices"

	"github.com/tetratelabs/wazero/experimental"
)

// budget is the memory of one instance and of its kernel. It belongs to the
// call's goroutine.
type budget struct {
	left    uint64
	refused bool
	// last is the memory that was made last: the instance's own.
	last *memory
}

// Allocate makes one of the two memories.
func (b *budget) Allocate(_, most uint64) experimental.LinearMemory {
	b.last = &memory{budget: b, most: most}
	return b.last
}

type memory struct {
	budget *budget
	most   uint64
	buf    []byte
}

// Reallocate grows the memory, or returns nil where the limit is reached.
func (m *memory) Reallocate(size uint64) []byte {
	more := size - uint64(len(m.buf))
	if size < uint64(len(m.buf)) || size > m.most || more > m.budget.left {
		m.budget.refused = true
		return nil
	}
	m.budget.left -= more
	if size > uint64(cap(m.buf)) {
		room := min(m.most, size+m.budget.left, size+size/2)
		grown := make([]byte, size, room)
		copy(grown, m.buf)
		m.buf = grown
	}
	m.buf = m.buf[:size]
	return m.buf
}

// Free lets the memory go.
func (m *memory) Free() { m.buf = nil }

// block is one allocated block of the kernel's memory.
type block struct{ start, size uint64 }

// blocks are the blocks that a guest has, in order. It may write into these only:
// what lies between them holds the kernel together, and a kernel that a guest has
// broken could run for ever.
type blocks []block

func (b blocks) find(start uint64) (int, bool) {
	return slices.BinarySearchFunc(b, start, func(x block, s uint64) int { return cmp.Compare(x.start, s) })
}

// size is the length of the block that begins here, 0 if there is none.
func (b blocks) size(start uint64) uint64 {
	if i, ok := b.find(start); ok {
		return b[i].size
	}
	return 0
}

// holds says whether n bytes at offset lie in one block.
func (b blocks) holds(offset, n uint64) bool {
	i, ok := b.find(offset)
	if !ok {
		if i--; i < 0 {
			return false
		}
	}
	past := offset - b[i].start
	return past < b[i].size && n <= b[i].size-past
}

func (b *blocks) add(x block) {
	i, ok := b.find(x.start)
	if ok {
		(*b)[i] = x
		return
	}
	*b = slices.Insert(*b, i, x)
}

func (b *blocks) remove(start uint64) bool {
	i, ok := b.find(start)
	if ok {
		*b = slices.Delete(*b, i, i+1)
	}
	return ok
}
