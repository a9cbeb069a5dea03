package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"sync/atomic"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/sqlite"
	"github.com/bladehost/bladehost/host/journal"
)

const (
	// maxBatch bounds the requests that share one commit.
	maxBatch = 128
	// checkpointAfter is how many commits the log may hold before it is moved to
	// the file.
	checkpointAfter = 512
)

// request is one thing to write. do runs in the writer's transaction and may run
// again in a later one if that was rolled back as a whole.
type request struct {
	do   func(w *writer, r *request) error
	done chan error
	// taken says that the writer has it; before that it can be taken back.
	state   atomic.Int32
	session string
	err     error
	// mark is the last event that it wrote, if it wrote any.
	mark mark
}

// mark is an event by which its transaction is found.
type mark struct {
	sid, seq int64
	link     []byte
}

const (
	requestQueued int32 = iota
	requestTaken
	requestDropped
)

// writer is the one connection that writes, and what is prepared on it.
type writer struct {
	s    *Store
	db   *sql.DB
	conn *sql.Conn
	// broken is why the file must be opened anew before anything else is written.
	broken  error
	commits int
	stmts   []*sql.Stmt
	// shared keeps the file -shm whole while the others are open.
	shared io.Closer
	// rows and leases are what the file has, as of version: SQLite's number that
	// changes when another connection writes. A transaction that is rolled back
	// empties them.
	rows    map[string]sessionRow
	leases  map[int64]leaseRow
	version int64

	getSession, addSession, setSession, setMeta   *sql.Stmt
	addEvent, addAttempt, getAttempt, setAttempt  *sql.Stmt
	addPermission, addCommand, getLease, putLease *sql.Stmt
	getVersion                                    *sql.Stmt
	begin, commit, save, keepOne, undoOne, undo   *sql.Stmt
}

// close frees the statements first: SQLite keeps the file open for them.
func (w *writer) close() error {
	var errs []error
	for _, s := range w.stmts {
		errs = append(errs, s.Close())
	}
	if w.shared != nil { // SQLite leaves the log where another one shares the file
		errs = append(errs, w.shared.Close())
	}
	return errors.Join(append(errs, w.conn.Close(), w.db.Close())...)
}

// owns reports whether an instance still has leases, as far as can be known.
func owns(q querier, instance string) bool {
	if instance == "" {
		return false
	}
	var n int
	err := q.QueryRowContext(context.Background(), "SELECT count(*) FROM (SELECT 1 FROM leases WHERE instance = ? LIMIT 1)", instance).Scan(&n)
	return err != nil || n > 0
}

// end moves the log to the file, if nobody else is at it, and closes. Whoever opens
// next would do it too.
func (w *writer) end(alone bool) error {
	if w.broken == nil && alone {
		_ = checkpoint(context.Background(), w.conn, "TRUNCATE") // the log is as durable
	}
	return w.close()
}

// upgrade brings an older file to this version.
func (w *writer) upgrade(ctx context.Context) error {
	v, err := checkVersion(ctx, w.conn, w.s.path)
	if err != nil || v == version {
		return err
	}
	if _, err := w.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return readError(w.s.path, err)
	}
	if v, err = checkVersion(ctx, w.conn, w.s.path); err == nil && v < version { // another process may have been first
		err = migrate(ctx, w.conn, v)
	}
	if err == nil {
		_, err = w.conn.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		_, _ = w.conn.ExecContext(ctx, "ROLLBACK") // it may be rolled back already
		return readError(w.s.path, err)
	}
	return nil
}

func (w *writer) prepare(ctx context.Context) error {
	for _, p := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&w.getSession, sessionQuery},
		{&w.addSession, "INSERT INTO sessions (sid, session, head, link, last, open, at, sum) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"},
		{&w.setSession, "UPDATE sessions SET head = ?, link = ?, last = ?, open = ?, at = ?, sum = ? WHERE sid = ?"},
		{&w.setMeta, "UPDATE meta SET sessions = ?, sum = ? WHERE id = 1"},
		{&w.addEvent, "INSERT INTO events (id, body, link) VALUES (?, ?, ?)"},
		{&w.addAttempt, "INSERT INTO attempts (sid, attempt, turn, call, open, events) VALUES (?, ?, ?, ?, ?, ?)"},
		{&w.getAttempt, "SELECT id, open, events FROM attempts WHERE sid = ? AND attempt = ?"},
		{&w.setAttempt, "UPDATE attempts SET open = ?, events = ? WHERE id = ?"},
		{&w.addPermission, "INSERT INTO permissions (sid, permission) VALUES (?, ?)"},
		{&w.addCommand, "INSERT INTO commands (sid, command, first, count) VALUES (?, ?, ?, ?)"},
		{&w.getLease, leaseQuery},
		{&w.getVersion, "PRAGMA data_version"},
		{&w.begin, "BEGIN IMMEDIATE"}, {&w.commit, "COMMIT"}, {&w.undo, "ROLLBACK"},
		{&w.save, "SAVEPOINT one"}, {&w.keepOne, "RELEASE one"}, {&w.undoOne, "ROLLBACK TO one"},
		{&w.putLease, "INSERT INTO leases (sid, body, instance, sum) VALUES (?, ?, ?, ?) ON CONFLICT (sid) DO UPDATE SET body = excluded.body, instance = excluded.instance, sum = excluded.sum"},
	} {
		var err error
		if *p.stmt, err = w.conn.PrepareContext(ctx, p.text); err != nil {
			return err
		}
		w.stmts = append(w.stmts, *p.stmt)
	}
	return nil
}

