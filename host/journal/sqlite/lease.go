package sqlite

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/lockfile"
	"github.com/bladehost/bladehost/host/journal"
	"github.com/bladehost/bladehost/host/tool"
)

// instance is this store as an owner of leases: a locked file that others can
// try. The kernel unlocks it when the process ends, however it ends, so a lease
// of a dead process need not be waited for. A second file is locked while an
// operation runs that no takeover may cut into, also by a process that was paused
// and wakes up when its lease has ended.
type instance struct {
	mu    sync.Mutex
	name  string
	dir   string
	alive *lockfile.Lock
	// ops counts the operations that share op.
	ops int
	op  *lockfile.Lock
	// shared is read-locked by operations and locked by a takeover in this process.
	shared sync.RWMutex
}

// maxWait bounds the wait for an operation of the last owner, which may take 1 s.
const maxWait = 10 * time.Second

// owners is the folder of the files of instances.
func (s *Store) owners() string { return s.path + ownersSuffix }

const ownersSuffix = "-owners"

// open makes the instance's file at the first use.
func (i *instance) open(dir string) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.alive != nil {
		return i.name, nil
	}
	name := strings.ToLower(rand.Text())
	for try := 0; ; try++ {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
		l, ok, err := lockfile.Try(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) && try < maxTries {
			continue // the last instance but this removed the folder meanwhile
		}
		if err != nil {
			return "", err
		}
		if !ok {
			return "", errors.New("a new lock file is locked")
		}
		i.name, i.dir, i.alive = name, dir, l
		return name, nil
	}
}

// maxTries is how often the folder may vanish before that is an error: each time
// another store must have ended in that moment.
const maxTries = 100

// close ends the instance. The file of one that still owns leases stays: that it is
// there and not locked is how others know that its owner has ended.
func (i *instance) close(owns bool) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.alive == nil {
		return nil
	}
	err := i.alive.Release()
	if !owns {
		forget(i.dir, i.name) // not before: some systems keep what is open
	}
	i.alive = nil
	return err
}

// forget removes the files of an instance that has ended.
func forget(dir, name string) {
	_ = os.Remove(filepath.Join(dir, name)) // what stays does no harm
	_ = os.Remove(filepath.Join(dir, name+".op"))
	_ = os.Remove(dir) // if it is empty
}

// enter begins an operation that no takeover may cut into.
func (i *instance) enter(ctx context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ops == 0 {
		if err := os.MkdirAll(i.dir, 0o700); err != nil { // somebody removed it
			return err
		}
		l, err := lockfile.Acquire(ctx, filepath.Join(i.dir, i.name+".op"))
		if err != nil {
			return err
		}
		i.op = l
	}
	i.ops++
	return nil
}

