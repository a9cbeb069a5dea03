package host

import (
	"encoding/json"
	"maps"
	"sync"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// contextState is a session's context: the base, and what effects laid over it
// for the session and for the turn.
type contextState struct {
	mu      sync.Mutex
	base    abi.RuntimeContext
	session *abi.RuntimeContext
	turn    *abi.RuntimeContext
	cached  *tool.Snapshot
}

// mergeContext lays over over base: each capability facet that is set replaces
// the one below as a whole, environment and metadata merge by key.
func mergeContext(base abi.RuntimeContext, over *abi.RuntimeContext) abi.RuntimeContext {
	out := tool.CloneContext(base)
	if over == nil {
		return out
	}
	o := tool.CloneContext(*over)
	if o.ID != "" {
		out.ID = o.ID
	}
	if c := o.Capabilities; c != nil {
		if out.Capabilities == nil {
			out.Capabilities = &abi.ContextCapabilities{}
		}
		if c.Filesystem != nil {
			out.Capabilities.Filesystem = c.Filesystem
		}
		if c.Browser != nil {
			out.Capabilities.Browser = c.Browser
		}
		if c.Network != nil {
			out.Capabilities.Network = c.Network
		}
	}
	out.Environment = mergeMap(out.Environment, o.Environment)
	out.Metadata = mergeMap(out.Metadata, o.Metadata)
	return out
}

func mergeMap[V any](base, over map[string]V) map[string]V {
	if base == nil && over == nil {
		return nil
	}
	out := maps.Clone(base)
	if out == nil {
		out = map[string]V{}
	}
	maps.Copy(out, over)
	return out
}

// snapshot is the merged context. It is shared and must not be changed.
func (c *contextState) snapshot(sessionID, turnID string) *tool.Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cached != nil && c.cached.TurnID == turnID {
		return c.cached
	}
	merged := mergeContext(mergeContext(c.base, c.session), c.turn)
	s := &tool.Snapshot{SessionID: sessionID, TurnID: turnID, Context: merged, Environment: merged.Environment, Roots: []string{}}
	if s.Environment == nil {
		s.Environment = map[string]string{}
	}
	if merged.Capabilities != nil && merged.Capabilities.Filesystem != nil {
		s.Cwd = merged.Capabilities.Filesystem.Cwd
		if r := merged.Capabilities.Filesystem.Roots; r != nil {
			s.Roots = r
		}
	}
	c.cached = s
	return s
}

// patch applies a contextPatch.
func (c *contextState) patch(p abi.ContextPatch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cached = nil
	over := &c.turn
	if p.Scope == abi.ScopeSession {
		over = &c.session
	}
	if p.Reset {
		*over = nil
	}
	next := p.Context
	if p.Metadata != nil {
		merged := mergeContext(deref(next), &abi.RuntimeContext{Metadata: p.Metadata})
		next = &merged
	}
	if next != nil {
		copied := tool.CloneContext(*next)
		*over = &copied
	}
}

// patchOwn sets one key of the metadata in the overlay of a scope, or with reset
// and without a value takes it away; the rest of the overlay stays.
func (c *contextState) patchOwn(scope abi.Scope, key string, value json.RawMessage, reset bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cached = nil
	over := &c.turn
	if scope == abi.ScopeSession {
		over = &c.session
	}
	next := tool.CloneContext(deref(*over))
	if reset {
		delete(next.Metadata, key)
	}
	if value != nil {
		next.Metadata = mergeMap(next.Metadata, map[string]json.RawMessage{key: value})
	}
	*over = &next
}

func deref(c *abi.RuntimeContext) abi.RuntimeContext {
	if c == nil {
		return abi.RuntimeContext{}
	}
	return *c
}

func (c *contextState) endTurn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn, c.cached = nil, nil
}

func (c *contextState) setBase(base abi.RuntimeContext) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base, c.cached = tool.CloneContext(base), nil
}

// RuntimeState is what runtime patches changed, for the agent loop to act on.
type RuntimeState struct {
	// SystemPromptAppend is what patches added, in order, a blank line between.
	SystemPromptAppend string
	Environment        map[string]string
	ModelOverride      *abi.ModelOverride
	// Skill is the skill of the latest patch that named one.
	Skill *abi.SkillRef
	Hooks []json.RawMessage
}

// runtimeState collects runtime patches by scope.
type runtimeState struct {
	mu      sync.Mutex
	session scopeState
	turn    scopeState
}

type scopeState struct {
	policy   *abi.ToolPolicy
	found    map[string]bool
	patches  []abi.RuntimePatch
	replaced bool
}

func (r *runtimeState) apply(p abi.RuntimePatch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sc := &r.turn
	if p.Scope == abi.ScopeSession {
		sc = &r.session
	}
	switch {
	case p.ToolPolicy != nil:
		sc.policy, sc.replaced = p.ToolPolicy, true
	case p.Skill != nil:
		sc.policy, sc.replaced = nil, true
	}
	if d := p.ToolDiscovery; d != nil {
		if d.Reset || sc.found == nil {
			sc.found = map[string]bool{}
		}
		for _, name := range d.Discover {
			sc.found[name] = true
		}
	}
	sc.patches = append(sc.patches, p)
}

// policy is the tool policy in force: the turn's where it has set one, else the
// session's.
func (r *runtimeState) policy() *abi.ToolPolicy {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turn.replaced {
		return r.turn.policy
	}
	return r.session.policy
}

func (r *runtimeState) discovered(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.session.found[name] || r.turn.found[name]
}

func (r *runtimeState) endTurn() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn = scopeState{}
}

func (r *runtimeState) state() RuntimeState {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out RuntimeState
	for _, sc := range []*scopeState{&r.session, &r.turn} {
		for _, p := range sc.patches {
			if p.SystemPromptAppend != "" {
				if out.SystemPromptAppend != "" {
					out.SystemPromptAppend += "\n\n"
				}
				out.SystemPromptAppend += p.SystemPromptAppend
			}
			out.Environment = mergeMap(out.Environment, p.Environment)
			if p.ModelOverride != nil {
				out.ModelOverride = p.ModelOverride
			}
			if p.Skill != nil {
				out.Skill = p.Skill
			}
			out.Hooks = append(out.Hooks, p.Hooks...)
		}
	}
	return out
}