// submit queues a request and waits for its outcome. A request that was not
// begun when ctx ends is taken back, so its outcome is known.
func (s *Store) submit(ctx context.Context, session string, do func(w *writer, r *request) error) error {
	if err := journal.ValidSessionID(session); err != nil {
		return err
	}
	r := &request{do: do, done: make(chan error, 1), session: session}
	notWritten := func(why error) error {
		return abi.NewError(abi.CodeJournalWrite, "the journal %s was not written: %v", s.path, why).Because(why)
	}
	if s.opt.ReadOnly {
		return notWritten(errors.New("it is open for reading only"))
	}
	if ctx.Err() != nil {
		return notWritten(context.Cause(ctx))
	}
	if err := s.enqueue(ctx, r); err != nil {
		return notWritten(err)
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		if r.state.CompareAndSwap(requestQueued, requestDropped) {
			return notWritten(context.Cause(ctx))
		}
		select {
		case err := <-r.done:
			return err
		default:
			return abi.NewError(abi.CodeUnknownOutcome, "the journal %s was being written when the time was up: %v", s.path, context.Cause(ctx)).Because(context.Cause(ctx))
		}
	}
}

// enqueue hands a request to the writer, which answers all that it was handed
// before it ends.
func (s *Store) enqueue(ctx context.Context, r *request) error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.over {
		return errors.New("it is closed")
	}
	select {
	case s.queue <- r:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// write is the writing goroutine: it takes what is queued, writes it in one
// transaction, and answers when that is durable.
func (s *Store) write() {
	for {
		select {
		case r := <-s.queue:
			s.w.batch(s.gather(r))
		case <-s.stop:
			for {
				select {
				case r := <-s.queue:
					s.w.batch(s.gather(r))
				default:
					return
				}
			}
		}
	}
}

// gather takes what waits beside the first request.
func (s *Store) gather(first *request) []*request {
	list := make([]*request, 0, 16)
	for r := first; ; {
		if r.state.CompareAndSwap(requestQueued, requestTaken) {
			list = append(list, r)
		}
		if len(list) == maxBatch {
			return list
		}
		select {
		case r = <-s.queue:
		default:
			return list
		}
	}
}

func (w *writer) batch(list []*request) {
	if len(list) == 0 {
		return
	}
	err := w.attempt(list)
	for _, r := range list {
		if err != nil {
			r.err = err
		}
		if r.err == nil {
			w.s.tell(r.session)
		}
		r.done <- r.err
	}
}

// attempt writes a batch while no other store writes.
func (w *writer) attempt(list []*request) error {
	leave, err := w.s.enter(context.Background())
	if err != nil {
		return err
	}
	defer leave()
	if err = w.heal(); err == nil {
		err = w.transact(list)
	}
	if abi.CodeOf(err) == abi.CodeUnknownOutcome {
		err = w.settle(list, err)
	}
	if err == nil {
		w.checkpoint()
	}
	return err
}

// exec runs a statement of the transaction itself.
func exec(q *sql.Stmt) error {
	_, err := q.Exec()
	return err
}

// transact writes a batch. Its error is that of every request.
func (w *writer) transact(list []*request) error {
	if err := exec(w.begin); err != nil {
		return w.failed(err, false)
	}
	if err := w.refresh(); err != nil {
		return w.rollback(err)
	}
	wrote := false
	for _, r := range list {
		err := w.one(r, len(list) == 1)
		if err != nil {
			return w.rollback(err)
		}
		wrote = wrote || r.err == nil
	}
	if !wrote {
		w.forget()
		if err := exec(w.undo); err != nil {
			return w.rollback(err)
		}
		return nil
	}
	w.s.at("beforeCommit")
	if err := exec(w.commit); err != nil {
		// A write that was refused leaves the log without the end of the transaction,
		// which therefore does not count. After anything else, such as a sync that
		// failed, nobody knows.
		unknown := sqlite.KindOf(err) != sqlite.Full && sqlite.KindOf(err) != sqlite.Busy
		_ = exec(w.undo) // it may be rolled back already
		return w.failed(err, unknown)
	}
	w.s.at("afterCommit")
	w.commits++
	return nil
}

// maxRows bounds the sessions that the writer remembers.
const maxRows = 1024

// refresh forgets what is remembered if another connection wrote meanwhile.
func (w *writer) refresh() error {
	var v int64
	if err := w.getVersion.QueryRow().Scan(&v); err != nil {
		return err
	}
	if v != w.version || len(w.rows) >= maxRows || w.rows == nil {
		w.forget()
		w.version = v
	}
	return nil
}

func (w *writer) forget() { w.rows, w.leases = map[string]sessionRow{}, map[int64]leaseRow{} }

// one runs one request, so that a refused one leaves nothing; alone it is rolled
// back with its transaction. Its error is about the file.
func (w *writer) one(r *request, alone bool) error {
	defer func() {
		if r.err != nil {
			w.forget()
		}
	}()
	if alone {
		if r.err = r.do(w, r); r.err != nil && fatal(r.err) {
			return r.err
		}
		return nil
	}
	if err := exec(w.save); err != nil {
		return err
	}
	if r.err = r.do(w, r); r.err != nil {
		if fatal(r.err) {
			return r.err
		}
		if err := exec(w.undoOne); err != nil {
			return err
		}
	}
	return exec(w.keepOne)
}

func (s *Store) at(name string) {
	if s.opt.Failpoint != nil {
		s.opt.Failpoint(name)
	}
}

// fatal reports whether an error says something about the file and not about the
// request.
func fatal(err error) bool { return abi.CodeOf(err) == "" }

func (w *writer) rollback(err error) error {
	_ = exec(w.undo) // it may be rolled back already
	return w.failed(err, false)
}

// failed is the error of a whole batch. After most, the file is opened anew.
func (w *writer) failed(err error, unknown bool) error {
	w.forget()
	k := sqlite.KindOf(err)
	if k != sqlite.Busy {
		w.broken = err
	}
	var d *damage
	switch {
	case unknown:
		return abi.NewError(abi.CodeUnknownOutcome, "whether the journal %s was written is not known: %v", w.s.path, err).Because(err)
	case k == sqlite.Corrupt, k == sqlite.NotADatabase, errors.As(err, &d):
		return abi.NewError(abi.CodeJournalCorrupt, "the journal %s is damaged: %v; bladehost journal verify says where", w.s.path, err).Because(err)
	case k == sqlite.Busy:
		return abi.NewError(abi.CodeJournalWrite, "the journal %s was not written: another process kept it busy", w.s.path).Because(err)
	case k == sqlite.Full:
		return abi.NewError(abi.CodeJournalWrite, "the journal %s was not written: no space is left, or the file may not grow: %v", w.s.path, err).Because(err)
	}
	return abi.NewError(abi.CodeJournalWrite, "the journal %s was not written: %v", w.s.path, err).Because(err)
}

// settle finds out whether a transaction whose commit failed is in the file after
// all: the file is opened anew and its log moved and synced, so what is there then
// stays. A transaction is there as a whole or not at all, so one event of it tells.
func (w *writer) settle(list []*request, cause error) error {
	var m mark
	for _, r := range list {
		if r.err == nil && r.mark.sid != 0 {
			m = r.mark
		}
	}
	if m.sid == 0 || w.heal() != nil {
		return cause
	}
	var link []byte
	err := w.conn.QueryRowContext(context.Background(), "SELECT link FROM events WHERE id = ?", key(m.sid, m.seq)).Scan(&link)
	switch {
	case err == nil && bytes.Equal(link, m.link):
		return nil
	case err == nil || errors.Is(err, sql.ErrNoRows):
		return abi.NewError(abi.CodeJournalWrite, "the journal %s was not written: %v", w.s.path, cause).Because(cause)
	}
	return cause
}

// heal opens the file anew after a failure: what the system may have dropped is
// read from the disk, the log is moved to the file and synced, and everything is
// checked. Only then is written again.
func (w *writer) heal() error {
	if w.broken == nil {
		return nil
	}
	ctx := context.Background()
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = errors.Join(s.r.Close(), w.close()) // they failed already
	next, r, err := s.connect(ctx)
	if err != nil {
		// Reads fail as well until it can be opened: r is closed.
		return abi.NewError(abi.CodeJournalWrite, "the journal %s was not written: after a failure (%v) it cannot be opened again: %v", s.path, w.broken, err).Because(err)
	}
	if err := moved(ctx, next.conn); err != nil {
		return abi.NewError(abi.CodeJournalWrite, "the journal %s was not written: after a failure (%v) its log cannot be moved to the file: %v", s.path, w.broken, errors.Join(err, r.Close(), next.close())).Because(err)
	}
	*w = *next
	w.broken = nil
	s.r = r
	return nil
}

// checkpoint moves the log to the file from time to time. If that fails, the log
// just grows until it can.
func (w *writer) checkpoint() {
	if w.commits >= checkpointAfter {
		w.commits = 0
		_ = checkpoint(context.Background(), w.conn, "PASSIVE") // tried again later
	}
}
