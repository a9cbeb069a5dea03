package engine

import (
	"fmt"

	"github.com/tetratelabs/wazero/experimental"

	"github.com/bladehost/bladehost/host/internal/engine/wasi"
)

// Ways to put memory back after a call.
const (
	// ResetCopyOnWrite maps the image copy-on-write and copies back only the pages
	// that were written, which the kernel lists. Linux 6.7 or newer.
	ResetCopyOnWrite = "copy-on-write"
	// ResetMemcpy copies the whole image back. It works everywhere.
	ResetMemcpy = "memcpy"
)

// resetEnv forces a way; see Options.Reset.
const resetEnv = "BLADEHOST_RESET"

// memory is the linear memory of one instance. The runtime keeps whatever slice
// Reallocate returns, which is used in two ways: a new instance begins with the
// length of its image although the module declares less, and memory that grew
// is cut back by a Grow that is answered with the short slice.
type memory interface {
	experimental.LinearMemory
	// reset makes the first used bytes equal the image again, and zero beyond it.
	reset(used uint64) error
	// populate makes the bytes from and to ready to be written, where that is worth
	// a call.
	populate(from, to uint64)
	// cool gives back what is kept only to be fast.
	cool()
	// bounds is the part that all kinds share.
	bounds() *bounds
}

// bounds is the length of a memory.
type bounds struct {
	// least is the image's length, most the limit, in bytes.
	least, most uint64
	// refused says that the guest asked for more than the limit.
	refused bool
	// cut makes the next Reallocate answer with the image's length.
	cut bool
}

// fit is the length to give for a request; 0 refuses it.
func (b *bounds) fit(size uint64) uint64 {
	switch {
	case b.cut:
		return b.least
	case size > b.most:
		b.refused = true
		return 0
	}
	return max(size, b.least)
}

// image is the state that instances begin with: the content of the memory and
// what else it takes to go on from there.
type image struct {
	store imageStore
	// after says that the module's initialisation is in it; the rest is set then.
	after   bool
	globals []uint64
	table   wasi.Table
	// clock is what the monotonic clock read when the image was taken.
	clock int64
}

// imageStore keeps the content of memories and makes memories that begin with it.
type imageStore interface {
	// memory makes one that may grow to most bytes.
	memory(most uint64) (memory, error)
	// close frees the content. No memory of it may be in use.
	close()
}

// resetter is one way of putting memory back.
type resetter struct {
	mode  string
	store func(content []byte) (imageStore, error)
	close func() error
}

// pickReset finds the way to reset memory; want forces one.
func pickReset(want string) (*resetter, error) {
	switch want {
	case "", ResetCopyOnWrite:
		r, err := newCopyOnWrite()
		if err == nil {
			return r, nil
		}
		if want != "" {
			return nil, fmt.Errorf("memory cannot be reset by %s here: %w", want, err)
		}
	case ResetMemcpy:
	default:
		return nil, fmt.Errorf("memory can be reset by %s and %s, not by %q", ResetCopyOnWrite, ResetMemcpy, want)
	}
	return &resetter{ResetMemcpy, newPlainImage, func() error { return nil }}, nil
}

// allocator hands one memory to the runtime.
type allocator struct{ m memory }

// Allocate implements the runtime's allocator: one instance, one memory.
func (a allocator) Allocate(_, _ uint64) experimental.LinearMemory { return a.m }
