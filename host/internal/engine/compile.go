package engine

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/engine/wasi"
	"github.com/bladehost/bladehost/host/internal/wasm"
)

// Compile compiles the module if that was not done yet, and reports whether the
// machine code was in the cache. An error stays until the plugin is closed.
func (p *Plugin) Compile(ctx context.Context) (hit bool, err error) {
	if !p.enter() {
		return false, closedError()
	}
	defer p.leave()
	c, err := p.compile(ctx)
	if err != nil {
		return false, err
	}
	return c.hit, nil
}

// compile is for callers that entered the plugin.
func (p *Plugin) compile(ctx context.Context) (*compiled, error) {
	if c := p.compiled.Load(); c != nil {
		return c, nil
	}
	select {
	case p.once <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-p.once }()
	if c := p.compiled.Load(); c != nil || p.err != nil {
		return c, p.err
	}
	c, err := p.compileNow(ctx)
	switch {
	case ctx.Err() != nil:
		if c != nil {
			_ = c.free() // it was not used
		}
		return nil, context.Cause(ctx)
	case err != nil:
		p.err = compileError(err)
		return nil, p.err
	}
	p.rewritten, p.stored = nil, nil
	p.compiled.Store(c)
	return c, nil
}

func (p *Plugin) compileNow(ctx context.Context) (*compiled, error) {
	c, err := p.tryCompile(ctx)
	if err != nil && ctx.Err() == nil && p.e.giveUpCompiling() {
		return p.compileApart(ctx) // its place in the cache is that of machine code
	}
	return c, err
}

func (p *Plugin) tryCompile(ctx context.Context) (*compiled, error) {
	var c *compiled
	hit, err := p.e.prepare(ctx, p.recipe(ctx, &c))
	if err != nil {
		return nil, err
	}
	c.hit = hit
	return c, nil
}

// compileApart compiles without the cache.
func (p *Plugin) compileApart(ctx context.Context) (*compiled, error) {
	var c *compiled
	err := p.e.prepareApart(ctx, p.recipe(ctx, &c))
	return c, err
}

// recipe puts what is compiled into c.
func (p *Plugin) recipe(ctx context.Context, c **compiled) recipe {
	return recipe{
		key: p.key, source: p.source, module: p.rewrite, stored: wasm.Marshal,
		load: func() (err error) {
			if *c, err = p.loadFrom(ctx); err != nil {
				p.stored = nil // what was recalled may be what is bad
			}
			return err
		},
		use: func(m *wasm.Module, dir string) (err error) {
			*c, err = p.buildIn(ctx, m, dir)
			return err
		},
	}
}

// rewrite is what to compile.
func (p *Plugin) rewrite() (*wasm.Module, error) {
	if p.rewritten != nil {
		return p.rewritten, nil
	}
	code, err := p.code()
	if err != nil {
		return nil, err
	}
	return rewrite(code)
}

// loadFrom uses an entry that is as it was written. The runtime reads its code while
// the digests are looked at; nothing of it runs before all of them are right.
func (p *Plugin) loadFrom(ctx context.Context) (*compiled, error) {
	stored, entry, rest, err := p.e.dir.open(p.key, p.stored)
	if err != nil {
		return nil, err
	}
	m := p.rewritten
	if p.stored == nil {
		if m, err = wasm.Unmarshal(stored); err != nil {
			return nil, err
		}
		p.e.dir.remember(p.source, p.key)
	}
	checked := make(chan error, 1)
	go func() { checked <- rest() }()
	c, err := p.buildIn(ctx, m, entry)
	if bad := <-checked; bad != nil {
		if c != nil {
			bad = errors.Join(bad, c.free())
		}
		return nil, bad
	}
	return c, err
}

// buildIn is build with the runtime's cache in a folder, or none.
func (p *Plugin) buildIn(ctx context.Context, m *wasm.Module, dir string) (*compiled, error) {
	if dir == "" {
		return p.build(ctx, m, nil)
	}
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return nil, abi.NewError(abi.CodeCompile, "open the compile cache: %v", err)
	}
	c, err := p.build(ctx, m, cache)
	if err != nil {
		return nil, errors.Join(err, cache.Close(ctx))
	}
	return c, nil
}

