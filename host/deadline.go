package host

import (
	"context"
	"sync"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// maxPause bounds how long questions to the user may hold a deadline up.
const maxPause = 24 * time.Hour

// pauser is a deadline that rests while the host waits for the user. Nothing a
// tool does can pause it.
type pauser struct {
	mu     sync.Mutex
	timer  *time.Timer
	until  time.Time
	left   time.Duration
	paused int
	spent  time.Duration
	since  time.Time
}

func (p *pauser) start(d time.Duration, expire func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Now().Add(d)
	p.timer = time.AfterFunc(d, expire)
}

func (p *pauser) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
}

// pause stops the clock until the returned function is called.
func (p *pauser) pause() func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil || p.spent >= maxPause {
		return func() {}
	}
	if p.paused++; p.paused == 1 && p.timer.Stop() {
		p.since = time.Now()
		p.left = p.until.Sub(p.since)
		// The clock goes on by itself when the questions took too long.
		p.timer.Reset(p.left + maxPause - p.spent)
	}
	return sync.OnceFunc(p.resume)
}

func (p *pauser) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused--; p.paused > 0 || p.since.IsZero() || !p.timer.Stop() {
		return
	}
	p.spent += time.Since(p.since)
	p.since = time.Time{}
	p.until = time.Now().Add(p.left)
	p.timer.Reset(p.left)
}

// deadline is when the call ends, as of now.
func (p *pauser) deadline() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused > 0 && !p.since.IsZero() {
		return time.Now().Add(p.left)
	}
	return p.until
}

// execContext is the context a tool runs under: the call's, with a deadline of
// its own that can rest.
type execContext struct {
	context.Context
	p *pauser
}

// Deadline is the deadline as of now, or an earlier one of the caller.
func (c execContext) Deadline() (time.Time, bool) {
	t := c.p.deadline()
	if outer, ok := c.Context.Deadline(); ok && outer.Before(t) {
		return outer, true
	}
	return t, true
}

// timeout starts the deadline of the call.
func (r *run) timeout() (context.Context, time.Duration) {
	d := r.s.opt.ToolTimeout
	if t := time.Duration(r.entry.spec.TimeoutMs) * time.Millisecond; t > 0 {
		d = min(d, t)
	}
	if r.call.Timeout > 0 {
		d = min(d, r.call.Timeout)
	}
	ctx, cancel := context.WithCancelCause(r.ctx)
	r.confirms.start(d, func() { cancel(&tool.CancelError{Reason: abi.CancelDeadline}) })
	r.releases = append(r.releases, func() { r.confirms.stop(); cancel(nil) })
	return execContext{ctx, &r.confirms}, d
}
