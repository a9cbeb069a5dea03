package shell

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

const (
	// keepPending is how much unread output of a stream of a background shell is
	// kept, in bytes; the oldest is dropped.
	keepPending = 1 << 20
	// forget is how long a shell that has ended, and whose end was read, stays known.
	forget = 10 * time.Minute
)

// Status is where a background shell is in its life.
type Status string

// Statuses.
const (
	StatusRunning Status = "running"
	// StatusExited is the end of its own, StatusKilled the one by KillShell.
	StatusExited Status = "exited"
	StatusKilled Status = "killed"
)

// background is one background shell.
type background struct {
	id, command string
	p           *process
	started     time.Time
	out, err    pending

	mu       sync.Mutex
	finished time.Time
	killed   bool
	read     time.Time // when its end was first read
}

// pending is the output of a stream that nobody has read yet.
type pending struct {
	mu   sync.Mutex
	ring ring
}

// Write never fails.
func (p *pending) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ring.most = keepPending
	p.ring.add(b)
	return len(b), nil
}

// take gives what is there and forgets it. While more may come, an unfinished
// character stays.
func (p *pending) take(more bool) (text string, dropped int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.ring.bytes()
	dropped = p.ring.dropped
	p.ring = ring{most: keepPending}
	if more {
		for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
			if tail := b[len(b)-i:]; utf8.RuneStart(tail[0]) {
				if !utf8.FullRune(tail) {
					p.ring.add(tail)
					b = b[:len(b)-i]
				}
				break
			}
		}
	}
	return valid(string(b)), dropped
}

// backgroundOut is what a model reads of a background shell that was started.
type backgroundOut struct {
	Command    string `json:"command"`
	Background bool   `json:"background"`
	PID        int    `json:"pid"`
	BashID     string `json:"bash_id"`
	ShellID    string `json:"shell_id"`
}

// background starts a command that outlives its call.
func (b *bash) background(call *tool.Call, in bashIn, dir string, env map[string]string) (*abi.Result, error) {
	session := call.SessionID()
	if session == "" {
		return nil, failure(abi.TypeValidation, codeNoSession, "a background shell belongs to a session, and this call has none; run the command in the foreground")
	}
	sh, err := b.bash()
	if err != nil {
		return nil, failure(abi.TypeExecution, codeSpawn, fmt.Sprintf("bash could not be started: %v", err))
	}
	tag := b.newTag()
	bg := &background{id: "bash_" + newUUID(), command: in.Command, started: time.Now()}
	c := command{path: sh, argv: []string{"bash", "-c", "--", in.Command}, dir: dir, env: b.commandEnv(env, in.Env, dir, tag), tag: tag, out: &bg.out, err: &bg.err}
	if err := b.enter(session, bg, c); err != nil {
		return nil, err
	}
	out := backgroundOut{in.Command, true, bg.p.pid, bg.id, bg.id}
	raw, err := abi.Marshal(out)
	if err != nil {
		return nil, err
	}
	r := abi.Success(raw)
	summary := "Running in the background as " + bg.id
	for k, v := range map[string]any{"command": in.Command, "background": true, "pid": out.PID, "bash_id": bg.id, "shell_id": bg.id,
		"message": "Read its output with TaskOutput, end it with KillShell.", "summary": summary} {
		r.SetMeta(k, v)
	}
	r.Display = &abi.Display{Summary: summary}
	return r, nil
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// enter starts a shell and makes it known, within the limit of its session.
func (s *Shell) enter(session string, bg *background, c command) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.sessions[session]
	if list == nil {
		list = map[string]*background{}
		s.sessions[session] = list
	}
	running := 0
	for id, b := range list {
		if b.forgotten() {
			delete(list, id)
		} else if b.status() == StatusRunning {
			running++
		}
	}
	if running >= s.opt.MaxBackground {
		return failure(abi.TypeExecution, codeTooMany, fmt.Sprintf("%d background shells are running already; end one with KillShell first", running))
	}
	p, err := start(c, s.guard)
	if err != nil {
		return spawnError(c, err)
	}
	bg.p = p
	list[bg.id] = bg
	go func() { // ends with the shell, which EndSession ends
		<-p.exited
		bg.mu.Lock()
		bg.finished = time.Now()
		bg.mu.Unlock()
	}()
	return nil
}

// find is a background shell of a session.
func (s *Shell) find(session, id string) (*background, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.sessions[session][id]
	if b == nil {
		return nil, failure(abi.TypeExecution, codeNoShell, "there is no background shell "+quoted(id)+" in this session; Bash with run_in_background returns the id of a new one")
	}
	return b, nil
}

// Known reports whether a session has a background shell of this id.
func (s *Shell) Known(session, id string) bool {
	_, err := s.find(session, id)
	return err == nil
}

func (b *background) status() Status {
	select {
	case <-b.p.done:
	default:
		return StatusRunning
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.killed {
		return StatusKilled
	}
	return StatusExited
}

func (b *background) forgotten() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.read.IsZero() && time.Since(b.read) > forget
}

// kill ends a shell and all it started, and reports whether it was running.
func (b *background) kill() bool {
	b.mu.Lock()
	select {
	case <-b.p.done:
		b.mu.Unlock()
		return false
	default:
	}
	b.killed = true
	b.mu.Unlock()
	b.p.stop(termGrace)
	select {
	case <-b.p.done:
	case <-time.After(killGrace):
	}
	return true
}

// Output is what a background shell has printed since it was last read, and how
// it is.
type Output struct {
	Status   Status
	Command  string
	PID      int
	ExitCode *int
	Signal   *string
	Started  time.Time
	// Finished is zero while it runs.
	Finished       time.Time
	Stdout, Stderr string
	// Dropped is how many bytes were lost because nobody read them.
	Dropped int64
}

// Output reads a background shell of a session, and waits for its end for at most
// wait. What it returns is not returned again. The error is shell_not_found, or
// the cause of ctx.
func (s *Shell) Output(ctx context.Context, session, id string, wait time.Duration) (*Output, error) {
	b, err := s.find(session, id)
	if err != nil {
		return nil, err
	}
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-b.p.done:
		case <-t.C:
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil { // what is not delivered is not taken
		return nil, context.Cause(ctx)
	}
	out := &Output{Status: b.status(), Command: b.command, PID: b.p.pid, Started: b.started}
	running := out.Status == StatusRunning
	if !running {
		out.ExitCode, out.Signal = b.p.end.code, b.p.end.signal
	}
	var d1, d2 int64
	out.Stdout, d1 = b.out.take(running)
	out.Stderr, d2 = b.err.take(running)
	out.Dropped = d1 + d2
	b.mu.Lock()
	defer b.mu.Unlock()
	if !running {
		out.Finished = b.finished
		if b.read.IsZero() {
			b.read = time.Now()
		}
		if out.Finished.IsZero() {
			out.Finished = b.read
		}
	}
	return out, nil
}
