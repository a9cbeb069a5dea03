package host

import (
	"context"
	"sync"
	"time"
)

// pending counts what outlived its call: tools, callbacks or hooks. The zero
// value counts nothing.
type pending struct {
	mu   sync.Mutex
	n    int64
	none chan struct{}
}

// Add changes the count.
func (p *pending) Add(d int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n += d
	switch {
	case p.n == 0 && p.none != nil:
		close(p.none)
		p.none = nil
	case p.n > 0 && p.none == nil:
		p.none = make(chan struct{})
	}
}

// Load is the count.
func (p *pending) Load() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// settle waits until nothing is pending, for d at most and not longer than ctx: a callback that obeys
// its context needs a moment to return after the call has ended.
func (p *pending) settle(ctx context.Context, d time.Duration) {
	p.mu.Lock()
	none := p.none
	p.mu.Unlock()
	if none == nil {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-none:
	case <-t.C:
	case <-ctx.Done():
	}
}
