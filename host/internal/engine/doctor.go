package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/tetratelabs/wazero"
)

// Report says how guests run on this machine.
type Report struct {
	// Reset is ResetCopyOnWrite or ResetMemcpy, ResetWhy why it is not the faster.
	Reset    string `json:"reset"`
	ResetWhy string `json:"resetWhy,omitempty"`
	// Kernel is the release of the operating system, where it can be read.
	Kernel   string `json:"kernel,omitempty"`
	Platform string `json:"platform"`
	// Engine is compiler or interpreter, EngineWhy why it is not the faster.
	Engine         string      `json:"engine"`
	EngineWhy      string      `json:"engineWhy,omitempty"`
	RuntimeVersion string      `json:"runtimeVersion"`
	Running        int         `json:"runningGuests"`
	MemoryLimit    int64       `json:"memoryLimit"`
	Cache          CacheReport `json:"cache"`
}

// CacheReport is the state of the folder of compiled code.
type CacheReport struct {
	Dir     string `json:"dir,omitempty"`
	Entries int    `json:"entries"`
	// Bad counts entries that are not as they were written; they are made anew
	// when they are needed.
	Bad   int   `json:"bad"`
	Bytes int64 `json:"bytes"`
	Limit int64 `json:"limit"`
}

// Doctor reports how guests run here.
func (e *Engine) Doctor() Report {
	r := Report{
		Reset: e.reset.mode, Kernel: kernelRelease(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Engine: "compiler", RuntimeVersion: runtimeVersion(), Running: e.opt.Running, MemoryLimit: e.opt.MemoryLimit,
	}
	if r.Reset != ResetCopyOnWrite {
		if r.ResetWhy = "it was asked for"; e.opt.Reset == "" {
			c, err := newCopyOnWrite()
			if err != nil {
				r.ResetWhy = err.Error()
			} else {
				_ = c.close() // it was only a try
			}
		}
	}
	if e.giveUpCompiling(); e.interpreter() {
		r.Engine = "interpreter"
		if r.EngineWhy = "it was asked for"; !e.opt.Interpreter {
			r.EngineWhy = e.noCompiler().Error() + "; calls are 30 to 40 times slower"
		}
	}
	if e.dir != nil {
		r.Cache = e.dir.report()
	}
	return r
}

func (c *cacheDir) report() CacheReport {
	r := CacheReport{Dir: c.path, Limit: c.max}
	for _, it := range c.entries() {
		r.Entries++
		r.Bytes += it.size
		if checkEntry(it.path) != nil {
			r.Bad++
		}
	}
	return r
}

// kernelRelease is the version of the Linux kernel.
func kernelRelease() string {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// oneFunction is a module with one empty function.
const oneFunction = "\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x0a\x04\x01\x02\x00\x0b"

// tryCompiler says why machine code cannot be made or run here: another
// processor, or a system that allows no memory that can be executed.
func tryCompiler() (err error) {
	defer func() {
		if v := recover(); v != nil { // how the runtime says that it has no compiler
			err = fmt.Errorf("there is no compiler for %s/%s: %v", runtime.GOOS, runtime.GOARCH, v)
		}
	}()
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler())
	_, err = rt.CompileModule(ctx, []byte(oneFunction))
	return errors.Join(err, rt.Close(ctx))
}
