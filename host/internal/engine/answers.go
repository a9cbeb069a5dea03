package engine

import "github.com/bladehost/bladehost/abi"

// answers are the answers of call that the guest has not taken whole. A slot's
// number is not given out again before a take on it returned 0, so that two
// goroutines of a guest never read each other's bytes.
type answers struct {
	open map[uint16][]byte
	// read is how much of each was taken.
	read map[uint16]int
	last uint16
}

func (a *answers) reset() {
	clear(a.open)
	clear(a.read)
	a.last = 0
}

func (a *answers) full() bool { return len(a.open) >= abi.MaxAnswers }

// put keeps an answer and returns its slot, never 0.
func (a *answers) put(b []byte) uint16 {
	if a.open == nil {
		a.open, a.read = map[uint16][]byte{}, map[uint16]int{}
	}
	for {
		a.last++
		if _, taken := a.open[a.last]; a.last != 0 && !taken {
			break
		}
	}
	a.open[a.last], a.read[a.last] = b, 0
	return a.last
}

// take returns the next bytes of a slot, at most n. None left, or n of 0, frees
// the slot.
func (a *answers) take(slot uint16, n uint32) []byte {
	b, ok := a.open[slot]
	if !ok {
		return nil
	}
	at := a.read[slot]
	k := min(len(b)-at, int(n))
	if k == 0 {
		delete(a.open, slot)
		delete(a.read, slot)
		return nil
	}
	a.read[slot] = at + k
	return b[at : at+k]
}