// idle waits for the end of the operations of this process, and keeps others
// from beginning until shared is unlocked.
func (i *instance) idle(ctx context.Context) error {
	t := time.NewTicker(retryIdle)
	defer t.Stop()
	for !i.shared.TryLock() {
		select {
		case <-t.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// retryIdle is how often that is looked at: operations take up to 1 s.
const retryIdle = 5 * time.Millisecond

func (i *instance) leave() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ops--; i.ops > 0 {
		return nil
	}
	return i.op.Release()
}

// validInstance guards what is read from the file and becomes a file name.
func validInstance(name string) bool {
	if len(name) < 20 || len(name) > 40 {
		return false
	}
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// dead reports whether the process that held a lease is known to have ended. Free
// then forgets it. A file that is missing says nothing: somebody may have removed
// it, or the journal has another name here.
func (s *Store) dead(name string) (dead bool, free func()) {
	free = func() {}
	if !validInstance(name) || name == s.alive.current() {
		return false, free
	}
	path := filepath.Join(s.owners(), name)
	if _, err := os.Stat(path); err != nil {
		return false, free
	}
	l, ok, err := lockfile.Try(path)
	if err != nil || !ok {
		return false, free
	}
	return true, func() {
		_ = l.Release() // nobody waits for it
		s.mu.RLock()
		defer s.mu.RUnlock()
		if !owns(s.r, name) { // its other sessions are taken over by the same file
			forget(s.owners(), name)
		}
	}
}

func (i *instance) current() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.name
}

// Lease implements journal.Leases.
func (s *Store) Lease(ctx context.Context, session string) (journal.Lease, bool, error) {
	l, err := s.currentLease(ctx, session)
	return l.Lease, l.found, err
}

// Acquire implements journal.Leases. The lease of a process that has ended is
// taken over at once.
func (s *Store) Acquire(ctx context.Context, session string, req journal.LeaseRequest) (journal.Lease, error) {
	if err := req.Check(); err != nil {
		return journal.Lease{}, err
	}
	me, err := s.alive.open(s.owners())
	if err != nil {
		return journal.Lease{}, abi.NewError(abi.CodeLeaseWrite, "the lease of a session cannot be held: %v", err).Because(err)
	}
	old, err := s.currentLease(ctx, session)
	if err != nil {
		return journal.Lease{}, err
	}
	free, blocked, err := s.clear(ctx, old, me, req.Observed != nil)
	if err != nil {
		return journal.Lease{}, err
	}
	defer free()
	var next journal.Lease
	err = s.submit(ctx, session, func(w *writer, _ *request) error {
		row, err := w.session(session)
		if err != nil {
			return err
		}
		last, err := w.lease(row.sid)
		if err != nil {
			return err
		}
		dead := blocked && last.found && last.instance == old.instance
		if next, err = req.Grant(session, last.known(), s.clock(), dead); err != nil {
			return err
		}
		if err := w.provide(&row); err != nil {
			return err
		}
		return w.setLease(row.sid, next, me)
	})
	return next, err
}

// currentLease reads the lease as it is now.
func (s *Store) currentLease(ctx context.Context, session string) (leaseRow, error) {
	db, err := s.reader(ctx, session)
	if err != nil {
		return leaseRow{}, err
	}
	l, err := scanLease(db.QueryRowContext(ctx, "SELECT body, instance, sum FROM leases WHERE sid = (SELECT sid FROM sessions WHERE session = ?)", session))
	if err != nil {
		return l, readError(s.path, err)
	}
	if l.found && l.SessionID != session {
		return l, abi.NewError(abi.CodeLeaseCorrupt, "the record of the lease of session %s is that of session %s", clip(session), clip(l.SessionID))
	}
	return l, nil
}

// clear finds out whether the last owner is dead, and waits for an operation of
// a living one: nothing is taken over while one runs.
func (s *Store) clear(ctx context.Context, old leaseRow, me string, observed bool) (free func(), dead bool, err error) {
	if !old.found || old.instance == "" {
		return func() {}, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	ended := observed || old.Ended(s.clock())
	if old.instance == me {
		if !ended {
			return func() {}, false, nil
		}
		if err := s.alive.idle(ctx); err != nil {
			return nil, false, stillRuns(err)
		}
		return s.alive.shared.Unlock, false, nil
	}
	if dead, free := s.dead(old.instance); dead {
		return free, true, nil
	}
	if !validInstance(old.instance) || !ended {
		return func() {}, false, nil
	}
	l, err := lockfile.Acquire(ctx, filepath.Join(s.owners(), old.instance+".op"))
	if errors.Is(err, fs.ErrNotExist) { // it ended in this moment
		return func() {}, false, nil
	}
	if err != nil {
		return nil, false, stillRuns(err)
	}
	return func() {
		_ = l.Release() // nobody can do anything about it
		if _, err := os.Stat(filepath.Join(s.owners(), old.instance)); errors.Is(err, fs.ErrNotExist) {
			forget(s.owners(), old.instance)
		}
	}, false, nil
}

func stillRuns(err error) error {
	return abi.NewError(abi.CodeLeaseTimeout, "an operation under the last lease still runs: %v", err).Because(err)
}

func (w *writer) setLease(sid int64, l journal.Lease, instance string) error {
	body, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if _, err = w.putLease.Exec(sid, body, instance, sumOf("lease", body, instance)); err != nil {
		return err
	}
	w.leases[sid] = leaseRow{Lease: l, instance: instance, found: true}
	return nil
}

// change rewrites the lease of a session, if the fence is right.
func (s *Store) change(ctx context.Context, session string, f tool.Fence, do func(l *journal.Lease, now time.Time) (instance string)) (journal.Lease, error) {
	var out journal.Lease
	err := s.submit(ctx, session, func(w *writer, _ *request) error {
		row, err := w.session(session)
		if err != nil {
			return err
		}
		l, err := w.lease(row.sid)
		if err != nil {
			return err
		}
		now := s.clock()
		if !l.found {
			return journal.NeedsFence(session, nil, &f, now)
		}
		if err := l.Holds(f, now); err != nil {
			return err
		}
		out = l.Lease
		instance := do(&out, now)
		return w.setLease(row.sid, out, instance)
	})
	return out, err
}

// Renew implements journal.Leases.
func (s *Store) Renew(ctx context.Context, session string, f tool.Fence, ttl time.Duration) (journal.Lease, error) {
	if err := journal.CheckTTL(ttl); err != nil {
		return journal.Lease{}, err
	}
	return s.change(ctx, session, f, func(l *journal.Lease, now time.Time) string { l.At(now, ttl); return s.alive.current() })
}

// Assert implements journal.Leases.
func (s *Store) Assert(ctx context.Context, session string, f tool.Fence) error {
	l, ok, err := s.Lease(ctx, session)
	if err != nil {
		return err
	}
	if !ok {
		return journal.NeedsFence(session, nil, &f, s.clock())
	}
	return l.Holds(f, s.clock())
}

// With implements journal.Leases.
func (s *Store) With(ctx context.Context, session string, f tool.Fence, op func(context.Context) error) error {
	if _, err := s.alive.open(s.owners()); err != nil {
		return abi.NewError(abi.CodeLeaseWrite, "the lease of a session cannot be held: %v", err).Because(err)
	}
	s.alive.shared.RLock()
	defer s.alive.shared.RUnlock()
	if err := s.alive.enter(ctx); err != nil {
		return abi.NewError(abi.CodeLeaseTimeout, "the lease of a session cannot be held: %v", err).Because(err)
	}
	defer func() { _ = s.alive.leave() }() // nobody can do anything about it
	if err := s.Assert(ctx, session, f); err != nil {
		return err
	}
	return op(ctx)
}

// Release implements journal.Leases.
func (s *Store) Release(ctx context.Context, session string, f tool.Fence) error {
	_, err := s.change(ctx, session, f, func(l *journal.Lease, now time.Time) string {
		l.Release(now)
		return ""
	})
	return err
}

// Handoff implements journal.Leases.
func (s *Store) Handoff(ctx context.Context, session string, f tool.Fence, to journal.LeaseRequest) (journal.Lease, error) {
	if err := to.Check(); err != nil {
		return journal.Lease{}, err
	}
	return s.change(ctx, session, f, func(l *journal.Lease, now time.Time) string {
		*l = to.Follow(*l, now)
		return "" // until the new owner takes it up
	})
}
