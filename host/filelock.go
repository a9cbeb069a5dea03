package host

import (
	"context"
	"sync"
	"time"

	"github.com/bladehost/bladehost/abi"
)

// fileLocks are reader-writer locks by canonical path. They are fair: a reader
// behind a waiting writer waits too.
type fileLocks struct {
	mu    sync.Mutex
	files map[string]*fileLock
}

type fileLock struct {
	readers int
	writer  bool
	waiting []*fileWaiter
}

type fileWaiter struct {
	write bool
	turn  chan struct{}
}

func newFileLocks() *fileLocks { return &fileLocks{files: map[string]*fileLock{}} }

// acquire locks paths, which are sorted and unique so that two calls cannot wait
// for each other, for at most wait each.
func (l *fileLocks) acquire(ctx context.Context, paths []string, write bool, wait time.Duration) (release func(), err error) {
	var held []string
	unlock := func() {
		for i := len(held) - 1; i >= 0; i-- {
			l.unlock(held[i], write)
		}
	}
	for _, p := range paths {
		if err := l.lock(ctx, p, write, wait); err != nil {
			unlock()
			return nil, err
		}
		held = append(held, p)
	}
	return sync.OnceFunc(unlock), nil
}

func (l *fileLocks) lock(ctx context.Context, path string, write bool, wait time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	l.mu.Lock()
	f := l.files[path]
	if f == nil {
		f = &fileLock{}
		l.files[path] = f
	}
	if len(f.waiting) == 0 && f.admits(write) {
		f.take(write)
		l.mu.Unlock()
		return nil
	}
	w := &fileWaiter{write: write, turn: make(chan struct{})}
	f.waiting = append(f.waiting, w)
	l.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-w.turn:
		if ctx.Err() != nil {
			l.unlock(path, write)
			return context.Cause(ctx)
		}
		return nil
	case <-ctx.Done():
		l.leave(path, w)
		return context.Cause(ctx)
	case <-timer.C:
		l.leave(path, w)
		return abi.NewError(abi.CodeLockTimeout, "another call has used %s for more than %v", path, wait)
	}
}

func (f *fileLock) admits(write bool) bool { return !f.writer && (!write || f.readers == 0) }

func (f *fileLock) take(write bool) {
	if write {
		f.writer = true
	} else {
		f.readers++
	}
}

// leave takes a waiter out; one whose turn has just come gives the lock back.
func (l *fileLocks) leave(path string, w *fileWaiter) {
	l.mu.Lock()
	f := l.files[path]
	for i, x := range f.waiting {
		if x == w {
			f.waiting = append(f.waiting[:i], f.waiting[i+1:]...)
			l.wake(path, f)
			l.mu.Unlock()
			return
		}
	}
	l.mu.Unlock()
	l.unlock(path, w.write)
}

func (l *fileLocks) unlock(path string, write bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[path]
	if write {
		f.writer = false
	} else {
		f.readers--
	}
	l.wake(path, f)
}

// wake lets in who waits, in order, until one does not fit.
func (l *fileLocks) wake(path string, f *fileLock) {
	for len(f.waiting) > 0 && f.admits(f.waiting[0].write) {
		w := f.waiting[0]
		f.waiting = f.waiting[1:]
		f.take(w.write)
		close(w.turn)
	}
	if len(f.waiting) == 0 && f.readers == 0 && !f.writer {
		delete(l.files, path)
	}
}
