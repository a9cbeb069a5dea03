package host

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// durable is the context of a record: it is not cut off when the call is.
func (r *run) durable() context.Context { return context.WithoutCancel(r.ctx) }

// schedule records the call and publishes tool_use. A call whose arguments could
// not be parsed is published but never recorded.
func (r *run) schedule() {
	if l := r.s.opt.Lifecycle; l != nil && r.scheduled {
		inv, err := guarded(func() (InvocationLifecycle, error) {
			return l.OnToolScheduled(r.durable(), ToolScheduled{
				ToolCallID: r.call.ID, ToolName: r.call.Tool, ModelAttemptID: r.call.ModelAttemptID, TurnID: r.call.TurnID,
				ModelInput: cloneRaw(r.modelInput), Input: cloneRaw(r.input),
				SideEffect: r.behavior.SideEffect, Interrupt: r.behavior.Interrupt,
			})
		})
		if err != nil {
			r.scheduled = false
			r.err = abi.NewError(abi.CodeLifecycle, "the call could not be recorded, so it was not made: %v", err).Because(err)
			return
		}
		r.invocation = inv
	}
	r.published = true
	r.emit(Event{Type: EventToolUse, Input: r.modelInput})
}

// emit publishes an event of this call: a copy, so that the sink cannot change
// what runs.
func (r *run) emit(e Event) {
	if r.s.opt.Events == nil {
		return
	}
	e = e.own()
	e.ID, e.Name = r.call.ID, r.call.Tool
	r.s.emit(e)
}

// settleTime is how long a new call waits for what outlived an earlier one: a
// callback that obeys its context ends a moment after the call it was for.
const settleTime = 50 * time.Millisecond

// guard refuses what cannot run at all: nothing is asked and nothing waits.
func (r *run) guard() {
	s := r.s
	s.pending.settle(context.Background(), settleTime)
	if err := s.Pending(); err != nil && s.pending.Load() > 0 {
		r.fail(abi.AsError(err))
		return
	}
	if r.entry == nil {
		r.fail(s.notFound(r.call.Tool))
		return
	}
	if !r.lease() {
		return
	}
	if e := s.admits(r.entry, r.mode, r.behavior); e != nil {
		r.deny(policy.LayerMode, e)
		return
	}
	r.snap = s.snapshot(r.call.TurnID)
	r.stopped()
}

// notFound names the closest tools.
func (s *Session) notFound(name string) *abi.Error {
	var names []string
	for _, e := range s.reg.Load().sorted {
		names = append(names, e.spec.Name)
	}
	if near := Suggest(name, names); len(near) > 0 {
		return abi.NewError(abi.CodeToolNotFound, "there is no tool %q; did you mean %s?", clip(name), strings.Join(near, " or "))
	}
	return abi.NewError(abi.CodeToolNotFound, "there is no tool %q", clip(name))
}

// admits is nil if the session's selection lets the tool run now. It is what
// hides tools from the model, enforced once more.
func (s *Session) admits(e *entry, mode policy.Mode, b tool.Behavior) *abi.Error {
	if mode == policy.ModePlan && b.ReadOnly {
		mode = policy.ModeDefault // this call is fine in plan mode; the rest counts all the same
	}
	p := s.planOne(e, mode)
	switch p.reason {
	case reasonPlanMode:
		return abi.NewError(abi.CodeDeniedMode, "plan mode allows only read-only tools, and %s is none", e.spec.Name)
	case reasonSource:
		return abi.NewError(abi.CodeDeniedSource, "the session does not accept tools of source %s with trust %s, such as %s", e.source.Kind, e.source.Trust, e.spec.Name)
	case reasonRuntimeDeny, reasonRuntimeAllow:
		return abi.NewError(abi.CodeDeniedPolicy, "%s is not among the tools allowed at the moment", e.spec.Name)
	}
	if p.mode != abi.ExposureEager && !s.opt.AllowUndiscovered {
		return abi.NewError(abi.CodeNotDiscovered, "%s is not loaded yet; find it with DiscoverTools first", e.spec.Name)
	}
	return nil
}

// Suggest returns the names that are close to what was typed, best first.
func Suggest(typed string, names []string) []string {
	type near struct {
		name string
		d    int
	}
	var list []near
	low := strings.ToLower(typed)
	if low == "" {
		return nil
	}
	for _, n := range names {
		d := distance(low, strings.ToLower(n))
		if d <= max(1, len(n)/3) || (len(low) >= 3 && strings.HasPrefix(strings.ToLower(n), low)) {
			list = append(list, near{n, d})
		}
	}
	slices.SortFunc(list, func(a, b near) int {
		if a.d != b.d {
			return a.d - b.d
		}
		return strings.Compare(a.name, b.name)
	})
	var out []string
	for i, n := range list {
		if i == 3 {
			break
		}
		out = append(out, n.name)
	}
	return out
}

// Similar reports whether two names differ by one letter, or only in what looks
// alike, so that a person may take one for the other.
func Similar(a, b string) bool { return distance(a, b) <= 1 }

// distance is the edit distance of two short texts; two neighbours that changed
// places are one edit.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	var rows [3][65]int // the row at hand, the one before and the one before that
	for j := range len(b) + 1 {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		row, up, upUp := &rows[i%3], &rows[(i+2)%3], &rows[(i+1)%3]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(up[j]+1, row[j-1]+1, up[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], upUp[j-2]+1)
			}
		}
	}
	return rows[len(a)%3][len(b)]
}

// deny ends the call with a denial and remembers it.
func (r *run) deny(layer policy.Layer, e *abi.Error) {
	r.denied = true
	r.decision.Add(policy.Step{Layer: layer, Says: tool.PermissionDeny, Reason: e.Message})
	r.decision.Conclude(tool.PermissionDeny)
	r.fail(e)
	sig := policy.Signature{Tool: r.canonical()}
	if r.doc != nil {
		sig = r.signature()
	}
	r.s.memory.Deny(sig, e.Message, now())
	r.audit("call", r.canonical(), "denied: "+string(e.Code))
}
