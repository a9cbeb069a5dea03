package host

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"github.com/bladehost/bladehost/abi"
)

func TestReadBody(t *testing.T) {
	all := make([]byte, abi.MaxFrameBody+10)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(all) // never fails
	for _, n := range []int{0, 1, 1 << 10, 1<<16 - 1, 1 << 16, 1<<16 + 1, 1 << 20, abi.MaxFrameBody - 1, abi.MaxFrameBody} {
		for _, length := range []int64{-1, 0, 1, int64(n), int64(n) + 5, 1 << 40} {
			got, release, err := readBody(iotest.HalfReader(bytes.NewReader(all[:n])), length)
			if err != nil || !bytes.Equal(got, all[:n]) {
				t.Fatalf("%d bytes, %d said: %d bytes, %v", n, length, len(got), err)
			}
			if cap(got) != len(got) {
				t.Error("what others left in the buffer can be reached")
			}
			release()
		}
	}
	if got, _, err := readBody(bytes.NewReader(all), -1); err != nil || len(got) != abi.MaxFrameBody+1 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	broken := errors.New("broken")
	if _, _, err := readBody(io.MultiReader(bytes.NewReader(all[:100]), iotest.ErrReader(broken)), 200); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// Bodies that are read at the same time have buffers of their own.
func TestReadBodyAtOnce(t *testing.T) {
	done := make(chan error)
	for i := range 8 {
		go func() {
			want := bytes.Repeat([]byte{byte(i)}, 200_000+i)
			for range 50 {
				got, release, err := readBody(bytes.NewReader(want), int64(len(want)))
				if err != nil || !bytes.Equal(got, want) {
					done <- errors.New("other bytes")
					return
				}
				release()
			}
			done <- nil
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
