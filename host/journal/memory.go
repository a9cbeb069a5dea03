package journal

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// Memory is a store that lives as long as the process: for tests, and for
// sessions of which nothing should remain. Use NewMemory.
type Memory struct {
	clock func() time.Time

	mu       sync.Mutex
	closed   bool
	sessions map[string]*memorySession
}

type memorySession struct {
	events   []Event
	last     Type
	commands map[string][]int
	attempts map[string][]int
	open     map[string]bool
	calls    map[[2]string]bool
	asked    map[string]bool
	lease    *Lease
	changed  chan struct{}
	// op is full while a takeover or With happens.
	op chan struct{}
}

// NewMemory makes an empty store. A nil clock is time.Now.
func NewMemory(clock func() time.Time) *Memory {
	if clock == nil {
		clock = time.Now
	}
	return &Memory{clock: clock, sessions: map[string]*memorySession{}}
}

func (m *Memory) session(id string) *memorySession {
	s := m.sessions[id]
	if s == nil {
		s = &memorySession{
			commands: map[string][]int{}, attempts: map[string][]int{}, open: map[string]bool{},
			calls: map[[2]string]bool{}, asked: map[string]bool{}, changed: make(chan struct{}), op: make(chan struct{}, 1),
		}
		m.sessions[id] = s
	}
	return s
}

// enter locks the store for one operation.
func (m *Memory) enter(ctx context.Context, session string) error {
	if err := ctx.Err(); err != nil {
		return abi.NewError(abi.CodeJournalWrite, "the journal was not asked: %v", context.Cause(ctx)).Because(context.Cause(ctx))
	}
	if err := ValidSessionID(session); err != nil {
		return err
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return abi.NewError(abi.CodeJournalWrite, "the journal is closed")
	}
	return nil
}

