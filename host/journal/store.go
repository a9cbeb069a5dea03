package journal

import (
	"context"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// Store keeps the events of sessions. It checks what it is given (see Prepare)
// but knows no state machine: use a Journal, not a Store. All methods are safe
// for concurrent use. What is returned is the caller's own.
type Store interface {
	// Append adds a batch, all of it or nothing, and returns only when it is
	// durable. Errors have the codes DURABLE_SEQUENCE_CONFLICT (details expected
	// and actual), DURABLE_EVENT_INVALID, DURABLE_ID_REUSED,
	// DURABLE_COMMAND_CONFLICT (the command id is there already), one of
	// DURABLE_EXECUTION_LEASE_…, DURABLE_STORE_WRITE_FAILED (nothing was written),
	// or DURABLE_COMMAND_OUTCOME_UNKNOWN.
	Append(ctx context.Context, session string, drafts []Draft, opt AppendOptions) ([]Event, error)
	// Read returns a page of a session, oldest first. A session without events has
	// an empty page.
	Read(ctx context.Context, session string, opt ReadOptions) (Page, error)
	// Head is the last sequence of a session, 0 where there is none.
	Head(ctx context.Context, session string) (int64, error)
	// Command returns the events of a command, or none.
	Command(ctx context.Context, session, commandID string) ([]Event, error)
	// Attempt returns the events of a tool attempt, or none.
	Attempt(ctx context.Context, session, attemptID string) ([]Event, error)
	// Snapshot returns what a Journal starts from, without reading the rest.
	Snapshot(ctx context.Context, session string) (Snapshot, error)
	// Sessions lists sessions by id. After is exclusive, limit 1 to MaxPage.
	Sessions(ctx context.Context, after string, limit int) ([]SessionInfo, error)
	// Changed is closed when the session may have got events by this store since the
	// call. Events of other processes do not close it: look from time to time too.
	Changed(session string) <-chan struct{}
	Leases
	// Close ends the store; what was acknowledged is kept.
	Close() error
}

// Leases keeps who owns a session. Each takeover raises the fencing token, and
// only the newest may append. A store without leases answers
// DURABLE_EXECUTION_LEASE_NOT_SUPPORTED.
type Leases interface {
	// Lease is the session's last lease, and false if it never had one.
	Lease(ctx context.Context, session string) (Lease, bool, error)
	// Acquire takes a lease that is free, has ended, or whose owner is dead. The
	// same owner and lease id again is the same lease. Else the error is
	// DURABLE_EXECUTION_LEASE_CONFLICT with the Lease in its details.
	Acquire(ctx context.Context, session string, req LeaseRequest) (Lease, error)
	// Renew makes the lease end ttl from now. An ended lease is not renewed.
	Renew(ctx context.Context, session string, f tool.Fence, ttl time.Duration) (Lease, error)
	// Assert is nil while f is the session's lease and has not ended.
	Assert(ctx context.Context, session string, f tool.Fence) error
	// With runs op while nobody can take the lease over. op must be short and must
	// not use the store.
	With(ctx context.Context, session string, f tool.Fence, op func(context.Context) error) error
	// Release ends the lease. The session stays one that had a lease.
	Release(ctx context.Context, session string, f tool.Fence) error
	// Handoff gives the lease to another owner, who acquires it by the same owner
	// and lease id. Nobody else can come in between while it has not ended.
	Handoff(ctx context.Context, session string, f tool.Fence, to LeaseRequest) (Lease, error)
}

// AppendOptions are what an append depends on.
type AppendOptions struct {
	// ExpectedLast is the sequence that must be the last: nil means whatever is, 0
	// that there must be none.
	ExpectedLast *int64
	// Fence is the lease to append under; a session that ever had one needs it.
	Fence *tool.Fence
}

// MaxPage bounds a page.
const MaxPage = 1000

// ReadOptions choose a page.
type ReadOptions struct {
	// After is exclusive; 0 starts at the beginning. Beyond the head is
	// DURABLE_CURSOR_INVALID.
	After int64
	// Limit is 1 to MaxPage; 0 means 500.
	Limit int
}

const defaultPage = 500

// Page is a part of a session.
type Page struct {
	Events []Event
	// Head is the last sequence of the session, Next the After of the next page.
	Head, Next int64
	HasMore    bool
}

// Bounds checks the options against a head. Stores call it.
func (o ReadOptions) Bounds(head int64) (after int64, limit int, err error) {
	if o.Limit == 0 {
		o.Limit = defaultPage
	}
	if o.Limit < 1 || o.Limit > MaxPage {
		return 0, 0, abi.NewError(abi.CodeCursor, "a page of %d events was asked for; it may have 1 to %d", o.Limit, MaxPage)
	}
	if o.After < 0 || o.After > head {
		return 0, 0, abi.NewError(abi.CodeCursor, "the cursor %d is not in this session, whose last sequence is %d", o.After, head)
	}
	return o.After, o.Limit, nil
}

// Snapshot is the state of a session as far as it is open.
type Snapshot struct {
	Head int64
	// Last is the type of the last session event, or "".
	Last Type
	// Open are the events of all tool attempts that have not ended, by sequence.
	Open []Event
}

// SessionInfo is one line of a list of sessions.
type SessionInfo struct {
	SessionID string `json:"sessionId"`
	Head      int64  `json:"lastSequence"`
	// Closed says that the last session event is session_closed.
	Closed bool `json:"closed"`
	// Open counts the tool attempts that have not ended.
	Open int `json:"openAttempts"`
	// LastAt is when the last event was recorded.
	LastAt string `json:"lastRecordedAt"`
	Lease  *Lease `json:"lease,omitempty"`
}

// Lease says who owns a session and until when.
type Lease struct {
	SessionID string `json:"sessionId"`
	OwnerID   string `json:"ownerId"`
	LeaseID   string `json:"leaseId"`
	// Token only grows for a session, with each takeover.
	Token      int64  `json:"fencingToken"`
	AcquiredAt string `json:"acquiredAt"`
	RenewedAt  string `json:"renewedAt"`
	ExpiresAt  string `json:"expiresAt"`
	// Renewals counts what changed RenewedAt: a clock can be set back, it cannot.
	Renewals int64 `json:"renewals"`
	// Released says that the owner gave it back.
	Released bool `json:"released,omitempty"`
}

// Fence is the part of a lease that its owner shows.
func (l Lease) Fence() tool.Fence { return tool.Fence{LeaseID: l.LeaseID, Token: l.Token} }

// LeaseRequest asks for a lease.
type LeaseRequest struct {
	OwnerID, LeaseID string
	// TTL is 2 ms to 24 h.
	TTL time.Duration
	// Observed is a lease that the caller saw unchanged for longer than its whole
	// length by a clock that cannot be set: it counts as ended, whatever the time
	// of day says.
	Observed *Lease
}

const (
	minTTL = 2 * time.Millisecond
	maxTTL = 24 * time.Hour
)

// Check refuses a request that cannot be granted. Stores call it.
func (r LeaseRequest) Check() error {
	for _, f := range []struct{ name, v string }{{"OwnerID", r.OwnerID}, {"LeaseID", r.LeaseID}} {
		if f.v == "" || len(f.v) > MaxID {
			return abi.NewError(abi.CodeLeaseInvalid, "the %s of a lease has %d bytes; it must have 1 to %d", f.name, len(f.v), MaxID)
		}
	}
	return CheckTTL(r.TTL)
}

// CheckTTL refuses a length that no lease may have.
func CheckTTL(d time.Duration) error {
	if d < minTTL || d > maxTTL {
		return abi.NewError(abi.CodeLeaseInvalid, "a lease of %v was asked for; it may be %v to %v long", d, minTTL, maxTTL)
	}
	return nil
}

// At puts the times of a lease that is granted or renewed at now.
func (l *Lease) At(now time.Time, ttl time.Duration) {
	l.RenewedAt, l.ExpiresAt = timestamp(now), timestamp(now.Add(ttl+time.Millisecond-1).Truncate(time.Millisecond))
	l.Renewals++
}

// Release ends a lease at now.
func (l *Lease) Release(now time.Time) {
	l.Released = true
	l.Renewals++
	l.ExpiresAt = timestamp(now)
}

// Ended reports whether the lease is over at now.
func (l Lease) Ended(now time.Time) bool {
	end, err := ParseTime(l.ExpiresAt)
	return l.Released || err != nil || !now.Before(end)
}

// Holds is nil if f is this lease and it has not ended.
func (l Lease) Holds(f tool.Fence, now time.Time) error {
	if l.LeaseID != f.LeaseID || l.Token != f.Token {
		return abi.NewError(abi.CodeLeaseStale, "the session %s is owned by %s now (token %d, not %d)", clip(l.SessionID), clip(l.OwnerID), l.Token, f.Token).With(map[string]any{"lease": l})
	}
	if l.Ended(now) {
		return abi.NewError(abi.CodeLeaseStale, "the lease of session %s ended at %s", clip(l.SessionID), l.ExpiresAt).With(map[string]any{"lease": l})
	}
	return nil
}

// Grant decides about a request: the lease that follows from the last one, which
// may be nil. dead says that the last owner is known not to live any more.
func (r LeaseRequest) Grant(session string, last *Lease, now time.Time, dead bool) (Lease, error) {
	next := Lease{SessionID: session, OwnerID: r.OwnerID, LeaseID: r.LeaseID, Token: 1, AcquiredAt: timestamp(now)}
	if last != nil {
		same := last.OwnerID == r.OwnerID && last.LeaseID == r.LeaseID
		observed := r.Observed != nil && r.Observed.LeaseID == last.LeaseID && r.Observed.Token == last.Token && r.Observed.Renewals == last.Renewals
		switch {
		case same && !last.Ended(now):
			next = *last
		case same || last.Ended(now) || dead || observed:
			next.Token = last.Token + 1
			next.Renewals = last.Renewals
		default:
			return Lease{}, abi.NewError(abi.CodeLeaseConflict, "session %s is owned by %s until %s; stop that process, or wait until then", clip(session), clip(last.OwnerID), last.ExpiresAt).With(map[string]any{"lease": *last})
		}
	}
	next.At(now, r.TTL)
	return next, nil
}

// NeedsFence decides whether an append may go on: last is the session's last
// lease or nil.
func NeedsFence(session string, last *Lease, f *tool.Fence, now time.Time) error {
	switch {
	case last == nil && f == nil:
		return nil
	case last == nil:
		return abi.NewError(abi.CodeLeaseStale, "session %s has no lease, and none was ever granted with the id %q", clip(session), clip(f.LeaseID))
	case f == nil:
		return abi.NewError(abi.CodeLeaseRequired, "session %s was leased (token %d), so nothing is written without a lease", clip(session), last.Token)
	}
	return last.Holds(*f, now)
}

// Expected is the conflict of an append that expects another last sequence.
func Expected(session string, want *int64, head int64) error {
	if want == nil || *want == head {
		return nil
	}
	return abi.NewError(abi.CodeSequence, "session %s ends with sequence %d, not %d", clip(session), head, *want).With(map[string]int64{"expected": *want, "actual": head})
}
