package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// server serves one session over lines. The reader handles each line at once and
// never waits: calls, aborts and steering run in goroutines of their own, which
// wg counts.
type server struct {
	s   *host.Session
	out *outbox
	wg  sync.WaitGroup

	mu      sync.Mutex
	ids     map[string]chan struct{}
	waiting map[string]chan tool.ConfirmationAnswer
	asked   map[string]chan serviceAnswer
	next    int
	// eof is closed when there will be no more input.
	eof chan struct{}
}

type serviceAnswer struct {
	value json.RawMessage
	err   error
}

func newServer(w io.Writer) *server {
	return &server{
		out: newOutbox(w), ids: map[string]chan struct{}{}, waiting: map[string]chan tool.ConfirmationAnswer{},
		asked: map[string]chan serviceAnswer{}, eof: make(chan struct{}),
	}
}

// serve reads lines until the session is closed or the input ends.
func (sv *server) serve(ctx context.Context, s *host.Session, in io.Reader) error {
	sv.s = s
	sv.out.put(readyLine{Type: "ready", Protocol: 1, Version: versionText(), SessionID: s.ID()})
	lines := make(chan []byte)
	errs := make(chan error, 1)
	stop := make(chan struct{})
	defer close(stop)
	go func() { // ends with the input, or with the process when standard input stays open
		r := bufio.NewReaderSize(in, 64<<10)
		for {
			b, err := readLine(r)
			if errors.Is(err, errLongLine) {
				sv.fail(nil, "", abi.NewError(abi.CodeArgumentsInvalid, "a line has more than %d MiB; it was skipped", maxLine>>20))
				continue
			}
			if err != nil {
				errs <- err
				return
			}
			select {
			case lines <- b:
			case <-stop:
				return
			}
		}
	}()
	for {
		select {
		case b := <-lines:
			if len(strings.TrimSpace(string(b))) > 0 && sv.handle(ctx, b) {
				return sv.finish(ctx, true)
			}
		case <-errs:
			return sv.finish(ctx, false)
		case <-ctx.Done():
			return sv.interrupted(ctx)
		}
	}
}

// finish ends the session: after a close line everything was cancelled already;
// at the end of input running calls finish, and questions nobody can answer any
// more are resolved as cancelled.
func (sv *server) finish(ctx context.Context, closed bool) error {
	close(sv.eof)
	if !closed {
		sv.wg.Wait()
		if err := sv.s.Close(context.WithoutCancel(ctx)); err != nil {
			sv.fail(nil, "", abi.AsError(err))
		} else {
			sv.out.put(plainLine{Type: "closed", SessionID: sv.s.ID()})
		}
	}
	sv.wg.Wait()
	return sv.out.close()
}

// interrupted ends the session after a signal.
func (sv *server) interrupted(ctx context.Context) error {
	close(sv.eof)
	done, cancel := context.WithTimeout(context.WithoutCancel(ctx), abi.CleanupTime+time.Second)
	defer cancel()
	if err := sv.s.Close(done); err == nil {
		sv.wg.Wait()
		sv.out.put(plainLine{Type: "closed", SessionID: sv.s.ID(), Reason: "signal"})
	}
	_ = sv.out.close() // the signal is what the exit code tells
	return &toldError{exitInterrupted}
}

func (sv *server) fail(ref json.RawMessage, id string, e *abi.Error) {
	code := e.Code
	if code == "" {
		code = abi.Code("ERROR")
	}
	sv.out.put(errorLine{Type: "error", Ref: ref, ID: id, Code: code, Message: e.Message, SessionID: sv.sessionID()})
}

func (sv *server) sessionID() string {
	if sv.s == nil {
		return ""
	}
	return sv.s.ID()
}

// handle acts on one line and reports whether it closed the session.
func (sv *server) handle(ctx context.Context, b []byte) (closed bool) {
	l, bad := parseLine(b)
	if bad == nil {
		closed, bad = sv.act(ctx, l)
	}
	switch {
	case bad != nil:
		sv.fail(l.Ref, l.ID, bad)
	case l.Ref != nil && l.Type != "close":
		sv.out.put(ackLine{Type: "ack", Ref: l.Ref, SessionID: sv.s.ID()})
	}
	return closed
}

