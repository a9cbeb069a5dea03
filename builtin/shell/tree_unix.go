//go:build unix && !linux

package shell

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tree is a command and its process group. Here, a process that makes a session
// or a group of its own leaves the tree and is not ended with it: this system has
// no tag that is inherited and can be read by others.
type tree struct{ root int }

func ownTree() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// launch starts a command as the root of a tree.
func launch(cmd *exec.Cmd, _ string) (*tree, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &tree{root: cmd.Process.Pid}, nil
}

func (t *tree) mark() string { return "0" }

func (t *tree) release() {}

// signal sends a signal to the group and reports whether it has members.
func (t *tree) signal(sig syscall.Signal) bool {
	return !errors.Is(syscall.Kill(-t.root, sig), syscall.ESRCH)
}

// end ends the tree; exited is closed when the command itself is over.
func (t *tree) end(grace time.Duration, exited <-chan struct{}) {
	if t.signal(syscall.SIGTERM) && !t.emptied(grace, 0) {
		_ = t.emptied(killGrace, syscall.SIGKILL)
	}
	select {
	case <-exited:
	case <-time.After(killGrace):
	}
}

// sweep ends what an ended command left.
func (t *tree) sweep() {
	if t.signal(syscall.SIGTERM) && !t.emptied(termGrace, 0) {
		_ = t.emptied(killGrace, syscall.SIGKILL)
	}
}

func (t *tree) emptied(most time.Duration, sig syscall.Signal) bool {
	end := time.Now().Add(most)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		if !t.signal(sig) {
			return true
		}
		if time.Now().After(end) {
			return false
		}
		time.Sleep(wait)
	}
}

// signalOf is the name of the signal that ended a process, or "".
func signalOf(s *os.ProcessState) string {
	w, ok := s.Sys().(syscall.WaitStatus)
	if !ok || !w.Signaled() {
		return ""
	}
	if name := unix.SignalName(w.Signal()); name != "" {
		return name
	}
	return "signal " + strconv.Itoa(int(w.Signal()))
}
