package host

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// Session owns one conversation: its tools, permissions, context and history.
// It is safe for concurrent use.
type Session struct {
	h     *Host
	opt   SessionOptions
	slots *scheduler

	reg    atomic.Pointer[registry]
	rules  atomic.Pointer[policy.Rules]
	mode   atomic.Pointer[policy.Mode]
	memory policy.Memory

	context contextState
	runtime runtimeState
	history history
	widened atomic.Int64
	refused atomic.Int64

	// pending counts tools and callbacks that outlived their call, pendingHooks
	// hooks that outlived their budget.
	pending, pendingHooks pending
	quarantine            atomic.Pointer[abi.Error]

	mu sync.Mutex
	// known are the names and aliases of all tools that were ever offered, with
	// their tools' names; leftOut says which were not taken and why.
	known   map[string]string
	leftOut []string
	active  map[*run]struct{}
	ids     map[string]bool
	closed  bool
	ended   sync.Once
	// gone is closed when the session has ended.
	gone chan struct{}
}

// NewSession makes a session. Tools whose declared services are missing are left
// out silently; other tools that cannot be registered are an error that names
// them all.
func (h *Host) NewSession(opt SessionOptions) (*Session, error) {
	if err := h.made(); err != nil {
		return nil, err
	}
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Session{h: h, opt: opt, slots: h.slots, active: map[*run]struct{}{}, ids: map[string]bool{}, known: map[string]string{}, gone: make(chan struct{})}
	if opt.Concurrency != nil {
		limits, err := opt.Concurrency.withDefaults()
		if err != nil {
			return nil, err
		}
		s.slots = newScheduler(limits)
	}
	s.mode.Store(&opt.Mode)
	s.context.setBase(opt.Context)
	s.opt.Services = s.services()
	if err := s.register(); err != nil {
		return nil, err
	}
	rules := opt.Rules.Resolve(s.reg.Load().canonical)
	s.rules.Store(&rules)
	if err := h.join(s); err != nil {
		return nil, err
	}
	if _, err := s.fire(context.Background(), HookInput{Event: HookSessionStart}, opt.HookTimeout); err != nil {
		h.leave(s)
		return nil, err
	}
	s.watchLease()
	return s, nil
}

// services are the embedder's and the session's own.
func (s *Session) services() map[string]tool.Service {
	out := map[string]tool.Service{abi.ServiceDiscoverable: s.catalog()}
	for name, svc := range s.opt.Services {
		if svc != nil {
			out[name] = svc
		}
	}
	return out
}

func (s *Session) register() error {
	list := slices.Clone(s.h.base)
	var errs []error
	for _, t := range s.opt.Tools {
		e, err := newEntry(t, tool.Source{Kind: tool.SourceSession, Trust: tool.TrustWorkspace, ID: "session"})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		list = append(list, e)
	}
	for _, a := range s.opt.Plugins {
		if a.Plugin == nil || a.Plugin.host != s.h {
			errs = append(errs, abi.NewError(abi.CodeOptions, "a plugin of the session is nil or was loaded by another host"))
			continue
		}
		es, err := a.entries(s.context.snapshot(s.opt.ID, "").Cwd)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		list = append(list, es...)
	}
	reg, err := newRegistry().with(s.available(list))
	errs = append(errs, err)
	s.reg.Store(reg)
	return errors.Join(errs...)
}

// available leaves out what the selection excludes and what lacks a service.
func (s *Session) available(list []*entry) []*entry {
	for _, e := range list {
		s.known[e.spec.Name] = e.spec.Name
		for _, a := range e.spec.Aliases {
			s.known[a] = e.spec.Name
		}
	}
	names := func(option []string) map[string]bool {
		out := map[string]bool{}
		for _, n := range option {
			if c, ok := s.known[n]; ok {
				out[c] = true
			}
		}
		return out
	}
	allowed, denied := names(s.opt.AllowedTools), names(s.opt.DisallowedTools)
	var out []*entry
	for _, e := range list {
		name := e.spec.Name
		if denied[name] || (s.opt.AllowedTools != nil && !allowed[name]) {
			continue
		}
		if missing := s.missing(e); missing != "" {
			if line := name + " is left out: the session has no " + missing; !slices.Contains(s.leftOut, line) {
				s.leftOut = append(s.leftOut, line)
			}
			continue
		}
		out = append(out, e)
	}
	return out
}