// Append implements Store.
func (m *Memory) Append(ctx context.Context, session string, drafts []Draft, opt AppendOptions) ([]Event, error) {
	if err := m.enter(ctx, session); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	s := m.sessions[session]
	if s == nil {
		s = m.session(session)
		defer func() {
			if len(s.events) == 0 && s.lease == nil {
				delete(m.sessions, session)
			}
		}()
	}
	now := m.clock()
	head := int64(len(s.events))
	if err := NeedsFence(session, s.lease, opt.Fence, now); err != nil {
		return nil, err
	}
	events, keys, err := Prepare(session, drafts, head, now)
	if err != nil {
		return nil, err
	}
	if err := Expected(session, opt.ExpectedLast, head); err != nil {
		return nil, err
	}
	if err := s.fresh(events, keys); err != nil {
		return nil, err
	}
	for i, e := range events {
		s.add(e, keys[i])
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return own(events), nil
}

// Reused is the error of an id that must be new and is not. Stores use it.
func Reused(what, id string) error {
	return abi.NewError(abi.CodeReused, "the %s %q was used before in the session", what, clip(id))
}

// CommandKnown is the error of a command id that is in the journal. Stores use it.
func CommandKnown(id string) error {
	return abi.NewError(abi.CodeCommand, "the command %q is in the journal already", clip(id))
}

func (s *memorySession) fresh(events []Event, keys []Keys) error {
	if id := events[0].CommandID; id != "" && s.commands[id] != nil {
		return CommandKnown(id)
	}
	attempts, asked, calls := map[string]bool{}, map[string]bool{}, map[[2]string]bool{}
	for i, e := range events {
		k := keys[i]
		call := [2]string{e.TurnID, k.ToolCallID}
		switch {
		case e.Type == ToolScheduled && (s.attempts[e.ToolAttemptID] != nil || attempts[e.ToolAttemptID]):
			return Reused("tool attempt id", e.ToolAttemptID)
		case e.Type == ToolScheduled && (s.calls[call] || calls[call]):
			return Reused("tool call id", k.ToolCallID)
		case k.PermissionID != "" && (s.asked[k.PermissionID] || asked[k.PermissionID]):
			return Reused("permission request id", k.PermissionID)
		}
		if e.Type == ToolScheduled {
			attempts[e.ToolAttemptID], calls[call] = true, true
		}
		if k.PermissionID != "" {
			asked[k.PermissionID] = true
		}
	}
	return nil
}

func (s *memorySession) add(e Event, k Keys) {
	i := len(s.events)
	s.events = append(s.events, e)
	if e.CommandID != "" {
		s.commands[e.CommandID] = append(s.commands[e.CommandID], i)
	}
	if !e.Type.ofTool() {
		s.last = e.Type
		return
	}
	s.attempts[e.ToolAttemptID] = append(s.attempts[e.ToolAttemptID], i)
	s.open[e.ToolAttemptID] = true
	switch {
	case e.Type == ToolScheduled:
		s.calls[[2]string{e.TurnID, k.ToolCallID}] = true
	case k.PermissionID != "":
		s.asked[k.PermissionID] = true
	case e.Type.Ends():
		delete(s.open, e.ToolAttemptID)
	}
}

// own copies events, so that nobody can change what is kept.
func own(events []Event) []Event {
	out := slices.Clone(events)
	for i := range out {
		out[i].Data = slices.Clone(out[i].Data)
	}
	return out
}

// Read implements Store.
func (m *Memory) Read(ctx context.Context, session string, opt ReadOptions) (Page, error) {
	if err := m.enter(ctx, session); err != nil {
		return Page{}, err
	}
	defer m.mu.Unlock()
	var events []Event
	if s := m.sessions[session]; s != nil {
		events = s.events
	}
	head := int64(len(events))
	after, limit, err := opt.Bounds(head)
	if err != nil {
		return Page{}, err
	}
	next := min(after+int64(limit), head)
	return Page{Events: own(events[after:next]), Head: head, Next: next, HasMore: next < head}, nil
}

// Head implements Store.
func (m *Memory) Head(ctx context.Context, session string) (int64, error) {
	if err := m.enter(ctx, session); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	if s := m.sessions[session]; s != nil {
		return int64(len(s.events)), nil
	}
	return 0, nil
}

func (m *Memory) pick(ctx context.Context, session string, which func(*memorySession) []int) ([]Event, error) {
	if err := m.enter(ctx, session); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	s := m.sessions[session]
	if s == nil {
		return nil, nil
	}
	var out []Event
	for _, i := range which(s) {
		out = append(out, s.events[i])
	}
	return own(out), nil
}

// Command implements Store.
func (m *Memory) Command(ctx context.Context, session, id string) ([]Event, error) {
	return m.pick(ctx, session, func(s *memorySession) []int { return s.commands[id] })
}

// Attempt implements Store.
func (m *Memory) Attempt(ctx context.Context, session, id string) ([]Event, error) {
	return m.pick(ctx, session, func(s *memorySession) []int { return s.attempts[id] })
}

// Snapshot implements Store.
func (m *Memory) Snapshot(ctx context.Context, session string) (Snapshot, error) {
	var sn Snapshot
	open, err := m.pick(ctx, session, func(s *memorySession) []int {
		sn.Head, sn.Last = int64(len(s.events)), s.last
		var list []int
		for id := range s.open {
			list = append(list, s.attempts[id]...)
		}
		slices.Sort(list)
		return list
	})
	sn.Open = open
	return sn, err
}

// Sessions implements Store.
func (m *Memory) Sessions(ctx context.Context, after string, limit int) ([]SessionInfo, error) {
	if _, _, err := (ReadOptions{Limit: limit}).Bounds(0); err != nil {
		return nil, err
	}
	if err := m.enter(ctx, "list"); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	var out []SessionInfo
	for id, s := range m.sessions {
		if id <= after || (len(s.events) == 0 && s.lease == nil) {
			continue
		}
		i := SessionInfo{SessionID: id, Head: int64(len(s.events)), Closed: s.last == SessionClosed, Open: len(s.open)}
		if n := len(s.events); n > 0 {
			i.LastAt = s.events[n-1].RecordedAt
		}
		if s.lease != nil {
			l := *s.lease
			i.Lease = &l
		}
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b SessionInfo) int {
		if a.SessionID < b.SessionID {
			return -1
		}
		return 1
	})
	if limit == 0 {
		limit = defaultPage
	}
	return out[:min(len(out), limit)], nil
}

