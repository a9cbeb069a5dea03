package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// GuardOptions configure Acquire. The zero value is a new lease of 30 s that is
// renewed every 10 s.
type GuardOptions struct {
	// OwnerID says who owns the session, for people; empty is this process. LeaseID
	// is new; give the ones of a handoff to take it up.
	OwnerID, LeaseID string
	// TTL is how long the lease lasts after its last renewal: 2 ms to 24 h, 0 means
	// 30 s. Heartbeat is how often it is renewed: at most TTL/2, 0 means the
	// smaller of 10 s and TTL/3.
	TTL, Heartbeat time.Duration
	// Wait is how long to wait for a lease that another one holds; 0 tries once. A
	// lease that is not renewed for its whole length counts as ended by then, even
	// if the time of day was set back. A lease that was renewed in the future, by
	// the time of day, shows that this was set back: it is watched for its whole
	// length also if Wait is 0, or until it is renewed.
	Wait time.Duration
	// Clock is the time of day; nil is time.Now.
	Clock func() time.Time
}

const (
	defaultTTL       = 30 * time.Second
	defaultHeartbeat = 10 * time.Second
	// pollLease is how often a lease that is held is looked at while waiting: short
	// against a lease, long against the cost of looking.
	pollLease = 100 * time.Millisecond
	// maxOperation bounds RunWithLease, during which nobody can take over.
	maxOperation = time.Second
)

func (o GuardOptions) withDefaults() (GuardOptions, error) {
	if o.TTL == 0 {
		o.TTL = defaultTTL
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = min(defaultHeartbeat, o.TTL/3)
	}
	if err := CheckTTL(o.TTL); err != nil {
		return o, err
	}
	if o.Heartbeat <= 0 || o.Heartbeat > o.TTL/2 {
		return o, abi.NewError(abi.CodeLeaseInvalid, "the heartbeat of a lease of %v is %v; it may be up to %v", o.TTL, o.Heartbeat, o.TTL/2)
	}
	if o.Wait < 0 {
		return o, abi.NewError(abi.CodeLeaseInvalid, "the wait for a lease is %v; it cannot be negative", o.Wait)
	}
	if o.OwnerID == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "this machine"
		}
		o.OwnerID = fmt.Sprintf("process %d on %s", os.Getpid(), host)
	}
	if o.LeaseID == "" {
		o.LeaseID = newID("lease")
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return o, nil
}

// Guard holds the lease of a session and renews it until Release, or until the
// lease is lost: when a renewal fails, when the store finds another owner, or
// when the lease's length has passed without a renewal by either clock, the time
// of day or the one that cannot be set. Then Lost is closed, once, and every
// later use fails with the first reason. It is the tool.Runtime of a session.
type Guard struct {
	leases  Leases
	session string
	opt     GuardOptions

	lost chan struct{}
	stop chan struct{}
	wg   sync.WaitGroup

	mu sync.Mutex
	// lease is the last known state, began when the request for it was sent.
	lease Lease
	began time.Time
	err   error
	over  bool
	dog   *time.Timer
	busy  func() error
}

// Acquire takes the lease of a session. Release must follow.
func Acquire(ctx context.Context, leases Leases, session string, opt GuardOptions) (*Guard, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, err
	}
	g := &Guard{leases: leases, session: session, opt: opt, lost: make(chan struct{}), stop: make(chan struct{})}
	if err := g.take(ctx); err != nil {
		return nil, err
	}
	g.mu.Lock()
	g.watch()
	g.mu.Unlock()
	g.wg.Go(g.beat) // Release and a loss end it; Release waits for it
	return g, nil
}

