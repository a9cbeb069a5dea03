package engine

import (
	"encoding/binary"

	"github.com/bladehost/bladehost/abi"
)

// answers are the answers of call that the guest has not taken whole. A slot's
// number is not given out again before a take on it returned 0, so that two
// goroutines of a guest never read each other's bytes.
type answers struct {
	open map[uint16]*answer
	last uint16
}

// answer is a frame in two parts, so that a large body is copied once, into the
// guest.
type answer struct {
	// head is the frame up to the body.
	head, body []byte
	// read is how much was taken.
	read int
	// release, where it is not nil, takes the body back.
	release func()
}

// newAnswer is the frame of head and body.
func newAnswer(head, body []byte, release func()) *answer {
	h := make([]byte, 4, 4+len(head))
	binary.LittleEndian.PutUint32(h, uint32(len(head)))
	return &answer{head: append(h, head...), body: body, release: release}
}

func (a *answer) len() int { return len(a.head) + len(a.body) }

// next fills dst with what comes next and returns how much that is.
func (a *answer) next(dst []byte) int {
	n := 0
	if a.read < len(a.head) {
		n = copy(dst, a.head[a.read:])
	}
	if at := a.read + n; at >= len(a.head) {
		n += copy(dst[n:], a.body[at-len(a.head):])
	}
	a.read += n
	return n
}

func (a *answer) close() {
	a.body = nil
	if a.release != nil {
		a.release()
		a.release = nil
	}
}

func (a *answers) reset() {
	for _, one := range a.open {
		one.close()
	}
	clear(a.open)
	a.last = 0
}

func (a *answers) full() bool { return len(a.open) >= abi.MaxAnswers }

// put keeps an answer and returns its slot, never 0.
func (a *answers) put(one *answer) uint16 {
	if a.open == nil {
		a.open = map[uint16]*answer{}
	}
	for {
		a.last++
		if _, taken := a.open[a.last]; a.last != 0 && !taken {
			break
		}
	}
	a.open[a.last] = one
	return a.last
}

// take fills dst with the next bytes of a slot. None left, or an empty dst, frees
// the slot.
func (a *answers) take(slot uint16, dst []byte) int {
	one, ok := a.open[slot]
	if !ok {
		return 0
	}
	n := one.next(dst)
	if n == 0 {
		one.close()
		delete(a.open, slot)
	}
	return n
}
