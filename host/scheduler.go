package host

import (
	"context"
	"sync"

	"github.com/bladehost/bladehost/abi"
)

// scheduler bounds the calls in flight by kind. Each kind is a FIFO of its own,
// so a full one does not hold up the others.
type scheduler struct {
	buckets map[abi.Kind]*bucket
}

func newScheduler(c Concurrency) *scheduler {
	return &scheduler{buckets: map[abi.Kind]*bucket{
		abi.KindReadOnly: {free: c.ReadOnly, queue: c.Queue},
		abi.KindWrite:    {free: c.Write, queue: c.Queue},
		abi.KindExecute:  {free: c.Execute, queue: c.Queue},
	}}
}

// acquire waits for a slot of the kind. The error is the cause of ctx, or says
// that the queue is full. When a slot and the end of ctx come together, the slot
// is given back.
func (s *scheduler) acquire(ctx context.Context, k abi.Kind) (release func(), err error) {
	return s.buckets[k].acquire(ctx, string(k))
}

type bucket struct {
	mu      sync.Mutex
	free    int
	queue   int
	waiting []chan struct{}
}

func (b *bucket) acquire(ctx context.Context, name string) (func(), error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	b.mu.Lock()
	if b.free > 0 && len(b.waiting) == 0 {
		b.free--
		b.mu.Unlock()
		return b.releaser(), nil
	}
	if len(b.waiting) >= b.queue {
		b.mu.Unlock()
		return nil, abi.NewError(abi.CodeQueueFull, "%d calls of kind %s wait already", b.queue, name)
	}
	turn := make(chan struct{})
	b.waiting = append(b.waiting, turn)
	b.mu.Unlock()
	select {
	case <-turn:
		if ctx.Err() != nil {
			b.release()
			return nil, context.Cause(ctx)
		}
		return b.releaser(), nil
	case <-ctx.Done():
		b.leave(turn)
		return nil, context.Cause(ctx)
	}
}

// leave takes a waiter out of the queue; if its turn has just come, the slot
// goes on to the next.
func (b *bucket) leave(turn chan struct{}) {
	b.mu.Lock()
	for i, w := range b.waiting {
		if w == turn {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			b.mu.Unlock()
			return
		}
	}
	b.mu.Unlock()
	b.release()
}

func (b *bucket) releaser() func() {
	var once sync.Once
	return func() { once.Do(b.release) }
}

func (b *bucket) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 {
		close(b.waiting[0])
		b.waiting = b.waiting[1:]
		return
	}
	b.free++
}
