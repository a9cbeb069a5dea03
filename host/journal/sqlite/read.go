package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/journal"
)

// sessionRow is a row of sessions. sid 0 is a session that has none yet.
type sessionRow struct {
	sid     int64
	session string
	head    int64
	link    []byte
	last    string
	open    int64
	at      string
}

const (
	sessionQuery = "SELECT sid, session, head, link, last, open, at, sum FROM sessions WHERE session = ?"
	leaseQuery   = "SELECT body, instance, sum FROM leases WHERE sid = ?"
)

func (r sessionRow) sum() []byte {
	return sumOf("row", r.sid, r.session, r.head, r.link, r.last, r.open, r.at)
}

func (r sessionRow) args() []any {
	return []any{r.sid, r.session, r.head, r.link, r.last, r.open, r.at, r.sum()}
}

// maxBody bounds a stored event: what was made larger by hand is not read into
// memory, and fails its check sum.
const maxBody = journal.MaxData + 64<<10

// maxPageBytes bounds what a page holds beside its first event.
const maxPageBytes = 64 << 20

var eventColumns = fmt.Sprintf("CASE WHEN length(body) <= %d THEN body ELSE x'' END, link", maxBody)

type scanner interface{ Scan(...any) error }

// scan reads a row and checks it.
func (r *sessionRow) scan(from scanner) error {
	var sum []byte
	if err := from.Scan(&r.sid, &r.session, &r.head, &r.link, &r.last, &r.open, &r.at, &sum); err != nil {
		return err
	}
	if !bytes.Equal(sum, r.sum()) {
		return damaged("the record of session %q does not fit its check sum", clip(r.session))
	}
	return nil
}

func newSession(session string) sessionRow {
	return sessionRow{session: session, link: firstLink(session)}
}

// session is the writer's look at a session.
func (w *writer) session(session string) (sessionRow, error) {
	if r, ok := w.rows[session]; ok {
		return r, nil
	}
	r, err := oneSession(w.getSession.QueryRow(session), session)
	if err == nil && r.sid != 0 {
		w.rows[session] = r
	}
	return r, err
}

func oneSession(row *sql.Row, session string) (sessionRow, error) {
	var r sessionRow
	err := r.scan(row)
	if errors.Is(err, sql.ErrNoRows) {
		return newSession(session), nil
	}
	return r, err
}

// sessionCount is how many sessions there should be.
func sessionCount(ctx context.Context, q querier) (int64, error) {
	var n int64
	var sum []byte
	if err := q.QueryRowContext(ctx, "SELECT sessions, sum FROM meta WHERE id = 1").Scan(&n, &sum); err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			return 0, damaged("the record of all sessions is missing")
		}
		return 0, err
	}
	if !bytes.Equal(sum, sumOf("meta", n)) {
		return 0, damaged("the record of all sessions does not fit its check sum")
	}
	return n, nil
}

// view runs f in one consistent view of the file.
func (s *Store) view(ctx context.Context, session string, f func(tx *sql.Tx, row sessionRow) error) error {
	db, err := s.reader(ctx, session)
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return readError(s.path, err)
	}
	defer func() { _ = tx.Rollback() }() // it only read
	row, err := oneSession(tx.QueryRowContext(ctx, sessionQuery, session), session)
	if err == nil {
		err = f(tx, row)
	}
	if err != nil {
		return readError(s.path, err)
	}
	return nil
}

// event reads one event and holds it to the one before.
func event(ctx context.Context, tx querier, row sessionRow, seq int64) (journal.Event, error) {
	prev := firstLink(row.session)
	if seq > 1 {
		err := tx.QueryRowContext(ctx, "SELECT link FROM events WHERE id = ?", key(row.sid, seq-1)).Scan(&prev)
		if errors.Is(err, sql.ErrNoRows) {
			return journal.Event{}, damaged("event %d of session %q is missing", seq-1, clip(row.session))
		}
		if err != nil {
			return journal.Event{}, err
		}
	}
	var body, link []byte
	err := tx.QueryRowContext(ctx, "SELECT "+eventColumns+" FROM events WHERE id = ?", key(row.sid, seq)).Scan(&body, &link)
	if errors.Is(err, sql.ErrNoRows) {
		return journal.Event{}, damaged("event %d of session %q is missing", seq, clip(row.session))
	}
	if err != nil {
		return journal.Event{}, err
	}
	return decode(row, seq, prev, body, link)
}

// decode is the event that was written, or says that it is not that any more.
func decode(row sessionRow, seq int64, prev, body, link []byte) (journal.Event, error) {
	if !bytes.Equal(link, linkOf(prev, body)) {
		return journal.Event{}, damaged("event %d of session %q does not fit its check sum", seq, clip(row.session))
	}
	e, err := journal.Decode(body)
	if err != nil {
		return e, damaged("event %d of session %q: %v", seq, clip(row.session), err)
	}
	if e.Sequence != seq || e.SessionID != row.session {
		return e, damaged("event %d of session %q says that it is event %d of session %q", seq, clip(row.session), e.Sequence, clip(e.SessionID))
	}
	return e, nil
}

