package main

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/policy"
)

// What the lines of the agent do.

// handle acts on one line and reports whether it closed the session. The ack of
// a line comes before everything that the line brings about.
func (sv *server) handle(ctx context.Context, b []byte) (closed bool) {
	l, bad := parseLine(b)
	var then func()
	switch {
	case bad != nil:
	case l.Type == "close":
		if bad = sv.close(ctx, l); bad == nil {
			return true
		}
	default:
		then, bad = sv.act(ctx, l)
	}
	if bad != nil {
		sv.fail(l.Ref, l.ID, bad)
		return false
	}
	sv.ack(l)
	if then != nil {
		then()
	}
	return false
}

func (sv *server) ack(l *inLine) {
	if l.Ref != nil {
		sv.out.put(ackLine{Type: "ack", Ref: l.Ref, SessionID: sv.s.ID()})
	}
}

// act judges a line and returns what it does.
func (sv *server) act(ctx context.Context, l *inLine) (then func(), bad *abi.Error) {
	switch l.Type {
	case "call":
		return sv.call(ctx, l)
	case "calls":
		return sv.calls(ctx, l)
	case "cancel":
		return sv.cancel(l)
	case "confirm":
		return sv.confirmed(l)
	case "service_result":
		return sv.served(l)
	case "steer":
		return sv.steer(ctx, l)
	case "turn_end":
		return sv.s.EndTurn, nil
	case "mode":
		if l.Mode == "" {
			return nil, abi.NewError(abi.CodeArgumentsInvalid, "the mode is empty")
		}
		if err := sv.s.SetMode(policy.Mode(l.Mode)); err != nil {
			return nil, abi.AsError(err)
		}
		return nil, nil
	case "tools":
		return func() {
			sv.out.put(toolsLine{Type: "tools", SessionID: sv.s.ID(), Tools: sv.s.Tools(), Declarations: append([]host.Declaration{}, sv.s.Declarations()...)})
		}, nil
	default: // abort: parseLine knows no other type
		return func() {
			list := sv.cancelAll(l.Reason)
			sv.wg.Go(func() { sv.aborted(ctx, list, l.Reason) })
		}, nil
	}
}

