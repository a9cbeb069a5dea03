// Package sqlite keeps journals in one SQLite file: a write-ahead log that is
// synced before anything is acknowledged, one writer at a time, and a check sum
// over every event and all before it, as SQLite itself would not notice a changed
// byte. Several processes may have the file open; the sessions in it are kept
// apart by leases. Local file systems only.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/sqlite"
	"github.com/bladehost/bladehost/host/journal"
)

// Options configure Open. The zero value opens a file or makes it.
type Options struct {
	// MustExist refuses to make a new file.
	MustExist bool
	// ReadOnly opens an existing file to look at it: nothing can be written, and
	// nothing needs to be, so the folder may be read-only.
	ReadOnly bool
	// NoCheck opens a damaged file too, to save what can be read; with ReadOnly also
	// one that was cut off.
	NoCheck bool
	// Busy is how long to wait for another process's writing; 0 means 10 s.
	Busy time.Duration
	// Clock is the time of day; nil is time.Now.
	Clock func() time.Time
	// Failpoint, if not nil, is called with beforeCommit and afterCommit. It is for
	// tests that kill the process there.
	Failpoint func(name string)
	// VFS names a registered VFS of SQLite. It is for tests.
	VFS string
	// files are the calls of the system that tests let fail.
	files files
	// page bounds the bytes of a page; 0 means maxPageBytes.
	page int64
}

// files make a new file appear; nil fields are those of package os.
type files struct {
	link, rename func(from, to string) error
	syncDir      func(dir string) error
}

func (f files) withDefaults() files {
	if f.link == nil {
		f.link = os.Link
	}
	if f.rename == nil {
		f.rename = os.Rename
	}
	if f.syncDir == nil {
		f.syncDir = syncDir
	}
	return f
}

// checkLimit is how large a file may be to be checked as a whole when it is
// opened: that takes a few milliseconds per MiB. Of a larger one only what is
// read is checked; bladehost journal verify checks all.
const checkLimit = 4 << 20

// Store is a journal.Store in a SQLite file. Use Open.
type Store struct {
	path  string
	opt   Options
	clock func() time.Time
	queue chan *request
	stop  chan struct{}
	wg    sync.WaitGroup

	// gate is read-locked while a request is queued; over says that none may be.
	gate sync.RWMutex
	over bool

	mu sync.RWMutex
	// r reads. It is replaced when the file is opened anew.
	r      *sql.DB
	closed bool

	// w belongs to the writing goroutine.
	w *writer

	watch struct {
		sync.Mutex
		changed map[string]chan struct{}
	}
	alive instance
}

var _ journal.Store = (*Store)(nil)

// Open opens a journal's file, or makes it: mode 0600, its folder 0700. A damaged
// file is DURABLE_STORE_CORRUPT, one of a newer version, or of something else,
// DURABLE_STORE_VERSION.
func Open(ctx context.Context, path string, opt Options) (*Store, error) {
	real, err := resolve(path)
	if err != nil {
		return nil, err
	}
	s := &Store{path: real, opt: opt, clock: opt.Clock, queue: make(chan *request, maxBatch), stop: make(chan struct{})}
	s.watch.changed = map[string]chan struct{}{}
	if s.opt.page == 0 {
		s.opt.page = maxPageBytes
	}
	if s.clock == nil {
		s.clock = time.Now
	}
	if opt.ReadOnly {
		s.opt.MustExist = true
	}
	if err := s.provide(ctx); err != nil {
		return nil, err
	}
	if opt.ReadOnly {
		return s, s.connectReader(ctx)
	}
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	w, r, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	s.w, s.r = w, r
	s.wg.Go(s.write) // Close waits for it
	return s, nil
}

// Path is the file.
func (s *Store) Path() string { return s.path }

// provide makes the file if it is missing, and private if it is not.
func (s *Store) provide(ctx context.Context) error {
	fi, err := os.Stat(s.path)
	switch {
	case err == nil && !fi.Mode().IsRegular():
		return abi.NewError(abi.CodeIO, "the journal %s is not a file", s.path)
	case err == nil && fi.Size() == 0 && holdsText(s.path):
		return abi.NewError(abi.CodeJournalVersion, "%s is no journal: it has no size and yet a content, so the system makes it up; name another file", s.path)
	case err == nil && fi.Size() == 0:
		return abi.NewError(abi.CodeJournalCorrupt, "the journal %s is empty: it was cut off; remove it to start a new one", s.path)
	case err == nil:
		if err := s.look(ctx); err != nil || s.opt.ReadOnly {
			return err
		}
		if runtime.GOOS != "windows" && fi.Mode().Perm()&0o077 != 0 {
			if err := os.Chmod(s.path, 0o600); err != nil {
				return abi.NewError(abi.CodeIO, "the journal %s can be read by others, and that cannot be changed: %v", s.path, err)
			}
		}
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return abi.NewError(abi.CodeIO, "the journal: %v", err)
	case s.opt.MustExist:
		return abi.NewError(abi.CodeJournalMissing, "there is no journal %s; bladehost run and session make one with --journal FILE", s.path)
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return abi.NewError(abi.CodeIO, "the folder of the journal: %v", err)
	}
	if err := s.make(ctx); err != nil {
		return abi.NewError(abi.CodeJournalWrite, "the journal %s cannot be made: %v", s.path, err).Because(err)
	}
	return nil
}

