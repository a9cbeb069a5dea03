package host

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// confirm asks the user, if the judges want that. The request and its outcome
// are recorded before they count. There is no time limit: only the end of the
// call's context ends the wait, and then the request is resolved as cancelled
// before the call is.
func (r *run) confirm() {
	if r.decision.Behavior != tool.PermissionAsk {
		return
	}
	switch {
	case r.call.Approved:
		r.decision.Add(policy.Step{Layer: policy.LayerUser, Says: tool.PermissionAllow, Reason: "the user asked for exactly this call"})
		r.decision.Conclude(tool.PermissionAllow)
		return
	case r.s.opt.Confirm == nil && r.s.opt.AutoApprove:
		r.decision.Add(policy.Step{Layer: policy.LayerUser, Says: tool.PermissionAllow, Reason: "confirmations are approved automatically"})
		r.decision.Conclude(tool.PermissionAllow)
		return
	case r.s.opt.Confirm == nil:
		r.deny(policy.LayerUser, abi.NewError(abi.CodeNoConfirm, "%s needs a confirmation (%s) and there is nobody to ask", r.canonical(), strings.Join(r.decision.AskReasons(), "; ")))
		return
	}
	d := r.confirmation()
	if !r.permissionRequested(&d) {
		return
	}
	ans, err := await(r.ctx, &r.s.pending, func() (tool.ConfirmationAnswer, error) { return r.s.opt.Confirm.RequestConfirmation(r.ctx, d) })
	switch {
	case err != nil:
		r.confirmFailed(err)
	case !ans.Approved:
		if r.permissionResolved(ResolutionDeny, ans.Reason) {
			r.rejected(ans)
		}
	default:
		if r.permissionResolved(ResolutionAllow, ans.Reason) {
			r.approved(ans)
		}
	}
}

func (r *run) confirmation() tool.Confirmation {
	d := tool.Confirmation{
		Type: tool.ConfirmPermission, Kind: string(r.behavior.Kind), ToolCallID: r.call.ID, ToolName: r.canonical(),
		Args: cloneRaw(r.input), Title: r.entry.spec.Title(), Message: strings.Join(r.decision.AskReasons(), "\n"),
		AffectedFiles: slices.Clone(r.paths), Signature: r.signature().String(),
	}
	if c, ok := r.entry.tool.(tool.Confirmer); ok {
		_, _ = guarded(func() (struct{}, error) { // a tool's description cannot break the question
			title, risks := c.DescribeCall(cloneRaw(r.input))
			if title != "" {
				d.Title = title
			}
			d.Risks = risks
			return struct{}{}, nil
		})
	}
	if r.behavior.Destructive {
		d.Risks = append(d.Risks, "the tool says that it is destructive")
	}
	return d
}

func (r *run) permissionRequested(d *tool.Confirmation) bool {
	r.permission = newID("perm")
	if r.invocation != nil {
		asked := *d
		asked.Args = cloneRaw(d.Args)
		asked.PermissionRequestID = r.permission
		id, err := guarded(func() (string, error) {
			return r.invocation.OnPermissionRequested(r.durable(), asked, cloneRaw(r.input))
		})
		if err != nil {
			r.fail(abi.NewError(abi.CodeLifecycle, "the permission request could not be recorded, so nobody was asked: %v", err).Because(err))
			return false
		}
		if id != "" {
			r.permission = id
		}
	}
	d.PermissionRequestID = r.permission
	return true
}

// permissionResolved records the outcome, once; if that fails, the outcome does
// not count.
func (r *run) permissionResolved(res Resolution, message string) bool {
	if r.invocation == nil {
		return true
	}
	_, err := guarded(func() (struct{}, error) {
		return struct{}{}, r.invocation.OnPermissionResolved(r.durable(), PermissionResolution{RequestID: r.permission, Decision: res, Message: message})
	})
	if err != nil {
		r.fail(abi.NewError(abi.CodeLifecycle, "the permission decision could not be recorded, so it does not count: %v", err).Because(err))
		return false
	}
	return true
}

// confirmFailed resolves the request as cancelled: the user did not answer.
func (r *run) confirmFailed(err error) {
	resolved := r.permissionResolved(ResolutionCancel, "")
	if r.ctx.Err() != nil {
		r.cancelled()
		return
	}
	e := abi.NewError(abi.CodeConfirmFailed, "the confirmation failed: %v", err).Because(err)
	if !resolved {
		e = abi.NewError(abi.CodeConfirmFailed, "the confirmation failed: %v; and %s", err, r.result.Error.Message).Because(errors.Join(err, r.result.Error))
	}
	r.fail(e)
}

func (r *run) rejected(ans tool.ConfirmationAnswer) {
	r.deny(policy.LayerUser, abi.NewError(abi.CodeDeniedUser, "%s", orText(ans.Reason, "the user rejected the call")))
	if ans.Feedback != "" {
		r.result.Model = abi.String(r.result.Error.Message + "\n" + ans.Feedback)
	}
	r.result.SetMeta("shouldExitLoop", true)
}

func (r *run) approved(ans tool.ConfirmationAnswer) {
	if ans.Scope == "session" {
		r.s.memory.Approve(r.signature())
	}
	r.decision.Add(policy.Step{Layer: policy.LayerUser, Says: tool.PermissionAllow, Reason: orText(ans.Reason, "the user approved it")})
	r.decision.Conclude(tool.PermissionAllow)
	if ans.TargetMode != "" {
		if err := r.s.SetMode(policy.Mode(ans.TargetMode)); err != nil {
			r.fail(abi.NewError(abi.CodeConfirmFailed, "the confirmation names the mode %q: %v", clip(ans.TargetMode), err))
		}
	}
}

// ask is for a running tool that asks the user itself. The tool's deadline rests
// meanwhile.
func (r *run) ask(ctx context.Context, d tool.Confirmation) (tool.ConfirmationAnswer, error) {
	if r.s.opt.Confirm == nil {
		return tool.ConfirmationAnswer{}, abi.NewError(abi.CodeNoConfirm, "there is nobody to ask")
	}
	d.ToolCallID, d.ToolName = r.call.ID, r.canonical()
	d.PermissionRequestID = newID("perm")
	defer r.confirms.pause()()
	return await(ctx, &r.s.pending, func() (tool.ConfirmationAnswer, error) { return r.s.opt.Confirm.RequestConfirmation(ctx, d) })
}
