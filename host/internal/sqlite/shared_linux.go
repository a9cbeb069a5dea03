package sqlite

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// deadMan is the byte of the file -shm that every process locks that has the
// database open: whoever finds it free empties the file.
const deadMan = 128

// HoldShared keeps the file -shm of an open database from being emptied by another
// process after something in this one took SQLite's locks away: its own lock is of
// a kind that survives that. Close it right before the database, not earlier.
func HoldShared(path string) (io.Closer, error) {
	f, err := os.OpenFile(path+"-shm", os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return io.NopCloser(nil), nil
	}
	if err != nil {
		return nil, err
	}
	l := unix.Flock_t{Type: unix.F_RDLCK, Whence: io.SeekStart, Start: deadMan, Len: 1}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &l); err != nil && !errors.Is(err, unix.EINVAL) {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
