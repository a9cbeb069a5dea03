// Package sqlite opens SQLite files through database/sql. It is the one owner of
// modernc.org/sqlite, whose types stay inside: others see *sql.DB and Kind.
//
// Whatever opens and closes a database file in this process takes POSIX locks
// away, SQLite's own too. On Linux the locks of the database file are therefore of
// another kind, which survives that; where there is none, no log is ever removed.
// The locks of the file -shm stay POSIX locks: see HoldShared.
package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// Options configure Open. The zero value opens for reading and writing, waits
// 10 s for another process, and keeps SQLite's own VFS.
type Options struct {
	// ReadOnly refuses every statement that writes.
	ReadOnly bool
	// Immutable changes nothing at all, takes no locks and makes no files: it reads
	// the file alone, without its log.
	Immutable bool
	// Salvage reads what a damaged file still has: one that was cut off is not
	// refused as a whole.
	Salvage bool
	// Busy is how long a transaction waits for another process; 0 means 10 s.
	Busy time.Duration
	// VFS names a registered VFS; see package faulty.
	VFS string
}

const defaultBusy = 10 * time.Second

// Open makes a handle; nothing is opened before the first use. Every connection
// has a write-ahead log, which the caller has to move to the file from time to
// time, syncs at each commit, checks cell sizes, and cannot be made to damage the
// file by SQL.
func Open(path string, opt Options) (*sql.DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if opt.Busy == 0 {
		opt.Busy = defaultBusy
	}
	// It fails where there are no such locks, or where a connection was made without
	// them; survives tells.
	_, _ = sqlite.OFDLocking(true)
	q := url.Values{}
	q.Set("_defensive", "1")
	q.Set("_dqs", "0")
	q.Set("_busy_timeout", strconv.FormatInt(opt.Busy.Milliseconds(), 10))
	q.Set("_synchronous", "FULL")
	q["_pragma"] = []string{"trusted_schema(0)", "cell_size_check(1)", "mmap_size(0)", "temp_store(2)", "checkpoint_fullfsync(1)", "fullfsync(1)", "wal_autocheckpoint(0)"}
	if opt.Salvage {
		q.Del("_defensive")
		q.Add("_pragma", "writable_schema(1)")
	}
	q.Set("mode", "rw") // the file is made beforehand, so that its mode is right
	switch {
	case opt.Immutable:
		q.Set("mode", "ro")
		q.Set("immutable", "1")
	case opt.ReadOnly:
		q.Set("_query_only", "1")
	default:
		q.Set("_journal_mode", "WAL")
	}
	if opt.VFS != "" {
		q.Set("vfs", opt.VFS)
	}
	slash := filepath.ToSlash(abs)
	if !strings.HasPrefix(slash, "/") {
		slash = "/" + slash // a drive letter
	}
	u := url.URL{Scheme: "file", Path: slash, RawQuery: q.Encode()}
	c, err := sqlite.NewConnector(u.String())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if runtime.GOOS != "windows" && !sqlite.OFDLockingEnabled() && !opt.Immutable {
		return sql.OpenDB(keepLog{c}), nil
	}
	return sql.OpenDB(c), nil
}

// keepLog makes connections that leave the log when they are closed, even if no
// other process seems to have the file: its locks may have been taken away.
type keepLog struct{ driver.Connector }

// Connect implements driver.Connector.
func (k keepLog) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := k.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if f, ok := c.(sqlite.FileControl); ok {
		if _, err := f.FileControlPersistWAL("main", 1); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// Kind is the kind of an error of SQLite, as far as callers decide on it.
type Kind int

// Kinds.
const (
	// Other is any other error, also one that is not SQLite's.
	Other Kind = iota
	// Corrupt: the file is damaged.
	Corrupt
	// NotADatabase: the file is something else.
	NotADatabase
	// Full: a write was refused, because the disk, a quota or a limit of the size of
	// files is reached.
	Full
	// IO: the operating system refused something else: to read, sync, truncate.
	IO
	// Busy: another process holds the file.
	Busy
	// ReadOnly: the file or its folder cannot be written.
	ReadOnly
	// Constraint: a value that must be unique is not.
	Constraint
	// CannotOpen: there is no such file, or it may not be opened.
	CannotOpen
	// Interrupted: the context of the statement ended.
	Interrupted
	// TooBig: a value is too large.
	TooBig
)

// KindOf is the kind of the first SQLite error in err's chain.
func KindOf(err error) Kind {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return Other
	}
	if e.Code() == lib.SQLITE_IOERR_WRITE {
		return Full
	}
	switch e.Code() & 0xff {
	case lib.SQLITE_CORRUPT:
		return Corrupt
	case lib.SQLITE_NOTADB:
		return NotADatabase
	case lib.SQLITE_FULL:
		return Full
	case lib.SQLITE_IOERR:
		return IO
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL:
		return Busy
	case lib.SQLITE_READONLY, lib.SQLITE_PERM:
		return ReadOnly
	case lib.SQLITE_CONSTRAINT:
		return Constraint
	case lib.SQLITE_CANTOPEN:
		return CannotOpen
	case lib.SQLITE_INTERRUPT:
		return Interrupted
	case lib.SQLITE_TOOBIG:
		return TooBig
	}
	return Other
}
