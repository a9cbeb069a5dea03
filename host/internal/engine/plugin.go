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
	"sync/atomic"

	"github.com/tetratelabs/wazero"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/wasm"
)

// Plugin is a module that passed every check that needs no running of it. It is
// compiled when it is first needed. Safe for concurrent use.
type Plugin struct {
	e   *Engine
	mod *Module
	// file is the module as it was loaded. key names its machine code, source the
	// file, in the cache.
	file        []byte
	key, source string

	// once is held while the module is compiled. rewritten is what to compile, where
	// that is known already, and stored its form in the cache.
	once      chan struct{}
	rewritten *wasm.Module
	stored    *storedModule
	compiled  atomic.Pointer[compiled]
	err       error

	// users counts the calls, compilations and sweeps that go on. Whoever adds one
	// looks at closing afterwards; the last one to leave a plugin that is closing
	// frees it.
	users   atomic.Int64
	closing atomic.Bool
	// closed is closed when closing begins, freed when nothing is left.
	closed, freed chan struct{}
	freeing       sync.Once
	freeErr       error

	mu    sync.Mutex
	pools map[string]*pool
}

// level is how the instances of a plugin are used again; see pool.
type level int32

const (
	strict level = iota
	snapshot
	fresh
)

// compiled is the runtime of one plugin. Each plugin has a runtime of its own,
// so that no module can name another's instances.
type compiled struct {
	rt    wazero.Runtime
	code  wazero.CompiledModule
	cache wazero.CompilationCache
	// module is the rewritten module without its bytes.
	module *wasm.Module
	level  level
	// base is the image before anything ran; made is it once it was needed.
	base func() (*image, error)
	made *image
	// hit says that the machine code came from the cache on disk.
	hit bool
}

// Load checks a module and keeps its bytes, which the caller must not change.
// Nothing of it is run or compiled yet.
func (e *Engine) Load(b []byte) (*Plugin, error) {
	p, err := e.recall(b)
	if p == nil {
		if p, err = e.read(b); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	if err := p.mod.Check(); err != nil {
		return nil, err
	}
	return e.plugin(p)
}

// LoadUnsigned is Load for a module whose manifest section is missing or not
// yet trusted, to ask it for its description only.
func (e *Engine) LoadUnsigned(b []byte) (*Plugin, error) {
	p, err := e.read(b)
	if p == nil || err != nil && abi.CodeOf(err) != abi.CodeManifest {
		return nil, err
	}
	if err := p.mod.Check(); err != nil && abi.CodeOf(err) != abi.CodeManifestMissing {
		return nil, err
	}
	return e.plugin(p)
}

// read scans a module. With an error there may still be a plugin, whose manifest is
// not valid.
func (e *Engine) read(b []byte) (*Plugin, error) {
	m, err := Read(b)
	if m == nil {
		return nil, err
	}
	return e.newPlugin(m, b), err
}

// recall is read for a module that is in the cache: it was scanned and rewritten
// before. It returns nil for any other.
func (e *Engine) recall(b []byte) (*Plugin, error) {
	if e.dir == nil {
		return nil, nil
	}
	sum := sha256.Sum256(b)
	key, stored, err := e.dir.recall(e.source(hex.EncodeToString(sum[:])))
	if err != nil {
		return nil, nil // it is not there, or not as it was
	}
	w, err := wasm.Unmarshal(stored.bytes)
	if err != nil {
		return nil, nil // of another version
	}
	m, err := describe(b, sum, w.Info)
	if err != nil {
		return nil, err
	}
	p := e.newPlugin(m, b)
	p.key, p.rewritten, p.stored = key, w, stored
	return p, nil
}

func (e *Engine) newPlugin(m *Module, b []byte) *Plugin {
	return &Plugin{
		e: e, mod: m, file: b, once: make(chan struct{}, 1), source: e.source(m.Digest),
		closed: make(chan struct{}), freed: make(chan struct{}), pools: map[string]*pool{},
	}
}

// plugin takes a module in that was found good.
func (e *Engine) plugin(p *Plugin) (*Plugin, error) {
	if mem := p.mod.Info.Memory; mem != nil && int64(mem.Min)*pageSize > e.opt.MemoryLimit {
		return nil, abi.NewError(abi.CodeModuleLimit, "the module needs %d MiB of memory to start; the limit is %d MiB", int64(mem.Min)*pageSize>>20, e.opt.MemoryLimit>>20)
	}
	if p.key == "" {
		if err := p.identify(); err != nil {
			return nil, err
		}
	}
	if err := e.add(p); err != nil {
		return nil, err
	}
	return p, nil
}

// identify finds the key of a module. What the rewriter refuses is refused here and
// not at the first call; what is in the cache was not refused.
func (p *Plugin) identify() error {
	code, err := p.code()
	if err != nil {
		return err
	}
	key := wasm.Key(code, rewriting())
	p.key = p.e.name("code", hex.EncodeToString(key[:]))
	if p.e.dir == nil || !p.e.dir.has(p.key) {
		p.rewritten, err = rewrite(code)
	}
	return err
}

// source names a file in the cache.
func (e *Engine) source(digest string) string {
	return e.name("file", fmt.Sprintf("%s\n%d\n%#v", digest, wasm.RewriterVersion, rewriting()))
}

// name is a name for the cache: it changes with what is named, the runtime's version
// and what code is generated for.
func (e *Engine) name(kind, what string) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "bladehost 3 %s\n%s\n%s\n%s/%s\n%s\n", kind, what, runtimeVersion(), runtime.GOOS, runtime.GOARCH, e.kind())
	return hex.EncodeToString(h.Sum(nil))
}

