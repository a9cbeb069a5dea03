package tool

import (
	"context"
	"encoding/json"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/strictjson"
)

// Request is what a service is asked: one of its methods, a JSON object, and
// bytes where the method takes them.
type Request struct {
	Method string
	Head   json.RawMessage
	Body   []byte
}

// Answer is what it answers.
type Answer struct {
	Head json.RawMessage
	Body []byte
	// Release, where it is not nil, gives the memory of Body back to the service. Who
	// has read the whole Body may call it, once, and must not touch Body from then on;
	// who never calls it leaves the memory to the garbage collector.
	Release func()
}

// Service is something a session lends to tools that declare it: the six
// session services (see abi.SessionServices) or an embedder's own x- service.
// Native tools, guests and agents in other languages all reach it this way. It
// is safe for concurrent use and stops when ctx ends.
type Service interface {
	Invoke(ctx context.Context, req Request) (Answer, error)
}

// Methods is a Service made of functions, by method name.
type Methods map[string]func(ctx context.Context, req Request) (Answer, error)

// Invoke calls the method, or says which ones there are not.
func (m Methods) Invoke(ctx context.Context, req Request) (Answer, error) {
	f, ok := m[req.Method]
	if !ok {
		return Answer{}, abi.NewError(abi.CodeUnknownService, "the service has no method %q", req.Method)
	}
	return f(ctx, req)
}

// Method is a typed function as a method of Methods: the head is read into In
// and Out becomes the answer's head.
func Method[In, Out any](f func(ctx context.Context, in In) (Out, error)) func(context.Context, Request) (Answer, error) {
	return func(ctx context.Context, req Request) (Answer, error) {
		var in In
		if len(req.Head) > 0 {
			if err := strictjson.Decode(req.Head, &in); err != nil {
				return Answer{}, abi.NewError(abi.CodeRequest, "the request to %s: %v", req.Method, err)
			}
		}
		out, err := f(ctx, in)
		if err != nil {
			return Answer{}, err
		}
		head, err := strictjson.Encode(out)
		if err != nil {
			return Answer{}, abi.NewError(abi.CodeServiceFailed, "the answer of %s: %v", req.Method, err)
		}
		return Answer{Head: head}, nil
	}
}

// Ask calls a method of a service with a Go value and reads the answer into
// another. A nil in means {}; a nil out ignores the answer.
func Ask(ctx context.Context, s Service, method string, in, out any) error {
	head := json.RawMessage("{}")
	if in != nil {
		var err error
		if head, err = strictjson.Encode(in); err != nil {
			return abi.NewError(abi.CodeRequest, "the request to %s: %v", method, err)
		}
	}
	ans, err := s.Invoke(ctx, Request{Method: method, Head: head})
	if err != nil || out == nil {
		return err
	}
	if err := strictjson.Decode(ans.Head, out); err != nil {
		return abi.NewError(abi.CodeServiceFailed, "the answer of %s: %v", method, err)
	}
	return nil
}

// Fence identifies the lease a call runs under. Token only grows for a session;
// a tool that writes shared state outside sends it along, so that the outside
// can refuse lower ones.
type Fence struct {
	LeaseID string `json:"leaseId"`
	Token   int64  `json:"fencingToken"`
}

// Runtime is what a tool with requiresRuntime gets.
type Runtime interface {
	// Fence is the lease, and false where the session runs under none.
	Fence() (Fence, bool)
	// AssertLease is nil while the lease is owned, and where there is none. Its
	// error has a code that starts with DURABLE_EXECUTION_LEASE_.
	AssertLease(ctx context.Context) error
	// RunWithLease runs a short operation while nobody can take the lease over.
	// It must not wait for anything slow.
	RunWithLease(ctx context.Context, op func(ctx context.Context) error) error
}
