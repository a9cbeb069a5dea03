package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/tool"
)

// Lines come in the order in which they were put, and all of them.
func TestOutboxOrder(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var buf bytes.Buffer
	o := newOutbox(&buf)
	for i := range 1000 {
		o.put(map[string]int{"n": i})
	}
	if err := o.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(buf.String()), "\n")
	for i, l := range lines {
		if want := fmt.Sprintf(`{"n":%d}`, i); l != want {
			t.Fatalf("line %d is %s", i, l)
		}
	}
	if len(lines) != 1000 {
		t.Errorf("%d lines", len(lines))
	}
}

// put never waits for the reader; room does, until the call is cancelled.
func TestOutboxBlocked(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	r, w := io.Pipe()
	o := newOutbox(w)
	for range crowded + 10 {
		o.put("x")
	}
	stop, free := make(chan struct{}), make(chan struct{})
	go func() { o.room(context.Background(), stop); close(free) }()
	select {
	case <-free:
		t.Fatal("there is room in a queue that nobody reads")
	case <-time.After(50 * time.Millisecond):
	}
	close(stop)
	<-free
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	o.room(ctx, nil)
	// Reading makes room: as soon as few lines wait, not only when all are read.
	lines := bufio.NewReaderSize(r, 16)
	for range 11 {
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	o.room(context.Background(), nil)
	_ = r.Close()
	if err := o.close(t.Context()); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the error for lines that nobody read is %v", err)
	}
}

// An output that is gone drops what comes, and says so once.
func TestOutboxGone(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	r, w := io.Pipe()
	_ = r.Close()
	o := newOutbox(w)
	o.put("x")
	<-o.failed
	for range crowded * 2 {
		o.put("x")
	}
	o.room(t.Context(), nil)
	if err := o.close(t.Context()); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the error is %v", err)
	}
}

// An agent that only writes has its session ended.
func TestOutboxFull(t *testing.T) {
	r, w := io.Pipe()
	defer func() { _ = r.Close() }()
	o := newOutbox(w)
	o.most = 10_000
	for range 100 {
		o.put(strings.Repeat("x", 1000))
	}
	<-o.failed
	if err := o.close(t.Context()); !errors.Is(err, errBehind) {
		t.Errorf("the error is %v", err)
	}
}

// When the process should end, an agent that does not read is not waited for
// longer than its last words take.
func TestOutboxEndsUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		defer func() { _ = r.Close() }()
		o := newOutbox(w)
		o.put("x")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begun := time.Now()
		if err := o.close(ctx); err != nil {
			t.Error(err)
		}
		if d := time.Since(begun); d != lastWords {
			t.Errorf("it took %v", d)
		}
	})
}

// served runs a session server in this process, with tools of the test's own.
type served struct {
	in   *io.PipeWriter
	out  *os.File
	done chan error
	h    *host.Host
}

