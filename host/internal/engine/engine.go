package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/engine/wasi"
)

// DefaultMemoryLimit is how much memory an instance may have, in bytes.
const DefaultMemoryLimit = 256 << 20

// maxMemoryLimit is one page short of the 32-bit address space: the runtime's
// bounds checks overflow at 4 GiB.
const maxMemoryLimit = 65535 * pageSize

const pageSize = 64 << 10

// Options configures an Engine. The zero value keeps compiled code in memory
// only and uses the defaults named at the fields.
type Options struct {
	// CacheDir keeps compiled code between processes. It is made with mode 0700
	// and must belong to the user alone. Empty means no cache on disk.
	CacheDir string
	// CacheSize bounds it in bytes; 0 means DefaultCacheSize.
	CacheSize int64
	// MemoryLimit bounds each instance in bytes; 0 means DefaultMemoryLimit.
	MemoryLimit int64
	// Running bounds how many guests run at once; 0 means GOMAXPROCS. A guest
	// that waits for the host does not count.
	Running int
	// Interpreter runs without machine code: 30 to 40 times slower, for
	// platforms without a compiler and for comparison.
	Interpreter bool
	// CompileChild is a command, with its arguments, that calls CompileMain with
	// the arguments that are appended to it. Modules that are not in the cache are
	// compiled there, so that a module that the compiler cannot cope with ends that
	// process and not this one. Empty compiles here.
	CompileChild []string
	// CompileTime and CompileMemory, in bytes, bound it; 0 means
	// DefaultCompileTime and DefaultCompileMemory.
	CompileTime   time.Duration
	CompileMemory int64
	// Reset forces how instances are put back after a call: ResetCopyOnWrite or
	// ResetMemcpy. Empty takes the environment variable BLADEHOST_RESET, and what
	// works here best without that.
	Reset string
	// Idle bounds the unused instances that a plugin keeps for each grant set; 0
	// means DefaultIdle.
	Idle int
	// IdleTime is how long they are kept, to twice that; 0 means DefaultIdleTime.
	IdleTime time.Duration
	// Once is for a process that makes one call and ends: each instance serves one
	// call, and nothing is prepared for a next one.
	Once bool
	// Log takes what guests log and write to standard output and error. Nil
	// drops it.
	Log *slog.Logger

	// For tests: level forces the level of all plugins, initTime shortens the time
	// of an init phase, cleanup that of a guest that knows it should stop, world
	// changes what WASI shows.
	level             *level
	initTime, cleanup time.Duration
	world             func(*wasi.Config)
}

// Engine holds what plugins share: the cache of compiled code and the gate on
// running guests. It is safe for concurrent use.
type Engine struct {
	opt  Options
	log  *slog.Logger
	gate *gate
	dir  *cacheDir
	// reset is how memory is put back.
	reset *resetter
	// noCompiler says why guests cannot run as machine code. It is asked when
	// compiling failed, and by Doctor: it costs as much as a small plugin's start.
	noCompiler func() error
	// interprets says that guests run without machine code.
	interprets atomic.Bool

	mu      sync.Mutex
	plugins map[*Plugin]struct{}
	closed  bool
}

// New makes an Engine. Close frees it.
func New(opt Options) (*Engine, error) {
	if opt.MemoryLimit == 0 {
		opt.MemoryLimit = DefaultMemoryLimit
	}
	if opt.MemoryLimit < pageSize || opt.MemoryLimit > maxMemoryLimit {
		return nil, abi.NewError(abi.CodeOptions, "the memory limit is %d bytes; it must be between %d and %d", opt.MemoryLimit, pageSize, int64(maxMemoryLimit))
	}
	if opt.Running < 0 {
		return nil, abi.NewError(abi.CodeOptions, "the number of running guests is %d; it must not be negative", opt.Running)
	}
	if opt.Idle < 0 || opt.IdleTime < 0 {
		return nil, abi.NewError(abi.CodeOptions, "the bounds of unused instances are %d and %v; they must not be negative", opt.Idle, opt.IdleTime)
	}
	if opt.CompileTime < 0 || opt.CompileMemory < 0 {
		return nil, abi.NewError(abi.CodeOptions, "the bounds of a compilation are %v and %d bytes; they must not be negative", opt.CompileTime, opt.CompileMemory)
	}
	opt = opt.withDefaults()
	e := &Engine{opt: opt, log: opt.Log, gate: newGate(opt.Running), noCompiler: sync.OnceValue(tryCompiler), plugins: map[*Plugin]struct{}{}}
	e.interprets.Store(opt.Interpreter || !compilers())
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if opt.CacheDir != "" {
		dir, err := openCache(opt.CacheDir, opt.CacheSize)
		if err != nil {
			return nil, err
		}
		e.dir = dir
	}
	reset, err := pickReset(opt.Reset)
	if err != nil {
		return nil, abi.NewError(abi.CodeOptions, "%v", err)
	}
	e.reset = reset
	return e, nil
}

func (o Options) withDefaults() Options {
	if o.Running == 0 {
		o.Running = runtime.GOMAXPROCS(0)
	}
	if o.Idle == 0 {
		o.Idle = DefaultIdle
	}
	if o.IdleTime == 0 {
		o.IdleTime = DefaultIdleTime
	}
	if o.CompileTime == 0 {
		o.CompileTime = DefaultCompileTime
	}
	if o.CompileMemory == 0 {
		o.CompileMemory = DefaultCompileMemory
	}
	if o.Reset == "" {
		o.Reset = os.Getenv(resetEnv)
	}
	if o.initTime == 0 {
		o.initTime = abi.InitTime
	}
	if o.cleanup == 0 {
		o.cleanup = cleanup
	}
	return o
}

// interpreter says that guests run without machine code: it was asked for, or there
// is no compiler for this machine.
func (e *Engine) interpreter() bool { return e.interprets.Load() }

// giveUpCompiling goes on without machine code if that cannot be had here, and says
// whether that is news.
func (e *Engine) giveUpCompiling() bool {
	if e.interpreter() || e.noCompiler() == nil {
		return false
	}
	e.log.Warn("plugins are interpreted, 30 to 40 times slower", "why", e.noCompiler())
	e.interprets.Store(true)
	return true
}

// compilers are the processors that the runtime can make machine code for.
func compilers() bool { return runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64" }

// Close ends all plugins of the engine. Running calls are stopped first.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	first := !e.closed
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
	if first {
		errs = append(errs, e.reset.close())
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

// privateDir makes dir with mode 0700, or checks that nobody else can write to it.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	fi, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return fmt.Errorf("%s is not a folder", dir)
	}
	if runtime.GOOS != "windows" && fi.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("others may write to %s (mode %o), but it holds code that is run; chmod 700 %s", dir, fi.Mode().Perm(), filepath.Clean(dir))
	}
	return ownedByUs(dir, fi)
}
