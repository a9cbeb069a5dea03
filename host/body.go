package host

import (
	"io"
	"math/bits"
	"sync"

	"github.com/bladehost/bladehost/abi"
)

// bodies are buffers for whole bodies of answers, by size: a fresh one of 10 MiB
// has to be cleared and its pages made, which takes longer than to fill it.
var bodies [largestBody - smallestBody + 1]sync.Pool

// Sizes of bodies, as powers of two. The largest has room for one byte more than a
// body may have, so that the end is seen.
const (
	smallestBody = 16
	largestBody  = 25
)

// takeBody is a buffer with room for n bytes, at most 1<<largestBody.
func takeBody(n int) *[]byte {
	class := max(bits.Len(uint(max(n, 1)-1)), smallestBody)
	if b, ok := bodies[class-smallestBody].Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, 1<<class)
	return &b
}

func giveBody(b *[]byte) { bodies[bits.Len(uint(len(*b)-1))-smallestBody].Put(b) }

// readBody reads a body to its end; length is what is expected, or less than 0.
// Release gives the bytes back. A body longer than a frame may have is cut one byte
// behind that, for the caller to see.
func readBody(r io.Reader, length int64) (body []byte, release func(), err error) {
	const most = abi.MaxFrameBody + 1
	buf := takeBody(int(min(max(length, 0), most-1)) + 1)
	n := 0
	for {
		if n == len(*buf) {
			larger := takeBody(2 * n)
			copy(*larger, *buf)
			giveBody(buf)
			buf = larger
		}
		k, err := r.Read((*buf)[n:min(len(*buf), most)])
		n += k
		switch {
		case err == io.EOF, n == most:
			return (*buf)[:n:n], func() { giveBody(buf) }, nil
		case err != nil:
			giveBody(buf)
			return nil, nil, err
		}
	}
}
