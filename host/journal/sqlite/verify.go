package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"os"

	"github.com/bladehost/bladehost/host/journal"
)

// Problem is one thing that is wrong with a file.
type Problem struct {
	SessionID string `json:"sessionId,omitempty"`
	// Sequence is the event it is about, or 0.
	Sequence int64  `json:"sequence,omitempty"`
	Text     string `json:"text"`
}

// Report is what Verify found.
type Report struct {
	Path     string `json:"path"`
	Format   int    `json:"format"`
	Bytes    int64  `json:"bytes"`
	Sessions int64  `json:"sessions"`
	Events   int64  `json:"events"`
	Open     int64  `json:"openAttempts"`
	// Problems are the first 100; Found counts all.
	Problems []Problem `json:"problems"`
	Found    int64     `json:"found"`
}

const maxProblems = 100

func (r *Report) add(session string, seq int64, text string) {
	r.Found++
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, Problem{session, seq, text})
	}
}

// Verify reads everything: SQLite's own structures, every event and its link to
// those before it, every transition, and that each thing an event is found by
// leads to it. It goes on after a problem where it can. Memory does not grow with
// the file, but with what is open. progress, if not nil, is told how many events
// of how many are done. The error is one of reading; what is wrong with the file
// is in the report. An empty session means all.
func (s *Store) Verify(ctx context.Context, session string, progress func(done, total int64)) (*Report, error) {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	name := session
	if name == "" {
		name = "all"
	}
	db, err := s.reader(ctx, name)
	if err != nil {
		return nil, err
	}
	r := &Report{Path: s.path, Problems: []Problem{}}
	if fi, err := os.Stat(s.path); err == nil {
		r.Bytes = fi.Size()
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, readError(s.path, err)
	}
	defer func() { _ = tx.Rollback() }() // it only read
	v := &verifier{ctx: ctx, tx: tx, r: r, progress: progress}
	v.file(s.path)
	v.sessions(session)
	if ctx.Err() != nil {
		return nil, readError(s.path, context.Cause(ctx))
	}
	return r, nil
}

type verifier struct {
	ctx      context.Context
	tx       *sql.Tx
	r        *Report
	progress func(done, total int64)
	total    int64
}

// file checks what concerns the file as a whole.
func (v *verifier) file(path string) {
	n, err := checkVersion(v.ctx, v.tx, path)
	if err == nil {
		v.r.Format = n
		err = checkSchema(v.ctx, v.tx, path)
	}
	if err != nil {
		v.r.add("", 0, err.Error())
	}
	rows, err := v.tx.QueryContext(v.ctx, "PRAGMA integrity_check(100)")
	if err != nil {
		v.r.add("", 0, err.Error())
		return
	}
	defer func() { _ = rows.Close() }() // read only
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			v.r.add("", 0, err.Error())
			return
		}
		if text != "ok" {
			v.r.add("", 0, text)
		}
	}
	if err := rows.Err(); err != nil {
		v.r.add("", 0, err.Error())
	}
}

// sessions checks every session, or one.
func (v *verifier) sessions(only string) {
	list, err := v.rows(only)
	if err != nil {
		v.r.add(only, 0, err.Error())
	}
	for _, row := range list {
		v.total += row.head
	}
	if only == "" {
		v.counts(int64(len(list)))
	} else if len(list) == 0 && err == nil {
		v.r.add(only, 0, "there is no such session")
	}
	for _, row := range list {
		if v.ctx.Err() != nil {
			return
		}
		v.r.Sessions++
		v.session(row)
	}
}

