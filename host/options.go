package host

import (
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// Options configures New. The zero value is a host without tools that keeps
// compiled plugins in memory only.
type Options struct {
	// Builtins are trusted tools, Tools the embedder's own (trust workspace).
	// Every session starts with them.
	Builtins, Tools []tool.Tool
	// CacheDir keeps compiled plugins between processes, private to the user.
	CacheDir string
	// CacheSize bounds it in bytes; 0 means 1 GiB.
	CacheSize int64
	// MemoryLimit bounds each plugin instance in bytes; 0 means 256 MiB.
	MemoryLimit int64
	// RunningGuests bounds the plugin calls that compute at once; 0 means GOMAXPROCS.
	RunningGuests int
	// Interpreter runs plugins without machine code, 30 to 40 times slower.
	Interpreter bool
	// SingleUse is for a process that makes one call and ends: each instance of a
	// plugin serves one call, and nothing is prepared for a next one. That saves some
	// 10 ms of a Go plugin's first call and costs as much for each further one.
	SingleUse bool
	// CompileChild is a command, with its arguments, that calls CompileInChild with
	// the arguments that are appended to it. Plugins that are not in the cache are
	// compiled there, with bounds on time and memory: a small module can keep the
	// compiler busy for minutes. Empty compiles in this process.
	CompileChild []string
	// ArtifactDir keeps large results; empty means a private folder below the
	// system's folder for temporary files, removed by Close.
	ArtifactDir string
	// Concurrency bounds the calls in flight; zero fields have defaults.
	Concurrency Concurrency
	// LockWait bounds the wait for a file that another call holds; 0 means 30 s.
	LockWait time.Duration
	// Log takes what the host and its plugins log; nil drops it.
	Log *slog.Logger
}

// Concurrency bounds calls in flight by resolved kind. A zero field has the
// default; negative ones are refused.
type Concurrency struct {
	ReadOnly int // 10
	Write    int // 10
	Execute  int // 3
	// Queue bounds the calls that wait in each kind.
	Queue int // 1000
}

// SessionOptions configures NewSession. The zero value is a session with the
// host's tools, in default mode, in which nothing that needs a confirmation runs.
type SessionOptions struct {
	// ID names the session; empty means a new random one.
	ID string
	// Tools are further tools of this session (source session, trust workspace).
	Tools []tool.Tool
	// Plugins are loaded plugins with what this session lends them.
	Plugins []Attachment
	// AllowedTools restricts the tools by canonical name or alias. Nil does not
	// restrict; an empty list allows none.
	AllowedTools []string
	// DisallowedTools removes tools; it wins over AllowedTools.
	DisallowedTools []string
	SourcePolicy    SourcePolicy
	// Services are what tools may declare, by name.
	Services map[string]tool.Service
	// Runtime serves tools with requiresRuntime; nil is one without a lease. A
	// LeaseWatcher also ends the session's work when its lease is lost.
	Runtime tool.Runtime

	Mode  policy.Mode
	Rules policy.Rules
	// PermissionHandler judges calls; CanUseTool does too where it is nil, for
	// embedders that have only a plain function.
	PermissionHandler policy.Handler
	CanUseTool        policy.HandlerFunc
	// Confirm asks the user. Without it what needs a confirmation is denied,
	// unless AutoApprove is set.
	Confirm     tool.ConfirmationHandler
	AutoApprove bool

	Lifecycle  Lifecycle
	Hooks      []Hook
	Middleware []Middleware
	// HookTimeout bounds the hooks of one event together; 0 means 10 minutes.
	HookTimeout time.Duration
	// SessionEndHookTimeout bounds the hooks of SessionEnd; 0 means 3 s.
	SessionEndHookTimeout time.Duration
	// ToolTimeout bounds each execution; 0 means 10 minutes. It is whole
	// milliseconds, at most 2147483647 of them.
	ToolTimeout time.Duration
	// Events takes the session's stream of events, in order within a call and
	// concurrently between calls. It must not call back into the session.
	Events func(Event)
	// ExtendedEvents adds status, data, error and metadata to tool_result.
	ExtendedEvents bool
	// Context is the base context: workspace roots, current folder, environment.
	// The process's own current folder is never used.
	Context abi.RuntimeContext
	// EarlyAdmission takes the slot before the permission checks, so that waiting
	// confirmations hold slots.
	EarlyAdmission bool
	// AllowUndiscovered lets a deferred tool run before it was discovered.
	AllowUndiscovered bool
	// Repairs mend a model's arguments before anything sees them; nil means
	// DefaultRepairs.
	Repairs []Repair
	// Concurrency gives the session slots of its own; nil shares the host's.
	Concurrency *Concurrency
	// KeepPayloads keeps inputs and results in the history, not only their digests.
	KeepPayloads bool
}

// SourcePolicy restricts tools by where they come from. A nil list does not
// restrict, an empty one allows nothing; both must match.
type SourcePolicy struct {
	AllowedSources     []tool.SourceKind
	AllowedTrustLevels []tool.Trust
}

const (
	defaultToolTimeout    = 600_000 * time.Millisecond
	defaultHookTimeout    = 600_000 * time.Millisecond
	defaultSessionEndTime = 3 * time.Second
	defaultLockWait       = 30 * time.Second
	// maxTimeoutMs is the largest timer of JavaScript hosts: 2^31 - 1.
	maxTimeoutMs = math.MaxInt32
)

// ToolTimeoutMs reads a toolTimeoutMs of a configuration text: a whole number
// of milliseconds from 1 to 2147483647.
func ToolTimeoutMs(text string) (time.Duration, error) {
	if ms, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil && ms >= 1 && ms <= maxTimeoutMs {
		return time.Duration(ms) * time.Millisecond, nil
	}
	return 0, abi.NewError(abi.CodeOptions, "toolTimeoutMs is %s; it must be a whole number from 1 to %d", clip(text), maxTimeoutMs)
}

func checkTimeout(name string, d time.Duration) error {
	if d < 0 || d > maxTimeoutMs*time.Millisecond || d%time.Millisecond != 0 {
		return abi.NewError(abi.CodeOptions, "%s is %v; it must be whole milliseconds from 1 to %d", name, d, maxTimeoutMs)
	}
	return nil
}

func (c Concurrency) withDefaults() (Concurrency, error) {
	for _, f := range []struct {
		name string
		v    *int
		def  int
	}{{"ReadOnly", &c.ReadOnly, 10}, {"Write", &c.Write, 10}, {"Execute", &c.Execute, 3}, {"Queue", &c.Queue, 1000}} {
		if *f.v < 0 {
			return c, abi.NewError(abi.CodeOptions, "Concurrency.%s is %d; it must be a positive number", f.name, *f.v)
		}
		if *f.v == 0 {
			*f.v = f.def
		}
	}
	return c, nil
}

func (o SessionOptions) withDefaults() (SessionOptions, error) {
	var err error
	if o.Mode, err = policy.ParseMode(string(o.Mode)); err != nil {
		return o, err
	}
	for _, t := range []struct {
		name string
		d    *time.Duration
		def  time.Duration
	}{{"ToolTimeout", &o.ToolTimeout, defaultToolTimeout}, {"HookTimeout", &o.HookTimeout, defaultHookTimeout}, {"SessionEndHookTimeout", &o.SessionEndHookTimeout, defaultSessionEndTime}} {
		if err := checkTimeout(t.name, *t.d); err != nil {
			return o, err
		}
		if *t.d == 0 {
			*t.d = t.def
		}
	}
	if err := o.checkCallbacks(); err != nil {
		return o, err
	}
	for name := range o.Services {
		if !abi.KnownService(name) {
			return o, abi.NewError(abi.CodeServiceName, "there is no service %q; known are %s, and x-… names", clip(name), strings.Join(abi.SessionServices(), ", "))
		}
	}
	if o.Repairs == nil {
		o.Repairs = DefaultRepairs()
	}
	if o.Runtime == nil {
		o.Runtime = noLease{}
	}
	if o.PermissionHandler == nil && o.CanUseTool != nil {
		o.PermissionHandler = o.CanUseTool
	}
	if o.ID == "" {
		o.ID = newID("session")
	}
	return o, nil
}

// checkCallbacks refuses what could never be called.
func (o SessionOptions) checkCallbacks() error {
	wrong := func(format string, args ...any) error { return abi.NewError(abi.CodeOptions, format, args...) }
	for i, h := range o.Hooks {
		if !slices.Contains(hookEvents, h.Event) {
			return wrong("Hooks[%d].Event is %q; known are %v", i, clip(string(h.Event)), hookEvents)
		}
		if h.Run == nil {
			return wrong("Hooks[%d].Run, of a %s hook, is nil; it must be a function", i, h.Event)
		}
	}
	for i, m := range o.Middleware {
		if m == nil {
			return wrong("Middleware[%d] is nil; it must be a function", i)
		}
	}
	for i, r := range o.Repairs {
		if r.Apply == nil {
			return wrong("Repairs[%d].Apply, of the repair %q, is nil; it must be a function", i, clip(r.Name))
		}
	}
	for _, f := range []struct {
		name string
		v    any
	}{{"PermissionHandler", o.PermissionHandler}, {"Confirm", o.Confirm}, {"Lifecycle", o.Lifecycle}, {"Runtime", o.Runtime}} {
		if f.v != nil && isNil(f.v) {
			return wrong("%s holds a nil %T; leave the option out or give one that is not nil", f.name, f.v)
		}
	}
	for name, svc := range o.Services {
		if svc != nil && isNil(svc) {
			return wrong("Services[%q] holds a nil %T; leave it out or give one that is not nil", clip(name), svc)
		}
	}
	return nil
}

func clip(s string) string {
	const most = 200
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