func (s *Session) missing(e *entry) string {
	for _, svc := range e.spec.Services {
		if s.opt.Services[svc] == nil {
			return svc
		}
	}
	return ""
}

// ID is the session's id.
func (s *Session) ID() string { return s.opt.ID }

// Mode is the permission mode in force.
func (s *Session) Mode() policy.Mode { return *s.mode.Load() }

// SetMode changes the permission mode for calls that are not decided yet.
func (s *Session) SetMode(m policy.Mode) error {
	m, err := policy.ParseMode(string(m))
	if err != nil {
		return err
	}
	s.mode.Store(&m)
	return nil
}

// SetContext replaces the base context.
func (s *Session) SetContext(c abi.RuntimeContext) { s.context.setBase(c) }

// Snapshot is a copy of the merged context.
func (s *Session) Snapshot() tool.Snapshot { return s.snapshot("").Clone() }

func (s *Session) snapshot(turnID string) *tool.Snapshot {
	return s.context.snapshot(s.opt.ID, turnID)
}

// RuntimeState is what runtime patches changed so far.
func (s *Session) RuntimeState() RuntimeState { return s.runtime.state() }

// Permissions is what the session remembers about permissions.
func (s *Session) Permissions() *policy.Memory { return &s.memory }

// Diagnostics says which tools were left out and which names in the options are
// no tools.
func (s *Session) Diagnostics() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := slices.Clone(s.leftOut)
	for _, o := range []struct {
		name string
		list []string
	}{{"AllowedTools", s.opt.AllowedTools}, {"DisallowedTools", s.opt.DisallowedTools}} {
		for _, n := range o.list {
			if _, ok := s.known[n]; !ok {
				out = append(out, o.name+" names "+clip(n)+", which is no tool here")
			}
		}
	}
	return out
}

// Widened counts attempts of tools to make a call less safe than they declare.
func (s *Session) Widened() int64 { return s.widened.Load() }

// RefusedEffects counts effects of plugins that the trust gate refused.
func (s *Session) RefusedEffects() int64 { return s.refused.Load() }

// Register adds tools from an MCP server or of the session's own. A tool of the
// same name from the same server is replaced; anything else that clashes is
// reported, and the rest is added.
func (s *Session) Register(src tool.Source, tools ...tool.Tool) error {
	var list []*entry
	var errs []error
	for _, t := range tools {
		e, err := newEntry(t, src)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		list = append(list, e)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	reg, err := s.reg.Load().with(s.available(list))
	s.reg.Store(reg)
	rules := s.opt.Rules.Resolve(reg.canonical)
	s.rules.Store(&rules)
	return errors.Join(append(errs, err)...)
}

// Unregister removes a tool by name or alias and reports whether it was there.
func (s *Session) Unregister(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	reg, ok := s.reg.Load().without(name)
	s.reg.Store(reg)
	return ok
}

// UnregisterServer removes the tools of an MCP server.
func (s *Session) UnregisterServer(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reg.Store(s.reg.Load().withoutServer(server))
}

// Tools lists the registered tools, non-MCP first, then by name. Hidden ones are
// in the list, with the reason.
func (s *Session) Tools() []ToolInfo {
	plan := s.plan()
	out := make([]ToolInfo, 0, len(plan))
	for _, p := range plan {
		i := p.e.info()
		i.Exposure, i.Reason = p.mode, p.reason
		out = append(out, i)
	}
	return out
}

// emit publishes an event.
func (s *Session) emit(e Event) {
	if s.opt.Events == nil {
		return
	}
	e.SessionID = s.opt.ID
	_, _ = guarded(func() (struct{}, error) { s.opt.Events(e); return struct{}{}, nil }) // an observer cannot break a call
}
