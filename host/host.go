package host

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/engine"
	"github.com/bladehost/bladehost/host/internal/engine/extism"
	"github.com/bladehost/bladehost/host/tool"
)

// Host owns what sessions share. It is safe for concurrent use. Close waits for
// running calls.
type Host struct {
	opt       Options
	log       *slog.Logger
	engine    *engine.Engine
	extism    *extism.Engine
	base      []*entry
	slots     *scheduler
	locks     *fileLocks
	artifacts *artifactStore

	mu       sync.Mutex
	sessions map[*Session]struct{}
	closed   bool
}

// oldestGo is the first Go release whose os.Root keeps a plugin inside its
// granted folder (CVE-2026-39822 was fixed in it).
const oldestGo = "go1.26.5"

// New makes a Host. Its errors name the option that is wrong, or all tools that
// cannot be registered.
func New(opt Options) (*Host, error) {
	if err := checkGo(runtime.Version()); err != nil {
		return nil, err
	}
	log := opt.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	limits, err := opt.Concurrency.withDefaults()
	if err != nil {
		return nil, err
	}
	if opt.LockWait < 0 {
		return nil, abi.NewError(abi.CodeOptions, "LockWait is %v; it must not be negative", opt.LockWait)
	}
	if opt.LockWait == 0 {
		opt.LockWait = defaultLockWait
	}
	eng, err := engine.New(engine.Options{
		CacheDir: opt.CacheDir, CacheSize: opt.CacheSize, MemoryLimit: opt.MemoryLimit,
		Running: opt.RunningGuests, Interpreter: opt.Interpreter, CompileChild: opt.CompileChild, Once: opt.SingleUse, Log: opt.Log,
	})
	if err != nil {
		return nil, err
	}
	h := &Host{
		opt: opt, log: log, engine: eng, slots: newScheduler(limits), locks: newFileLocks(),
		artifacts: newArtifactStore(opt.ArtifactDir), sessions: map[*Session]struct{}{},
		extism: extism.New(extism.Options{MemoryLimit: opt.MemoryLimit, Running: opt.RunningGuests, Interpreter: opt.Interpreter, Compiler: eng, Log: opt.Log}),
	}
	var errs []error
	add := func(list []tool.Tool, kind tool.SourceKind, trust tool.Trust) {
		for _, t := range list {
			e, err := newEntry(t, tool.Source{Kind: kind, Trust: trust, ID: string(kind)})
			if err != nil {
				errs = append(errs, err)
				continue
			}
			h.base = append(h.base, e)
		}
	}
	add(opt.Builtins, tool.SourceBuiltin, tool.TrustTrusted)
	add(opt.Tools, tool.SourceCustom, tool.TrustWorkspace)
	if _, err := newRegistry().with(h.base); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, eng.Close(context.Background()))
	}
	return h, nil
}

// checkGo refuses Go releases whose os.Root lets a plugin out of its folder.
func checkGo(version string) error {
	if !strings.HasPrefix(version, "go1.") || !olderGo(version, oldestGo) {
		return nil
	}
	return abi.NewError(abi.CodeOptions, "this program was built with %s, whose os.Root can be escaped; build it with %s or newer", version, oldestGo)
}

func olderGo(a, b string) bool {
	parse := func(v string) (minor, patch int) {
		_, _ = fmt.Sscanf(v, "go1.%d.%d", &minor, &patch) // a missing patch is 0
		return minor, patch
	}
	am, ap := parse(a)
	bm, bp := parse(b)
	return am < bm || (am == bm && ap < bp)
}

// LoadPlugin checks a module and makes its tools available to sessions. Nothing
// of it is run. The bytes must not be changed afterwards.
func (h *Host) LoadPlugin(module []byte, opt PluginOptions) (*Plugin, error) {
	if err := h.made(); err != nil {
		return nil, err
	}
	p, err := h.load(module)
	if err != nil {
		return nil, err
	}
	if opt.Trust == "" {
		opt.Trust = tool.TrustRemote
	}
	if opt.Trust != tool.TrustRemote && opt.Trust != tool.TrustWorkspace {
		return nil, abi.NewError(abi.CodeOptions, "a plugin cannot have trust %q; there are workspace and remote", opt.Trust)
	}
	return &Plugin{host: h, p: p, opt: opt}, nil
}

// made refuses a Host that New did not make.
func (h *Host) made() error {
	if h == nil || h.engine == nil {
		return abi.NewError(abi.CodeOptions, "this Host was not made by host.New, which is the only way to make one")
	}
	return nil
}

// Close closes all sessions together, waits for their calls and frees everything.
// While a session still cleans up, or when ctx ends first, it fails, saying what
// still runs, and can be called again.
func (h *Host) Close(ctx context.Context) error {
	if h.made() != nil {
		return nil // there is nothing to close
	}
	ctx = orBackground(ctx)
	h.mu.Lock()
	h.closed = true
	list := make([]*Session, 0, len(h.sessions))
	for s := range h.sessions {
		list = append(list, s)
	}
	h.mu.Unlock()
	if err := closeAll(ctx, list); err != nil {
		return err
	}
	return errors.Join(h.engine.Close(ctx), h.extism.Close(ctx), h.artifacts.close())
}

// closeGrace is how long Close waits after its context has ended, for sessions
// that close at once or report what they still run.
const closeGrace = 250 * time.Millisecond

// closeAll closes sessions together. Those that outlive ctx are in the error; their
// goroutines end with their clean-up, which is bounded.
func closeAll(ctx context.Context, list []*Session) error {
	type closed struct {
		s   *Session
		err error
	}
	done := make(chan closed, len(list))
	open := map[*Session]bool{}
	for _, s := range list {
		open[s] = true
		go func() { done <- closed{s, s.close(ctx, abi.CancelShutdown)} }()
	}
	over, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(closeGrace, cancel) })
	defer stop()
	var errs []error
	for len(open) > 0 {
		select {
		case c := <-done:
			delete(open, c.s)
			errs = append(errs, c.err)
			continue
		case <-over.Done():
		}
		for s := range open {
			errs = append(errs, abi.NewError(abi.CodeCleanup, "session %s did not close in time; its SessionEnd hooks still run", clip(s.opt.ID)).Because(context.Cause(ctx)))
		}
		break
	}
	return errors.Join(errs...)
}

func (h *Host) join(s *Session) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return abi.NewError(abi.CodeShutdown, "the host is closed")
	}
	h.sessions[s] = struct{}{}
	return nil
}

func (h *Host) leave(s *Session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sessions, s)
}

var idText = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// newID is a random id of 100 bits or more.
func newID(what string) string {
	var b [15]byte
	_, _ = rand.Read(b[:]) // crypto/rand never fails on the supported platforms
	return what + "-" + idText.EncodeToString(b[:])
}

func now() time.Time { return time.Now() }