// Changed implements Store.
func (m *Memory) Changed(session string) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.session(session).changed
}

// Close implements Store.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// Lease implements Leases.
func (m *Memory) Lease(ctx context.Context, session string) (Lease, bool, error) {
	if err := m.enter(ctx, session); err != nil {
		return Lease{}, false, err
	}
	defer m.mu.Unlock()
	if s := m.sessions[session]; s != nil && s.lease != nil {
		return *s.lease, true, nil
	}
	return Lease{}, false, nil
}

// Acquire implements Leases. An owner in the same process never counts as dead.
func (m *Memory) Acquire(ctx context.Context, session string, req LeaseRequest) (Lease, error) {
	if err := req.Check(); err != nil {
		return Lease{}, err
	}
	if err := m.enter(ctx, session); err != nil {
		return Lease{}, err
	}
	s := m.session(session)
	m.mu.Unlock()
	if err := s.enter(ctx); err != nil {
		return Lease{}, err
	}
	defer func() { <-s.op }()
	m.mu.Lock()
	defer m.mu.Unlock()
	next, err := req.Grant(session, s.lease, m.clock(), false)
	if err != nil {
		return Lease{}, err
	}
	s.lease = &next
	return next, nil
}

// enter waits for an operation under the lease.
func (s *memorySession) enter(ctx context.Context) error {
	select {
	case s.op <- struct{}{}:
		return nil
	case <-ctx.Done():
		return abi.NewError(abi.CodeLeaseTimeout, "an operation under the lease still runs: %v", context.Cause(ctx)).Because(context.Cause(ctx))
	}
}

// held calls f with the session's lease if the fence is right.
func (m *Memory) held(ctx context.Context, session string, f tool.Fence, do func(l *Lease, now time.Time)) (Lease, error) {
	if err := m.enter(ctx, session); err != nil {
		return Lease{}, err
	}
	defer m.mu.Unlock()
	s := m.sessions[session]
	now := m.clock()
	if s == nil || s.lease == nil {
		return Lease{}, NeedsFence(session, nil, &f, now)
	}
	if err := s.lease.Holds(f, now); err != nil {
		return Lease{}, err
	}
	do(s.lease, now)
	return *s.lease, nil
}

// Renew implements Leases.
func (m *Memory) Renew(ctx context.Context, session string, f tool.Fence, ttl time.Duration) (Lease, error) {
	if err := CheckTTL(ttl); err != nil {
		return Lease{}, err
	}
	return m.held(ctx, session, f, func(l *Lease, now time.Time) { l.At(now, ttl) })
}

// Assert implements Leases.
func (m *Memory) Assert(ctx context.Context, session string, f tool.Fence) error {
	_, err := m.held(ctx, session, f, func(*Lease, time.Time) {})
	return err
}

// With implements Leases.
func (m *Memory) With(ctx context.Context, session string, f tool.Fence, op func(context.Context) error) error {
	m.mu.Lock()
	s := m.session(session)
	m.mu.Unlock()
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer func() { <-s.op }()
	if err := m.Assert(ctx, session, f); err != nil {
		return err
	}
	return op(ctx)
}

// Release implements Leases.
func (m *Memory) Release(ctx context.Context, session string, f tool.Fence) error {
	_, err := m.held(ctx, session, f, func(l *Lease, now time.Time) { l.Release(now) })
	return err
}

// Handoff implements Leases.
func (m *Memory) Handoff(ctx context.Context, session string, f tool.Fence, to LeaseRequest) (Lease, error) {
	if err := to.Check(); err != nil {
		return Lease{}, err
	}
	return m.held(ctx, session, f, func(l *Lease, now time.Time) { *l = to.Follow(*l, now) })
}

// Follow is the lease of a handoff: of another owner, with the next token.
func (r LeaseRequest) Follow(last Lease, now time.Time) Lease {
	next := Lease{SessionID: last.SessionID, OwnerID: r.OwnerID, LeaseID: r.LeaseID, Token: last.Token + 1, AcquiredAt: timestamp(now), Renewals: last.Renewals}
	next.At(now, r.TTL)
	return next
}