// code is the module without its manifest, on which its machine code does not
// depend: with and without the section it is compiled once.
func (p *Plugin) code() ([]byte, error) {
	code, err := wasm.RemoveCustom(p.file, abi.ManifestSection)
	if err != nil {
		return nil, moduleError(err)
	}
	return code, nil
}

// rewriting is how all modules are rewritten. The memory limit is not in it: it
// is the allocator's, so that another limit needs no other machine code.
func rewriting() wasm.Options { return wasm.Options{} }

func rewrite(code []byte) (*wasm.Module, error) {
	m, err := wasm.Rewrite(code, rewriting())
	if err != nil {
		return nil, moduleError(err)
	}
	if err := wasm.Verify(m.Bytes, rewriting()); err != nil {
		return nil, abi.NewError(abi.CodeCompile, "the rewritten module is not as it must be: %v", err)
	}
	return m, nil
}

// Module is what the module says about itself.
func (p *Plugin) Module() *Module { return p.mod }

// Manifest is the manifest of the section.
func (p *Plugin) Manifest() *abi.Manifest { return p.mod.Manifest }

// Bytes is the module as it was loaded. It must not be changed.
func (p *Plugin) Bytes() []byte { return p.file }

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

// enter counts a user of the plugin; leave must follow if it says true.
func (p *Plugin) enter() bool {
	p.users.Add(1)
	if p.closing.Load() {
		p.leave()
		return false
	}
	return true
}

func (p *Plugin) leave() {
	if p.users.Add(-1) == 0 && p.closing.Load() {
		p.free()
	}
}

func closedError() *abi.Error { return abi.NewError(abi.CodeShutdown, "the plugin is closed") }

// pool returns the instances for one world, entered: leave must follow. It is
// made when first asked for.
func (p *Plugin) pool(c *compiled, w *World) *pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	pl, ok := p.pools[w.key]
	if !ok {
		pl = newPool(p, c, w)
		p.pools[w.key] = pl
	}
	pl.users.Add(1) // nothing is forgotten while p.mu is held
	return pl
}

// forget takes a pool out that nobody is in, and says whether it did.
func (p *Plugin) forget(pl *pool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	pl.gone.Store(true)
	if pl.users.Load() > 0 || pl.idle.Load() > 0 {
		pl.gone.Store(false)
		return false
	}
	delete(p.pools, pl.world.key)
	return true
}

// Close frees the plugin; calls that still run are stopped. When ctx ends before
// they are, what they use is freed as soon as they are.
func (p *Plugin) Close(ctx context.Context) error {
	if p.closing.CompareAndSwap(false, true) {
		close(p.closed)
	}
	if p.users.Load() == 0 {
		p.free()
	}
	select {
	case <-p.freed:
		return p.freeErr
	default:
	}
	select {
	case <-p.freed:
		return p.freeErr
	case <-ctx.Done():
		return fmt.Errorf("close a plugin: a call still runs: %w", context.Cause(ctx))
	}
}

func (p *Plugin) free() {
	p.freeing.Do(func() {
		defer close(p.freed)
		p.e.drop(p)
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, pl := range p.pools {
			pl.free()
		}
		clear(p.pools)
		if c := p.compiled.Load(); c != nil {
			p.freeErr = c.free()
		}
	})
}

// Describe runs the module's blade_describe in a world with nothing in it and
// returns the bytes it answered. It is for building and checking plugins;
// nothing else runs a module to learn what it is.
func (p *Plugin) Describe(ctx context.Context) (json.RawMessage, error) {
	if !p.enter() {
		return nil, closedError()
	}
	defer p.leave()
	c, err := p.compile(ctx)
	if err != nil {
		return nil, err
	}
	pl := p.pool(c, emptyWorld())
	defer pl.leave()
	return pl.describe(ctx)
}