// rows are the sessions whose records can be read. A list of them is small: some
// hundred bytes each.
func (v *verifier) rows(only string) ([]sessionRow, error) {
	q, args := "SELECT sid, session, head, link, last, open, at, sum FROM sessions ORDER BY sid", []any{}
	if only != "" {
		q, args = sessionQuery, []any{only}
	}
	rows, err := v.tx.QueryContext(v.ctx, q, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // read only
	var list []sessionRow
	for rows.Next() {
		var r sessionRow
		if err := r.scan(rows); err != nil {
			v.r.add(r.session, 0, err.Error())
			continue
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

func (v *verifier) counts(sessions int64) {
	n, err := sessionCount(v.ctx, v.tx)
	switch {
	case err != nil:
		v.r.add("", 0, err.Error())
	case n != sessions:
		v.r.add("", 0, damaged("%d sessions are recorded, %d can be read", n, sessions).Error())
	}
	var events int64
	if err := v.tx.QueryRowContext(v.ctx, "SELECT count(*) FROM events").Scan(&events); err != nil {
		v.r.add("", 0, err.Error())
	} else if events != v.total {
		v.r.add("", 0, damaged("the sessions have %d events, the file has %d", v.total, events).Error())
	}
}

// digest sums up a set of records in any order.
type digest [2]uint64

func (d *digest) add(parts ...any) {
	sum := sha256.Sum256(sumOf(parts...))
	d[0] += binary.BigEndian.Uint64(sum[:8])
	d[1] += binary.BigEndian.Uint64(sum[8:16])
}

// replay is one session while its events are read.
type replay struct {
	row   sessionRow
	state journal.State
	prev  []byte
	// command is the run of events of one command.
	command      string
	first, count int64
	// seqs are the sequences of open attempts, ids their turn and call.
	seqs                            map[string][]byte
	ids                             map[string][2]string
	commands, attempts, permissions digest
}

// session reads the events of one session and compares what they say with what
// is recorded beside them.
func (v *verifier) session(row sessionRow) {
	p := &replay{row: row, prev: firstLink(row.session), seqs: map[string][]byte{}, ids: map[string][2]string{}}
	whole, err := v.events(p)
	if err != nil {
		v.r.add(row.session, 0, err.Error())
	}
	if !whole {
		return
	}
	p.endCommand()
	for id, seqs := range p.seqs {
		p.attempts.add(id, p.ids[id][0], p.ids[id][1], int64(1), seqs)
	}
	v.r.Open += int64(len(p.seqs))
	for _, c := range []struct {
		wrong bool
		text  string
	}{
		{p.state.Head != row.head, "the last event is not the one that is recorded as last"},
		{!bytes.Equal(p.prev, row.link), "the last event does not fit the session's check sum"},
		{string(p.state.Last) != row.last, "whether the session is closed is recorded wrongly"},
		{int64(len(p.seqs)) != row.open, "the number of open tool attempts is recorded wrongly"},
	} {
		if c.wrong {
			v.r.add(row.session, 0, c.text)
		}
	}
	v.records(p)
	if _, err := scanLease(v.tx.QueryRowContext(v.ctx, leaseQuery, row.sid)); err != nil {
		v.r.add(row.session, 0, err.Error())
	}
}

// events reads all events of a session. whole is false where one could not be
// followed.
func (v *verifier) events(p *replay) (whole bool, err error) {
	rows, err := v.tx.QueryContext(v.ctx, "SELECT id, "+eventColumns+" FROM events WHERE id > ? AND id <= ? ORDER BY id", key(p.row.sid, 0), key(p.row.sid, maxSeq))
	if err != nil {
		return false, err
	}
	defer func() { _ = rows.Close() }() // read only
	whole = true
	for next := int64(1); rows.Next(); next++ {
		var id int64
		var body, link []byte
		if err := rows.Scan(&id, &body, &link); err != nil {
			return false, err
		}
		if id != key(p.row.sid, next) {
			return false, damaged("event %d is missing", next)
		}
		e, err := decode(p.row, next, p.prev, body, link)
		p.prev = link
		if err == nil && whole {
			err = p.follow(e)
		}
		if err != nil {
			v.r.add(p.row.session, next, err.Error())
			whole = false
		}
		if v.r.Events++; v.r.Events%1000 == 0 {
			v.progress(v.r.Events, v.total)
		}
	}
	v.progress(v.r.Events, v.total)
	return whole, rows.Err()
}

// follow takes the next event.
func (p *replay) follow(e journal.Event) error {
	if err := p.state.Apply(e); err != nil {
		return err
	}
	k, err := journal.KeysOf(e)
	if err != nil {
		return err
	}
	if e.CommandID != p.command || e.CommandID == "" {
		p.endCommand()
		p.command, p.first = e.CommandID, e.Sequence
	}
	p.count++
	if k.PermissionID != "" {
		p.permissions.add(k.PermissionID)
	}
	id := e.ToolAttemptID
	if id == "" {
		return nil
	}
	if e.Type == journal.ToolScheduled {
		p.ids[id] = [2]string{e.TurnID, k.ToolCallID}
	}
	p.seqs[id] = binary.AppendUvarint(p.seqs[id], uint64(e.Sequence))
	if e.Type.Ends() {
		p.attempts.add(id, p.ids[id][0], p.ids[id][1], int64(0), p.seqs[id])
		delete(p.seqs, id)
		delete(p.ids, id)
	}
	return nil
}

func (p *replay) endCommand() {
	if p.command != "" {
		p.commands.add(p.command, p.first, p.count)
	}
	p.command, p.count = "", 0
}

// records compares what events are found by with the events.
func (v *verifier) records(p *replay) {
	for _, c := range []struct {
		what, query string
		want        digest
		add         func(*digest, *sql.Rows) error
	}{
		{"commands", "SELECT command, first, count FROM commands WHERE sid = ?", p.commands, func(d *digest, rows *sql.Rows) error {
			var id string
			var first, count int64
			err := rows.Scan(&id, &first, &count)
			d.add(id, first, count)
			return err
		}},
		{"permission requests", "SELECT permission FROM permissions WHERE sid = ?", p.permissions, func(d *digest, rows *sql.Rows) error {
			var id string
			err := rows.Scan(&id)
			d.add(id)
			return err
		}},
		{"tool attempts", "SELECT attempt, turn, call, open, events FROM attempts WHERE sid = ?", p.attempts, func(d *digest, rows *sql.Rows) error {
			var id, turn, call string
			var open int64
			var seqs []byte
			err := rows.Scan(&id, &turn, &call, &open, &seqs)
			d.add(id, turn, call, open, seqs)
			return err
		}},
	} {
		have, err := v.digest(c.query, p.row.sid, c.add)
		if err != nil {
			v.r.add(p.row.session, 0, err.Error())
		} else if have != c.want {
			v.r.add(p.row.session, 0, "the record of the "+c.what+" does not fit the events")
		}
	}
}

func (v *verifier) digest(query string, sid int64, add func(*digest, *sql.Rows) error) (digest, error) {
	var d digest
	rows, err := v.tx.QueryContext(v.ctx, query, sid)
	if err != nil {
		return d, err
	}
	defer func() { _ = rows.Close() }() // read only
	for rows.Next() {
		if err := add(&d, rows); err != nil {
			return d, err
		}
	}
	return d, rows.Err()
}