func compileError(err error) *abi.Error {
	if abi.CodeOf(err) != "" {
		return abi.AsError(err)
	}
	return abi.NewError(abi.CodeCompile, "the module could not be compiled: %s", firstLine(err.Error())).Because(err)
}

// build makes the runtime with its host modules and compiles the module. A panic
// of the compiler is an error: its validator panics on some malformed modules.
func (p *Plugin) build(ctx context.Context, m *wasm.Module, cache wazero.CompilationCache) (_ *compiled, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = abi.NewError(abi.CodeCompile, "the compiler failed on the module: %v", v)
		}
	}()
	cfg := wazero.NewRuntimeConfigCompiler()
	if p.e.interpreter() {
		cfg = wazero.NewRuntimeConfigInterpreter()
	}
	// The fuel in the module stops it, so the runtime's own way, which costs up to
	// 28 times, stays off.
	cfg = cfg.WithCloseOnContextDone(false).WithCoreFeatures(api.CoreFeaturesV2).
		WithDebugInfoEnabled(false).WithMemoryLimitPages(maxMemoryLimit / pageSize)
	if cache != nil {
		cfg = cfg.WithCompilationCache(cache)
	}
	lasting := context.WithoutCancel(ctx)
	rt := wazero.NewRuntimeWithConfig(lasting, cfg)
	defer func() {
		if err != nil {
			_ = rt.Close(lasting) // the first failure is the one to tell
		}
	}()
	// With several workers the compiler looks at the context between functions.
	code, err := rt.CompileModule(experimental.WithCompilationWorkers(ctx, max(2, runtime.GOMAXPROCS(0))), m.Bytes)
	if err != nil {
		return nil, err
	}
	if err := hostModules(lasting, rt, m.Info); err != nil {
		return nil, err
	}
	kept := *m
	kept.Bytes = nil
	c := &compiled{rt: rt, code: code, cache: cache, module: &kept, level: p.levelOf(m)}
	c.base = sync.OnceValues(func() (*image, error) { return c.makeBase(p.e.reset) })
	return c, nil
}

// hostModules puts into a runtime what a module imports.
func hostModules(ctx context.Context, rt wazero.Runtime, info *wasm.Info) error {
	if err := meterModule(ctx, rt); err != nil {
		return err
	}
	imports := map[string][]string{}
	if info != nil { // nobody knows in the compiler's own process, and nothing runs there
		for _, im := range info.Imports {
			imports[im.Module] = append(imports[im.Module], im.Name)
		}
	}
	if names := imports[abi.ImportModule]; names != nil {
		if err := hostModule(ctx, rt, names); err != nil {
			return err
		}
	}
	if names := imports[abi.WASIModule]; names != nil {
		return wasi.Instantiate(ctx, rt, stateOf, names...)
	}
	return nil
}

// levelOf chooses how instances are used again. Modules whose initialisation is
// worth keeping say so by having a warm-up, or are Go's.
func (p *Plugin) levelOf(m *wasm.Module) level {
	switch {
	case p.e.opt.level != nil:
		return *p.e.opt.level
	case p.e.opt.Once, !m.Restorable:
		return fresh
	}
	if _, warm := p.mod.Info.Export(abi.ExportWarm); warm || madeByGo(p.file) {
		return snapshot
	}
	return strict
}

// madeByGo looks into the producers section, where toolchains sign.
func madeByGo(file []byte) bool {
	section, _, err := wasm.FindCustom(file, "producers")
	if err != nil {
		return false
	}
	return slices.ContainsFunc([]string{"\x08language\x01\x02Go", "TinyGo"}, func(s string) bool {
		return bytes.Contains(section, []byte(s))
	})
}

// free ends the runtime. No instance may be in use.
func (c *compiled) free() error {
	ctx := context.Background()
	err := c.rt.Close(ctx)
	if c.cache != nil {
		err = errors.Join(err, c.cache.Close(ctx))
	}
	if c.made != nil {
		c.made.store.close()
	}
	return err
}
