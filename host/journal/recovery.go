package journal

import (
	"context"
	"encoding/json"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/internal/strictjson"
)

// Action is the first thing that recovery has to do.
type Action string

// Actions, in the order in which they come first.
const (
	// ActionReconcile: the outcome of some attempts is not known; somebody has to
	// look.
	ActionReconcile Action = "reconcile_tool_outcomes"
	// ActionPermissions: permissions wait for a decision.
	ActionPermissions Action = "resolve_permissions"
	// ActionResume: the rest can be made again or cancelled.
	ActionResume Action = "resume_turn"
	// ActionNone: nothing is open.
	ActionNone Action = "none"
)

// Class is what may be done with an open attempt.
type Class string

// Classes.
const (
	// ClassUnknown: it may have had its effect; never repeat it blindly.
	ClassUnknown Class = "unknown"
	// ClassPermission: a permission waits for a decision; it did not run.
	ClassPermission Class = "permission"
	// ClassRetryable: it did not run, or may be repeated.
	ClassRetryable Class = "retryable"
	// ClassCancelable: it was refused, and did not run.
	ClassCancelable Class = "cancelable"
)

// Class says what may be done with the attempt.
func (a Attempt) Class() Class {
	switch {
	case a.started() && a.SideEffect == abi.SideEffectNonIdempotent:
		return ClassUnknown
	case a.Pending():
		return ClassPermission
	case a.refused():
		return ClassCancelable
	}
	return ClassRetryable
}

// Plan is what is open in a session, by what may be done with it. Each open
// attempt is in exactly one list.
type Plan struct {
	SessionID   string    `json:"sessionId"`
	Head        int64     `json:"lastSequence"`
	Closed      bool      `json:"closed"`
	Action      Action    `json:"action"`
	Unknown     []Attempt `json:"unknown"`
	Permissions []Attempt `json:"permissions"`
	Retryable   []Attempt `json:"retryable"`
	Cancelable  []Attempt `json:"cancelable"`
}

// Plan says what is open, as this journal knows it; Refresh first if another
// process writes.
func (j *Journal) Plan() Plan {
	j.mu.Lock()
	list, head, last := j.state.Attempts(), j.state.Head, j.state.Last
	j.mu.Unlock()
	return plan(j.opt.SessionID, head, last, list)
}

func plan(session string, head int64, last Type, list []Attempt) Plan {
	p := Plan{
		SessionID: session, Head: head, Closed: last == SessionClosed, Action: ActionNone,
		Unknown: []Attempt{}, Permissions: []Attempt{}, Retryable: []Attempt{}, Cancelable: []Attempt{},
	}
	for _, a := range list {
		to := map[Class]*[]Attempt{ClassUnknown: &p.Unknown, ClassPermission: &p.Permissions, ClassRetryable: &p.Retryable, ClassCancelable: &p.Cancelable}[a.Class()]
		*to = append(*to, a)
	}
	switch {
	case len(p.Unknown) > 0:
		p.Action = ActionReconcile
	case len(p.Permissions) > 0:
		p.Action = ActionPermissions
	case len(list) > 0:
		p.Action = ActionResume
	}
	return p
}

// PlanOf is the plan of a session that nobody needs to own: it only reads.
func PlanOf(ctx context.Context, store Store, session string) (Plan, error) {
	sn, err := store.Snapshot(ctx, session)
	if err != nil {
		return Plan{}, err
	}
	if sn.Head == 0 {
		return Plan{}, abi.NewError(abi.CodeJournalMissing, "the journal has no session %q; bladehost journal ls lists those it has", clip(session))
	}
	s, err := restore(sn)
	if err != nil {
		return Plan{}, err
	}
	return plan(session, s.Head, s.Last, s.Attempts()), nil
}

// Outcome is what somebody found out about an attempt. Exactly one is set.
type Outcome struct {
	// Completed is the result that the model should read.
	Completed json.RawMessage
	Failed    *ErrorData
	// Cancelled says that the tool had no effect.
	Cancelled bool
}

func (j *Journal) mustBeOpen(id string) (Attempt, error) {
	a, ok := j.attempt(id)
	if !ok {
		return a, abi.NewError(abi.CodeJournalMissing, "session %s has no open tool attempt %q; bladehost journal recover lists those it has", clip(j.opt.SessionID), clip(id))
	}
	return a, nil
}

func refused(format string, args ...any) error {
	return abi.NewError(abi.CodeRecovery, format, args...)
}

