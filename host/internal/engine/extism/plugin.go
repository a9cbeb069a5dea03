package extism

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"

	sdk "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/engine"
	"github.com/bladehost/bladehost/host/internal/wasm"
	"github.com/bladehost/bladehost/host/tool"
)

const maxPages = 65535

// Plugin is a module that passed every check that needs no running of it. It is
// compiled when it is first needed. Safe for concurrent use.
type Plugin struct {
	e    *Engine
	mod  *engine.Module
	kind kind
	file []byte

	// life ends when the plugin is closed.
	life context.Context
	end  context.CancelFunc

	// once is held while the module is compiled.
	once     chan struct{}
	compiled *compiled
	err      error

	mu      sync.Mutex
	users   int
	closing bool
	freed   chan struct{}
	freeErr error
}

// Load checks a module and keeps its bytes, which the caller must not change.
// Nothing of it is run or compiled yet.
func (e *Engine) Load(b []byte) (*Plugin, error) {
	m, err := engine.Read(b)
	if err != nil {
		return nil, err
	}
	if err := Check(m); err != nil {
		return nil, err
	}
	return e.plugin(m, b)
}

// LoadUnsigned is Load for a module whose manifest section is missing or not yet
// trusted, to ask it for its description only. Its code must have been scanned:
// pass it without the section.
func (e *Engine) LoadUnsigned(b []byte) (*Plugin, error) {
	m, err := engine.Read(b)
	if err != nil {
		return nil, err
	}
	if err := Check(m); err != nil && abi.CodeOf(err) != abi.CodeManifestMissing {
		return nil, err
	}
	return e.plugin(m, b)
}

func (e *Engine) plugin(m *engine.Module, b []byte) (*Plugin, error) {
	k, err := kindOf(m.Info)
	if err != nil {
		return nil, err
	}
	// A page is left for the kernel.
	if mem := m.Info.Memory; mem != nil && (int64(mem.Min)+1)*pageSize > e.opt.MemoryLimit {
		return nil, abi.NewError(abi.CodeModuleLimit, "the module needs %d MiB of memory to start; the limit is %d MiB", int64(mem.Min)*pageSize>>20, e.opt.MemoryLimit>>20)
	}
	p := &Plugin{e: e, mod: m, kind: k, file: b, once: make(chan struct{}, 1), freed: make(chan struct{})}
	p.life, p.end = context.WithCancel(context.Background())
	if err := e.add(p); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// Module is what the module says about itself.
func (p *Plugin) Module() *engine.Module { return p.mod }

// Manifest is the manifest of the section.
func (p *Plugin) Manifest() *abi.Manifest { return p.mod.Manifest }

// enter counts a user of the plugin; leave must follow if it says true.
func (p *Plugin) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return false
	}
	p.users++
	return true
}

func (p *Plugin) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users--
	p.free()
}

// free frees the plugin if it is closing and nobody uses it. p.mu is held.
func (p *Plugin) free() {
	if !p.closing || p.users > 0 {
		return
	}
	select {
	case <-p.freed:
		return
	default:
	}
	if p.compiled != nil {
		p.freeErr = p.compiled.free()
	}
	close(p.freed)
}

// Close frees the plugin; calls that still run are stopped. When ctx ends before
// they are, what they use is freed as soon as they are.
func (p *Plugin) Close(ctx context.Context) error {
	p.e.drop(p)
	p.mu.Lock()
	p.closing = true
	p.end()
	p.free()
	p.mu.Unlock()
	select {
	case <-p.freed:
		return p.freeErr
	case <-ctx.Done():
		return fmt.Errorf("close a plugin: a call still runs: %w", context.Cause(ctx))
	}
}

func closedError() *abi.Error { return abi.NewError(abi.CodeShutdown, "the plugin is closed") }

// Compile compiles the module if that was not done yet, and reports whether its
// machine code was in the cache.
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

// compile is for callers that entered the plugin. An error stays until the plugin
// is closed.
func (p *Plugin) compile(ctx context.Context) (*compiled, error) {
	select {
	case p.once <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-p.once }()
	if p.compiled != nil || p.err != nil {
		return p.compiled, p.err
	}
	c, err := p.make(ctx)
	switch {
	case err == nil:
		p.compiled = c
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case abi.CodeOf(err) != "":
		p.err = err
	default:
		p.err = abi.NewError(abi.CodeCompile, "the module could not be compiled: %s", clip(firstLine(err.Error()))).Because(err)
	}
	return p.compiled, p.err
}

// compiled is the machine code of a plugin with the module it was made of.
type compiled struct {
	plugin *sdk.CompiledPlugin
	// module is the rewritten module without its bytes.
	module *wasm.Module
	// cache is what the runtime takes its machine code from, or nil; hit says that
	// the code was there.
	cache wazero.CompilationCache
	hit   bool
}

func (c *compiled) free() error {
	ctx := context.Background()
	err := c.plugin.Close(ctx)
	if c.cache != nil {
		err = errors.Join(err, c.cache.Close(ctx))
	}
	return err
}

