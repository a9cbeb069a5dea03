package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/sqlite"
	"github.com/bladehost/bladehost/host/journal"
)

// Append implements journal.Store.
func (s *Store) Append(ctx context.Context, session string, drafts []journal.Draft, opt journal.AppendOptions) ([]journal.Event, error) {
	var events []journal.Event
	err := s.submit(ctx, session, func(w *writer, r *request) error {
		var err error
		events, r.mark, err = w.append(session, drafts, opt)
		return err
	})
	if err != nil {
		return nil, err
	}
	return events, nil
}

func (w *writer) append(session string, drafts []journal.Draft, opt journal.AppendOptions) ([]journal.Event, mark, error) {
	row, err := w.session(session)
	if err != nil {
		return nil, mark{}, err
	}
	lease, err := w.lease(row.sid)
	if err != nil {
		return nil, mark{}, err
	}
	now := w.s.clock()
	if err := journal.NeedsFence(session, lease.known(), opt.Fence, now); err != nil {
		return nil, mark{}, err
	}
	events, keys, err := journal.Prepare(session, drafts, row.head, now)
	if err != nil {
		return nil, mark{}, err
	}
	if err := journal.Expected(session, opt.ExpectedLast, row.head); err != nil {
		return nil, mark{}, err
	}
	if row.head+int64(len(events)) > maxSeq {
		return nil, mark{}, abi.NewError(abi.CodeJournalWrite, "session %s has %d events; a session cannot have more than %d", session, row.head, int64(maxSeq))
	}
	if err := w.provide(&row); err != nil {
		return nil, mark{}, err
	}
	if id := events[0].CommandID; id != "" {
		if err := unique(w.addCommand, func() error { return journal.CommandKnown(id) }, row.sid, id, events[0].Sequence, len(events)); err != nil {
			return nil, mark{}, err
		}
	}
	for i, e := range events {
		if err := w.add(&row, e, keys[i]); err != nil {
			return nil, mark{}, err
		}
	}
	return events, mark{row.sid, row.head, row.link}, w.keep(row)
}

// unique runs an insert whose value may be there already.
func unique(stmt *sql.Stmt, taken func() error, args ...any) error {
	_, err := stmt.Exec(args...)
	if sqlite.KindOf(err) == sqlite.Constraint {
		return taken()
	}
	return err
}

// provide makes the row of a new session.
func (w *writer) provide(row *sessionRow) error {
	if row.sid != 0 {
		return nil
	}
	n, err := sessionCount(context.Background(), w.conn)
	if err != nil {
		return err
	}
	row.sid = n + 1
	if row.sid > maxSID {
		return abi.NewError(abi.CodeJournalWrite, "the journal has %d sessions and cannot take more; use a new file", n)
	}
	if _, err := w.addSession.Exec(row.args()...); err != nil {
		return err
	}
	_, err = w.setMeta.Exec(row.sid, sumOf("meta", row.sid))
	return err
}

// keep writes the row of a session.
func (w *writer) keep(row sessionRow) error {
	if _, err := w.setSession.Exec(row.head, row.link, row.last, row.open, row.at, row.sum(), row.sid); err != nil {
		return err
	}
	w.rows[row.session] = row
	return nil
}

// add writes one event and what it is found by.
func (w *writer) add(row *sessionRow, e journal.Event, k journal.Keys) error {
	body, err := e.Encode()
	if err != nil {
		return err
	}
	row.link = linkOf(row.link, body)
	row.head, row.at = e.Sequence, e.RecordedAt
	if _, err := w.addEvent.Exec(key(row.sid, e.Sequence), body, row.link); err != nil {
		return err
	}
	switch {
	case e.Type == journal.SessionCreated || e.Type == journal.SessionClosed:
		row.last = string(e.Type)
		return nil
	case e.Type == journal.ToolScheduled:
		row.open++
		// Which of the two ids is taken is found out only if one is.
		taken := func() error {
			return journal.Reused("tool attempt id or tool call id", e.ToolAttemptID+" / "+k.ToolCallID)
		}
		return unique(w.addAttempt, taken, row.sid, e.ToolAttemptID, e.TurnID, k.ToolCallID, 1, binary.AppendUvarint(nil, uint64(e.Sequence)))
	case k.PermissionID != "":
		if err := unique(w.addPermission, func() error { return journal.Reused("permission request id", k.PermissionID) }, row.sid, k.PermissionID); err != nil {
			return err
		}
	}
	return w.touch(row, e)
}

// touch adds an event to its attempt.
func (w *writer) touch(row *sessionRow, e journal.Event) error {
	var id, open int64
	var list []byte
	err := w.getAttempt.QueryRow(row.sid, e.ToolAttemptID).Scan(&id, &open, &list)
	if errors.Is(err, sql.ErrNoRows) {
		return abi.NewError(abi.CodeTransition, "%s is for the tool attempt %s, which was never scheduled", e.Type, e.ToolAttemptID)
	}
	if err != nil {
		return err
	}
	if open == 0 {
		return abi.NewError(abi.CodeTransition, "%s is for the tool attempt %s, which has ended", e.Type, e.ToolAttemptID)
	}
	if e.Type.Ends() {
		open = 0
		row.open--
	}
	_, err = w.setAttempt.Exec(open, binary.AppendUvarint(list, uint64(e.Sequence)), id)
	return err
}
