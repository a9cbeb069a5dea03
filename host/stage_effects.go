package host

import (
	"context"
	"encoding/json"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/strictjson"
	"github.com/bladehost/bladehost/host/tool"
)

// yield publishes one yield of the running tool and hands it to the consumer.
func (r *run) yield(ctx context.Context, y abi.Yield, idle func() func()) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	y, why := r.ownYield(y)
	if why != "" {
		r.s.h.log.Warn("a yield of a tool was rejected", "tool", r.canonical(), "why", why)
		return &rejected{why}
	}
	if y.Kind == abi.YieldEffect {
		if why := r.untrusted(y.Effect); why != "" {
			r.refuseEffect(y.Effect, why)
			return nil
		}
	}
	if !r.announce(y) {
		return &tool.CancelError{Reason: abi.CancelRequest, Detail: "the call is over"}
	}
	return r.x.queue.push(ctx, y, idle)
}

// announce publishes a yield and keeps its effect, unless the call is over.
func (r *run) announce(y abi.Yield) (ok bool) {
	r.say(func() {
		r.out.Lock()
		if ok = !r.over; ok && y.Kind == abi.YieldEffect {
			r.effects = append(r.effects, *y.Effect)
		}
		r.out.Unlock()
		if e, is := YieldEvent(y); ok && is {
			r.emit(e)
		}
	})
	return ok
}

// say calls f, which publishes, when it is its turn. Only publishing waits for the
// session's sink: one that blocks holds up what is published, not the end of the
// call.
func (r *run) say(f func()) {
	if r.saying != nil {
		r.saying <- struct{}{}
		defer func() { <-r.saying }()
	}
	f()
}

// rejected is the error of a yield that the tool may not send.
type rejected struct{ why string }

func (e *rejected) Error() string { return "the yield was rejected: " + e.why }

func (e *rejected) Is(target error) bool { return target == tool.ErrRejected }

// ownYield is a copy that the tool cannot change any more, or says what is wrong
// with the shape of the yield, or that the definition does not have it. What the
// engine hands over is a copy in good shape already.
func (r *run) ownYield(y abi.Yield) (own abi.Yield, why string) {
	if r.entry.guest == nil {
		raw, err := strictjson.Encode(y)
		if err != nil {
			return y, err.Error()
		}
		copied, issues := abi.ParseYield(raw)
		if len(issues) > 0 {
			return y, issues[0].Pointer + " " + issues[0].Message
		}
		y = *copied
	}
	if !r.entry.spec.MayYield(y.Kind) {
		return y, "the definition does not declare kind " + string(y.Kind)
	}
	if y.Kind == abi.YieldEffect && !r.entry.spec.MayEffect(y.Effect.Type) {
		return y, "the definition does not declare the effect " + string(y.Effect.Type)
	}
	return y, ""
}

// untrusted says why a plugin may not have this effect, or "". What the host's
// own and the embedder's tools yield is theirs to decide.
func (r *run) untrusted(e *abi.Effect) string {
	if r.entry.guest == nil {
		return ""
	}
	if r.entry.source.Trust == tool.TrustRemote {
		return "tools of trust remote have no effects"
	}
	switch e.Type {
	case abi.EffectContextPatch:
		var p map[string]json.RawMessage
		var c struct {
			Context map[string]json.RawMessage `json:"context"`
		}
		if json.Unmarshal(e.Patch, &p) != nil || json.Unmarshal(e.Patch, &c) != nil {
			return "the patch cannot be read"
		}
		for k := range c.Context {
			if k != "metadata" {
				return "a plugin may change only the metadata of the context"
			}
		}
	case abi.EffectRuntimePatch:
		var p map[string]json.RawMessage
		if json.Unmarshal(e.Patch, &p) != nil {
			return "the patch cannot be read"
		}
		for k := range p {
			if k != "scope" && k != "source" && k != "toolDiscovery" {
				return "a plugin may change only the tool discovery"
			}
		}
	case abi.EffectNewMessages:
		for _, m := range e.Messages {
			var msg struct {
				Role string `json:"role"`
			}
			if json.Unmarshal(m, &msg) != nil || msg.Role != "user" {
				return "a plugin may add only messages of the role user"
			}
		}
	case abi.EffectPermissionUpdates:
		return "permission updates of tools are never applied"
	}
	return ""
}