// Read implements journal.Store.
func (s *Store) Read(ctx context.Context, session string, opt journal.ReadOptions) (journal.Page, error) {
	var p journal.Page
	err := s.view(ctx, session, func(tx *sql.Tx, row sessionRow) error {
		after, limit, err := opt.Bounds(row.head)
		if err != nil {
			return err
		}
		to := min(after+int64(limit), row.head)
		p.Events, err = events(ctx, tx, row, after, to, s.opt.page)
		if n := len(p.Events); n > 0 {
			to = p.Events[n-1].Sequence // fewer if they are large
		}
		p.Head, p.Next, p.HasMore = row.head, to, to < row.head
		return err
	})
	return p, err
}

// events reads the events after one sequence, up to another, or fewer if they
// have more bytes than most.
func events(ctx context.Context, tx querier, row sessionRow, after, to, most int64) ([]journal.Event, error) {
	if after >= to {
		return nil, nil
	}
	rows, err := tx.QueryContext(ctx, "SELECT id, "+eventColumns+" FROM events WHERE id >= ? AND id <= ? ORDER BY id", key(row.sid, after), key(row.sid, to))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // read only
	list := make([]journal.Event, 0, to-after)
	prev, next := firstLink(row.session), after
	if after == 0 {
		next = 1
	}
	for rows.Next() {
		var id int64
		var body, link []byte
		if err := rows.Scan(&id, &body, &link); err != nil {
			return nil, err
		}
		if id != key(row.sid, next) {
			return nil, damaged("event %d of session %q is missing", next, clip(row.session))
		}
		if next > after {
			e, err := decode(row, next, prev, body, link)
			if err != nil {
				return nil, err
			}
			list = append(list, e)
			if most -= int64(len(body)); most < 0 && next < to {
				return list, nil
			}
		}
		prev = link
		next++
	}
	switch err := rows.Err(); {
	case err != nil:
		return nil, err
	case next != to+1:
		return nil, damaged("event %d of session %q is missing", next, clip(row.session))
	case to == row.head && !bytes.Equal(prev, row.link):
		return nil, damaged("event %d of session %q is not the last that was written", to, clip(row.session))
	}
	return list, nil
}

// Head implements journal.Store.
func (s *Store) Head(ctx context.Context, session string) (int64, error) {
	var n int64
	err := s.view(ctx, session, func(_ *sql.Tx, row sessionRow) error { n = row.head; return nil })
	return n, err
}

// Command implements journal.Store.
func (s *Store) Command(ctx context.Context, session, id string) ([]journal.Event, error) {
	var list []journal.Event
	err := s.view(ctx, session, func(tx *sql.Tx, row sessionRow) error {
		var first, count int64
		err := tx.QueryRowContext(ctx, "SELECT first, count FROM commands WHERE sid = ? AND command = ?", row.sid, id).Scan(&first, &count)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if first < 1 || count < 1 || first+count-1 > row.head {
			return damaged("the record of the command %q does not fit its session", clip(id))
		}
		if list, err = events(ctx, tx, row, first-1, first+count-1, math.MaxInt64); err != nil {
			return err
		}
		for _, e := range list {
			if e.CommandID != id {
				return damaged("event %d of session %q belongs to another command than recorded", e.Sequence, clip(row.session))
			}
		}
		return nil
	})
	return list, err
}

// Attempt implements journal.Store.
func (s *Store) Attempt(ctx context.Context, session, id string) ([]journal.Event, error) {
	var list []journal.Event
	err := s.view(ctx, session, func(tx *sql.Tx, row sessionRow) error {
		var seqs []byte
		err := tx.QueryRowContext(ctx, "SELECT events FROM attempts WHERE sid = ? AND attempt = ?", row.sid, id).Scan(&seqs)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		list, err = attemptEvents(ctx, tx, row, id, seqs)
		return err
	})
	return list, err
}

// attemptEvents reads the events of one attempt.
func attemptEvents(ctx context.Context, tx querier, row sessionRow, id string, seqs []byte) ([]journal.Event, error) {
	var list []journal.Event
	for len(seqs) > 0 {
		seq, n := binary.Uvarint(seqs)
		if n <= 0 || seq < 1 || seq > uint64(row.head) {
			return nil, damaged("the record of the tool attempt %q does not fit its session", clip(id))
		}
		seqs = seqs[n:]
		e, err := event(ctx, tx, row, int64(seq))
		if err != nil {
			return nil, err
		}
		if e.ToolAttemptID != id {
			return nil, damaged("event %d of session %q belongs to another tool attempt than recorded", seq, clip(row.session))
		}
		list = append(list, e)
	}
	return list, nil
}