func serveTools(t *testing.T, ctx context.Context, tools ...tool.Tool) *served {
	t.Helper()
	h, err := host.New(host.Options{Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	inR, inW := io.Pipe()
	outR, outW, err := os.Pipe() // a real pipe: it holds 64 KiB, then writes block
	if err != nil {
		t.Fatal(err)
	}
	sv := newServer(outW)
	s, err := h.NewSession(host.SessionOptions{ID: "s", Events: sv.event, ExtendedEvents: true, AutoApprove: true})
	if err != nil {
		t.Fatal(err)
	}
	r := &served{in: inW, out: outR, done: make(chan error, 1), h: h}
	go func() { // done
		err := sv.serve(ctx, s, inR)
		_, _ = outW.Close(), inR.Close()
		r.done <- err
	}()
	return r
}

func (r *served) send(t *testing.T, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(r.in, l+"\n"); err != nil {
			t.Fatal(err)
		}
	}
}

func (r *served) end(t *testing.T) error {
	t.Helper()
	err := <-r.done
	_ = r.out.Close()
	closeHost(r.h)
	return err
}

// chatty yields messages until it is cancelled.
func chatty(stopped chan<- string) tool.Tool {
	return tool.Must(tool.DefineStream("Chatty", "Yields without end.", func(ctx context.Context, _ struct{}, c *tool.Call) (*abi.Result, error) {
		for {
			if err := c.Yield(abi.Message(strings.Repeat("m", 1000))); err != nil {
				stopped <- tool.Reason(ctx).String()
				return nil, err
			}
		}
	}))
}

// A cancel works while standard output is blocked: nobody reads it.
func TestSessionCancelWhileBlocked(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	stopped := make(chan string, 1)
	r := serveTools(t, t.Context(), chatty(stopped))
	r.send(t, `{"type":"call","id":"c1","tool":"Chatty"}`)
	time.Sleep(200 * time.Millisecond) // the pipe and the queue are full long before
	select {
	case why := <-stopped:
		t.Fatalf("the tool ended: %s", why)
	default:
	}
	r.send(t, `{"type":"cancel","id":"c1"}`)
	select {
	case <-stopped:
	case <-time.After(patience):
		t.Fatal("the cancel had to wait for the output")
	}
	// The reader goes on too.
	for i := range 1000 {
		r.send(t, fmt.Sprintf(`{"type":"cancel","id":"c1","ref":%d}`, i))
	}
	_ = r.in.Close()
	b, err := io.ReadAll(r.out)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.end(t); err != nil {
		t.Error(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, `"closed"`) {
		t.Errorf("the last line is %s", last)
	}
	if n := strings.Count(string(b), `"type":"ack"`); n != 1000 {
		t.Errorf("%d acks", n)
	}
	if n := strings.Count(string(b), `"type":"tool_result"`); n != 1 {
		t.Errorf("%d results", n)
	}
}

// A signal ends the session though nobody reads its output.
func TestSessionSignalWhileBlocked(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := make(chan string, 1)
	r := serveTools(t, ctx, chatty(stopped))
	r.send(t, `{"type":"call","id":"c1","tool":"Chatty"}`)
	time.Sleep(100 * time.Millisecond)
	begun := time.Now()
	cancel(&tool.CancelError{Reason: abi.CancelRequest, Detail: "terminated"})
	err := r.end(t)
	var told *toldError
	if !errors.As(err, &told) {
		t.Errorf("the error is %v", err)
	}
	if code := exitCode(ctx, err); code != exitTerminated {
		t.Errorf("exit code %d", code)
	}
	if d := time.Since(begun); d > patience {
		t.Errorf("it took %v", d)
	}
	_ = r.in.Close()
}

// An agent that went away ends the session, with an error.
func TestSessionReaderGone(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	stopped := make(chan string, 1)
	r := serveTools(t, t.Context(), chatty(stopped))
	r.send(t, `{"type":"call","id":"c1","tool":"Chatty"}`)
	waitFor(t, r.out, "tool_message")
	_ = r.out.Close()
	<-stopped
	err := r.end(t)
	if abi.CodeOf(err) != abi.CodeIO {
		t.Errorf("the error is %v", err)
	}
}

// A thousand calls at once, each answered once, with the ack before everything.
func TestSessionMany(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	echo := tool.Must(tool.Define("Echo", "Says it again.", func(_ context.Context, in struct{ N int }) (int, error) { return in.N, nil }))
	r := serveTools(t, t.Context(), echo)
	const calls = 1000
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range calls {
			_, _ = fmt.Fprintf(r.in, `{"type":"call","id":"c%d","tool":"Echo","input":{"N":%d},"ref":%d}`+"\n", i, i, i) // the count below tells
		}
		_ = r.in.Close()
	})
	seen := map[string]string{}
	dec := json.NewDecoder(r.out)
	for {
		var l struct {
			Type   string          `json:"type"`
			ID     string          `json:"id"`
			Ref    json.RawMessage `json:"ref"`
			Output json.RawMessage `json:"output"`
		}
		if err := dec.Decode(&l); err != nil {
			break
		}
		id := l.ID
		if l.Type == "ack" {
			id = "c" + string(l.Ref)
		}
		seen[id] += l.Type + " "
		if l.Type == "tool_result" && "c"+string(l.Output) != id {
			t.Errorf("%s has the result %s", id, l.Output)
		}
	}
	wg.Wait()
	if err := r.end(t); err != nil {
		t.Error(err)
	}
	for i := range calls {
		if got := seen[fmt.Sprintf("c%d", i)]; got != "ack tool_use tool_result " {
			t.Errorf("call %d: %s", i, got)
		}
	}
}