// Reconcile ends an attempt that may have had its effect with what somebody
// found out. An attempt that did not start cannot have completed.
func (j *Journal) Reconcile(ctx context.Context, attemptID string, o Outcome) error {
	a, err := j.mustBeOpen(attemptID)
	if err != nil {
		return err
	}
	if !a.started() {
		return refused("the tool attempt %s of %s did not start, so there is no outcome to find out; cancel it, or make it again", clip(a.ID), clip(a.ToolName))
	}
	var end Draft
	set := 0
	if o.Completed != nil {
		set++
		if err := strictjson.Check(o.Completed); err != nil {
			return refused("the result is %v", err)
		}
		end = draft(ToolCompleted, a.Scope, CompletedData{Identity: a.Identity, Result: o.Completed})
	}
	if o.Failed != nil {
		set++
		end = draft(ToolFailed, a.Scope, FailedData{a.Identity, *o.Failed})
	}
	if o.Cancelled {
		set++
		end = draft(ToolCancelled, a.Scope, ReasonData{a.Identity, ReasonRestart})
	}
	if set != 1 {
		return refused("an outcome is completed, failed or cancelled: exactly one of them")
	}
	return j.settle(ctx, a, end)
}

// settle ends a started attempt. That its outcome was not known for a time is
// recorded with it.
func (j *Journal) settle(ctx context.Context, a Attempt, end Draft) error {
	var list []Draft
	if a.Status == StatusStarted {
		list = append(list, draft(ToolOutcomeUnknown, a.Scope, ReasonData{a.Identity, ReasonRestart}))
	}
	_, err := j.Commit(ctx, Command{ID: newID("recovery"), Events: append(list, end)}, CommitOptions{})
	return err
}

// MarkUnknown records that the outcome of a started attempt is not known after
// the process that ran it ended.
func (j *Journal) MarkUnknown(ctx context.Context, attemptID string) error {
	a, err := j.mustBeOpen(attemptID)
	if err != nil {
		return err
	}
	if a.Status != StatusStarted {
		return refused("the tool attempt %s of %s is %s, not started", clip(a.ID), clip(a.ToolName), a.Status)
	}
	_, err = j.Commit(ctx, Command{ID: newID("recovery"), Events: []Draft{
		draft(ToolOutcomeUnknown, a.Scope, ReasonData{a.Identity, ReasonRestart}),
	}}, CommitOptions{})
	return err
}

// Cancel ends an attempt that did not have an effect: it did not start, or it may
// be repeated and nobody wants to. An attempt whose outcome is not known is
// refused: use Reconcile.
func (j *Journal) Cancel(ctx context.Context, attemptID string) error {
	a, err := j.mustBeOpen(attemptID)
	if err != nil {
		return err
	}
	var list []Draft
	reason := ReasonRestart
	switch a.Class() {
	case ClassUnknown:
		return refused("the tool attempt %s of %s started and may have had its effect; find out, then reconcile it", clip(a.ID), clip(a.ToolName))
	case ClassPermission:
		list = append(list, draft(PermissionResolved, a.Scope, ResolvedData{PermissionRequestID: a.Permission.ID, Decision: DecisionCancel}))
		reason = ReasonPermissionCancelled
	case ClassCancelable:
		reason = map[string]string{DecisionDeny: ReasonPermissionDenied, DecisionCancel: ReasonPermissionCancelled}[a.Permission.Decision]
	}
	if a.started() {
		return j.settle(ctx, a, draft(ToolCancelled, a.Scope, ReasonData{a.Identity, reason}))
	}
	list = append(list, draft(ToolCancelled, a.Scope, ReasonData{a.Identity, reason}))
	_, err = j.Commit(ctx, Command{ID: newID("recovery"), Events: list}, CommitOptions{})
	return err
}

// ResolvePermission decides a permission that waits since the restart. Deny and
// cancel end the attempt in the same command; after an allow, StartAttempt must
// follow before the tool runs.
func (j *Journal) ResolvePermission(ctx context.Context, attemptID, decision, message string) error {
	a, err := j.mustBeOpen(attemptID)
	if err != nil {
		return err
	}
	if !a.Pending() {
		return refused("no permission of the tool attempt %s of %s waits for a decision", clip(a.ID), clip(a.ToolName))
	}
	list := []Draft{draft(PermissionResolved, a.Scope, ResolvedData{PermissionRequestID: a.Permission.ID, Decision: decision, Message: message})}
	switch decision {
	case DecisionAllow:
	case DecisionDeny:
		list = append(list, draft(ToolCancelled, a.Scope, ReasonData{a.Identity, ReasonPermissionDenied}))
	case DecisionCancel:
		list = append(list, draft(ToolCancelled, a.Scope, ReasonData{a.Identity, ReasonPermissionCancelled}))
	default:
		return refused("a decision is allow, deny or cancel, not %q", clip(decision))
	}
	_, err = j.Commit(ctx, Command{ID: newID("recovery"), Events: list}, CommitOptions{})
	return err
}

