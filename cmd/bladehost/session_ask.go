package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/tool"
)

// What the session asks the agent: confirmations and services.

var errNoInput = errors.New("the agent closed its input, so nobody can answer")

type confirmationLine struct {
	Type      string            `json:"type"`
	SessionID string            `json:"sessionId"`
	RequestID string            `json:"requestId"`
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Details   tool.Confirmation `json:"details"`
}

// question is a confirmation that waits for its answer, until gone is closed.
type question struct {
	gone   <-chan struct{}
	answer chan tool.ConfirmationAnswer
}

func (q question) moot() bool {
	select {
	case <-q.gone:
		return true
	default:
		return false
	}
}

// confirm asks the agent and waits for its confirm line. At the end of input a
// call that waits for a permission is cancelled; a tool that asks something
// while it runs gets an error.
func (sv *server) confirm(ctx context.Context, d tool.Confirmation) (tool.ConfirmationAnswer, error) {
	c := make(chan tool.ConfirmationAnswer, 1)
	sv.mu.Lock()
	sv.waiting[d.PermissionRequestID] = question{ctx.Done(), c}
	sv.mu.Unlock()
	defer func() {
		sv.mu.Lock()
		delete(sv.waiting, d.PermissionRequestID)
		sv.mu.Unlock()
	}()
	sv.out.put(confirmationLine{"confirmation_request", sv.s.ID(), d.PermissionRequestID, d.ToolCallID, d.ToolName, d})
	select {
	case a := <-c:
		return a, nil
	case <-ctx.Done():
		return tool.ConfirmationAnswer{}, context.Cause(ctx)
	case <-sv.eof:
		if d.Type == "" || d.Type == tool.ConfirmPermission {
			sv.s.Cancel(d.ToolCallID, errNoInput.Error())
		}
		return tool.ConfirmationAnswer{}, errNoInput
	}
}

func (sv *server) confirmed(l *inLine) (func(), *abi.Error) {
	if l.Scope != "" && l.Scope != "once" && l.Scope != "session" {
		return nil, abi.NewError(abi.CodeArgumentsInvalid, "the scope %q is not known; there are once and session", clip(l.Scope))
	}
	sv.mu.Lock()
	q, ok := sv.waiting[l.RequestID]
	delete(sv.waiting, l.RequestID)
	sv.mu.Unlock()
	if !ok || q.moot() {
		return nil, abi.NewError(abi.CodeRequest, "no confirmation with the requestId %q is waiting", clip(l.RequestID))
	}
	return func() { q.answer <- l.answer() }, nil
}

// services are stand-ins for what the agent supplies.
func (sv *server) services(names []string) (map[string]tool.Service, error) {
	out := map[string]tool.Service{}
	for _, n := range names {
		if !abi.KnownService(n) {
			return nil, usage("--services: there is no service %q; known are %s, and x-… names", n, strings.Join(abi.SessionServices(), ", "))
		}
		out[n] = remoteService{sv, n}
	}
	return out, nil
}

type serviceAnswer struct {
	value json.RawMessage
	err   error
}

type serviceLine struct {
	Type      string          `json:"type"`
	SessionID string          `json:"sessionId"`
	RequestID string          `json:"requestId"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
}

type remoteService struct {
	sv   *server
	name string
}

// Invoke asks the agent with a service_call line and waits for service_result.
func (r remoteService) Invoke(ctx context.Context, req tool.Request) (tool.Answer, error) {
	if len(req.Body) > 0 {
		return tool.Answer{}, abi.NewError(abi.CodeRequest, "%s.%s: bytes cannot be handed to a service of the agent; put them into an artifact", r.name, req.Method)
	}
	sv := r.sv
	c := make(chan serviceAnswer, 1)
	sv.mu.Lock()
	sv.next++
	id := fmt.Sprintf("svc-%d", sv.next)
	sv.asked[id] = c
	sv.mu.Unlock()
	defer func() {
		sv.mu.Lock()
		delete(sv.asked, id)
		sv.mu.Unlock()
	}()
	head := req.Head
	if len(head) == 0 {
		head = json.RawMessage("{}")
	}
	sv.out.put(serviceLine{"service_call", sv.s.ID(), id, host.CallID(ctx), r.name + "." + req.Method, head})
	select {
	case a := <-c:
		return tool.Answer{Head: a.value}, a.err
	case <-ctx.Done():
		return tool.Answer{}, context.Cause(ctx)
	case <-sv.eof:
		return tool.Answer{}, abi.NewError(abi.CodeServiceFailed, "%v", errNoInput)
	}
}

func (sv *server) served(l *inLine) (func(), *abi.Error) {
	if (l.Value == nil) == (l.Error == nil) {
		return nil, abi.NewError(abi.CodeArgumentsInvalid, "a service_result has either a value or an error")
	}
	if l.Value != nil {
		if _, err := host.StrictObject(l.Value); err != nil {
			return nil, abi.NewError(abi.CodeArgumentsInvalid, "the value of a service_result is one JSON object: %v", err)
		}
	}
	sv.mu.Lock()
	c, ok := sv.asked[l.RequestID]
	delete(sv.asked, l.RequestID)
	sv.mu.Unlock()
	if !ok {
		return nil, abi.NewError(abi.CodeRequest, "no service call with the requestId %q is waiting", clip(l.RequestID))
	}
	a := serviceAnswer{value: l.Value}
	if l.Error != nil {
		a.err = &abi.Error{Message: l.Error.Message, Type: abi.TypeExecution, Code: abi.Code(l.Error.Code)}
	}
	return func() { c <- a }, nil
}