func (sv *server) act(ctx context.Context, l *inLine) (closed bool, bad *abi.Error) {
	switch l.Type {
	case "call":
		return false, sv.call(ctx, l)
	case "calls":
		return false, sv.calls(ctx, l)
	case "cancel":
		return false, sv.cancel(l)
	case "confirm":
		return false, sv.confirmed(l)
	case "service_result":
		return false, sv.served(l)
	case "steer":
		if l.Priority != "" && l.Priority != "now" {
			return false, abi.NewError(abi.CodeArgumentsInvalid, "the priority %q is not known; a steer has priority now", clip(l.Priority))
		}
		sv.wg.Go(func() { _ = sv.s.Steer(ctx, l.InputID) }) // it fails only when the process ends
		return false, nil
	case "turn_end":
		sv.s.EndTurn()
		return false, nil
	case "mode":
		if l.Mode == "" {
			return false, abi.NewError(abi.CodeArgumentsInvalid, "the mode is empty")
		}
		if err := sv.s.SetMode(policy.Mode(l.Mode)); err != nil {
			return false, abi.AsError(err)
		}
		return false, nil
	case "tools":
		sv.out.put(map[string]any{"type": "tools", "sessionId": sv.s.ID(), "tools": sv.s.Tools(), "declarations": sv.s.Declarations()})
		return false, nil
	case "abort":
		sv.wg.Go(func() { sv.abort(ctx, l.Reason) })
		return false, nil
	default: // close: parseLine knows no other type
		return sv.close(ctx, l)
	}
}

