package engine

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/strictjson"
	"github.com/bladehost/bladehost/host/tool"
)

func reason(ctx context.Context) abi.Cancel { return tool.Reason(ctx) }

// service asks the host for what the guest asked for.
func (i *instance) service(name string, frame []byte) (ans *answer, fail *abi.Error, status abi.CallStatus) {
	head, body, err := abi.DecodeFrame(frame)
	if err != nil {
		return nil, abi.NewError(abi.CodeRequest, "the request to %q: %v", name, err), abi.CallInvalid
	}
	if err := strictjson.CheckObject(head); err != nil {
		return nil, abi.NewError(abi.CodeRequest, "the head of the request to %q: %v", name, err), abi.CallInvalid
	}
	resume := func() {}
	if name != abi.CallContext { // answered at once, so the place is kept
		resume = i.pause()
	}
	got, err := i.call.Invoke(i.ctx, name, tool.Request{Head: head, Body: body})
	resume()
	if err != nil {
		e := abi.AsError(err)
		return nil, e, i.statusOf(err, e)
	}
	if got.Head == nil {
		got.Head = json.RawMessage("{}")
	}
	ans = newAnswer(got.Head, got.Body, got.Release)
	if len(got.Head) > abi.MaxFrameHead || len(got.Body) > abi.MaxFrameBody {
		ans.close()
		return nil, abi.NewError(abi.CodeServiceLimit, "the answer of %q has %d and %d bytes; at most %d and %d are allowed", name, len(got.Head), len(got.Body), abi.MaxFrameHead, abi.MaxFrameBody), abi.CallOverLimit
	}
	return ans, nil, abi.CallOK
}

func (i *instance) statusOf(err error, e *abi.Error) abi.CallStatus {
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
	if errors.As(err, &cancelled) || (i.ctx.Err() != nil && errors.Is(err, i.ctx.Err())) {
		return abi.CallCancelled
	}
	return abi.CallFailed
}

// yield(ptr, len) -> code.
func (i *instance) yield(stack []uint64) {
	i.only(abi.FuncYield, phaseRun)
	ptr, n := uint32(stack[0]), uint32(stack[1])
	if n > abi.MaxYield {
		i.view(abi.FuncYield, ptr, n)
		stack[0] = abi.YieldOverLimit
		return
	}
	b := i.copied(abi.FuncYield, ptr, n)
	if i.why() != abi.CancelNone {
		stack[0] = abi.YieldCancelled
		return
	}
	y := i.parseYield(b)
	if y == nil {
		stack[0] = abi.YieldRejected
		return
	}
	if y.Kind != abi.YieldProgress {
		if i.yields++; i.yields > abi.MaxYields || i.bytes+len(b) > abi.MaxYieldBytes {
			i.yields--
			stack[0] = abi.YieldOverLimit
			return
		}
		i.bytes += len(b)
	}
	switch err := i.call.YieldIdle(*y, i.pause); {
	case err == nil:
		stack[0] = abi.YieldOK
	case errors.Is(err, tool.ErrRejected):
		stack[0] = abi.YieldRejected
	default:
		i.noticed = true
		stack[0] = abi.YieldCancelled
	}
}

// parseYield reads a yield that the tool declared, or returns nil and says in
// the log what is wrong with it.
func (i *instance) parseYield(b []byte) *abi.Yield {
	reject := func(args ...any) *abi.Yield {
		if i.mayLog(rejectedYield) {
			i.plugin.e.log.Warn("a yield of the tool was rejected", append([]any{"tool", i.name()}, args...)...)
		}
		return nil
	}
	if err := strictjson.Check(b); err != nil {
		return reject("why", err.Error())
	}
	y, issues := abi.ParseYield(b)
	if len(issues) > 0 {
		return reject("at", issues[0].Pointer, "why", issues[0].Message)
	}
	if !i.spec.MayYield(y.Kind) || (y.Kind == abi.YieldEffect && !i.spec.MayEffect(y.Effect.Type)) {
		return reject("why", "the manifest does not declare it", "kind", string(y.Kind))
	}
	return y
}
