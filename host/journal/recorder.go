package journal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/tool"
)

func isDeadline(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// RecorderOptions configure a Recorder. The zero value makes ids of its own.
type RecorderOptions struct {
	// RequestID and TurnID are the scope of calls that name none; empty means new
	// random ones.
	RequestID, TurnID string
	// Place, if not nil, is where the calls are made: it is recorded with each.
	Place *Place
	// Failpoint, if not nil, is called at each boundary with its name: before… and
	// after… of scheduled, permissionRequested, permissionResolved, started and
	// settled. It is for tests that kill the process there.
	Failpoint func(name string)
}

// Recorder writes a journal from the lifecycle of a host's session: set it as
// SessionOptions.Lifecycle. Each boundary is durable before it returns. It is
// safe for concurrent use.
type Recorder struct {
	j   *Journal
	opt RecorderOptions

	mu sync.Mutex
	// calls are the calls that were scheduled and not settled, by tool call id.
	calls map[string]*invocation
	// resumed are attempts whose call is made again.
	resumed map[string]*invocation
}

var _ host.Lifecycle = (*Recorder)(nil)

// Recorder makes a recorder of the journal.
func (j *Journal) Recorder(opt RecorderOptions) *Recorder {
	if opt.RequestID == "" {
		opt.RequestID = newID("request")
	}
	if opt.TurnID == "" {
		opt.TurnID = newID("turn")
	}
	return &Recorder{j: j, opt: opt, calls: map[string]*invocation{}, resumed: map[string]*invocation{}}
}

func (r *Recorder) at(name string) {
	if r.opt.Failpoint != nil {
		r.opt.Failpoint(name)
	}
}

// invocation is one call on its way.
type invocation struct {
	r     *Recorder
	scope Scope
	id    Identity
	// replay says that the attempt is an old one, which ran or may have run.
	replay bool
	// ran says that the start of a replay was let through, startErr why it was not.
	ran      bool
	startErr error
}

// commit writes one event of the call. The command's id makes it one of a kind.
func (v *invocation) commit(ctx context.Context, step string, d Draft) error {
	v.r.at("before" + step)
	_, err := v.r.j.Commit(ctx, Command{ID: v.scope.ToolAttemptID + ":" + step + v.suffix(d), Events: []Draft{d}}, CommitOptions{})
	if err == nil {
		v.r.at("after" + step)
	}
	return err
}

// suffix tells the commands of several permission requests apart.
func (v *invocation) suffix(d Draft) string {
	var p struct {
		ID string `json:"permissionRequestId"`
	}
	if json.Unmarshal(d.Data, &p) != nil || p.ID == "" {
		return ""
	}
	return ":" + p.ID
}

// OnToolScheduled implements host.Lifecycle.
func (r *Recorder) OnToolScheduled(ctx context.Context, e host.ToolScheduled) (host.InvocationLifecycle, error) {
	r.mu.Lock()
	old := r.resumed[e.ToolCallID]
	delete(r.resumed, e.ToolCallID)
	if old != nil {
		r.calls[e.ToolCallID] = old
	}
	r.mu.Unlock()
	if old != nil {
		return old, old.again(e)
	}
	v := &invocation{r: r, id: Identity{fit(e.ToolCallID), fit(e.ToolName)}, scope: Scope{
		RequestID: r.opt.RequestID, TurnID: fit(orText(e.TurnID, r.opt.TurnID)),
		ModelAttemptID: fit(orText(e.ModelAttemptID, newID("model"))), ToolAttemptID: newID("attempt"),
	}}
	err := v.commit(ctx, "Scheduled", draft(ToolScheduled, v.scope, ScheduledData{
		Identity: v.id, ModelInput: e.ModelInput, Input: e.Input, SideEffect: e.SideEffect, Interrupt: e.Interrupt, Place: r.opt.Place,
	}))
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.calls[e.ToolCallID] = v
	r.mu.Unlock()
	return v, nil
}

// fit is an id that a model or an agent made up, as one that can be recorded: what
// is too long is cut and ends in its digest, so that two stay two.
func fit(id string) string {
	if id == "" {
		return "-"
	}
	valid := strings.ToValidUTF8(id, "\uFFFD")
	if len(valid) <= MaxID && valid == id {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return strings.ToValidUTF8(valid[:min(len(valid), MaxID-80)], "") + "…" + hex.EncodeToString(sum[:])
}

func orText(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// OnPermissionRequested implements host.InvocationLifecycle.
func (v *invocation) OnPermissionRequested(ctx context.Context, c tool.Confirmation, input json.RawMessage) (string, error) {
	id := orText(c.PermissionRequestID, newID("perm"))
	return id, v.commit(ctx, "PermissionRequested", draft(PermissionRequested, v.scope, RequestedData{
		PermissionRequestID: id, Identity: v.id, Input: input, Message: c.Message,
	}))
}

// OnPermissionResolved implements host.InvocationLifecycle.
func (v *invocation) OnPermissionResolved(ctx context.Context, p host.PermissionResolution) error {
	return v.commit(ctx, "PermissionResolved", draft(PermissionResolved, v.scope, ResolvedData{
		PermissionRequestID: p.RequestID, Decision: string(p.Decision), Message: p.Message,
	}))
}

// OnExecutionStarted implements host.InvocationLifecycle.
func (v *invocation) OnExecutionStarted(ctx context.Context, e host.ExecutionStarted) error {
	if v.replay {
		return v.startAgain(ctx, e)
	}
	return v.commit(ctx, "Started", draft(ToolStarted, v.scope, StartedData{Identity: v.id, Input: e.Input, SideEffect: e.SideEffect}))
}

// OnToolSettled implements host.Lifecycle.
func (r *Recorder) OnToolSettled(ctx context.Context, e host.ToolSettled) error {
	r.mu.Lock()
	v := r.calls[e.ToolCallID]
	delete(r.calls, e.ToolCallID)
	r.mu.Unlock()
	if v == nil {
		return abi.NewError(abi.CodeTransition, "the call %s was settled, but it is not open", clip(e.ToolCallID))
	}
	if v.startErr != nil {
		return nil // the attempt stays as it was: nothing ran
	}
	a, ok := r.j.attempt(v.scope.ToolAttemptID)
	if !ok {
		return abi.NewError(abi.CodeTransition, "the tool attempt %s was settled, but it is not open", clip(v.scope.ToolAttemptID))
	}
	if v.replay && !v.ran && e.Result.IsError() && (a.started() || !replayEnds(e.Result)) {
		return nil // it did not come to run; it can be tried again
	}
	drafts := []Draft{settlement(a, e.Result)}
	if a.Pending() { // the decision could not be recorded, so it does not count
		drafts = []Draft{
			draft(PermissionResolved, v.scope, ResolvedData{PermissionRequestID: a.Permission.ID, Decision: DecisionCancel, Message: "the decision could not be recorded"}),
			v.ending(ToolCancelled, ReasonData{Identity: v.id, Reason: ReasonPermissionCancelled}),
		}
	}
	r.at("beforeSettled")
	_, err := r.j.Commit(ctx, Command{ID: v.scope.ToolAttemptID + ":Settled", Events: drafts}, CommitOptions{})
	if err == nil {
		r.at("afterSettled")
	}
	return err
}

func (v *invocation) ending(t Type, data any) Draft { return draft(t, v.scope, data) }

// settlement is the event that ends an attempt with this result.
func settlement(a Attempt, res *abi.Result) Draft {
	id := a.Identity
	cancelled := func(reason string) Draft { return draft(ToolCancelled, a.Scope, ReasonData{id, reason}) }
	switch {
	case a.refused() && a.Permission.Decision == DecisionDeny:
		return cancelled(ReasonPermissionDenied)
	case a.refused():
		return cancelled(ReasonPermissionCancelled)
	case !res.IsError() && a.started():
		return draft(ToolCompleted, a.Scope, CompletedData{Identity: id, Result: modelOf(res), Artifact: artifactOf(res)})
	case !res.IsError():
		return draft(ToolFailed, a.Scope, FailedData{id, ErrorData{Message: "the call ended with a result, but its start was not recorded", Code: string(abi.CodeLifecycle)}})
	case res.Error.Type == abi.TypeInterrupted:
		return cancelled(ReasonInterrupted)
	case a.started():
	case res.Error.Code == abi.CodeAborted || res.Error.Code == abi.CodeShutdown || res.Error.Code == abi.CodeConsumer:
		return cancelled(ReasonInterrupted)
	case res.Error.Code == abi.CodeCascade:
		return cancelled(ReasonCascade)
	}
	e := ErrorData{Message: orText(res.Error.Message, "the tool failed"), Code: string(res.Error.Code)}
	var details struct {
		Retryable *bool `json:"retryable"`
	}
	if json.Unmarshal(res.Error.Details, &details) == nil {
		e.Retryable = details.Retryable
	}
	return draft(ToolFailed, a.Scope, FailedData{id, e})
}

func modelOf(res *abi.Result) json.RawMessage {
	if len(res.Model) == 0 {
		return json.RawMessage("null")
	}
	return res.Model
}

// artifactOf is the file behind a result that was too large for the model. A tool may
// have set members of these names to something else: that is no artifact, and no
// reason not to record the result.
func artifactOf(res *abi.Result) *ArtifactRef {
	handle, ok := res.Metadata["resultArtifactHandle"].(string)
	if !ok {
		return nil
	}
	ref := &ArtifactRef{Handle: handle}
	ref.Path, _ = res.Metadata["resultArtifactPath"].(string)
	ref.SHA256, _ = res.Metadata["sha256"].(string)
	switch n := res.Metadata["bytes"].(type) {
	case int:
		ref.Bytes = int64(n)
	case int64:
		ref.Bytes = n
	}
	var is issues
	if is.artifact(ref); len(is) > 0 {
		return nil
	}
	return ref
}
