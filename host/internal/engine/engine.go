package engine

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/bladehost/bladehost/abi"
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
	// Log takes what guests log and write to standard output and error. Nil
	// drops it.
	Log *slog.Logger
}

// Engine holds what plugins share: the cache of compiled code and the gate on
// running guests. It is safe for concurrent use.
type Engine struct {
	opt  Options
	log  *slog.Logger
	gate *gate
	dir  *cacheDir

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
	if opt.Running == 0 {
		opt.Running = runtime.GOMAXPROCS(0)
	}
	e := &Engine{opt: opt, log: opt.Log, gate: newGate(opt.Running), plugins: map[*Plugin]struct{}{}}
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
	return e, nil
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
	var first error
	for _, p := range list {
		if err := p.Close(ctx); err != nil && first == nil {
			first = err
		}
	}
	return first
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