// aborted says so when nothing of the cancelled calls runs any more and their
// results are queued.
func (sv *server) aborted(ctx context.Context, list []*sentCall, reason string) {
	if !wait(ctx, list) {
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

// wait waits for the results of calls; false means that the process ends first.
func wait(ctx context.Context, list []*sentCall) bool {
	for _, c := range list {
		select {
		case <-c.ended:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// steer applies an input: the results of the calls that were sent before it come
// before input_applied.
func (sv *server) steer(ctx context.Context, l *inLine) (func(), *abi.Error) {
	if l.Priority != "" && l.Priority != "now" {
		return nil, abi.NewError(abi.CodeArgumentsInvalid, "the priority %q is not known; a steer has priority now", clip(l.Priority))
	}
	if l.InputID == "" {
		return nil, abi.NewError(abi.CodeArgumentsInvalid, "the inputId is empty")
	}
	return func() {
		list := sv.sent()
		sv.wg.Go(func() {
			for _, c := range list { // a call that has not begun cannot be interrupted
				select {
				case <-c.used:
				case <-ctx.Done():
					return
				}
			}
			if sv.s.Steer(ctx, l.InputID) != nil || !wait(ctx, list) {
				return // the process ends
			}
			sv.mu.Lock()
			e, ok := sv.applied[l.InputID]
			delete(sv.applied, l.InputID)
			sv.mu.Unlock()
			if ok {
				sv.out.put(e)
			}
		})
	}, nil
}

// close ends the session; while a tool still cleans up it fails and can be sent
// again.
func (sv *server) close(ctx context.Context, l *inLine) *abi.Error {
	sv.cancelAll("the session is closing")
	if err := sv.s.Close(ctx); err != nil {
		return abi.AsError(err)
	}
	sv.wg.Wait()
	sv.ack(l)
	sv.out.put(plainLine{Type: "closed", SessionID: sv.s.ID()})
	return nil
}

// claim takes ids for calls; each can be used once.
func (sv *server) claim(ids ...string) ([]*sentCall, *abi.Error) {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	for _, id := range ids {
		if _, ok := sv.ids[id]; ok {
			return nil, abi.NewError(abi.CodeDuplicateCall, "a call with the id %q was sent already", clip(id))
		}
	}
	out := make([]*sentCall, len(ids))
	for i, id := range ids {
		out[i] = &sentCall{stop: make(chan struct{}), used: make(chan struct{}), ended: make(chan struct{})}
		sv.ids[id] = out[i]
	}
	return out, nil
}

func (sv *server) call(ctx context.Context, l *inLine) (func(), *abi.Error) {
	c, bad := l.callFields.call("")
	if bad != nil {
		return nil, bad
	}
	sent, bad := sv.claim(c.ID)
	if bad != nil {
		return nil, bad
	}
	return func() {
		sent[0].x = sv.s.Start(ctx, c)
		sv.wg.Go(func() { sv.follow(ctx, sent[0], c.Tool) })
	}, nil
}

func (sv *server) calls(ctx context.Context, l *inLine) (func(), *abi.Error) {
	var list []host.Call
	ids := []string{}
	for i, f := range l.Calls {
		c, bad := f.call(l.TurnID)
		if bad != nil {
			return nil, abi.NewError(bad.Code, "call %d: %s", i, bad.Message)
		}
		if contains(ids, c.ID) {
			return nil, abi.NewError(abi.CodeDuplicateCall, "call %d: the id %q stands twice", i, clip(c.ID))
		}
		list, ids = append(list, c), append(ids, c.ID)
	}
	sent, bad := sv.claim(ids...)
	if bad != nil {
		return nil, bad
	}
	return func() {
		t := sv.s.Turn(ctx, list)
		for i, x := range t.Executions() {
			sent[i].x = x
		}
		sv.wg.Go(func() {
			var all sync.WaitGroup
			for i := range sent {
				all.Go(func() { sv.follow(ctx, sent[i], list[i].Tool) })
			}
			all.Wait()
			sv.out.put(turnLine{Type: "turn_result", SessionID: sv.s.ID(), TurnID: l.TurnID, IDs: ids, Messages: t.Messages()})
		})
	}, nil
}

// follow writes the yields of a call, waiting while the agent does not read, and
// then its result.
func (sv *server) follow(ctx context.Context, c *sentCall, name string) {
	x := c.x
	defer func() {
		sv.mu.Lock()
		sv.ids[x.ID()] = nil
		sv.mu.Unlock()
		c.use()
		close(c.ended)
	}()
	for y := range x.Yields() {
		sv.out.room(ctx, c.stop)
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
	case host.EventToolUse:
		sv.out.put(e)
		sv.mu.Lock()
		c := sv.ids[e.ID]
		sv.mu.Unlock()
		if c != nil {
			c.use()
		}
	case host.EventInputApplied:
		sv.mu.Lock()
		sv.applied[e.InputID] = e
		sv.mu.Unlock()
	case host.EventTurnInterrupted:
		sv.out.put(e)
	case host.EventToolProgress:
		if e.Notice {
			sv.out.put(e)
		}
	}
}

func (sv *server) cancel(l *inLine) (func(), *abi.Error) {
	sv.mu.Lock()
	c, known := sv.ids[l.ID]
	sv.mu.Unlock()
	if !known {
		return nil, abi.NewError(abi.CodeToolNotFound, "there is no call with the id %q", clip(l.ID))
	}
	return func() {
		if c != nil {
			c.cancel(l.Reason)
		}
	}, nil
}

// The lines that only what is in this file writes.

type toolsLine struct {
	Type         string             `json:"type"`
	SessionID    string             `json:"sessionId"`
	Tools        []host.ToolInfo    `json:"tools"`
	Declarations []host.Declaration `json:"declarations"`
}

type turnLine struct {
	Type      string            `json:"type"`
	SessionID string            `json:"sessionId"`
	TurnID    string            `json:"turnId,omitempty"`
	IDs       []string          `json:"ids"`
	Messages  []json.RawMessage `json:"messages,omitempty"`
}
