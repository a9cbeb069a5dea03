package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// preHooks lets hooks change, skip or stop the call before anything judges it.
func (r *run) preHooks() {
	m, err := r.s.fire(r.ctx, HookInput{Event: HookPreToolUse, ToolCallID: r.call.ID, ToolName: r.canonical(), ToolInput: r.input}, r.s.opt.HookTimeout)
	if err != nil {
		r.failWith(err, abi.CodeHookFailed, "the hooks before the call")
		return
	}
	if !m.ran || r.stopped() {
		return
	}
	switch m.Action {
	case HookSkip:
		r.shortCircuit(abi.Text(orText(m.Reason, "a hook skipped the call")))
		return
	case HookAbort:
		r.deny(policy.LayerHook, abi.NewError(abi.CodeDeniedHook, "%s", orText(m.Reason, "a hook stopped the call")))
		return
	}
	if m.ModifiedInput != nil {
		in, err := policy.MergeInput(r.input, m.ModifiedInput)
		if err != nil {
			r.failWith(err, abi.CodeHookFailed, "the input that a hook changed")
			return
		}
		r.input = in
	}
	if m.Confirm {
		r.decision.Add(policy.Step{Layer: policy.LayerHook, Says: tool.PermissionAsk, Reason: orText(m.Reason, "a hook wants a confirmation")})
	}
}

func orText(s, or string) string {
	if s == "" {
		return or
	}
	return s
}

// shortCircuit ends the call with a success that the tool was not asked for. It
// keeps the durable order: started, then settled.
func (r *run) shortCircuit(res *abi.Result) {
	if !r.started {
		r.durableStart()
	}
	if r.result == nil && r.err == nil {
		r.result = res
	}
}

// validate makes the final input: lenient forms of built-in tools first, then
// defaults, then the schema.
func (r *run) validate() { r.prepare() }

func (r *run) prepare() bool {
	if n, ok := r.entry.tool.(tool.Normalizer); ok {
		out, err := guarded(func() (json.RawMessage, error) { return n.NormalizeInput(cloneRaw(r.input)) })
		if err != nil {
			r.failWith(asValidation(err), abi.CodeValidation, "the input")
			return false
		}
		r.input = out
	}
	out, doc, issues, err := r.entry.params.Prepared(r.input)
	if err != nil {
		r.fail(abi.NewError(abi.CodeValidation, "the input of %s cannot be checked: %v", r.canonical(), err))
		return false
	}
	if len(issues) > 0 {
		r.fail(tool.InvalidIssues(abi.CodeValidation, fmt.Sprintf("the input of %s does not fit its schema:", r.canonical()), issues))
		return false
	}
	r.input, r.doc, r.sign = out, doc, nil
	r.refresh()
	r.paths = policy.AffectedPaths(r.entry.spec, doc)
	return true
}

// signature is what rules match and approvals cover, computed when first needed.
func (r *run) signature() policy.Signature {
	if r.sign == nil {
		sig := policy.SignatureOf(r.entry.tool, r.input)
		r.sign = &sig
	}
	return *r.sign
}

// asValidation gives an error that has no type of its own the type of a bad input.
func asValidation(err error) error {
	if abi.CodeOf(err) != "" || errors.As(err, new(*abi.Error)) {
		return err
	}
	var c *tool.CancelError
	if errors.As(err, &c) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return abi.NewError(abi.CodeValidation, "%v", err).Because(err)
}

// toolChecks lets the tool itself refuse the input and judge the permission.
func (r *run) toolChecks() {
	if v, ok := r.entry.tool.(tool.InputValidator); ok {
		call := r.toolCall(r.ctx)
		_, err := await(r.ctx, &r.s.pending, func() (struct{}, error) { return struct{}{}, v.ValidateInput(r.ctx, call) })
		if err != nil {
			r.failWith(asValidation(err), abi.CodeValidation, "the input")
			return
		}
	}
	p, ok := r.entry.tool.(tool.PermissionChecker)
	if !ok {
		return
	}
	call := r.toolCall(r.ctx)
	d, err := await(r.ctx, &r.s.pending, func() (tool.Permission, error) { return p.CheckPermissions(r.ctx, call) })
	if err != nil {
		r.failWith(err, abi.CodeDeniedTool, "the tool's own permission check")
		return
	}
	r.take(policy.LayerTool, abi.CodeDeniedTool, d)
}

// take applies the word of a judge who may change the input.
func (r *run) take(layer policy.Layer, code abi.Code, p tool.Permission) {
	switch p.Behavior {
	case tool.PermissionDeny:
		r.deny(layer, abi.NewError(code, "%s", orText(p.Message, "the call was denied")))
		if p.Interrupt {
			r.result.SetMeta("shouldExitLoop", true)
		}
		return
	case tool.PermissionAsk:
		r.decision.Add(policy.Step{Layer: layer, Says: p.Behavior, Reason: p.Message})
		return
	case tool.PermissionAllow:
		r.decision.Add(policy.Step{Layer: layer, Says: p.Behavior, Reason: p.Message})
	default:
		r.fail(abi.NewError(abi.CodeHandlerFailed, "the %s answered with the behaviour %q; allow, deny and ask are known", layer, clip(string(p.Behavior))))
		return
	}
	if p.UpdatedInput != nil && !r.updateInput(p.UpdatedInput, layer != policy.LayerTool) {
		return
	}
	if err := r.s.memory.Apply(r.s.canonical(p.Updates)); err != nil {
		r.fail(abi.NewError(abi.CodeHandlerFailed, "the permission updates of the %s: %v", layer, err))
	}
}

// canonical puts the tools' own names in the place of aliases.
func (s *Session) canonical(updates []abi.PermissionUpdate) []abi.PermissionUpdate {
	out := slices.Clone(updates)
	for i := range out {
		out[i].Rules = slices.Clone(out[i].Rules)
		for k, rule := range out[i].Rules {
			if name, ok := s.reg.Load().canonical(rule.ToolName); ok {
				out[i].Rules[k].ToolName = name
			}
		}
	}
	return out
}

// updateInput merges an update into the input and prepares it anew. Once paths and
// rules were judged, an update must leave the paths alone and fit the deny rules.
func (r *run) updateInput(update json.RawMessage, keepPaths bool) bool {
	before := r.paths
	in, err := policy.MergeInput(r.input, update)
	if err != nil {
		r.failWith(err, abi.CodeHandlerFailed, "the updated input")
		return false
	}
	r.input = in
	if !r.prepare() {
		return false
	}
	if keepPaths && !equal(before, r.paths) {
		r.fail(abi.NewError(abi.CodeHandlerFailed, "the updated input names other paths than the ones that were checked"))
		return false
	}
	return !keepPaths || !r.deniedNow()
}

func equal(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
