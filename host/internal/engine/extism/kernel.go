package extism

import (
	"context"
	"encoding/binary"
	"math"

	sdk "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero/api"

	"github.com/bladehost/bladehost/abi"
)

// What a guest does with the memory of Extism's kernel. The kernel allocates; the
// bytes are read and written here.

// shared is the kernel's memory.
func (r *run) shared() api.Memory {
	if r.kernel == nil {
		r.kernel = r.plugin.Memory()
	}
	return r.kernel
}

// own gives the guest the block that the SDK made for the input.
func (r *run) own(ctx context.Context) {
	if offset, ok := ctx.Value(sdk.InputOffsetKey("inputOffset")).(uint64); ok && len(r.input) > 0 {
		r.blocks.add(block{offset, uint64(len(r.input))})
	}
}

func (r *run) alloc(stack []uint64) { stack[0] = r.allocate(stack[0]) }

// allocate is a new block, or 0 where there is no memory for it.
func (r *run) allocate(n uint64) uint64 {
	if n == 0 {
		return 0
	}
	offset, err := r.plugin.AllocWithContext(r.stop, n)
	if err != nil {
		panic(err) // the guest ends with it
	}
	if offset == 0 || offset > math.MaxUint32 {
		return 0
	}
	r.blocks.add(block{offset, n})
	return offset
}

func (r *run) free(stack []uint64) {
	if r.blocks.remove(stack[0]) {
		if err := r.plugin.FreeWithContext(r.stop, stack[0]); err != nil {
			panic(err)
		}
	}
}

func (r *run) length(stack []uint64) { stack[0] = r.blocks.size(stack[0]) }

func (r *run) load8(stack []uint64) {
	b := r.at(stack[0], 1)
	stack[0] = uint64(b[0])
}

func (r *run) load64(stack []uint64) {
	b := r.at(stack[0], 8)
	stack[0] = binary.LittleEndian.Uint64(b)
}

func (r *run) store8(stack []uint64) { r.into(stack[0], 1)[0] = byte(stack[1]) }

func (r *run) store64(stack []uint64) {
	binary.LittleEndian.PutUint64(r.into(stack[0], 8), stack[1])
}

func (r *run) input8(stack []uint64) {
	i := stack[0]
	if stack[0] = 0; i < uint64(len(r.input)) {
		stack[0] = uint64(r.input[i])
	}
}

func (r *run) input64(stack []uint64) {
	i := min(stack[0], uint64(len(r.input)))
	var b [8]byte
	copy(b[:], r.input[i:])
	stack[0] = binary.LittleEndian.Uint64(b[:])
}

// at is a view of n bytes of the kernel's memory.
func (r *run) at(offset, n uint64) []byte {
	if offset <= math.MaxUint32 && n <= math.MaxUint32 {
		if b, ok := r.shared().Read(uint32(offset), uint32(n)); ok {
			return b
		}
	}
	r.violate(abi.CodeGuestPointer, "the tool passed %d bytes at %#x to %s; Extism's memory has %d bytes", n, offset, r.function, r.shared().Size())
	return nil
}

// into is a view of n bytes of one of the guest's blocks.
func (r *run) into(offset, n uint64) []byte {
	if !r.blocks.holds(offset, n) {
		r.violate(abi.CodeGuestPointer, "the tool passed %d bytes at %#x to %s; there is no block of its own", n, offset, r.function)
	}
	return r.at(offset, n)
}

// block is a copy of the block at offset; over says that it has more bytes than
// most.
func (r *run) block(offset uint64, most int) (b []byte, over bool) {
	n := r.blocks.size(offset)
	if offset != 0 && n == 0 {
		r.violate(abi.CodeGuestPointer, "the tool passed the offset %#x to %s; no block begins there", offset, r.function)
	}
	if n > uint64(most) {
		return nil, true
	}
	return append(make([]byte, 0, n), r.at(offset, n)...), false
}

// put makes a block of b and returns its offset.
func (r *run) put(b []byte) uint64 {
	offset := r.allocate(uint64(len(b)))
	if offset == 0 && len(b) > 0 {
		r.violate(abi.CodeGuestOOM, "the tool ran out of memory for an answer of %d bytes", len(b))
	}
	copy(r.at(offset, uint64(len(b))), b)
	return offset
}
