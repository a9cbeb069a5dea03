package extism

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	sdk "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/engine"
	"github.com/bladehost/bladehost/host/tool"
)

// notice is how long a guest that yields or calls services has to learn that its
// call has ended, and cleanup how long it may run once it knows, both since that
// end. Any other guest is stopped at once.
const (
	notice  = 50 * time.Millisecond
	cleanup = abi.CleanupTime - time.Second
)

// outputVariable makes the SDK write the guest's output to the process's own.
const outputVariable = "EXTISM_ENABLE_WASI_OUTPUT"

// runKey leads from a context to its run.
type runKey struct{}

// run is one call of an export in an instance of its own. It belongs to one
// goroutine, but for the fields that are atomic.
type run struct {
	p *Plugin
	// ctx is the call's context; stop is the guest's, which ends a little later.
	ctx, stop context.Context
	place     *place
	// call and spec are nil while the plugin describes itself.
	call *tool.Call
	spec *abi.ToolSpec
	tool string

	violation *abi.Error
	// polled says that the guest asks for cancellation by what it calls, noticed
	// that it was told.
	polled, noticed atomic.Bool

	memory budget
	meter  meter
	// function and plugin are of the host function that runs.
	function string
	plugin   *sdk.CurrentPlugin
	kernel   api.Memory
	blocks   blocks
	input    []byte

	vars               map[string][]byte
	varBytes           int
	logged             int
	yields, yieldBytes int
	stdout, stderr     output
}

func (p *Plugin) newRun(ctx context.Context, name string, at *place) *run {
	r := &run{p: p, ctx: ctx, place: at, tool: name, vars: map[string][]byte{}, memory: budget{left: uint64(p.e.opt.MemoryLimit)}}
	r.stdout, r.stderr = output{log: p.e.log, stream: "stdout"}, output{log: p.e.log, stream: "stderr"}
	return r
}

func (r *run) log() *slog.Logger { return r.p.e.log }

// why is the cancel reason as the guest learns it.
func (r *run) why() abi.Cancel {
	r.polled.Store(true)
	reason := tool.Reason(r.ctx)
	if reason != abi.CancelNone {
		r.noticed.Store(true)
	}
	return reason
}

// watch makes the guest's context. The returned function ends it.
func (r *run) watch() func() {
	stop, cancel := context.WithCancel(context.WithoutCancel(r.ctx))
	r.stop = context.WithValue(stop, runKey{}, r)
	over, watched := make(chan struct{}), make(chan struct{})
	wait := func(d time.Duration) bool {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return true
		case <-over:
			return false
		}
	}
	unwatch := context.AfterFunc(r.ctx, func() {
		defer close(watched)
		if r.polled.Load() && (!wait(notice) || (r.noticed.Load() && !wait(cleanup-notice))) {
			return
		}
		cancel()
	})
	unlink := context.AfterFunc(r.p.life, cancel)
	return func() {
		close(over)
		if !unwatch() {
			<-watched
		}
		unlink()
		cancel()
		r.stdout.flush()
		r.stderr.flush()
	}
}

// sleep waits for the guest, until its call ends; after that only a millisecond at
// most, so that a guest cannot spin on it.
func (r *run) sleep(ns int64) {
	d, done := time.Duration(ns), r.ctx.Done()
	if r.ctx.Err() != nil {
		d, done = min(d, time.Millisecond), nil
	}
	resume := r.place.pause(r.ctx)
	defer resume()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-done:
	case <-r.stop.Done():
	}
}

// config is the world of the guest: granted variables, clocks and its output. It
// has no files, arguments or input.
func (r *run) config(w *engine.World) wazero.ModuleConfig {
	c := wazero.NewModuleConfig().WithStdout(&r.stdout).WithStderr(&r.stderr).WithRandSource(rand.Reader).WithNanosleep(r.sleep)
	step := time.Millisecond
	if w.FineClock {
		step = time.Nanosecond
	}
	// Runtimes take a monotonic clock at 0 for a broken one.
	start, resolution := time.Now().Add(-time.Second), sys.ClockResolution(step)
	c = c.WithWalltime(func() (int64, int32) {
		t := time.Now().Truncate(step)
		return t.Unix(), int32(t.Nanosecond())
	}, resolution).WithNanotime(func() int64 { return int64(time.Since(start).Truncate(step)) }, resolution)
	for k, v := range w.Env {
		c = c.WithEnv(k, v)
	}
	return c
}

