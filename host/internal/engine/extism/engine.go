package extism

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/engine"
)

const pageSize = 64 << 10

// Options configures an Engine. The zero value uses the defaults at the fields.
type Options struct {
	// MemoryLimit bounds the memory of an instance and of its kernel together, in
	// bytes; 0 means engine.DefaultMemoryLimit.
	MemoryLimit int64
	// Running bounds how many guests run at once; 0 means GOMAXPROCS.
	Running int
	// Interpreter runs without machine code.
	Interpreter bool
	// Compiler keeps machine code and makes it in a child process; nil means that each
	// plugin is compiled here, and anew in each process.
	Compiler *engine.Engine
	// Log takes what guests log and write to standard output and error. Nil drops it.
	Log *slog.Logger
}

// Engine holds what plugins share. It is safe for concurrent use.
type Engine struct {
	opt  Options
	log  *slog.Logger
	gate gate

	mu      sync.Mutex
	plugins map[*Plugin]struct{}
	closed  bool
}

// New makes an Engine. Close frees it.
func New(opt Options) *Engine {
	if opt.MemoryLimit == 0 {
		opt.MemoryLimit = engine.DefaultMemoryLimit
	}
	if opt.Running <= 0 {
		opt.Running = runtime.GOMAXPROCS(0)
	}
	log := opt.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Engine{opt: opt, log: log, gate: make(gate, opt.Running), plugins: map[*Plugin]struct{}{}}
}

// Close ends all plugins of the engine. Running calls are stopped first.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	e.closed = true
	list := make([]*Plugin, 0, len(e.plugins))
	for p := range e.plugins {
		list = append(list, p)
	}
	e.mu.Unlock()
	var errs []error
	for _, p := range list {
		errs = append(errs, p.Close(ctx))
	}
	return errors.Join(errs...)
}

func (e *Engine) add(p *Plugin) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return abi.NewError(abi.CodeShutdown, "the engine is closed")
	}
	e.plugins[p] = struct{}{}
	return nil
}

func (e *Engine) drop(p *Plugin) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.plugins, p)
}

// gate bounds the guests that run at once: a deadline is only as good as their
// number. A guest that waits in a host function gives its place back.
type gate chan struct{}

func (g gate) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// place is one call's place in the gate. The pipeline may release it while a guest
// that it gave up still runs.
type place struct {
	g gate

	mu         sync.Mutex
	held, gone bool
}

// pause gives the place back and returns what takes it again. When ctx has ended
// the guest goes on without one: it is about to stop.
func (p *place) pause(ctx context.Context) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.held {
		return func() {}
	}
	p.free()
	return func() {
		if p.g.enter(ctx) != nil {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.held = true; p.gone {
			p.free()
		}
	}
}

// Release gives the place back for good.
func (p *place) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	p.free()
}

func (p *place) free() {
	if p.held {
		p.held = false
		<-p.g
	}
}
