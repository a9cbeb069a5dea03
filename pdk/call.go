package pdk

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/bladehost/bladehost/abi"
)

// Call is a running call of a streaming tool: it sends yields. They arrive in
// order, before the result. A method blocks while the reader is behind, and
// several goroutines may use it at once. The error is a *CancelError when the
// call should stop, else an *Error that says what was wrong; a tool may ignore
// it, the host has counted the yield already.
type Call struct{ state *callState }

// Progress says how far the tool is. Completed and total are in a unit of the
// tool's choice and not negative; a negative total means it is not known. The
// host may drop a progress that another one overtakes.
func (c *Call) Progress(message string, completed, total float64) error {
	return c.Yield(abi.Progress(message, completed, total))
}

// Message shows a person something. Detail is any JSON, or nil.
func (c *Call) Message(summary string, detail any) error {
	y := abi.Message(summary)
	if detail != nil {
		raw, err := abi.Marshal(detail)
		if err != nil {
			return Errorf("bad_yield", "the detail of the message has no JSON form: %w", err)
		}
		y.Content.Detail = raw
	}
	return c.Yield(y)
}

// Effect asks the session for a change. The tool must have declared its type.
func (c *Call) Effect(e abi.Effect) error { return c.Yield(abi.EffectYield(e)) }

// ContextPatch asks for the keys of metadata to be set in the session's context
// for the scope, which is the turn when empty.
func (c *Call) ContextPatch(scope abi.Scope, metadata map[string]any) error {
	p := abi.ContextPatch{Scope: scope, Metadata: make(map[string]json.RawMessage, len(metadata))}
	for k, v := range metadata {
		raw, err := abi.Marshal(v)
		if err != nil {
			return Errorf("bad_yield", "the metadata %q has no JSON form: %w", k, err)
		}
		p.Metadata[k] = raw
	}
	raw, err := abi.Marshal(p)
	if err != nil {
		return Errorf("bad_yield", "the patch has no JSON form: %w", err)
	}
	return c.Effect(abi.Effect{Type: abi.EffectContextPatch, Patch: raw})
}

// Yield sends any yield.
func (c *Call) Yield(y abi.Yield) error {
	var buf bytes.Buffer
	b, err := encode(&buf, y)
	if err != nil {
		return Errorf("bad_yield", "the yield has no JSON form: %w", err)
	}
	s := c.state
	if s.over.Load() {
		return errOver
	}
	switch answer := s.host.Yield(b); answer {
	case abi.YieldOK:
		return nil
	case abi.YieldCancelled:
		if cause := s.ctx.poll(); cause != nil {
			return cause
		}
		return &CancelError{Reason: abi.CancelRequest}
	case abi.YieldOverLimit:
		return Errorf("yield_limit", "the yield is over a limit: at most %d bytes each, %d messages and effects and %d bytes of them a call", abi.MaxYield, abi.MaxYields, abi.MaxYieldBytes)
	default:
		return Errorf("yield_rejected", "the host rejected the yield of kind %q: its shape is wrong or the tool did not declare it", y.Kind)
	}
}

// Context is what the host tells about the call: its ids, the folder and the
// roots it works in, the permission mode.
func (c *Call) Context() (*abi.CallInfo, error) { return Info(c.state.ctx) }

// Info is what the host tells about the call that ctx belongs to. It is asked
// for once a call; the answer is shared, do not change it.
func Info(ctx context.Context) (*abi.CallInfo, error) {
	s, err := stateOf(ctx)
	if err != nil {
		return nil, err
	}
	s.infoOnce.Do(func() {
		var info abi.CallInfo
		s.infoErr = callJSON(s.ctx, abi.CallContext, struct{}{}, &info)
		s.info = &info
	})
	if s.infoErr != nil {
		return nil, s.infoErr
	}
	return s.info, nil
}