// take acquires the lease, and waits for one that is held.
func (g *Guard) take(ctx context.Context) error {
	req := LeaseRequest{OwnerID: g.opt.OwnerID, LeaseID: g.opt.LeaseID, TTL: g.opt.TTL}
	started := time.Now()
	var seen *Lease
	var since time.Time
	for {
		began := time.Now()
		l, err := g.leases.Acquire(ctx, g.session, req)
		if err == nil {
			g.lease, g.began = l, began
			return nil
		}
		if ctx.Err() != nil {
			return g.gaveUp(ctx, err)
		}
		if abi.CodeOf(err) != abi.CodeLeaseConflict {
			return err
		}
		held, ok, look := g.leases.Lease(ctx, g.session)
		if look != nil {
			return look
		}
		doubt := g.opt.Wait == 0 && ok && held.ahead(g.opt.Clock()) && (seen == nil || seen.Renewals == held.Renewals)
		if !doubt && time.Since(started) >= g.opt.Wait {
			return err
		}
		switch {
		case !ok:
		case seen == nil || seen.Renewals != held.Renewals || seen.LeaseID != held.LeaseID:
			seen, since, req.Observed = &held, time.Now(), nil
		case time.Since(since) >= held.length():
			req.Observed = seen
		}
		select {
		case <-time.After(pause(doubt, g.opt.Wait-time.Since(started))):
		case <-ctx.Done():
			return g.gaveUp(ctx, err)
		}
	}
}

func (g *Guard) gaveUp(ctx context.Context, err error) error {
	return abi.NewError(abi.CodeLeaseTimeout, "the wait for the lease of session %s ended: %v", clip(g.session), context.Cause(ctx)).Because(err)
}

// pause is how long to wait before a lease is looked at again.
func pause(doubt bool, left time.Duration) time.Duration {
	if doubt {
		return pollLease
	}
	return min(pollLease, max(left, time.Millisecond))
}

// ahead reports whether the lease was renewed in the future.
func (l Lease) ahead(now time.Time) bool {
	at, err := ParseTime(l.RenewedAt)
	return err == nil && at.After(now.Add(time.Millisecond))
}

// length is how long a lease lasts after a renewal.
func (l Lease) length() time.Duration {
	from, err1 := ParseTime(l.RenewedAt)
	to, err2 := ParseTime(l.ExpiresAt)
	if err1 != nil || err2 != nil || to.Before(from) {
		return maxTTL
	}
	return to.Sub(from)
}

// watch sets the watchdog: by a clock that cannot be set, the lease ends its
// whole length after the last renewal was sent. The caller holds mu.
func (g *Guard) watch() {
	if g.dog != nil {
		g.dog.Stop()
	}
	left := g.opt.TTL - time.Since(g.began)
	g.dog = time.AfterFunc(max(left, 0), func() {
		g.fail(abi.NewError(abi.CodeLeaseStale, "the lease of session %s ended: it was not renewed for %v", clip(g.session), g.opt.TTL))
	})
}

func (g *Guard) beat() {
	t := time.NewTicker(g.opt.Heartbeat)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-g.stop:
			return
		case <-g.lost:
			return
		}
		g.renew()
	}
}

func (g *Guard) renew() {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), g.opt.TTL)
	defer cancel()
	l, err := g.leases.Renew(ctx, g.session, g.fence(), g.opt.TTL)
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.over || g.err != nil:
	case err != nil:
		g.failLocked(leaseError("renewed", g.session, err))
	default:
		g.lease, g.began = l, began
		g.watch()
	}
}

// leaseError is the error of a lease operation with a code of a lease.
func leaseError(what, session string, err error) *abi.Error {
	switch e := abi.AsError(err); e.Code {
	case abi.CodeLeaseStale, abi.CodeLeaseConflict, abi.CodeLeaseRequired, abi.CodeLeaseInvalid, abi.CodeLeaseNotSupported, abi.CodeLeaseTimeout, abi.CodeLeaseCorrupt, abi.CodeLeaseWrite:
		return e
	case abi.CodeJournalCorrupt:
		return abi.NewError(abi.CodeLeaseCorrupt, "the lease of session %s cannot be %s: %v", clip(session), what, err).Because(err)
	case abi.CodeUnknownOutcome, "":
		return abi.NewError(abi.CodeLeaseTimeout, "the lease of session %s could not be %s in time: %v", clip(session), what, err).Because(err)
	}
	return abi.NewError(abi.CodeLeaseWrite, "the lease of session %s could not be %s: %v", clip(session), what, err).Because(err)
}

func (g *Guard) fail(err *abi.Error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over && g.err == nil {
		g.failLocked(err)
	}
}

func (g *Guard) failLocked(err *abi.Error) {
	g.err = err
	g.dog.Stop()
	close(g.lost)
}

