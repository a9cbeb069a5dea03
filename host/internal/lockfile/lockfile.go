// Package lockfile takes advisory locks on files, so that several processes of
// one user do one thing at a time. The kernel frees a lock when its process
// ends. It is the one owner of gofrs/flock. Local file systems only.
package lockfile

import (
	"context"
	"fmt"
	"time"

	"github.com/gofrs/flock"
)

// retry is how often a taken lock is tried again: short against the seconds
// that a lock is held for, long against the cost of trying.
const retry = 5 * time.Millisecond

// Lock is a held lock.
type Lock struct{ f *flock.Flock }

// Acquire waits for the exclusive lock on path until ctx ends. The file is made
// if it is missing, mode 0600, and stays when the lock is released.
func Acquire(ctx context.Context, path string) (*Lock, error) {
	f := flock.New(path, flock.SetPermissions(0o600))
	ok, err := f.TryLockContext(ctx, retry)
	if err != nil || !ok {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &Lock{f}, nil
}

// Try takes the lock if nobody has it, and says whether it did.
func Try(path string) (*Lock, bool, error) {
	f := flock.New(path, flock.SetPermissions(0o600))
	ok, err := f.TryLock()
	if err != nil || !ok {
		_ = f.Close()
		if err != nil {
			return nil, false, fmt.Errorf("lock %s: %w", path, err)
		}
		return nil, false, nil
	}
	return &Lock{f}, true, nil
}

// Release gives the lock back.
func (l *Lock) Release() error { return l.f.Close() }
