package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
)

// server serves one session over lines. The reader handles each line at once and
// never waits for a call or for the agent: what takes time runs in goroutines of
// its own, which wg counts.
type server struct {
	s   *host.Session
	out *outbox
	wg  sync.WaitGroup

	mu sync.Mutex
	// ids are all calls that were ever sent; those that ended are nil.
	ids     map[string]*sentCall
	waiting map[string]question
	asked   map[string]chan serviceAnswer
	next    int
	// applied are the events of steering that wait for the results before them.
	applied map[string]host.Event
	// eof is closed when there will be no more input.
	eof chan struct{}
}

// sentCall is a call whose result the agent does not have yet.
type sentCall struct {
	x *host.Execution
	// stop is closed when the call is cancelled, used when its tool_use is queued,
	// ended when its result is.
	stop, used, ended chan struct{}
	stopOnce, useOnce sync.Once
}

func (c *sentCall) cancel(why string) {
	c.x.Cancel(why)
	c.stopOnce.Do(func() { close(c.stop) })
}

func (c *sentCall) use() { c.useOnce.Do(func() { close(c.used) }) }

func newServer(w io.Writer) *server {
	return &server{
		out: newOutbox(w), ids: map[string]*sentCall{}, waiting: map[string]question{},
		asked: map[string]chan serviceAnswer{}, applied: map[string]host.Event{}, eof: make(chan struct{}),
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
		errs <- sv.read(in, lines, stop)
	}()
	for {
		select {
		case b := <-lines:
			if len(strings.TrimSpace(string(b))) > 0 && sv.handle(ctx, b) {
				close(sv.eof)
				return sv.end(ctx)
			}
		case err := <-errs:
			close(sv.eof)
			if err != nil {
				sv.fail(nil, "", abi.NewError(abi.CodeIO, "the input cannot be read: %v", err))
			}
			return errors.Join(sv.finish(ctx), ioError("standard input cannot be read", err))
		case <-sv.out.failed:
			close(sv.eof)
			return sv.stopped(ctx)
		case <-ctx.Done():
			close(sv.eof)
			return sv.stopped(ctx)
		}
	}
}

// read hands over the lines of the input and reports those that are too long.
func (sv *server) read(in io.Reader, lines chan<- []byte, stop <-chan struct{}) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		b, err := readLine(r)
		switch {
		case errors.Is(err, errLongLine):
			sv.fail(nil, "", abi.NewError(abi.CodeArgumentsInvalid, "a line has more than %d MiB; it was skipped", maxLine>>20))
			continue
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		select {
		case lines <- b:
		case <-stop:
			return nil
		}
	}
}

func ioError(what string, err error) error {
	if err == nil {
		return nil
	}
	return abi.NewError(abi.CodeIO, "%s: %v", what, err).Because(err)
}

// finish ends the session at the end of input: running calls finish, and
// questions that nobody can answer any more are resolved as cancelled.
func (sv *server) finish(ctx context.Context) error {
	sv.wg.Wait()
	if err := sv.s.Close(context.WithoutCancel(ctx)); err != nil {
		sv.fail(nil, "", abi.AsError(err))
	} else {
		sv.out.put(plainLine{Type: "closed", SessionID: sv.s.ID()})
	}
	return sv.end(ctx)
}

// end writes what is queued. A signal that came meanwhile decides the exit code.
func (sv *server) end(ctx context.Context) error {
	sv.wg.Wait()
	err := sv.out.close(ctx)
	if ctx.Err() != nil {
		return &toldError{exitInterrupted}
	}
	return ioError("standard output cannot be written", err)
}

// stopped ends the session after a signal, or when nobody reads its lines any
// more: everything is cancelled and gets the clean-up budget.
func (sv *server) stopped(ctx context.Context) error {
	reason := "signal"
	if ctx.Err() == nil {
		reason = "nobody reads the output"
	}
	sv.cancelAll(reason)
	done, cancel := context.WithTimeout(context.WithoutCancel(ctx), abi.CleanupTime+time.Second)
	defer cancel()
	if err := sv.s.Close(done); err == nil {
		sv.wg.Wait()
		sv.out.put(plainLine{Type: "closed", SessionID: sv.s.ID(), Reason: reason})
	}
	return sv.end(ctx)
}

func (sv *server) fail(ref json.RawMessage, id string, e *abi.Error) {
	code := e.Code
	if code == "" { // the session's work was stopped from outside
		code = abi.CodeAborted
	}
	sv.out.put(errorLine{Type: "error", Ref: ref, ID: id, Code: code, Message: e.Message, SessionID: sv.s.ID()})
}

// sent are the calls whose results are not queued yet.
func (sv *server) sent() []*sentCall {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	var out []*sentCall
	for _, c := range sv.ids {
		if c != nil {
			out = append(out, c)
		}
	}
	return out
}

func (sv *server) cancelAll(why string) []*sentCall {
	list := sv.sent()
	for _, c := range list {
		c.cancel(why)
	}
	return list
}
