package engine

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// DefaultIdle is how many instances that nobody uses a plugin keeps in one world.
const DefaultIdle = 64

// DefaultIdleTime is how long it keeps them, to twice that.
const DefaultIdleTime = 30 * time.Second

// pool makes, lends and ends the instances of one plugin in one world.
//
//	strict    an instance is put back to the image before its initialisation,
//	          which runs again for each call
//	snapshot  it is put back to the image after initialisation and warm-up
//	fresh     it is thrown away: the module has state that cannot be put back
//
// Whatever the level, an instance whose guest was stopped, trapped, exited or
// broke a rule is thrown away.
type pool struct {
	plugin *Plugin
	c      *compiled
	world  *World
	shards []shard

	// users counts the calls in the pool; gone says that it was taken out of its
	// plugin and must not be entered any more. Whoever adds a user looks at gone
	// afterwards, whoever sets gone looks at users afterwards.
	users atomic.Int64
	gone  atomic.Bool
	idle  atomic.Int64
	// epoch is advanced by sweep; made is the epoch of the last new instance.
	epoch, made atomic.Uint32
	sweeps      *time.Timer

	// making is held while the image is made.
	making chan struct{}
	image  atomic.Pointer[image]
}

// shard is one of the free lists. One list for all would be what calls of a few
// microseconds wait for.
type shard struct {
	mu   sync.Mutex
	free []*instance
	_    [64]byte // keeps neighbours out of its cache line
}

func newPool(p *Plugin, c *compiled, w *World) *pool {
	pl := &pool{plugin: p, c: c, world: w, shards: make([]shard, runtime.GOMAXPROCS(0)), making: make(chan struct{}, 1)}
	pl.sweeps = time.AfterFunc(time.Hour, pl.sweep) // free stops it
	pl.sweeps.Reset(p.e.opt.IdleTime)               // only now: sweep uses the timer
	return pl
}

func (p *pool) is(l level) bool { return p.c.level == l }

// enter must be followed by leave if it says true.
func (p *pool) enter() bool {
	p.users.Add(1)
	if p.gone.Load() {
		p.users.Add(-1)
		return false
	}
	return true
}

func (p *pool) leave() { p.users.Add(-1) }

// warm prepares what the first call needs.
func (p *pool) warm(ctx context.Context) error {
	i, err := p.get(ctx, nil)
	if err != nil {
		return err
	}
	p.put(i)
	return nil
}

// run executes tool number index and returns its result. Nothing the guest does
// is an error: the result tells. An error means that ctx ended first; it is the
// cause.
func (p *pool) run(ctx context.Context, index int, call *tool.Call, at *place) (*abi.Result, error) {
	i, err := p.get(ctx, at)
	if err != nil {
		return startFailure(ctx, err)
	}
	kept := false
	defer func() {
		if !kept {
			i.drop()
		}
	}()
	i.hold(ctx, at)
	if !p.is(snapshot) {
		if err := i.initialize(); err != nil {
			return startFailure(ctx, err)
		}
	}
	i.begin(call, &p.plugin.mod.Manifest.Tools[index])
	i.stack = [2]uint64{uint64(index), uint64(len(call.Input))}
	err = i.execute.CallWithStack(&i.guestContext, i.stack[:])
	res, ended := i.outcome(err)
	i.end()
	if err == nil && !p.is(fresh) {
		kept = true
		p.put(i)
	}
	return res, ended
}

// startFailure is what a call gives whose guest could not be started.
func startFailure(ctx context.Context, err error) (*abi.Result, error) {
	if abi.CodeOf(err) == "" || ctx.Err() != nil {
		return nil, errors.Join(err, tool.ErrPreempted)
	}
	return abi.Failure(abi.AsError(err)), nil
}

