package main

import (
	"context"
	"encoding/json"
	"io"
	"sync"

	"github.com/bladehost/bladehost/abi"
)

// outbox writes lines in order in a goroutine of its own, so that whoever reads
// the agent's input never waits for an agent that does not read.
type outbox struct {
	mu     sync.Mutex
	lines  [][]byte
	closed bool
	err    error
	wake   chan struct{}
	// roomy is closed and renewed when the queue has become short.
	roomy chan struct{}
	done  chan struct{}
}

// crowded is how many lines may wait before the yields of tools do.
const crowded = 256

func newOutbox(w io.Writer) *outbox {
	o := &outbox{wake: make(chan struct{}, 1), roomy: make(chan struct{}), done: make(chan struct{})}
	go o.write(w) // close waits for it
	return o
}

// put queues a line without waiting.
func (o *outbox) put(v any) {
	b, err := abi.Marshal(v)
	if err != nil {
		b, _ = abi.Marshal(map[string]string{"type": "error", "code": string(abi.CodeResultNotJSON), "message": err.Error()}) // strings always have a JSON form
	}
	o.mu.Lock()
	o.lines = append(o.lines, append(b, '\n'))
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// room waits until few lines are queued, ctx ends or stop is closed.
func (o *outbox) room(ctx context.Context, stop <-chan struct{}) {
	for {
		o.mu.Lock()
		if len(o.lines) < crowded || o.err != nil {
			o.mu.Unlock()
			return
		}
		roomy := o.roomy
		o.mu.Unlock()
		select {
		case <-roomy:
		case <-stop:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (o *outbox) write(w io.Writer) {
	defer close(o.done)
	for {
		o.mu.Lock()
		lines, closed := o.lines, o.closed
		o.lines = nil
		if len(lines) > 0 {
			close(o.roomy)
			o.roomy = make(chan struct{})
		}
		o.mu.Unlock()
		for _, l := range lines {
			if _, err := w.Write(l); err != nil {
				o.mu.Lock()
				o.err = err
				o.mu.Unlock()
			}
		}
		if len(lines) > 0 {
			continue
		}
		if closed {
			return
		}
		<-o.wake
	}
}

// close writes what is queued and ends.
func (o *outbox) close() error {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
	<-o.done
	return o.err
}

// The lines that are no events of the session.

type readyLine struct {
	Type      string `json:"type"`
	Protocol  int    `json:"protocol"`
	Version   string `json:"version"`
	SessionID string `json:"sessionId"`
}

type ackLine struct {
	Type      string          `json:"type"`
	Ref       json.RawMessage `json:"ref"`
	SessionID string          `json:"sessionId"`
}

type errorLine struct {
	Type      string          `json:"type"`
	Ref       json.RawMessage `json:"ref,omitempty"`
	ID        string          `json:"id,omitempty"`
	Code      abi.Code        `json:"code"`
	Message   string          `json:"message"`
	SessionID string          `json:"sessionId"`
}

type plainLine struct {
	Type      string   `json:"type"`
	SessionID string   `json:"sessionId"`
	IDs       []string `json:"ids,omitempty"`
	TurnID    string   `json:"turnId,omitempty"`
	Reason    string   `json:"reason,omitempty"`
}

// resultLine is the extended tool_result: isError only where it is true.
type resultLine struct {
	Type      string          `json:"type"`
	SessionID string          `json:"sessionId"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Status    abi.Status      `json:"status"`
	Output    json.RawMessage `json:"output"`
	Display   *abi.Display    `json:"display,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	Error     *abi.Error      `json:"error,omitempty"`
	Metadata  map[string]any  `json:"metadata,omitempty"`
	IsError   bool            `json:"isError,omitempty"`
}
