package host

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// Middleware wraps a whole call, from before its hooks to after its result is
// normalised. The first of a session is the outermost. It may change the input
// it hands on, answer without calling next, and change the result; it may not
// call next twice, turn a failure of the tool into success, or change the type
// of a timeout.
type Middleware func(ctx context.Context, c MiddlewareCall, next Next) (*abi.Result, error)

// MiddlewareCall is what a middleware sees of a call: copies.
type MiddlewareCall struct {
	ToolCallID string
	ToolName   string
	Input      json.RawMessage
	Behavior   tool.Behavior
}

// Next runs the rest of the call with an input; nil means the one it was given.
type Next func(input json.RawMessage) *abi.Result

// wrap runs core inside the session's middleware.
func (r *run) wrap(core func()) {
	list := r.s.opt.Middleware
	if len(list) == 0 {
		core()
		return
	}
	coreRan := false
	var layer func(i int) *abi.Result
	layer = func(i int) *abi.Result {
		if i == len(list) {
			coreRan = true
			core()
			return r.result
		}
		return r.middleware(list[i], func(input json.RawMessage) *abi.Result {
			if input != nil {
				r.input = cloneRaw(input)
			}
			return layer(i + 1)
		})
	}
	out := cloneResult(layer(0))
	if !coreRan && !out.IsError() && r.entry != nil {
		r.shortCircuit(out)
	} else {
		r.result = out
	}
	r.recheck()
}

// recheck holds what a middleware made of a result to what a tool is held to.
func (r *run) recheck() {
	if r.err != nil {
		return
	}
	if err := strictResult(r.result, true); err != nil {
		r.fail(abi.NewError(abi.CodeMiddleware, "the result of a middleware is %v", err))
	}
	r.limit()
	r.stamp()
}

// middleware calls one middleware and holds it to its contract.
func (r *run) middleware(m Middleware, rest func(json.RawMessage) *abi.Result) *abi.Result {
	var (
		mu    sync.Mutex
		core  *abi.Result
		calls int
		over  bool
		ran   = make(chan struct{})
	)
	next := func(input json.RawMessage) *abi.Result {
		mu.Lock()
		calls++
		late, first := over, calls == 1
		mu.Unlock()
		switch {
		case late:
			return abi.Failure(abi.NewError(abi.CodeMiddleware, "a middleware called next after it had returned"))
		case !first:
			return abi.Failure(abi.NewError(abi.CodeMiddleware, "a middleware called next twice"))
		}
		defer close(ran)
		res := rest(input)
		mu.Lock()
		core = res
		mu.Unlock()
		return ownResult(res)
	}
	c := MiddlewareCall{ToolCallID: r.call.ID, ToolName: r.canonical(), Input: cloneRaw(r.input), Behavior: r.behavior}
	out, err := guarded(func() (*abi.Result, error) { return m(r.ctx, c, next) })
	mu.Lock()
	over = true
	early := calls > 0 && core == nil
	mu.Unlock()
	if early { // what it began in a goroutine is waited for, and counts
		<-ran
	}
	mu.Lock()
	defer mu.Unlock()
	switch {
	case early:
		return core
	case calls > 1:
		return abi.Failure(abi.NewError(abi.CodeMiddleware, "a middleware called next twice"))
	case core != nil && core.IsError() && (err != nil || out == nil || !out.IsError() || (core.Error.Type == abi.TypeTimeout && out.Error.Type != abi.TypeTimeout)):
		return core // a failure is not masked
	case err != nil:
		return abi.Failure(abi.NewError(abi.CodeMiddleware, "a middleware failed: %v", err).Because(err))
	case out == nil || out.Valid() != "":
		return abi.Failure(abi.NewError(abi.CodeMiddleware, "a middleware answered without a valid result"))
	}
	return out
}

// ownResult is a copy that shares nothing that can be changed, but for what is
// behind the values of the metadata.
func ownResult(r *abi.Result) *abi.Result {
	c := cloneResult(r)
	if c == nil {
		return nil
	}
	c.Model, c.Data, c.Error = cloneRaw(c.Model), cloneRaw(c.Data), ownError(c.Error)
	if c.Display != nil {
		c.Display = &abi.Display{Summary: c.Display.Summary, Detail: cloneRaw(c.Display.Detail)}
	}
	return c
}

func ownError(e *abi.Error) *abi.Error {
	if e == nil {
		return nil
	}
	c := *e
	c.Details = cloneRaw(e.Details)
	return &c
}

// cloneResult is a copy whose top level can be changed.
func cloneResult(r *abi.Result) *abi.Result {
	if r == nil {
		return nil
	}
	c := *r
	c.Metadata = nil
	for k, v := range r.Metadata {
		c.SetMeta(k, v)
	}
	return &c
}
