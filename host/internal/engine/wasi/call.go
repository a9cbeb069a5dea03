package wasi

import (
	"context"
	"encoding/binary"
	"strings"

	"github.com/tetratelabs/wazero/api"
)

// call is one call of a host function: the guest's memory and the parameters.
type call struct {
	ctx   context.Context
	s     *State
	mem   api.Memory
	stack []uint64
}

func (c *call) u32(i int) uint32 { return uint32(c.stack[i]) }
func (c *call) u64(i int) uint64 { return c.stack[i] }

// out returns n bytes of the guest's memory at the pointer in parameter i. The slice is
// the memory itself.
func (c *call) out(i int, n uint32) ([]byte, Errno) { return c.bytes(c.u32(i), n) }

func (c *call) bytes(ptr, n uint32) ([]byte, Errno) {
	if c.mem == nil {
		return nil, ErrnoFault
	}
	b, ok := c.mem.Read(ptr, n)
	if !ok {
		return nil, ErrnoFault
	}
	return b, ErrnoSuccess
}

// maxPath bounds the length of a path in bytes.
const maxPath = 4096

// path returns the path whose pointer and length are parameters i and i+1.
func (c *call) path(i int) (string, Errno) {
	n := c.u32(i + 1)
	if n > maxPath {
		return "", ErrnoNametoolong
	}
	b, e := c.out(i, n)
	if e != 0 {
		return "", e
	}
	s := string(b)
	if strings.IndexByte(s, 0) >= 0 {
		return "", ErrnoInval
	}
	return s, ErrnoSuccess
}

func put16(b []byte, v uint16) { binary.LittleEndian.PutUint16(b, v) }
func put32(b []byte, v uint32) { binary.LittleEndian.PutUint32(b, v) }
func put64(b []byte, v uint64) { binary.LittleEndian.PutUint64(b, v) }
func get16(b []byte) uint16    { return binary.LittleEndian.Uint16(b) }
func get32(b []byte) uint32    { return binary.LittleEndian.Uint32(b) }
func get64(b []byte) uint64    { return binary.LittleEndian.Uint64(b) }
