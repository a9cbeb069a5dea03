package host

import (
	"crypto/sha256"

	"github.com/bladehost/bladehost/abi"
)

// settle records the end of a scheduled call, exactly once, before anybody sees
// it. Its failure fails the run: the result is not published.
func (r *run) settle() {
	if r.entry != nil && r.scheduled && !r.lease() {
		return
	}
	if _, stamped := r.result.Metadata["executionId"]; !stamped {
		r.stamp()
	}
	if len(r.decision.Steps) > 0 {
		r.result.SetMeta("permission", r.decision)
	}
	r.remember()
	r.release()
	if r.b != nil && r.result.IsError() && r.entry != nil && r.entry.spec.Cascade {
		r.b.cascade()
	}
	l := r.s.opt.Lifecycle
	if l == nil || !r.scheduled {
		return
	}
	_, err := guarded(func() (struct{}, error) {
		return struct{}{}, l.OnToolSettled(r.durable(), ToolSettled{ToolCallID: r.call.ID, ToolName: r.call.Tool, Result: ownResult(r.result)})
	})
	if err != nil {
		r.err = abi.NewError(abi.CodeLifecycle, "the result could not be recorded, so it is not published: %v", err).Because(err)
	}
}

func (r *run) remember() {
	e := HistoryEntry{
		ExecutionID: r.executionID, ToolCallID: r.call.ID, ToolName: r.canonical(), Status: r.result.Status,
		InputSHA256: sha256.Sum256(r.input), ResultSHA256: sha256.Sum256(r.result.Model), Start: r.begun, End: now(),
	}
	if r.result.Error != nil {
		e.Code = r.result.Error.Code
	}
	if r.s.opt.KeepPayloads {
		e.Input, e.Result = cloneRaw(r.input), ownResult(r.result)
	}
	r.s.history.add(e)
}

// publish publishes tool_result, the last event of the call.
func (r *run) publish() {
	if r.published {
		r.say(func() { r.emit(resultEvent(r.result, r.s.opt.ExtendedEvents)) })
	}
}