// StartAttempt records that a scheduled attempt is about to run with the input
// that is recorded, which is returned. If a permission was allowed for it, it
// counts as non_idempotent from now on, whatever it was: it is not known what
// was true when the permission was asked for.
func (j *Journal) StartAttempt(ctx context.Context, attemptID string) (json.RawMessage, error) {
	a, err := j.mustBeOpen(attemptID)
	if err != nil {
		return nil, err
	}
	if a.Class() != ClassRetryable || a.Status != StatusScheduled {
		return nil, refused("the tool attempt %s of %s cannot start: it is %s", clip(a.ID), clip(a.ToolName), a.Class())
	}
	effect := a.SideEffect
	if a.Permission != nil {
		effect = abi.SideEffectNonIdempotent
	}
	_, err = j.Commit(ctx, Command{ID: a.ID + ":Started", Events: []Draft{
		draft(ToolStarted, a.Scope, StartedData{a.Identity, a.Input, effect}),
	}}, CommitOptions{})
	return a.Input, err
}

// Replay makes the call of a retryable attempt again in a host's session whose
// Lifecycle is this recorder, with the recorded input, and ends the attempt with
// what comes out. Policy counts as for a call that a person typed. If the tool
// would now have an effect that may not be repeated, an attempt that started is
// left as it is.
func (r *Recorder) Replay(ctx context.Context, s *host.Session, attemptID string) (*abi.Result, error) {
	a, err := r.j.mustBeOpen(attemptID)
	if err != nil {
		return nil, err
	}
	if a.Class() != ClassRetryable {
		return nil, refused("the tool attempt %s of %s is %s, not retryable", clip(a.ID), clip(a.ToolName), a.Class())
	}
	v := &invocation{r: r, scope: a.Scope, id: a.Identity, replay: true}
	r.mu.Lock()
	r.resumed[a.ToolCallID] = v
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.resumed, a.ToolCallID)
		r.mu.Unlock()
	}()
	res, err := s.Run(ctx, host.Call{ID: a.ToolCallID, Tool: a.ToolName, Input: a.Input, TurnID: a.Scope.TurnID, ModelAttemptID: a.Scope.ModelAttemptID, Approved: true})
	if err == nil && v.startErr != nil {
		return nil, v.startErr
	}
	return res, err
}

// again is the scheduling of a call that is made again: it is recorded already.
func (v *invocation) again(e host.ToolScheduled) error {
	if e.ToolName != v.id.ToolName {
		return refused("the call %s is of %s, not of %s", clip(e.ToolCallID), clip(v.id.ToolName), clip(e.ToolName))
	}
	return nil
}

// startAgain records the start, unless it is recorded already: then the call must
// still be one that may be repeated.
func (v *invocation) startAgain(ctx context.Context, e host.ExecutionStarted) error {
	a, err := v.r.j.mustBeOpen(v.scope.ToolAttemptID)
	if err != nil {
		v.startErr = err
		return err
	}
	if !a.started() {
		effect := e.SideEffect
		if a.Permission != nil {
			effect = abi.SideEffectNonIdempotent
		}
		v.startErr = v.commit(ctx, "Started", draft(ToolStarted, v.scope, StartedData{v.id, e.Input, effect}))
	} else if e.SideEffect == abi.SideEffectNonIdempotent {
		v.startErr = refused("the tool attempt %s of %s cannot be made again: the tool counts as non_idempotent now; reconcile or cancel it", clip(a.ID), clip(a.ToolName))
	} else if !sameJSON(e.Input, a.Input) {
		v.startErr = refused("the tool attempt %s of %s cannot be made again: the tool would get another input than recorded, as its defaults have changed; reconcile or cancel it", clip(a.ID), clip(a.ToolName))
	}
	v.ran = v.startErr == nil
	return v.startErr
}

// replayEnds reports whether an attempt that did not come to run again is over
// by this result: what its caller can mend is not.
func replayEnds(res *abi.Result) bool {
	return res.Error.Type == abi.TypeValidation && res.Error.Code != abi.CodeToolNotFound
}