// invoke calls an export with an input and returns its output. The error is an
// *abi.Error of the guest's own making (failed) or of the host's (e), or the
// reason for which the guest was stopped (err).
func (r *run) invoke(c *compiled, w *engine.World, export string, input []byte) (out []byte, failed, e *abi.Error, err error) {
	defer r.watch()()
	defer func() {
		if v := recover(); v != nil {
			out, failed, err = nil, nil, nil
			e = abi.NewError(abi.CodeGuestTrap, "the tool crashed: %s", clip(firstLine(fmt.Sprint(v))))
		}
	}()
	if r.ctx.Err() != nil {
		return nil, nil, nil, context.Cause(r.ctx) // nothing of it has run
	}
	if _, set := os.LookupEnv(outputVariable); set {
		return nil, nil, abi.NewError(abi.CodeInstantiation, "the environment variable %s is set, which lets plugins write into this program's output; unset it", outputVariable), nil
	}
	inst, err := c.plugin.Instance(experimental.WithMemoryAllocator(r.stop, &r.memory), sdk.PluginInstanceConfig{ModuleConfig: r.config(w)})
	if err == nil && c.module.Info.Memory != nil {
		err = c.module.WriteImage(r.memory.last.buf)
	}
	if err != nil {
		return r.ended(abi.CodeInstantiation, "the module could not be started: ", err)
	}
	defer func() { _ = inst.CloseWithContext(context.WithoutCancel(r.stop)) }() // it only frees memory
	inst.SetLogger(func(sdk.LogLevel, string) {})
	r.input = input
	code, out, err := inst.CallWithContext(r.stop, export, input)
	if err == nil && code == 0 {
		return out, nil, nil, nil
	}
	// What the SDK returns may be the guest's error or a crash.
	said := ""
	if r.violation == nil && r.stop.Err() == nil {
		said = inst.GetErrorWithContext(r.stop)
	}
	switch {
	case err == nil:
		return nil, abi.NewError("", "the plugin failed with code %d and without an error text", int32(code)), nil, nil
	case said != "" && err.Error() == said:
		return nil, abi.NewError("", "%s", strings.ToValidUTF8(said, "\ufffd")), nil, nil
	}
	return r.ended(abi.CodeGuestTrap, "the tool crashed: ", err)
}

// ended says why the guest did not return.
func (r *run) ended(code abi.Code, prefix string, err error) ([]byte, *abi.Error, *abi.Error, error) {
	why := trapText(err)
	var e *abi.Error
	switch {
	case r.violation != nil:
		return nil, nil, r.violation, nil
	case r.p.life.Err() != nil:
		return nil, nil, nil, errors.Join(&tool.CancelError{Reason: abi.CancelShutdown}, tool.ErrPreempted)
	case r.stop.Err() != nil:
		return nil, nil, nil, errors.Join(context.Cause(r.ctx), tool.ErrPreempted)
	case r.meter.deep, strings.Contains(why, "stack overflow"): // the runtime has no exported error for its own
		e = abi.NewError(abi.CodeGuestStack, "the tool's calls nested too deeply")
	case r.memory.refused:
		e = abi.NewError(abi.CodeGuestOOM, "the tool ran out of memory: its limit is %d MiB; give more with --memory-limit", r.p.e.opt.MemoryLimit>>20)
	default:
		e = abi.NewError(code, "%s%s", prefix, why)
	}
	details := map[string]string{"trap": why}
	if len(r.stderr.tail) > 0 {
		details["stderr"] = text(r.stderr.tail)
	}
	return nil, nil, e.With(details), nil
}

func trapText(err error) string {
	s := strings.TrimPrefix(firstLine(err.Error()), "failed to initialize runtime: ")
	return clip(strings.TrimSuffix(strings.TrimPrefix(s, "wasm error: "), " (recovered by wazero)"))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func clip(s string) string {
	const most = 300
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
