package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/bladehost/bladehost/abi"
)

// applicationID marks the file as ours: "bljn".
const applicationID = 0x626c6a6e

// migrations bring a file from each version to the next. A released one is never
// changed.
var migrations = []string{`
CREATE TABLE meta (
	id INTEGER PRIMARY KEY CHECK (id = 1),
	sessions INTEGER NOT NULL,
	sum BLOB NOT NULL
) STRICT;
CREATE TABLE sessions (
	sid INTEGER PRIMARY KEY,
	session TEXT NOT NULL UNIQUE,
	head INTEGER NOT NULL,
	link BLOB NOT NULL,
	last TEXT NOT NULL,
	open INTEGER NOT NULL,
	at TEXT NOT NULL,
	sum BLOB NOT NULL
) STRICT;
CREATE TABLE events (
	id INTEGER PRIMARY KEY,
	body BLOB NOT NULL,
	link BLOB NOT NULL
) STRICT;
CREATE TABLE attempts (
	id INTEGER PRIMARY KEY,
	sid INTEGER NOT NULL,
	attempt TEXT NOT NULL,
	turn TEXT NOT NULL,
	call TEXT NOT NULL,
	open INTEGER NOT NULL,
	events BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX attempts_by_id ON attempts (sid, attempt);
CREATE UNIQUE INDEX attempts_by_call ON attempts (sid, turn, call);
CREATE INDEX attempts_open ON attempts (sid) WHERE open = 1;
CREATE TABLE permissions (
	sid INTEGER NOT NULL,
	permission TEXT NOT NULL,
	PRIMARY KEY (sid, permission)
) STRICT, WITHOUT ROWID;
CREATE TABLE commands (
	sid INTEGER NOT NULL,
	command TEXT NOT NULL,
	first INTEGER NOT NULL,
	count INTEGER NOT NULL,
	PRIMARY KEY (sid, command)
) STRICT, WITHOUT ROWID;
CREATE TABLE leases (
	sid INTEGER PRIMARY KEY,
	body BLOB NOT NULL,
	instance TEXT NOT NULL,
	sum BLOB NOT NULL
) STRICT;
`}

// version is the version of files that are written.
var version = len(migrations)

// querier is what both a connection and a transaction can do.
type querier interface {
	QueryRowContext(ctx context.Context, q string, args ...any) *sql.Row
	QueryContext(ctx context.Context, q string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, q string, args ...any) (sql.Result, error)
}

func pragma(ctx context.Context, q querier, name string) (n int64, err error) {
	err = q.QueryRowContext(ctx, "PRAGMA "+name).Scan(&n)
	return n, err
}

// checkVersion reads what kind of file it is, and which version.
func checkVersion(ctx context.Context, q querier, path string) (int, error) {
	app, err := pragma(ctx, q, "application_id")
	if err != nil {
		return 0, readError(path, err)
	}
	v, err := pragma(ctx, q, "user_version")
	if err != nil {
		return 0, readError(path, err)
	}
	switch {
	case app != applicationID:
		return 0, abi.NewError(abi.CodeJournalVersion, "%s is a SQLite file of something else, not a journal; name another file", path)
	case v < 1:
		return 0, abi.NewError(abi.CodeJournalCorrupt, "%s has no version; it is damaged", path)
	case int(v) > version:
		return 0, abi.NewError(abi.CodeJournalVersion, "%s was written by a newer bladehost (format %d; this one knows %d); use that one, or another file", path, v, version)
	}
	return int(v), nil
}

// migrate runs what is missing, all in one transaction. The caller holds it.
func migrate(ctx context.Context, q querier, from int) error {
	for i := from; i < version; i++ {
		if _, err := q.ExecContext(ctx, migrations[i]); err != nil {
			return err
		}
	}
	if from == 0 {
		if _, err := q.ExecContext(ctx, "INSERT INTO meta (id, sessions, sum) VALUES (1, 0, ?)", sumOf("meta", 0)); err != nil {
			return err
		}
		if _, err := q.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d", applicationID)); err != nil {
			return err
		}
	}
	_, err := q.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version))
	return err
}

// checkSchema compares the tables with those that the migrations make: a file
// with a trigger more would do something else.
func checkSchema(ctx context.Context, q querier, path string) error {
	rows, err := q.QueryContext(ctx, "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid")
	if err != nil {
		return readError(path, err)
	}
	defer func() { _ = rows.Close() }() // read only
	var have []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return readError(path, err)
		}
		have = append(have, s)
	}
	if err := rows.Err(); err != nil {
		return readError(path, err)
	}
	if got, want := strings.Join(have, ";\n")+";", strings.TrimSpace(strings.Join(migrations, "")); got != want {
		return abi.NewError(abi.CodeJournalCorrupt, "%s does not have the tables of a journal; it is damaged or was changed by hand", path)
	}
	return nil
}

// sumOf is the check sum of a row: SQLite has none.
func sumOf(parts ...any) []byte {
	h := sha256.New()
	for _, p := range parts {
		var n [8]byte
		switch v := p.(type) {
		case int:
			binary.BigEndian.PutUint64(n[:], uint64(v))
			_, _ = h.Write(n[:]) // a hash takes everything
		case int64:
			binary.BigEndian.PutUint64(n[:], uint64(v))
			_, _ = h.Write(n[:]) // a hash takes everything
		case string:
			binary.BigEndian.PutUint64(n[:], uint64(len(v)))
			_, _ = h.Write(append(n[:], v...)) // a hash takes everything
		case []byte:
			binary.BigEndian.PutUint64(n[:], uint64(len(v)))
			_, _ = h.Write(append(n[:], v...)) // a hash takes everything
		}
	}
	return h.Sum(nil)[:16]
}

// The key of an event is its session's number and its sequence: one tree holds
// the events of each session in order.
const (
	seqBits = 36
	maxSeq  = 1<<seqBits - 1
	maxSID  = 1<<(63-seqBits) - 1
)

func key(sid, seq int64) int64 { return sid<<seqBits | seq }

// firstLink is what the first event of a session is linked to.
func firstLink(session string) []byte { return sumOf("session", session) }

// linkOf ties an event to all before it.
func linkOf(prev, body []byte) []byte { return sumOf(prev, body) }
