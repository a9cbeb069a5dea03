package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/tetratelabs/wazero"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/engine/wasi"
	"github.com/bladehost/bladehost/host/internal/wasm"
)

// Plugin is a module that passed every check that needs no running of it. It is
// compiled when it is first needed. Safe for concurrent use.
type Plugin struct {
	e   *Engine
	mod *Module
	// bytes are what the runtime compiles.
	bytes []byte

	once     sync.Mutex
	compiled *compiled
	err      error
	closed   bool

	mu    sync.Mutex
	pools map[string]pool
}

// compiled is the runtime of one plugin. Each plugin has a runtime of its own,
// so that no module can name another's instances.
type compiled struct {
	rt    wazero.Runtime
	code  wazero.CompiledModule
	cache wazero.CompilationCache
	// hit says that the machine code came from the cache on disk.
	hit bool
}

// Load checks a module and keeps its bytes, which the caller must not change.
// Nothing of it is run or compiled yet.
func (e *Engine) Load(b []byte) (*Plugin, error) {
	m, err := Read(b)
	if err != nil {
		return nil, err
	}
	if err := m.Check(); err != nil {
		return nil, err
	}
	return e.plugin(m, b)
}

// LoadUnsigned is Load for a module whose manifest section is missing or not
// yet trusted, to ask it for its description only.
func (e *Engine) LoadUnsigned(b []byte) (*Plugin, error) {
	m, err := Read(b)
	if err != nil && abi.CodeOf(err) != abi.CodeManifest {
		return nil, err
	}
	if m == nil {
		return nil, err
	}
	if err := m.Check(); err != nil && abi.CodeOf(err) != abi.CodeManifestMissing {
		return nil, err
	}
	return e.plugin(m, b)
}

func (e *Engine) plugin(m *Module, b []byte) (*Plugin, error) {
	if mem := m.Info.Memory; mem != nil && int64(mem.Min)*pageSize > e.opt.MemoryLimit {
		return nil, abi.NewError(abi.CodeModuleLimit, "the module needs %d MiB of memory to start; the limit is %d MiB", int64(mem.Min)*pageSize>>20, e.opt.MemoryLimit>>20)
	}
	// The code of a module does not depend on its manifest: with and without the
	// section it is compiled once.
	code, err := wasm.RemoveCustom(b, abi.ManifestSection)
	if err != nil {
		return nil, moduleError(err)
	}
	p := &Plugin{e: e, mod: m, bytes: code, pools: map[string]pool{}}
	if err := e.add(p); err != nil {
		return nil, err
	}
	return p, nil
}

// Module is what the module says about itself.
func (p *Plugin) Module() *Module { return p.mod }

// Manifest is the manifest of the section.
func (p *Plugin) Manifest() *abi.Manifest { return p.mod.Manifest }

// Compile compiles the module if that was not done yet, and reports whether the
// machine code was in the cache. An error stays until the plugin is closed.
func (p *Plugin) Compile(ctx context.Context) (hit bool, err error) {
	c, err := p.compile(ctx)
	if err != nil {
		return false, err
	}
	return c.hit, nil
}

func (p *Plugin) compile(ctx context.Context) (*compiled, error) {
	p.once.Lock()
	defer p.once.Unlock()
	switch {
	case p.closed:
		return nil, abi.NewError(abi.CodeShutdown, "the plugin is closed")
	case p.compiled != nil || p.err != nil:
		return p.compiled, p.err
	}
	c := &compiled{}
	var err error
	if dir := p.e.dir; dir != nil {
		c.hit, err = dir.compileIn(ctx, p.key(), func(cache wazero.CompilationCache) error { return p.build(ctx, c, cache) })
	} else {
		err = p.build(ctx, c, nil)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		p.err = compileError(err)
		return nil, p.err
	}
	p.compiled = c
	return c, nil
}

func compileError(err error) *abi.Error {
	if abi.CodeOf(err) != "" {
		return abi.AsError(err)
	}
	return abi.NewError(abi.CodeCompile, "the module could not be compiled: %s", firstLine(err.Error())).Because(err)
}

// key names the machine code of a module: it changes with the module, the
// runtime's version and what the code is generated for.
func (p *Plugin) key() string {
	h := sha256.New()
	fmt.Fprintf(h, "bladehost 1\n%s\n%s/%s\n", runtimeVersion(), runtime.GOOS, runtime.GOARCH)
	h.Write(p.bytes)
	return hex.EncodeToString(h.Sum(nil))
}

// runtimeVersion is the version of wazero in this binary.
func runtimeVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == "github.com/tetratelabs/wazero" {
				return d.Version
			}
		}
	}
	return "unknown"
}

// build makes the runtime with its host modules and compiles the module. A panic
// of the compiler is an error: its validator panics on some malformed modules.
func (p *Plugin) build(ctx context.Context, c *compiled, cache wazero.CompilationCache) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = abi.NewError(abi.CodeCompile, "the compiler failed on the module: %v", v)
		}
	}()
	cfg := wazero.NewRuntimeConfigCompiler()
	if p.e.opt.Interpreter {
		cfg = wazero.NewRuntimeConfigInterpreter()
	}
	cfg = cfg.WithCloseOnContextDone(true).WithDebugInfoEnabled(false).WithMemoryLimitPages(maxMemoryLimit / pageSize)
	if cache != nil {
		cfg = cfg.WithCompilationCache(cache)
	}
	rt := wazero.NewRuntimeWithConfig(context.WithoutCancel(ctx), cfg)
	code, err := rt.CompileModule(ctx, p.bytes)
	if err == nil {
		err = hostModule(ctx, rt)
	}
	if err == nil {
		err = wasi.Instantiate(ctx, rt, stateOf)
	}
	if err != nil {
		_ = rt.Close(context.WithoutCancel(ctx)) // the first failure is the one to tell
		return err
	}
	c.rt, c.code, c.cache = rt, code, cache
	return nil
}

// pool returns the instances for one world, made when first asked for.
func (p *Plugin) pool(w *World) pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pl, ok := p.pools[w.key]; ok {
		return pl
	}
	pl := newPool(p, w)
	p.pools[w.key] = pl
	return pl
}

// Close frees the plugin; calls that still run are stopped.
func (p *Plugin) Close(ctx context.Context) error {
	p.e.drop(p)
	p.once.Lock()
	defer p.once.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	p.mu.Lock()
	for _, pl := range p.pools {
		pl.close()
	}
	p.mu.Unlock()
	if p.compiled == nil {
		return nil
	}
	err := p.compiled.rt.Close(ctx)
	if p.compiled.cache != nil {
		if e := p.compiled.cache.Close(ctx); err == nil {
			err = e
		}
	}
	return err
}

// Describe runs the module's blade_describe in a world with nothing in it and
// returns the bytes it answered. It is for building and checking plugins;
// nothing else runs a module to learn what it is.
func (p *Plugin) Describe(ctx context.Context) (json.RawMessage, error) {
	return p.pool(emptyWorld()).describe(ctx)
}
