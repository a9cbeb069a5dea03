package engine

import "context"

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

// place is one call's place in the gate. It belongs to the call's goroutine.
type place struct {
	g    *gate
	held bool
}

// pause gives the place back and returns what takes it again. When ctx has
// ended the guest goes on without one: it is about to stop, and its clean-up
// must not wait behind other guests.
func (p *place) pause(ctx context.Context) func() {
	if p == nil || !p.held {
		return func() {}
	}
	p.held = false
	p.g.leave()
	return func() {
		if p.g.enter(ctx) == nil {
			p.held = true
		}
	}
}

func (p *place) release() {
	if p != nil && p.held {
		p.held = false
		p.g.leave()
	}
}