// refuseEffect tells of an effect that was not taken; the call goes on.
func (r *run) refuseEffect(e *abi.Effect, why string) {
	r.s.refused.Add(1)
	r.s.h.log.Warn("an effect of a tool was refused", "tool", r.canonical(), "effect", string(e.Type), "why", why)
	notice := abi.Yield{Kind: abi.YieldProgress, Message: "the host refused the effect " + string(e.Type) + ": " + why}
	r.say(func() {
		if !r.ended() {
			r.emit(Event{Type: EventToolProgress, Progress: &notice, Notice: true})
		}
	})
}

// note records what the call did outside.
func (r *run) note(e tool.HostEffect) {
	r.auditEffect(e)
	r.out.Lock()
	defer r.out.Unlock()
	const most = 1000
	switch n := len(r.hostEffects); {
	case r.over || n > most:
	case n == most:
		r.hostEffects = append(r.hostEffects, tool.HostEffect{Op: "more", Target: "further effects are not listed"})
	default:
		r.hostEffects = append(r.hostEffects, e)
	}
}

// ended reports whether the call takes nothing any more.
func (r *run) ended() bool {
	r.out.Lock()
	defer r.out.Unlock()
	return r.over
}

// applyEffects changes the session by the call's effects: context patches each
// in order, of failed calls too unless they are a plugin's; the first runtime
// patch of a success; new messages are the turn's to add.
func (r *run) applyEffects() {
	r.out.Lock()
	r.over = true
	effects := r.effects
	r.out.Unlock()
	failed := r.result.IsError()
	if failed && (r.entry == nil || r.entry.guest != nil) {
		return
	}
	patched := false
	for _, e := range effects {
		switch e.Type {
		case abi.EffectContextPatch:
			var p abi.ContextPatch
			if strictjson.Decode(e.Patch, &p) == nil {
				r.patchContext(p)
			}
		case abi.EffectRuntimePatch:
			var p abi.RuntimePatch
			if !failed && !patched && strictjson.Decode(e.Patch, &p) == nil {
				patched = true
				r.s.runtime.apply(p)
			}
		case abi.EffectNewMessages:
			r.messages = append(r.messages, r.provenance(e.Messages)...)
		}
	}
}

// patchContext applies a context patch. A plugin's metadata goes under its tool's
// name and a plugin's reset takes away only that, so that it cannot touch what
// others laid over the context.
func (r *run) patchContext(p abi.ContextPatch) {
	if r.entry.guest == nil {
		r.s.context.patch(p)
		return
	}
	meta := p.Metadata
	if p.Context != nil {
		meta = mergeMap(p.Context.Metadata, meta)
	}
	var own json.RawMessage
	if meta != nil {
		own = mustJSON(meta) // it was JSON
	}
	r.s.context.patchOwn(p.Scope, r.canonical(), own, p.Reset)
}

// provenance marks messages that a plugin added.
func (r *run) provenance(list []json.RawMessage) []json.RawMessage {
	if r.entry.guest == nil {
		return list
	}
	var out []json.RawMessage
	for _, m := range list {
		var obj map[string]json.RawMessage
		var text string
		if json.Unmarshal(m, &obj) != nil || json.Unmarshal(obj["content"], &text) != nil {
			continue // only plain text can carry the mark
		}
		obj["content"] = abi.String("[added by the tool " + r.canonical() + "]\n" + text)
		if raw, err := abi.Marshal(obj); err == nil {
			out = append(out, raw)
		}
	}
	return out
}
