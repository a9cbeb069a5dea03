package host

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// judgeRules asks the rules of the configuration and of the session. A deny
// beats everything, remembered approvals too.
func (r *run) judgeRules() {
	rules := r.allRules()
	if rules.Empty() {
		return
	}
	says, rule := rules.Judge(r.signature())
	if says == "" {
		return
	}
	step := policy.Step{Layer: policy.LayerRule, Says: says, Rule: rule.Pattern, Source: rule.Source}
	switch says {
	case tool.PermissionDeny:
		r.denyByRule(rule)
	case tool.PermissionAsk:
		step.Reason = fmt.Sprintf("the rule %s%s asks", rule.Pattern, from(rule.Source))
		r.decision.Add(step)
	default:
		r.decision.Add(step)
	}
}

func (r *run) denyByRule(rule policy.Rule) {
	r.deny(policy.LayerRule, abi.NewError(abi.CodeDeniedRule, "the rule %s%s denies it", rule.Pattern, from(rule.Source)))
	r.decision.Steps[len(r.decision.Steps)-1] = policy.Step{Layer: policy.LayerRule, Says: tool.PermissionDeny, Rule: rule.Pattern, Source: rule.Source}
	r.decision.Conclude(tool.PermissionDeny)
}

// deniedNow holds an input that changed after the rules had spoken to the deny rules.
func (r *run) deniedNow() bool {
	rules := r.allRules()
	if len(rules.Deny) == 0 {
		return false
	}
	says, rule := rules.Judge(r.signature())
	if says != tool.PermissionDeny {
		return false
	}
	r.denyByRule(rule)
	return true
}

func from(source string) string {
	if source == "" {
		return ""
	}
	return " of " + source
}

func (r *run) allRules() policy.Rules {
	rules := *r.s.rules.Load()
	if own := r.s.memory.DenyRules(); len(own) > 0 {
		rules.Deny = append(rules.Deny[:len(rules.Deny):len(rules.Deny)], own...)
	}
	return rules
}

// judgePaths holds the paths of the input to the folders the call may touch.
func (r *run) judgePaths() {
	if len(r.paths) == 0 {
		return
	}
	p := policy.Paths{Roots: slices.Clone(r.snap.Roots), Cwd: r.cwd()}
	if g := r.entry.guest; g != nil {
		p.Roots = append(p.Roots, g.grants.roots()...)
	}
	rules := r.allRules()
	explicit := len(rules.Allow) > 0 && rules.Explicit(r.signature())
	for _, path := range r.paths {
		v := p.Judge(path, explicit)
		if g := r.entry.guest; g != nil && v.Behavior != tool.PermissionDeny && g.grants.denies(v.Real) {
			r.deny(policy.LayerPath, abi.NewError(abi.CodeDeniedPath, "the path %s was denied to the plugin, by a --deny-… flag or by what this shows: bladehost grants why %s read %s", clip(path), g.manifest.Name, clip(path)).With(map[string]string{"path": path}))
			return
		}
		switch v.Behavior {
		case tool.PermissionDeny:
			r.deny(policy.LayerPath, abi.NewError(abi.CodeDeniedPath, "the path %s: %s%s", clip(path), v.Reason, r.hint(r.leadsTo(path, v.Real))).With(map[string]string{"path": path}))
			return
		case tool.PermissionAsk:
			r.decision.Add(policy.Step{Layer: policy.LayerPath, Says: v.Behavior, Reason: fmt.Sprintf("%s: %s", path, v.Reason)})
		}
	}
	if r.entry.guest != nil && len(p.Roots) == 0 && len(r.entry.spec.PathParams) > 0 {
		r.deny(policy.LayerPath, abi.NewError(abi.CodeNotGranted, "%s may not read or write any folder, so not %s%s", r.canonical(), clip(r.paths[0]), r.hint(r.paths[0])).With(map[string]string{"path": r.paths[0]}))
	}
}

// leadsTo is the path to grant for an input: where it leads, if that is not where it
// seems to lie.
func (r *run) leadsTo(path, real string) string {
	if real == "" {
		return path
	}
	cwd := r.cwd()
	home, err := filepath.EvalSymlinks(cwd)
	if err != nil {
		home = cwd
	}
	if filepath.IsAbs(path) && filepath.Clean(path) == real || !filepath.IsAbs(path) && (filepath.Join(cwd, path) == real || filepath.Join(home, path) == real) {
		return path
	}
	return real
}