// describe runs blade_describe in an instance that is used for nothing else.
func (p *pool) describe(ctx context.Context) (json.RawMessage, error) {
	base, err := p.c.base()
	if err != nil {
		return nil, err
	}
	i, err := p.instantiate(ctx, base)
	if err != nil {
		return nil, err
	}
	defer i.drop()
	i.hold(ctx, nil)
	if err := i.initialize(); err != nil {
		return nil, err
	}
	if err := i.phaseCall(phaseDescribe, abi.ExportDescribe, i.mod.ExportedFunction(abi.ExportDescribe)); err != nil {
		return nil, err
	}
	return i.describeAnswer()
}

// get lends an instance: one that is free, or a new one.
func (p *pool) get(ctx context.Context, at *place) (*instance, error) {
	if p.idle.Load() > 0 {
		first := rand.IntN(len(p.shards))
		for k := range p.shards {
			if i := p.shards[(first+k)%len(p.shards)].pop(); i != nil {
				p.idle.Add(-1)
				return i, nil
			}
		}
	}
	p.made.Store(p.epoch.Load())
	if p.plugin.e.opt.Once {
		return p.plugin.alone(ctx, p.c, p.world)
	}
	from, err := p.begins(ctx, at)
	if err != nil {
		return nil, err
	}
	return p.instantiate(ctx, from)
}

// put takes an instance back after a call that went well.
func (p *pool) put(i *instance) {
	if p.idle.Load() >= int64(p.plugin.e.opt.Idle) || !i.reset() {
		i.drop()
		return
	}
	i.epoch = p.epoch.Load()
	p.idle.Add(1)
	p.shards[rand.IntN(len(p.shards))].push(i)
}

func (s *shard) pop() *instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.free)
	if n == 0 {
		return nil
	}
	i := s.free[n-1]
	s.free[n-1] = nil
	s.free = s.free[:n-1]
	return i
}

func (s *shard) push(i *instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, i)
}

// begins is the image that a new instance begins with; of a snapshot it is made
// when first needed.
func (p *pool) begins(ctx context.Context, at *place) (*image, error) {
	if !p.is(snapshot) {
		return p.c.base()
	}
	if img := p.image.Load(); img != nil {
		return img, nil
	}
	resume := at.pause(ctx)
	select {
	case p.making <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-p.making }()
	resume()
	if img := p.image.Load(); img != nil {
		return img, nil
	}
	img, err := p.plugin.snapshot(ctx, p.c, p.world, at)
	if err != nil {
		return nil, err
	}
	p.image.Store(img)
	return img, nil
}

// sweep ends the instances that nobody used since the sweep before the last, and
// the pool itself when nobody uses that.
func (p *pool) sweep() {
	if !p.plugin.enter() {
		return // closing frees everything
	}
	defer p.plugin.leave()
	now := p.epoch.Add(1)
	for k := range p.shards {
		p.shards[k].expire(p, now)
	}
	if p.idle.Load() == 0 && now-p.made.Load() > 1 && p.plugin.forget(p) {
		p.free()
		return
	}
	p.sweeps.Reset(p.plugin.e.opt.IdleTime)
}

// expire drops old instances, which are at the start of the list.
func (s *shard) expire(p *pool, now uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := 0
	for old < len(s.free) && now-s.free[old].epoch > 1 {
		s.free[old].drop()
		old++
	}
	p.idle.Add(-int64(old))
	s.free = append(s.free[:0], s.free[old:]...)
	clear(s.free[len(s.free):cap(s.free)])
	for _, i := range s.free {
		if !i.cold && i.epoch != now {
			i.memory.cool()
			i.cold = true
		}
	}
}

// free ends everything that the pool holds. Nobody may be in it.
func (p *pool) free() {
	p.sweeps.Stop()
	for k := range p.shards {
		for i := p.shards[k].pop(); i != nil; i = p.shards[k].pop() {
			p.idle.Add(-1)
			i.drop()
		}
	}
	if img := p.image.Swap(nil); img != nil {
		img.store.close()
	}
}
