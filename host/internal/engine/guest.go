package engine

import (
	"context"
	"sync/atomic"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// Guest is one tool of a plugin in one world. It is a tool.Tool.
type Guest struct {
	plugin *Plugin
	world  *World
	index  int
	spec   *abi.ToolSpec
	writes bool
	// last is the pool that the last call used.
	last atomic.Pointer[pool]
}

// Lent says what besides files a session lends the guests of a plugin.
type Lent struct {
	// Writes reports whether a service or request that the tool may make could
	// change something outside.
	Writes func(*abi.ToolSpec) bool
}

// Tools returns the plugin's tools for one world.
func (p *Plugin) Tools(w *World, lent Lent) []*Guest {
	out := make([]*Guest, len(p.mod.Manifest.Tools))
	for i := range out {
		out[i] = p.Tool(i, w, lent)
	}
	return out
}

// Tool is one of the plugin's tools, by its place in the manifest, for a world.
func (p *Plugin) Tool(i int, w *World, lent Lent) *Guest {
	spec := p.mod.Manifest.Tools[i]
	if spec.MaxResultSize == 0 || spec.MaxResultSize > abi.DefaultMaxResultSize {
		spec.MaxResultSize = abi.DefaultMaxResultSize
	}
	return &Guest{plugin: p, world: w, index: i, spec: &spec, writes: w.CanWrite() || (lent.Writes != nil && lent.Writes(&spec))}
}

// Spec is the definition of the manifest.
func (g *Guest) Spec() *abi.ToolSpec { return g.spec }

// Plugin is the plugin the tool belongs to.
func (g *Guest) Plugin() *Plugin { return g.plugin }

// LentCanWrite reports whether a call could change something outside.
func (g *Guest) LentCanWrite() bool { return g.writes }

// Warm compiles the plugin and prepares its instances.
func (g *Guest) Warm(ctx context.Context) error {
	if !g.plugin.enter() {
		return closedError()
	}
	defer g.plugin.leave()
	c, err := g.plugin.compile(ctx)
	if err != nil {
		return err
	}
	p := g.pool(c)
	defer p.leave()
	return p.warm(ctx)
}

// pool is where the tool's instances are, entered.
func (g *Guest) pool(c *compiled) *pool {
	if p := g.last.Load(); p != nil && p.enter() {
		return p
	}
	p := g.plugin.pool(c, g.world)
	g.last.Store(p)
	return p
}

// Admit waits for a place among the running guests.
func (g *Guest) Admit(ctx context.Context) (tool.Admission, error) {
	if err := g.plugin.e.gate.enter(ctx); err != nil {
		return nil, err
	}
	return &admission{place: place{g: g.plugin.e.gate, held: true}}, nil
}

// admission is a place that the pipeline releases when the call is over.
type admission struct{ place }

// Release gives the place back.
func (a *admission) Release() { a.release() }

// Execute runs one call in the plugin's pool.
func (g *Guest) Execute(ctx context.Context, call *tool.Call) (*abi.Result, error) {
	a, ok := call.Admission().(*admission)
	if !ok {
		adm, err := g.Admit(ctx)
		if err != nil {
			return nil, err
		}
		defer adm.Release()
		a = adm.(*admission)
	}
	if !g.plugin.enter() {
		return nil, closedError()
	}
	defer g.plugin.leave()
	c := g.plugin.compiled.Load()
	if c == nil {
		// It may take seconds; other guests run meanwhile.
		resume := a.place.pause(ctx)
		var err error
		if c, err = g.plugin.compile(ctx); err != nil {
			return nil, err
		}
		resume()
	}
	p := g.pool(c)
	defer p.leave()
	res, err := p.run(ctx, g.index, call, &a.place)
	StampCompile(res, c.hit)
	return res, err
}
