package engine

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/bladehost/bladehost/abi"
)

func TestAnswers(t *testing.T) {
	head, body := []byte(`{"a":1}`), []byte("some bytes behind it")
	want := abi.EncodeFrame(head, body)
	for step := 1; step <= len(want)+1; step++ {
		var a answers
		released := 0
		slot := a.put(newAnswer(head, body, func() { released++ }))
		var got []byte
		for {
			buf := make([]byte, step)
			n := a.take(slot, buf)
			if n == 0 {
				break
			}
			if released > 0 {
				t.Fatal("released before it was taken whole")
			}
			got = append(got, buf[:n]...)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%d at a time: %q, want %q", step, got, want)
		}
		a.take(slot, make([]byte, 1))
		a.reset()
		if released != 1 {
			t.Errorf("released %d times", released)
		}
	}
	// What was not taken is released when the call ends, and a half-taken one by an
	// empty take.
	var a answers
	released := 0
	first := a.put(newAnswer(head, body, func() { released++ }))
	a.put(newAnswer(head, body, func() { released++ }))
	a.put(newAnswer(head, nil, nil))
	a.take(first, make([]byte, 3))
	if a.take(first, nil); released != 1 {
		t.Errorf("released %d times by an empty take", released)
	}
	if a.reset(); released != 2 || len(a.open) != 0 {
		t.Errorf("released %d times, %d open", released, len(a.open))
	}
}

// Memory that is made ready at once has the bytes it had, and is put back as all
// other is.
func TestPopulate(t *testing.T) {
	const size, more = 3 * hugeTest, 8 * hugeTest
	content := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content) // never fails
	for _, mode := range resets(t) {
		t.Run(mode, func(t *testing.T) {
			r, err := pickReset(mode)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.close() }()
			s, err := r.store(content)
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			m, err := s.memory(more)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Free()
			b := m.Reallocate(6 * hugeTest)
			for _, p := range [][2]uint64{{0, 10}, {1, size + 1}, {size - 5, 6 * hugeTest}, {5, 5}, {0, 6 * hugeTest}, {100, more}, {more, more + 1<<20}} {
				m.populate(p[0], p[1])
				if !bytes.Equal(b[:size], content) || len(bytes.Trim(b[size:], "\x00")) > 0 {
					t.Fatalf("after %v the bytes are others", p)
				}
			}
			for i := range b {
				b[i] = 0xee
			}
			if err := m.reset(uint64(len(b))); err != nil {
				t.Fatal(err)
			}
			m.bounds().cut = true
			m.Reallocate(size)
			m.bounds().cut = false
			if b = m.Reallocate(6 * hugeTest); !bytes.Equal(b[:size], content) || len(bytes.Trim(b[size:], "\x00")) > 0 {
				t.Error("the bytes are not as they were")
			}
		})
	}
}

// hugeTest is the size of a huge page, so that whole ones are in the memory.
const hugeTest = 2 << 20