// abort cancels all calls; aborted comes when nothing of them runs any more.
func (sv *server) abort(ctx context.Context, reason string) {
	if sv.s.Abort(ctx, reason) != nil {
		return
	}
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for sv.s.Pending() != nil {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
	sv.out.put(plainLine{Type: "aborted", SessionID: sv.s.ID(), Reason: reason})
}

// close ends the session; while a tool still cleans up it fails and can be sent
// again.
func (sv *server) close(ctx context.Context, l *inLine) (bool, *abi.Error) {
	if err := sv.s.Close(ctx); err != nil {
		return false, abi.AsError(err)
	}
	sv.wg.Wait()
	if l.Ref != nil {
		sv.out.put(ackLine{Type: "ack", Ref: l.Ref, SessionID: sv.s.ID()})
	}
	sv.out.put(plainLine{Type: "closed", SessionID: sv.s.ID()})
	return true, nil
}

// claim takes an id for a call; it can be used once. The channel is closed when
// the call is cancelled.
func (sv *server) claim(id string) (chan struct{}, *abi.Error) {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	if _, ok := sv.ids[id]; ok {
		return nil, abi.NewError(abi.CodeDuplicateCall, "a call with the id %q was sent already", clip(id))
	}
	c := make(chan struct{})
	sv.ids[id] = c
	return c, nil
}

func (sv *server) call(ctx context.Context, l *inLine) *abi.Error {
	c, bad := l.callFields.call("")
	if bad != nil {
		return bad
	}
	stop, bad := sv.claim(c.ID)
	if bad != nil {
		return bad
	}
	x := sv.s.Start(ctx, c)
	sv.wg.Go(func() { sv.follow(ctx, x, c.Tool, stop) })
	return nil
}

func (sv *server) calls(ctx context.Context, l *inLine) *abi.Error {
	var list []host.Call
	var ids []string
	for i, f := range l.Calls {
		c, bad := f.call(l.TurnID)
		if bad != nil {
			return abi.NewError(bad.Code, "call %d: %s", i, bad.Message)
		}
		if contains(ids, c.ID) {
			return abi.NewError(abi.CodeDuplicateCall, "call %d: the id %q stands twice", i, clip(c.ID))
		}
		list, ids = append(list, c), append(ids, c.ID)
	}
	stops := make([]chan struct{}, len(list))
	for i, c := range list {
		stop, bad := sv.claim(c.ID)
		if bad != nil {
			return bad
		}
		stops[i] = stop
	}
	t := sv.s.Turn(ctx, list)
	sv.wg.Go(func() {
		var all sync.WaitGroup
		for i, x := range t.Executions() {
			all.Go(func() { sv.follow(ctx, x, list[i].Tool, stops[i]) })
		}
		all.Wait()
		sv.out.put(struct {
			plainLine
			IDs      []string          `json:"ids"`
			Messages []json.RawMessage `json:"messages,omitempty"`
		}{plainLine{Type: "turn_result", SessionID: sv.s.ID(), TurnID: l.TurnID}, append([]string{}, ids...), t.Messages()})
	})
	return nil
}

// follow writes the yields of a call, waiting while the agent does not read, and
// then its result.
func (sv *server) follow(ctx context.Context, x *host.Execution, name string, stop <-chan struct{}) {
	for y := range x.Yields() {
		sv.out.room(ctx, stop)
		if e, ok := host.YieldEvent(y); ok {
			e.SessionID, e.ID, e.Name = sv.s.ID(), x.ID(), name
			sv.out.put(e)
		}
	}
	r, err := x.Result()
	if err != nil {
		sv.fail(nil, x.ID(), abi.AsError(err))
		return
	}
	sv.out.put(resultLine{
		Type: string(host.EventToolResult), SessionID: sv.s.ID(), ID: x.ID(), Name: name, Status: r.Status, Output: r.Model,
		Display: r.Display, Data: r.Data, Error: r.Error, Metadata: r.Metadata, IsError: r.IsError(),
	})
}

// event takes the session's own events. Yields and results come from follow,
// which waits for the agent; the session itself never does.
func (sv *server) event(e host.Event) {
	switch e.Type {
	case host.EventToolUse, host.EventInputApplied, host.EventTurnInterrupted:
		sv.out.put(e)
	case host.EventToolProgress:
		if e.Notice {
			sv.out.put(e)
		}
	}
}

func (sv *server) cancel(l *inLine) *abi.Error {
	sv.mu.Lock()
	stop, known := sv.ids[l.ID]
	sv.mu.Unlock()
	if !known {
		return abi.NewError(abi.CodeToolNotFound, "there is no call with the id %q", clip(l.ID))
	}
	if sv.s.Cancel(l.ID, l.Reason) {
		sv.mu.Lock()
		select {
		case <-stop:
		default:
			close(stop)
		}
		sv.mu.Unlock()
	}
	return nil
}

// confirm asks the agent and waits for its confirm line.
func (sv *server) confirm(ctx context.Context, d tool.Confirmation) (tool.ConfirmationAnswer, error) {
	c := make(chan tool.ConfirmationAnswer, 1)
	sv.mu.Lock()
	sv.waiting[d.PermissionRequestID] = c
	sv.mu.Unlock()
	defer func() {
		sv.mu.Lock()
		delete(sv.waiting, d.PermissionRequestID)
		sv.mu.Unlock()
	}()
	sv.out.put(map[string]any{"type": "confirmation_request", "sessionId": sv.s.ID(), "requestId": d.PermissionRequestID, "id": d.ToolCallID, "name": d.ToolName, "details": d})
	select {
	case a := <-c:
		return a, nil
	case <-ctx.Done():
		return tool.ConfirmationAnswer{}, context.Cause(ctx)
	case <-sv.eof:
		return tool.ConfirmationAnswer{}, errors.New("the agent closed its input, so nobody can answer")
	}
}

func (sv *server) confirmed(l *inLine) *abi.Error {
	if l.Scope != "" && l.Scope != "once" && l.Scope != "session" {
		return abi.NewError(abi.CodeArgumentsInvalid, "the scope %q is not known; there are once and session", clip(l.Scope))
	}
	sv.mu.Lock()
	c, ok := sv.waiting[l.RequestID]
	delete(sv.waiting, l.RequestID)
	sv.mu.Unlock()
	if !ok {
		return abi.NewError(abi.CodeRequest, "no confirmation with the requestId %q is waiting", clip(l.RequestID))
	}
	c <- l.answer()
	return nil
}

// services are stand-ins for what the agent supplies.
func (sv *server) services(names []string) (map[string]tool.Service, error) {
	out := map[string]tool.Service{}
	for _, n := range names {
		if !abi.KnownService(n) {
			return nil, abi.NewError(abi.CodeServiceName, "--services: there is no service %q; known are %s, and x-… names", n, strings.Join(abi.SessionServices(), ", "))
		}
		out[n] = remoteService{sv, n}
	}
	return out, nil
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
	sv.out.put(map[string]any{"type": "service_call", "sessionId": sv.s.ID(), "requestId": id, "id": host.CallID(ctx), "name": r.name + "." + req.Method, "input": req.Head})
	select {
	case a := <-c:
		return tool.Answer{Head: a.value}, a.err
	case <-ctx.Done():
		return tool.Answer{}, context.Cause(ctx)
	case <-sv.eof:
		return tool.Answer{}, abi.NewError(abi.CodeServiceFailed, "the agent closed its input")
	}
}

func (sv *server) served(l *inLine) *abi.Error {
	if (l.Value == nil) == (l.Error == nil) {
		return abi.NewError(abi.CodeArgumentsInvalid, "a service_result has either a value or an error")
	}
	sv.mu.Lock()
	c, ok := sv.asked[l.RequestID]
	delete(sv.asked, l.RequestID)
	sv.mu.Unlock()
	if !ok {
		return abi.NewError(abi.CodeRequest, "no service call with the requestId %q is waiting", clip(l.RequestID))
	}
	a := serviceAnswer{value: l.Value}
	if l.Error != nil {
		a.err = &abi.Error{Message: l.Error.Message, Type: abi.TypeExecution, Code: abi.Code(l.Error.Code)}
	}
	c <- a
	return nil
}