// Lost is closed when the lease is lost. Release does not close it.
func (g *Guard) Lost() <-chan struct{} { return g.lost }

// Err is nil while the lease may be owned, else why it is not.
func (g *Guard) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.errLocked()
}

func (g *Guard) errLocked() error {
	switch {
	case g.err != nil:
		return g.err
	case g.over:
		return abi.NewError(abi.CodeLeaseStale, "the lease of session %s was given back", clip(g.session))
	case g.lease.Ended(g.opt.Clock()) || time.Since(g.began) >= g.opt.TTL:
		g.failLocked(abi.NewError(abi.CodeLeaseStale, "the lease of session %s ended at %s", clip(g.session), g.lease.ExpiresAt))
		return g.err
	}
	return nil
}

func (g *Guard) fence() tool.Fence {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lease.Fence()
}

// Fence is the lease's id and token.
func (g *Guard) Fence() (tool.Fence, bool) { return g.fence(), true }

// Lease is the last known state of the lease.
func (g *Guard) Lease() Lease {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lease
}

// AssertLease is nil while the lease is owned, by this process's clocks and by
// the store. Any failure is a loss.
func (g *Guard) AssertLease(ctx context.Context) error {
	if err := g.Err(); err != nil {
		return err
	}
	if err := g.leases.Assert(ctx, g.session, g.fence()); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx) // the caller went away; that says nothing about the lease
		}
		g.fail(leaseError("checked", g.session, err))
	}
	return g.Err()
}

// RunWithLease runs a short operation, at most 1 s by its context, while nobody
// can take the lease over. The operation must not use the journal or run
// another such operation.
func (g *Guard) RunWithLease(ctx context.Context, op func(context.Context) error) error {
	if err := g.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, maxOperation)
	defer cancel()
	if ctx.Value(insideKey{}) == g {
		return abi.NewError(abi.CodeLeaseInvalid, "an operation under the lease of session %s cannot run another one", clip(g.session))
	}
	var ran bool
	var failed error
	err := g.leases.With(ctx, g.session, g.fence(), func(ctx context.Context) error {
		ran = true
		failed = op(context.WithValue(ctx, insideKey{}, g))
		return failed
	})
	if ran && failed != nil {
		return failed
	}
	if err != nil && !ran {
		if errors.Is(err, context.Canceled) {
			return err
		}
		e := leaseError("held", g.session, err)
		if e.Code == abi.CodeLeaseStale {
			g.fail(e)
		}
		return e
	}
	return err
}

type insideKey struct{}

// SetBusy sets what says why the session cannot be handed over now: the Pending
// of the host's session.
func (g *Guard) SetBusy(f func() error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy = f
}

// end stops the heartbeat and the watchdog.
func (g *Guard) end() {
	g.mu.Lock()
	if !g.over {
		g.over = true
		close(g.stop)
		g.dog.Stop()
	}
	g.mu.Unlock()
	g.wg.Wait()
}

// Release gives the lease back and waits for the heartbeat to end. A second one,
// and one after a loss, only waits.
func (g *Guard) Release(ctx context.Context) error {
	g.mu.Lock()
	skip := g.over || g.err != nil
	f := g.lease.Fence()
	g.mu.Unlock()
	g.end()
	if skip {
		return nil
	}
	if err := g.leases.Release(ctx, g.session, f); err != nil {
		return leaseError("given back", g.session, err)
	}
	return nil
}

// Handoff gives the session to another owner, who takes it up with Acquire and
// the owner and lease id of the lease that is returned. It is refused, and the
// lease kept, while the session has work that is not cleaned up (see SetBusy).
func (g *Guard) Handoff(ctx context.Context, owner string) (Lease, error) {
	g.mu.Lock()
	err, busy := g.errLocked(), g.busy
	g.mu.Unlock()
	if err != nil {
		return Lease{}, err
	}
	if busy != nil {
		if err := busy(); err != nil {
			return Lease{}, err
		}
	}
	l, err := g.leases.Handoff(ctx, g.session, g.fence(), LeaseRequest{OwnerID: owner, LeaseID: newID("lease"), TTL: g.opt.TTL})
	if err != nil {
		return Lease{}, leaseError("handed over", g.session, err)
	}
	g.end()
	return l, nil
}