// make makes a whole file beside the path and moves it there, so that a file
// that is there is never half made. If another process was first, its file stays.
func (s *Store) make(ctx context.Context) error {
	f, err := os.CreateTemp(filepath.Dir(s.path), ".journal-*.new") // mode 0600
	if err != nil {
		return err
	}
	tmp := f.Name()
	defer func() { // nothing of it is needed
		for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
			_ = os.Remove(tmp + suffix)
		}
	}()
	if err := f.Close(); err != nil {
		return err
	}
	db, err := sqlite.Open(tmp, sqlite.Options{VFS: s.opt.VFS})
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	err = inTx(ctx, db, func(tx *sql.Tx) error { return migrate(ctx, tx, 0) })
	if err == nil {
		err = checkpoint(ctx, db, "TRUNCATE")
	}
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	sys := s.opt.files.withDefaults()
	if err := sys.link(tmp, s.path); err != nil && !errors.Is(err, fs.ErrExist) {
		if _, there := os.Lstat(s.path); there == nil {
			return nil
		}
		if err := sys.rename(tmp, s.path); err != nil { // a file system without links
			return err
		}
	}
	return sys.syncDir(filepath.Dir(s.path))
}

// syncDir makes a new name durable, where the system can.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func inTx(ctx context.Context, db *sql.DB, f func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func checkpoint(ctx context.Context, q querier, mode string) error {
	var busy, log, moved int64
	return q.QueryRowContext(ctx, "PRAGMA wal_checkpoint("+mode+")").Scan(&busy, &log, &moved)
}

// moved moves all of the log to the file, or fails.
func moved(ctx context.Context, q querier) error {
	var busy, log, done int64
	if err := q.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &log, &done); err != nil {
		return err
	}
	if busy != 0 {
		return errors.New("another process reads it")
	}
	return nil
}

// holdsText reports whether a file without a size has a content, as some of the
// system's own do.
func holdsText(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	n, _ := f.Read(make([]byte, 1)) // an error is an empty file here
	return f.Close() == nil && n > 0
}

// look finds out whether the file is a journal, and changes nothing: other
// programs' files stay as they are.
func (s *Store) look(ctx context.Context) error {
	db, err := sqlite.Open(s.path, sqlite.Options{Busy: s.opt.Busy, ReadOnly: true, Immutable: true, Salvage: true})
	if err != nil {
		return abi.NewError(abi.CodeIO, "the journal: %v", err)
	}
	_, err = checkVersion(ctx, db, s.path)
	return errors.Join(err, db.Close())
}

// connectReader opens the file for reading only. Where SQLite cannot make the files
// that it needs beside it, it is read without them, unless there is a log.
func (s *Store) connectReader(ctx context.Context) error {
	leave, err := s.enter(ctx)
	if err == nil {
		defer leave()
	} // else nobody else can write either
	fi, noLog := os.Stat(s.path + "-wal")
	opt := sqlite.Options{Busy: s.opt.Busy, VFS: s.opt.VFS, ReadOnly: true, Salvage: s.opt.NoCheck}
	for {
		r, err := sqlite.Open(s.path, opt)
		if err != nil {
			return abi.NewError(abi.CodeIO, "the journal: %v", err)
		}
		r.SetMaxOpenConns(readers)
		r.SetMaxIdleConns(readers)
		if _, err = checkVersion(ctx, r, s.path); err == nil {
			err = s.check(ctx, r)
		}
		if err == nil {
			s.r = r
			return nil
		}
		_ = r.Close() // it only read
		if k := sqlite.KindOf(err); opt.Immutable || (k != sqlite.CannotOpen && k != sqlite.ReadOnly) {
			return err
		}
		if noLog == nil && fi.Size() > 0 {
			return abi.NewError(abi.CodeJournalRead, "the journal %s has a log (%s-wal) that cannot be read in a folder that cannot be written; copy both to one that can: %v", s.path, s.path, err).Because(err)
		}
		opt.Immutable = true
	}
}

