package shell

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Times of ending a process tree.
const (
	// termGrace is how long a tree may take to end after SIGTERM.
	termGrace = 2 * time.Second
	// killGrace bounds the wait for a tree that got SIGKILL: only a process in an
	// uninterruptible system call outlives it.
	killGrace = time.Second
	// pipeGrace is how long output may still come once nobody is left to write it.
	pipeGrace = 200 * time.Millisecond
)

// command is what to start.
type command struct {
	path string
	argv []string // with the program's name first
	dir  string
	env  []string
	// tag marks what the command starts; it is in env too.
	tag string
	// alone says that the program starts no other.
	alone bool
	// out and err take what is written; each is used by one goroutine.
	out, err io.Writer
}

// exit is how a process ended: one of the two is set.
type exit struct {
	code   *int
	signal *string
}

// process is a running command with everything it started. All of it is ended by
// stop, or when the command itself is over.
type process struct {
	pid   int
	alone bool
	tree  *tree
	pipes [2]*os.File
	// exited is closed when the command itself is over; end is set then.
	exited chan struct{}
	end    exit
	// done is closed when the output is complete too and nobody is left.
	done chan struct{}

	stopping atomic.Bool
	stopOnce sync.Once
	stopped  chan struct{}
}

// start starts a command. Whoever calls it waits for done, or calls stop and
// waits: both end all goroutines that start makes.
func start(c command, g *guard) (*process, error) {
	stdin, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stdin.Close() }() // the child has its own
	p := &process{alone: c.alone, exited: make(chan struct{}), done: make(chan struct{}), stopped: make(chan struct{})}
	var write [2]*os.File
	for i := range p.pipes {
		if p.pipes[i], write[i], err = os.Pipe(); err != nil {
			closeAll(p.pipes[:]...)
			closeAll(write[:]...)
			return nil, err
		}
	}
	cmd := &exec.Cmd{Path: c.path, Args: c.argv, Dir: c.dir, Env: c.env, Stdin: stdin, Stdout: write[0], Stderr: write[1], SysProcAttr: ownTree()}
	started := make(chan error, 1)
	go p.run(cmd, c.tag, started) // ends with the command; finish waits for it
	err = <-started
	closeAll(write[:]...)
	if err != nil {
		closeAll(p.pipes[:]...)
		return nil, err
	}
	g.add(p.pid, p.tree.mark())
	var readers sync.WaitGroup
	for i, w := range []io.Writer{c.out, c.err} {
		readers.Go(func() { _, _ = io.Copy(w, p.pipes[i]) }) // finish waits; a sink takes everything
	}
	go p.finish(&readers, g) // closes done, which the caller waits for
	return p, nil
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close() // nothing was written through it
		}
	}
}

// run keeps its thread for as long as the command runs: on Linux the kernel ends
// the command when the thread that started it ends, which covers a host that is
// killed, and must not happen before.
func (p *process) run(cmd *exec.Cmd, tag string, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	t, err := launch(cmd, tag)
	if err != nil {
		started <- err
		return
	}
	p.pid, p.tree = cmd.Process.Pid, t
	started <- nil
	err = cmd.Wait()
	p.end = exitOf(cmd.ProcessState, err)
	close(p.exited)
}

func exitOf(s *os.ProcessState, err error) exit {
	if s == nil {
		return exit{}
	}
	if name := signalOf(s); name != "" {
		return exit{signal: &name}
	}
	code := s.ExitCode()
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) {
		code = -1
	}
	return exit{code: &code}
}

// finish waits for the command and its output, and ends what is left of the tree.
func (p *process) finish(readers *sync.WaitGroup, g *guard) {
	<-p.exited
	drained := make(chan struct{})
	go func() { readers.Wait(); close(drained) }() // ends with the pipes, which are closed below
	select {
	case <-drained:
	case <-p.stopped: // nobody that we know of can write any more
		select {
		case <-drained:
		case <-time.After(pipeGrace):
		}
	}
	closeAll(p.pipes[:]...)
	<-drained
	switch {
	case p.stopping.Load():
		<-p.stopped
	case !p.alone:
		p.tree.sweep() // what the command left behind
	}
	p.tree.release()
	g.remove(p.pid)
	close(p.done)
}

// stop ends the whole tree: SIGTERM, and SIGKILL for what is left after the
// grace. It returns when nobody is left, or nobody that can be ended.
func (p *process) stop(grace time.Duration) {
	p.stopOnce.Do(func() {
		p.stopping.Store(true)
		p.tree.end(grace, p.exited)
		close(p.stopped)
	})
	<-p.stopped
}