// hint is what would grant a path to a guest.
func (r *run) hint(path string) string {
	if r.entry.guest == nil {
		return ""
	}
	dir := path
	if k := strings.LastIndexByte(path, '/'); k > 0 {
		dir = path[:k]
	} else {
		dir = "."
	}
	kind := "read"
	if !r.behavior.ReadOnly {
		kind = "write"
	}
	full := dir
	if !filepath.IsAbs(full) {
		full = filepath.Join(r.cwd(), full)
	}
	return "; " + r.entry.guest.hint(kind, dir, full)
}

// permissionHooks are the hooks that judge permissions.
func (r *run) permissionHooks() {
	m, err := r.s.fire(r.ctx, HookInput{Event: HookPermissionRequest, ToolCallID: r.call.ID, ToolName: r.canonical(), ToolInput: r.input}, r.s.opt.HookTimeout)
	if err != nil {
		r.failWith(err, abi.CodeHookFailed, "the permission hooks")
		return
	}
	if !m.ran || r.stopped() {
		return
	}
	if m.Action == HookAbort || m.Action == HookSkip {
		r.deny(policy.LayerHook, abi.NewError(abi.CodeDeniedHook, "%s", orText(m.Reason, "a permission hook denied the call")))
		if m.Action == HookAbort {
			r.result.SetMeta("shouldExitLoop", true)
		}
		return
	}
	if m.ModifiedInput != nil {
		r.updateInput(m.ModifiedInput, true)
	}
	if m.Confirm {
		r.decision.Add(policy.Step{Layer: policy.LayerHook, Says: tool.PermissionAsk, Reason: orText(m.Reason, "a hook wants a confirmation")})
	}
}

// askHandler asks the embedder's own handler.
func (r *run) askHandler() {
	h := r.s.opt.PermissionHandler
	if h == nil {
		return
	}
	req := policy.Request{
		Tool: r.canonical(), Input: cloneRaw(r.input), Mode: r.mode, Approved: r.s.memory.Approved(r.signature()),
		Paths: slices.Clone(r.paths), Behavior: r.behavior, Signature: r.signature().String(), Source: r.entry.source,
		Description: r.entry.spec.Description.Short,
	}
	p, err := await(r.ctx, &r.s.pending, func() (tool.Permission, error) { return h.HandlePermission(r.ctx, req) })
	if err != nil {
		if abi.CodeOf(err) == abi.CodeToolPanic {
			err = abi.NewError(abi.CodeHandlerFailed, "the permission handler: %v", err)
		}
		r.failWith(err, abi.CodeHandlerFailed, "the permission handler")
		return
	}
	r.take(policy.LayerHandler, abi.CodeDeniedHandler, p)
}

// judgeMode lets the mode say what the others left open. It comes last: an allow
// of a handler does not break plan mode.
func (r *run) judgeMode() {
	approved := !r.s.memory.Empty() && r.s.memory.Approved(r.signature())
	if approved {
		r.decision.Add(policy.Step{Layer: policy.LayerMemory, Says: tool.PermissionAllow, Reason: "approved for the session: " + r.signature().String()})
	}
	says, why := r.mode.Judge(r.behavior, approved)
	if says == tool.PermissionDeny {
		r.deny(policy.LayerMode, abi.NewError(abi.CodeDeniedMode, "%s may not run: %s", r.canonical(), why))
		return
	}
	if says == tool.PermissionAsk && (r.allowed(policy.LayerRule) || r.allowed(policy.LayerHandler)) && !r.destructiveYolo() {
		says, why = tool.PermissionAllow, "an earlier judge allows it"
	}
	r.decision.Add(policy.Step{Layer: policy.LayerMode, Says: says, Reason: why})
	asks := r.decision.Asks() && !approved
	if says == tool.PermissionAllow && !asks {
		r.decision.Conclude(tool.PermissionAllow)
		return
	}
	r.decision.Behavior = tool.PermissionAsk
}

func (r *run) destructiveYolo() bool { return r.mode == policy.ModeYolo && r.behavior.Destructive }

func (r *run) allowed(l policy.Layer) bool {
	return slices.ContainsFunc(r.decision.Steps, func(s policy.Step) bool { return s.Layer == l && s.Says == tool.PermissionAllow })
}