// make rewrites and compiles the module, or finds its machine code.
func (p *Plugin) make(ctx context.Context) (*compiled, error) {
	mod, err := rewrite(p.file)
	if err != nil {
		return nil, err
	}
	if p.e.opt.Compiler == nil {
		return p.build(ctx, mod, nil)
	}
	var c *compiled
	hit, err := p.e.opt.Compiler.CompileElsewhere(ctx, mod.Bytes, p.kind.listensAt(), func(dir string) (err error) {
		var cache wazero.CompilationCache
		if dir != "" {
			if cache, err = wazero.NewCompilationCacheWithDir(dir); err != nil {
				return err
			}
		}
		if c, err = p.build(ctx, mod, cache); err != nil && cache != nil {
			err = errors.Join(err, cache.Close(ctx))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	c.hit = hit
	return c, nil
}

// build compiles the rewritten module. A panic of the compiler is an error: its
// validator panics on some malformed modules.
func (p *Plugin) build(ctx context.Context, mod *wasm.Module, cache wazero.CompilationCache) (c *compiled, err error) {
	defer func() {
		if v := recover(); v != nil {
			c, err = nil, fmt.Errorf("the compiler failed: %v", v)
		}
	}()
	cfg := wazero.NewRuntimeConfig()
	if p.e.opt.Interpreter {
		cfg = wazero.NewRuntimeConfigInterpreter()
	}
	// The fuel in the module stops it, so the runtime's own way, which costs up to
	// 28 times, stays off.
	cfg = cfg.WithCloseOnContextDone(false).WithCoreFeatures(api.CoreFeaturesV2).WithDebugInfoEnabled(false)
	if cache != nil {
		cfg = cfg.WithCompilationCache(cache)
	}
	m := sdk.Manifest{
		Wasm: []sdk.Wasm{sdk.WasmData{Data: mod.Bytes}},
		// The budget of a call is what bounds memory. The runtime's bounds checks
		// overflow at 4 GiB.
		Memory: &sdk.ManifestMemory{MaxPages: maxPages},
	}
	// With several workers the compiler looks at the context between functions.
	ctx = experimental.WithCompilationWorkers(ctx, max(2, runtime.GOMAXPROCS(0)))
	ctx = experimental.WithFunctionListenerFactory(ctx, first{mod, p.kind})
	plugin, err := sdk.NewCompiledPlugin(ctx, m, sdk.PluginConfig{RuntimeConfig: cfg, EnableWasi: true}, hostFunctions(p.mod.Info))
	if err != nil {
		return nil, err
	}
	kept := *mod
	kept.Bytes = nil
	return &compiled{plugin: plugin, module: &kept, cache: cache}, nil
}

// Describe runs the module's own description and returns the manifest. A plugin
// in the style of MCP does not know its own name and version: they are needed for
// it, unless it has a manifest section already, and must be empty for one that
// does.
func (p *Plugin) Describe(ctx context.Context, name, version string) (json.RawMessage, error) {
	if m := p.mod.Manifest; m != nil && p.kind.name != kindBlade && name == "" && version == "" {
		name, version = m.Name, m.Version
	}
	if p.kind.name == kindBlade && (name != "" || version != "") {
		return nil, abi.NewError(abi.CodeOptions, "the plugin says itself what its name and version are; leave them out")
	}
	if p.kind.name != kindBlade && (name == "" || version == "") {
		return nil, abi.NewError(abi.CodeOptions, "the plugin is made for another host and has no manifest; say its name and version: --name blade-tool-x --version 1.0.0")
	}
	if !p.enter() {
		return nil, closedError()
	}
	defer p.leave()
	adm, err := p.admit(ctx)
	if err != nil {
		return nil, err
	}
	defer adm.Release()
	c, err := p.compile(ctx)
	if err != nil {
		return nil, err
	}
	out, err := p.describe(ctx, c, adm)
	if err != nil || p.kind.name == kindBlade {
		return out, err
	}
	return manifestOf(out, name, version)
}

// describe runs the describing export.
func (p *Plugin) describe(ctx context.Context, c *compiled, at *place) ([]byte, error) {
	limited, cancel := context.WithTimeoutCause(ctx, abi.InitTime, abi.NewError(abi.CodeInit, "%s took longer than %v", p.kind.describe, abi.InitTime))
	defer cancel()
	r := p.newRun(limited, p.name(), at)
	var input []byte
	if p.kind.name == kindMCP2 {
		input = []byte(`{"context":` + requestContext + `,"request":{}}`)
	}
	out, failed, e, err := r.invoke(c, engine.NewWorld(engine.World{}), p.kind.describe, input)
	switch {
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		return nil, abi.AsError(context.Cause(limited))
	case err != nil:
		return nil, err
	case e != nil && e.Code == abi.CodeGuestPhase:
		return nil, e
	case e != nil || failed != nil:
		if e == nil {
			e = failed
		}
		fail := abi.NewError(abi.CodeInit, "the module failed in %s: %s", p.kind.describe, e.Message)
		fail.Details = e.Details
		return nil, fail
	case len(out) > abi.MaxManifest:
		return nil, abi.NewError(abi.CodeInit, "%s answered more than %d bytes", p.kind.describe, abi.MaxManifest)
	}
	return out, nil
}

func (p *Plugin) name() string {
	if p.mod.Manifest != nil {
		return p.mod.Manifest.Name
	}
	return "plugin"
}

// admit waits for a place among the running guests.
func (p *Plugin) admit(ctx context.Context) (*place, error) {
	if err := p.e.gate.enter(ctx); err != nil {
		return nil, err
	}
	return &place{g: p.e.gate, held: true}, nil
}

// Tools returns the plugin's tools for one world.
func (p *Plugin) Tools(w *engine.World, lent engine.Lent) []tool.Tool {
	out := make([]tool.Tool, len(p.mod.Manifest.Tools))
	for i := range out {
		out[i] = p.Tool(i, w, lent)
	}
	return out
}

// Tool is one of the plugin's tools, by its place in the manifest, for a world.
func (p *Plugin) Tool(i int, w *engine.World, lent engine.Lent) tool.Tool {
	spec := p.mod.Manifest.Tools[i]
	if spec.MaxResultSize == 0 || spec.MaxResultSize > abi.DefaultMaxResultSize {
		spec.MaxResultSize = abi.DefaultMaxResultSize
	}
	return &Guest{plugin: p, world: w, spec: &spec, writes: lent.Writes != nil && lent.Writes(&spec)}
}
