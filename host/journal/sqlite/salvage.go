package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/journal"
)

// Lost is a run of events that cannot be read, or are not what was written.
type Lost struct {
	SessionID   string
	First, Last int64
	// Why is the first error.
	Why error
}

const (
	// missingEvents is how many events in a row may be missing of a session whose
	// length is not known, missingSessions how many sessions, until that is the end.
	missingEvents   = 4096
	missingSessions = 256
	// salvagePage is how many events are read at once, if they have no more bytes
	// than salvageBytes.
	salvagePage  = 256
	salvageBytes = 16 << 20
)

// Salvage goes through all events that can be read, of one session or of all in the
// order in which they began, whatever is wrong with the file: open it with NoCheck.
// It leaves out what is damaged, and tells lost, before it goes on. found is called
// for each event; its error ends all.
func (s *Store) Salvage(ctx context.Context, session string, found func(journal.Event) error, lost func(Lost)) error {
	name := session
	if name == "" {
		name = "all"
	}
	db, err := s.reader(ctx, name)
	if err != nil {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return readError(s.path, err)
	}
	defer func() { _ = conn.Close() }() // it only read
	v := &salvager{ctx: ctx, q: conn, only: session, found: found, lost: lost}
	count, err := sessionCount(ctx, conn)
	if err != nil {
		count = 0
		lost(Lost{Why: err})
	}
	for sid, missing := int64(1), 0; sid <= maxSID && (sid <= count || missing < missingSessions); sid++ {
		if count > 0 && sid > count {
			break
		}
		some, err := v.session(sid)
		if err != nil {
			return err
		}
		missing++
		if some {
			missing = 0
		}
	}
	if session != "" && !v.seen {
		return abi.NewError(abi.CodeJournalMissing, "the journal has no session %q that can be read; bladehost journal ls lists those it has", clip(session))
	}
	return nil
}

type salvager struct {
	ctx   context.Context
	q     querier
	only  string
	found func(journal.Event) error
	lost  func(Lost)
	seen  bool

	// row is the session at hand; prev is the link of the event before, nil if that
	// was lost; gap is the run of lost events at hand.
	row  sessionRow
	prev []byte
	gap  Lost
}

// session reads the session of a number. some reports whether there is one.
func (v *salvager) session(sid int64) (some bool, err error) {
	v.row = sessionRow{sid: sid}
	bad := v.row.scan(v.q.QueryRowContext(v.ctx, "SELECT sid, session, head, link, last, open, at, sum FROM sessions WHERE sid = ?", sid))
	known := bad == nil
	if !known { // its events tell its name
		v.row = sessionRow{sid: sid}
	} else if v.only != "" && v.row.session != v.only {
		return true, nil
	}
	v.prev, v.gap = firstLink(v.row.session), Lost{}
	if !known {
		v.prev = nil
	}
	limit := v.row.head
	if !known {
		limit = maxSeq
	}
	last := int64(0)
	for next := int64(1); next <= limit && (known || next-last <= missingEvents); {
		if v.ctx.Err() != nil {
			return some, readError("", context.Cause(v.ctx))
		}
		n, err := v.page(next, min(limit, next+salvagePage-1))
		if err != nil {
			return some, err
		}
		if n > last {
			some, last = true, n
		}
		next += salvagePage
	}
	if known {
		v.close()
	} else if some {
		v.gap = Lost{SessionID: v.row.session, Why: bad}
		v.lost(v.gap)
	}
	return some || known, nil
}

// page reads some events: at once if that works, else one by one. last is the last
// sequence that was read.
func (v *salvager) page(from, to int64) (last int64, err error) {
	type one struct {
		id         int64
		body, link []byte
	}
	var list []one
	size := 0
	bad := func() error {
		rows, err := v.q.QueryContext(v.ctx, "SELECT id, "+eventColumns+" FROM events WHERE id >= ? AND id <= ? ORDER BY id", key(v.row.sid, from), key(v.row.sid, to))
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }() // read only
		for rows.Next() {
			var o one
			if err := rows.Scan(&o.id, &o.body, &o.link); err != nil {
				return err
			}
			if size += len(o.body); size > salvageBytes {
				return errors.New("they are large") // one by one
			}
			list = append(list, o)
		}
		return rows.Err()
	}()
	if bad != nil {
		list = nil
	}
	for seq := from; seq <= to; seq++ {
		o := one{id: key(v.row.sid, seq)}
		why := error(sql.ErrNoRows)
		switch {
		case bad != nil:
			why = v.q.QueryRowContext(v.ctx, "SELECT "+eventColumns+" FROM events WHERE id = ?", o.id).Scan(&o.body, &o.link)
		case len(list) > 0 && list[0].id == o.id:
			o, list, why = list[0], list[1:], nil
		}
		if err := v.event(seq, o.body, o.link, why); err != nil {
			return last, err
		}
		if why == nil {
			last = seq
		}
	}
	return last, nil
}

// event takes one event, or why there is none.
func (v *salvager) event(seq int64, body, link []byte, why error) error {
	if errors.Is(why, sql.ErrNoRows) {
		why = damaged("the event is missing")
	}
	var e journal.Event
	if why == nil {
		if e, why = journal.Decode(body); why == nil && v.row.session == "" {
			v.row.session = e.SessionID
		}
		switch {
		case why != nil:
		case e.Sequence != seq || e.SessionID != v.row.session:
			why = damaged("it says that it is event %d of session %q", e.Sequence, clip(e.SessionID))
		case v.prev != nil && !bytes.Equal(link, linkOf(v.prev, body)):
			why = errDamaged
		}
		v.prev = link
	} else {
		v.prev = nil
	}
	if why != nil {
		if v.gap.First == 0 {
			v.gap = Lost{SessionID: v.row.session, First: seq, Why: why}
		}
		v.gap.Last = seq
		return nil
	}
	v.close()
	if v.only != "" && e.SessionID != v.only {
		return nil
	}
	v.seen = true
	return v.found(e)
}

// close tells of the run of lost events, if there is one.
func (v *salvager) close() {
	if v.gap.First > 0 {
		v.gap.SessionID = v.row.session
		v.seen = v.seen || v.row.session == v.only
		v.lost(v.gap)
	}
	v.gap = Lost{}
}
