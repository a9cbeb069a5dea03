package extism

import (
	"encoding/json"
	"errors"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/strictjson"
	"github.com/bladehost/bladehost/host/tool"
)

// ask asks the host for what the guest asked for.
func (r *run) ask(name string, frame []byte) (answer []byte, fail *abi.Error, status abi.CallStatus) {
	head, body, err := abi.DecodeFrame(frame)
	if err == nil {
		err = strictjson.CheckObject(head)
	}
	if err != nil {
		return nil, abi.NewError(abi.CodeRequest, "the request to %q: %v", name, err), abi.CallInvalid
	}
	resume := r.place.pause(r.ctx)
	ans, err := r.call.Invoke(r.ctx, name, tool.Request{Head: head, Body: body})
	resume()
	if err != nil {
		e := abi.AsError(err)
		return nil, e, r.statusOf(err, e)
	}
	if ans.Release != nil {
		defer ans.Release()
	}
	if ans.Head == nil {
		ans.Head = json.RawMessage("{}")
	}
	if len(ans.Head) > abi.MaxFrameHead || len(ans.Body) > abi.MaxFrameBody {
		return nil, abi.NewError(abi.CodeServiceLimit, "the answer of %q has %d and %d bytes; at most %d and %d are allowed", name, len(ans.Head), len(ans.Body), abi.MaxFrameHead, abi.MaxFrameBody), abi.CallOverLimit
	}
	return abi.EncodeFrame(ans.Head, ans.Body), nil, abi.CallOK
}

func (r *run) statusOf(err error, e *abi.Error) abi.CallStatus {
	switch e.Code {
	case abi.CodeUnknownService:
		return abi.CallUnknown
	case abi.CodeNotDeclared:
		return abi.CallNotDeclared
	case abi.CodeNotGranted, abi.CodeSecretMissing:
		return abi.CallNotGranted
	case abi.CodeRequest:
		return abi.CallInvalid
	case abi.CodeServiceLimit:
		return abi.CallOverLimit
	case abi.CodeAborted:
		return abi.CallCancelled
	}
	var cancelled *tool.CancelError
	if errors.As(err, &cancelled) || (r.ctx.Err() != nil && errors.Is(err, r.ctx.Err())) {
		return abi.CallCancelled
	}
	return abi.CallFailed
}

// errorFrame is the answer of a failed call.
func errorFrame(e *abi.Error) []byte {
	head, err := abi.Marshal(e)
	if err != nil || len(head) > abi.MaxFrameHead {
		head, _ = abi.Marshal(abi.Error{Message: clip(e.Message), Type: e.Type, Code: e.Code}) // plain fields always have a JSON form
	}
	return abi.EncodeFrame(head, nil)
}

// send hands on a yield and returns what the guest is told.
func (r *run) send(b []byte) uint64 {
	y, why := r.parse(b)
	if y == nil {
		if r.mayLog(rejectedYield) {
			r.log().Warn("a yield of the tool was rejected: "+why, "tool", r.tool)
		}
		return abi.YieldRejected
	}
	if y.Kind != abi.YieldProgress {
		if r.yields >= abi.MaxYields || r.yieldBytes+len(b) > abi.MaxYieldBytes {
			return abi.YieldOverLimit
		}
		r.yields++
		r.yieldBytes += len(b)
	}
	switch err := r.call.YieldIdle(*y, func() func() { return r.place.pause(r.ctx) }); {
	case err == nil:
		return abi.YieldOK
	case errors.Is(err, tool.ErrRejected):
		return abi.YieldRejected
	}
	r.noticed.Store(true)
	return abi.YieldCancelled
}

// parse reads a yield that the tool declared, or says why it is none.
func (r *run) parse(b []byte) (*abi.Yield, string) {
	if err := strictjson.Check(b); err != nil {
		return nil, err.Error()
	}
	y, issues := abi.ParseYield(b)
	if len(issues) > 0 {
		return nil, issues[0].Pointer + " " + issues[0].Message
	}
	if !r.spec.MayYield(y.Kind) || (y.Kind == abi.YieldEffect && !r.spec.MayEffect(y.Effect.Type)) {
		return nil, "the manifest does not declare the kind " + string(y.Kind)
	}
	return y, ""
}