// connect opens the file and checks it.
func (s *Store) connect(ctx context.Context) (*writer, *sql.DB, error) {
	db, err := sqlite.Open(s.path, sqlite.Options{Busy: s.opt.Busy, VFS: s.opt.VFS})
	if err != nil {
		return nil, nil, abi.NewError(abi.CodeIO, "the journal: %v", err)
	}
	db.SetMaxOpenConns(1)
	w, err := s.connectWriter(ctx, db)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	r, err := sqlite.Open(s.path, sqlite.Options{Busy: s.opt.Busy, VFS: s.opt.VFS, ReadOnly: true})
	if err != nil {
		return nil, nil, errors.Join(abi.NewError(abi.CodeIO, "the journal: %v", err), w.close())
	}
	r.SetMaxOpenConns(readers)
	r.SetMaxIdleConns(readers)
	if w.shared, err = sqlite.HoldShared(s.path); err != nil {
		return nil, nil, errors.Join(abi.NewError(abi.CodeIO, "the journal %s cannot be locked: %v", s.path, err), r.Close(), w.close())
	}
	return w, r, nil
}

// readers is how many reads run at once.
const readers = 4

func (s *Store) connectWriter(ctx context.Context, db *sql.DB) (*writer, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, readError(s.path, err)
	}
	w := &writer{s: s, db: db, conn: conn}
	if err := w.upgrade(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if err := s.check(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if err := w.prepare(ctx); err != nil {
		return nil, errors.Join(readError(s.path, err), w.close())
	}
	return w, nil
}

// check is the check when a file is opened: its version, its tables, the little
// that says how much there should be, and of a small file every page.
func (s *Store) check(ctx context.Context, q querier) error {
	if s.opt.NoCheck {
		return nil
	}
	if err := checkSchema(ctx, q, s.path); err != nil {
		return err
	}
	if _, err := sessionCount(ctx, q); err != nil {
		return readError(s.path, err)
	}
	fi, err := os.Stat(s.path)
	if err != nil {
		return abi.NewError(abi.CodeIO, "the journal: %v", err)
	}
	if fi.Size() > checkLimit {
		return nil
	}
	var first string
	if err := q.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&first); err != nil {
		return readError(s.path, err)
	}
	if first != "ok" {
		return abi.NewError(abi.CodeJournalCorrupt, "the journal %s is damaged: %s", s.path, first)
	}
	return nil
}

// Close writes what is queued, moves the log to the file, and ends the store.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.gate.Lock()
	s.over = true
	s.gate.Unlock()
	close(s.stop)
	s.wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	leave, err := s.enter(context.Background())
	if err == nil {
		defer leave()
	}
	if s.w == nil {
		return s.r.Close()
	}
	still := owns(s.w.conn, s.alive.current())
	return errors.Join(s.r.Close(), s.w.end(err == nil), s.alive.close(still))
}

// reader is the handle for reading.
func (s *Store) reader(ctx context.Context, session string) (*sql.DB, error) {
	if err := ctx.Err(); err != nil {
		return nil, abi.NewError(abi.CodeJournalRead, "the journal was not read: %v", context.Cause(ctx)).Because(context.Cause(ctx))
	}
	if err := journal.ValidSessionID(session); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, abi.NewError(abi.CodeJournalRead, "the journal %s is closed", s.path)
	}
	return s.r, nil
}

// Changed implements journal.Store.
func (s *Store) Changed(session string) <-chan struct{} {
	s.watch.Lock()
	defer s.watch.Unlock()
	c := s.watch.changed[session]
	if c == nil {
		c = make(chan struct{})
		s.watch.changed[session] = c
	}
	return c
}

func (s *Store) tell(session string) {
	s.watch.Lock()
	defer s.watch.Unlock()
	if c := s.watch.changed[session]; c != nil {
		close(c)
		delete(s.watch.changed, session)
	}
}

var errDamaged = errors.New("a record does not fit its check sum")

// readError is the error of a read, by what SQLite says.
func readError(path string, err error) error {
	if abi.CodeOf(err) != "" {
		return err
	}
	var damage *damage
	switch k := sqlite.KindOf(err); {
	case k == sqlite.Corrupt, errors.As(err, &damage), errors.Is(err, errDamaged):
		return abi.NewError(abi.CodeJournalCorrupt, "the journal %s is damaged: %v; bladehost journal verify says where", path, err).Because(err)
	case k == sqlite.NotADatabase:
		return abi.NewError(abi.CodeJournalVersion, "%s is no journal, or its first page is damaged", path).Because(err)
	default:
		return abi.NewError(abi.CodeJournalRead, "the journal %s cannot be read: %v", path, err).Because(err)
	}
}

// damage is a record that is not what was written.
type damage struct{ what string }

func (d *damage) Error() string { return d.what }

func damaged(format string, args ...any) error { return &damage{fmt.Sprintf(format, args...)} }