// Snapshot implements journal.Store.
func (s *Store) Snapshot(ctx context.Context, session string) (journal.Snapshot, error) {
	var sn journal.Snapshot
	err := s.view(ctx, session, func(tx *sql.Tx, row sessionRow) error {
		sn.Head, sn.Last = row.head, journal.Type(row.last)
		open, err := openAttempts(ctx, tx, row)
		if err != nil {
			return err
		}
		for _, a := range open {
			list, err := attemptEvents(ctx, tx, row, a.id, a.events)
			if err != nil {
				return err
			}
			if n := len(list); n == 0 || list[0].Type != journal.ToolScheduled || list[n-1].Type.Ends() {
				return damaged("the record of the tool attempt %q does not fit its events", clip(a.id))
			}
			sn.Open = append(sn.Open, list...)
		}
		return nil
	})
	slices.SortFunc(sn.Open, func(a, b journal.Event) int { return int(a.Sequence - b.Sequence) })
	return sn, err
}

type attemptRow struct {
	id     string
	events []byte
}

// openAttempts are the attempts that have not ended: as many as the session says.
func openAttempts(ctx context.Context, tx querier, row sessionRow) ([]attemptRow, error) {
	rows, err := tx.QueryContext(ctx, "SELECT attempt, events FROM attempts WHERE sid = ? AND open = 1", row.sid)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // read only
	var list []attemptRow
	for rows.Next() {
		var a attemptRow
		if err := rows.Scan(&a.id, &a.events); err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if int64(len(list)) != row.open {
		return nil, damaged("session %q has %d open tool attempts, but %d are recorded", clip(row.session), row.open, len(list))
	}
	return list, nil
}

// Sessions implements journal.Store.
func (s *Store) Sessions(ctx context.Context, after string, limit int) ([]journal.SessionInfo, error) {
	_, limit, err := journal.ReadOptions{Limit: limit}.Bounds(0)
	if err != nil {
		return nil, err
	}
	db, err := s.reader(ctx, "list")
	if err != nil {
		return nil, err
	}
	list, err := sessions(ctx, db, after, limit)
	if err != nil {
		return nil, readError(s.path, err)
	}
	return list, nil
}

func sessions(ctx context.Context, q querier, after string, limit int) ([]journal.SessionInfo, error) {
	rows, err := q.QueryContext(ctx, "SELECT sid, session, head, link, last, open, at, sum FROM sessions WHERE session > ? ORDER BY session LIMIT ?", after, limit)
	if err != nil {
		return nil, err
	}
	list, err := sessionRows(rows)
	if err != nil {
		return nil, err
	}
	out := make([]journal.SessionInfo, 0, len(list))
	for _, r := range list {
		i := journal.SessionInfo{SessionID: r.session, Head: r.head, Closed: r.last == string(journal.SessionClosed), Open: int(r.open), LastAt: r.at}
		l, err := scanLease(q.QueryRowContext(ctx, leaseQuery, r.sid))
		if err != nil {
			return nil, err
		}
		i.Lease = l.known()
		out = append(out, i)
	}
	return out, nil
}

func sessionRows(rows *sql.Rows) ([]sessionRow, error) {
	defer func() { _ = rows.Close() }() // read only
	var list []sessionRow
	for rows.Next() {
		var r sessionRow
		if err := r.scan(rows); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// leaseRow is a row of leases; found is false where there is none.
type leaseRow struct {
	journal.Lease
	// instance is the store that holds it, or empty after a handoff.
	instance string
	found    bool
}

func (l leaseRow) known() *journal.Lease {
	if !l.found {
		return nil
	}
	return &l.Lease
}

func (w *writer) lease(sid int64) (leaseRow, error) {
	if sid == 0 {
		return leaseRow{}, nil
	}
	if l, ok := w.leases[sid]; ok {
		return l, nil
	}
	l, err := scanLease(w.getLease.QueryRow(sid))
	if err == nil {
		w.leases[sid] = l
	}
	return l, err
}

func scanLease(row *sql.Row) (leaseRow, error) {
	var l leaseRow
	var body, sum []byte
	err := row.Scan(&body, &l.instance, &sum)
	if errors.Is(err, sql.ErrNoRows) {
		return leaseRow{}, nil
	}
	if err != nil {
		return l, err
	}
	if !bytes.Equal(sum, sumOf("lease", body, l.instance)) {
		return l, abi.NewError(abi.CodeLeaseCorrupt, "the record of a lease does not fit its check sum")
	}
	if err := json.Unmarshal(body, &l.Lease); err != nil {
		return l, abi.NewError(abi.CodeLeaseCorrupt, "the record of a lease is %v", err)
	}
	l.found = true
	return l, nil
}

func clip(s string) string {
	const most = 120
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
