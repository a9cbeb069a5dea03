package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/bladehost/bladehost/abi"
)

// outbox writes lines in order in a goroutine of its own, so that whoever reads
// the agent's input never waits for an agent that does not read.
type outbox struct {
	mu    sync.Mutex
	lines [][]byte
	// waiting and bytes count what is not written yet; some of it is not in lines
	// any more.
	waiting, bytes int
	// most bounds bytes.
	most   int
	closed bool
	err    error
	wake   chan struct{}
	// roomy is closed and renewed when few lines wait again.
	roomy chan struct{}
	// failed is closed when err is set: lines are dropped from then on.
	failed chan struct{}
	done   chan struct{}
}

const (
	// crowded is how many lines may wait before the yields of tools do.
	crowded = 256
	// maxQueued bounds the lines that wait for the agent, in bytes. Yields wait
	// long before; this is for results and acks of an agent that only writes.
	maxQueued = 1 << 30
	// lastWords is how long the process waits for an agent that does not read when
	// the process should end.
	lastWords = time.Second
)

var errBehind = errors.New("the agent does not read its lines: 1 GiB of them wait")

func newOutbox(w io.Writer) *outbox {
	o := &outbox{most: maxQueued, wake: make(chan struct{}, 1), roomy: make(chan struct{}), failed: make(chan struct{}), done: make(chan struct{})}
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
	if o.err == nil && o.bytes+len(b) > o.most {
		o.fail(errBehind)
	}
	if o.err == nil {
		o.lines = append(o.lines, append(b, '\n'))
		o.waiting++
		o.bytes += len(b) + 1
	}
	o.mu.Unlock()
	o.rouse()
}

func (o *outbox) rouse() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// fail keeps the first error. The caller holds mu.
func (o *outbox) fail(err error) {
	if o.err == nil {
		o.err = err
		o.lines = nil
		close(o.failed)
	}
}

// written counts a line that the agent has.
func (o *outbox) written(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting--
	o.bytes -= n
	if o.waiting == crowded-1 {
		close(o.roomy)
		o.roomy = make(chan struct{})
	}
}

// room waits until few lines wait, ctx ends or stop is closed.
func (o *outbox) room(ctx context.Context, stop <-chan struct{}) {
	for {
		o.mu.Lock()
		if o.waiting < crowded || o.err != nil {
			o.mu.Unlock()
			return
		}
		roomy := o.roomy
		o.mu.Unlock()
		select {
		case <-roomy:
		case <-o.failed:
			return
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
		o.mu.Unlock()
		for _, l := range lines {
			if _, err := w.Write(l); err != nil {
				o.mu.Lock()
				o.fail(err)
				o.mu.Unlock()
				return
			}
			o.written(len(l))
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

// close writes what is queued and ends. Once ctx ended or the output failed it
// waits for lastWords only.
func (o *outbox) close(ctx context.Context) error {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.rouse()
	select {
	case <-o.done:
	case <-o.failed:
		o.patience()
	case <-ctx.Done():
		o.patience()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

func (o *outbox) patience() {
	t := time.NewTimer(lastWords)
	defer t.Stop()
	select {
	case <-o.done:
	case <-t.C:
	}
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

// plainLine is aborted or closed.
type plainLine struct {
	Type      string `json:"type"`
	SessionID string `json:"sessionId"`
	Reason    string `json:"reason,omitempty"`
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
