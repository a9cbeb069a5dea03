package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// chunk is the part of a file that is digested by itself.
const chunk = 1 << 20

// fileSum is the size of a file and the SHA-256 of each MiB of it, so that several
// processors can work at it, and one part can be looked at before another: the
// machine code of a Go program has twelve.
type fileSum struct {
	Size   int64    `json:"size"`
	Chunks []string `json:"sha256"`
}

func (s fileSum) is(other fileSum) bool {
	return s.Size == other.Size && slices.Equal(s.Chunks, other.Chunks)
}

func chunks(size int64) int { return int((size + chunk - 1) / chunk) }

// sumOf digests size bytes.
func sumOf(r io.ReaderAt, size int64) (fileSum, error) {
	s := fileSum{Size: size, Chunks: make([]string, chunks(size))}
	return s, eachChunk(r, size, 0, len(s.Chunks), runtime.GOMAXPROCS(0), func(k int, sum string) bool {
		s.Chunks[k] = sum
		return true
	})
}

var errChanged = errors.New("was changed")

// check is nil if r has the size, and the chunks from and to, at most all of them. One
// processor is left to whoever needs the file.
func (s fileSum) check(r io.ReaderAt, size int64, from, to int) error {
	if size != s.Size || len(s.Chunks) != chunks(size) {
		return errChanged
	}
	return eachChunk(r, size, from, min(to, len(s.Chunks)), max(1, runtime.GOMAXPROCS(0)-1), func(k int, sum string) bool { return s.Chunks[k] == sum })
}

// eachChunk gives the digests of the chunks from and to to f, by several goroutines.
// If f returns false, the file was changed.
func eachChunk(r io.ReaderAt, size int64, from, to, workers int, f func(k int, sum string) bool) error {
	var (
		next    atomic.Int64
		changed atomic.Bool
		group   sync.WaitGroup
	)
	next.Store(int64(from))
	for range min(workers, to-from) {
		group.Go(func() {
			buf := make([]byte, min(size, chunk))
			for k := next.Add(1) - 1; k < int64(to) && !changed.Load(); k = next.Add(1) - 1 {
				part := buf[:min(chunk, size-k*chunk)]
				_, err := r.ReadAt(part, k*chunk)
				sum := sha256.Sum256(part)
				if err != nil && err != io.EOF || !f(int(k), hex.EncodeToString(sum[:])) {
					changed.Store(true)
				}
			}
		})
	}
	if group.Wait(); changed.Load() {
		return errChanged
	}
	return nil
}

// checkFile is check for a file.
func (s fileSum) checkFile(name, path string, from, to int) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	fi, err := f.Stat()
	if err == nil {
		err = s.check(f, fi.Size(), from, to)
	}
	if err != nil {
		return fmt.Errorf("%s %w", name, err)
	}
	return nil
}

// fileDigest digests a file.
func fileDigest(path string) (fileSum, error) {
	f, err := os.Open(path)
	if err != nil {
		return fileSum{}, err
	}
	defer func() { _ = f.Close() }() // read only
	fi, err := f.Stat()
	if err != nil {
		return fileSum{}, err
	}
	return sumOf(f, fi.Size())
}
