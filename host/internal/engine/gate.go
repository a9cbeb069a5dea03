package engine

import (
	"context"
	"sync"
)

// gate bounds the guests that run machine code at once. A deadline is only as
// good as their number: 200 endless guests on 2 cores overran 300 ms by 2.9 s.
// A guest that waits in a host function gives its place back.
type gate struct{ slots chan struct{} }

func newGate(n int) *gate { return &gate{make(chan struct{}, n)} }

// enter waits for a place until ctx ends.
func (g *gate) enter(ctx context.Context) error {
	select {
	case g.slots <- struct{}{}:
		return nil
	default:
	}
	select {
	case g.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g *gate) leave() { <-g.slots }

// place is one call's place in the gate. The pipeline may release it while the
// guest is still in a host function that does not return; then it is nobody's.
type place struct {
	g  *gate
	mu sync.Mutex
	// held says that the gate counts it, over that it was released for good.
	held, over bool
}

// pause gives the place back and returns what takes it again. When ctx has
// ended the guest goes on without one: it is about to stop, and its clean-up
// must not wait behind other guests.
func (p *place) pause(ctx context.Context) func() {
	if p == nil || !p.give(false) {
		return func() {}
	}
	return func() {
		if p.g.enter(ctx) == nil {
			p.take()
		}
	}
}

// give gives the place back, for good or not, and says whether it was held.
func (p *place) give(over bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = p.over || over
	if !p.held {
		return false
	}
	p.held = false
	p.g.leave()
	return true
}

// take keeps a place that the gate has just given.
func (p *place) take() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		p.g.leave()
		return
	}
	p.held = true
}

func (p *place) release() {
	if p != nil {
		p.give(true)
	}
}
