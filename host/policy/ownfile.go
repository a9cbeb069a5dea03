package policy

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/lockfile"
)

// OwnFile is a file of the user's that decides what plugins may do. It is read
// only if it is a regular file, not a link, of a bounded size, that nobody else
// could have written. Several processes may change it at once: none of their
// changes is lost.
type OwnFile struct {
	Path string
	// MaxBytes bounds it; 0 means 8 MiB.
	MaxBytes int64
	// Anyone may have written it: for files that can only deny.
	Anyone bool
}

func (f OwnFile) bad(format string, args ...any) error {
	e := abi.NewError(abi.CodeIO, format, args...)
	e.Message = f.Path + " cannot be used: " + e.Message
	return e
}

// Read is the content; a missing file has none, and is no error.
func (f OwnFile) Read() ([]byte, error) {
	limit := f.MaxBytes
	if limit == 0 {
		limit = 8 << 20
	}
	fi, err := os.Lstat(f.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, f.bad("%v", err)
	case !fi.Mode().IsRegular():
		return nil, f.bad("it is not a regular file")
	case !f.Anyone && runtime.GOOS != "windows" && fi.Mode().Perm()&0o022 != 0:
		return nil, f.bad("others may write to it (mode %o); chmod 600 %s", fi.Mode().Perm(), f.Path)
	case fi.Size() > limit:
		return nil, f.bad("it has more than %d bytes", limit)
	}
	file, err := os.Open(f.Path)
	if err != nil {
		return nil, f.bad("%v", err)
	}
	defer func() { _ = file.Close() }() // read only
	b, err := io.ReadAll(io.LimitReader(file, limit+1))
	switch {
	case err != nil:
		return nil, f.bad("%v", err)
	case int64(len(b)) > limit:
		return nil, f.bad("it has more than %d bytes", limit)
	case b == nil:
		return []byte{}, nil
	}
	return b, nil
}

// Change puts what change makes of the content in the file's place, whole and
// readable by the user only, while no other process changes it. The folder is
// made if it is missing.
func (f OwnFile) Change(ctx context.Context, change func(old []byte) ([]byte, error)) (err error) {
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return f.bad("%v", err)
	}
	lock, err := lockfile.Acquire(ctx, f.Path+".lock")
	if err != nil {
		return f.bad("%v", err)
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	old, err := f.Read()
	if err != nil {
		return err
	}
	b, err := change(old)
	if err != nil {
		return err
	}
	if err := replaceFile(f.Path, b); err != nil {
		return f.bad("it cannot be written: %v", err)
	}
	return nil
}

func replaceFile(path string, b []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(b); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
