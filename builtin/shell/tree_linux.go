package shell

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tree is a command and everything it started, also what called setsid, was
// forked twice or cleared its environment.
//
// A command leads a session and a process group of its own, which one signal
// reaches. Beyond that, it is tagged twice: by an environment variable, and by the
// soft limit of RLIMIT_RTTIME, which binds real-time threads only and is set to a
// random number so large that nothing reaches it. Both are inherited over fork and
// exec. Whoever has one of the two belongs to the tree. To leave it a process must
// do three things at once: make a session of its own, drop the variable and set
// that limit anew. Nothing does so by accident.
type tree struct {
	root  int
	env   []byte // the variable as it stands in an environment
	limit []byte // the limit as it stands in /proc/PID/limits; empty if it is not set
	born  time.Time
}

// ownTree makes a command lead a session of its own, and end with this process.
func ownTree() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

func newTree(p *os.Process, tag string) *tree {
	t := &tree{root: p.Pid, env: []byte(tagName + "=" + tag), born: time.Now()}
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	n := 1<<62 | binary.LittleEndian.Uint64(b[:])>>2
	var old unix.Rlimit
	if unix.Prlimit(p.Pid, unix.RLIMIT_RTTIME, nil, &old) != nil || old.Max != unix.RLIM_INFINITY {
		return t
	}
	if unix.Prlimit(p.Pid, unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: n, Max: old.Max}, nil) == nil {
		t.limit = strconv.AppendUint(nil, n, 10)
	}
	return t
}

func (t *tree) release() {}

// quick is how young a tree must be for its members to have higher process ids
// than its root: process ids wrap around only after tens of thousands of forks.
const quick = time.Second

// signal sends a signal to every member and returns how many there are.
func (t *tree) signal(sig syscall.Signal) int {
	_ = syscall.Kill(-t.root, sig) // at once for the group, new children too
	n := 0
	for _, pid := range t.candidates() {
		if t.send(pid, sig) {
			n++
		}
	}
	return n
}

// candidates are the processes that may be members.
func (t *tree) candidates() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }() // read only
	names, _ := dir.Readdirnames(-1)
	from := 0
	if time.Since(t.born) < quick && lastPid() >= t.root {
		from = t.root
	}
	out := make([]int, 0, 16)
	self := os.Getpid()
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid >= from && pid > 1 && pid != self {
			out = append(out, pid)
		}
	}
	return out
}

// lastPid is the process id that was given last.
func lastPid() int {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	f := bytes.Fields(b)
	if len(f) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(string(f[len(f)-1]))
	return n
}

// send signals a member and reports whether it is one. The process is held by a
// descriptor while it is judged, so that its number cannot pass to another.
func (t *tree) send(pid int, sig syscall.Signal) bool {
	if !t.member(pid) {
		return false
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		if errors.Is(err, unix.ESRCH) {
			return false
		}
		if t.member(pid) { // a kernel without pidfd_open
			_ = syscall.Kill(pid, sig)
		}
		return true
	}
	defer func() { _ = unix.Close(fd) }()
	if !t.member(pid) {
		return false
	}
	_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	return true
}

// member reports whether a process is alive and belongs to the tree.
func (t *tree) member(pid int) bool {
	dir := "/proc/" + strconv.Itoa(pid)
	state, group, session, ok := readStat(dir)
	if !ok || state == 'Z' || state == 'X' {
		return false
	}
	if group == t.root || session == t.root {
		return true
	}
	if len(t.limit) > 0 {
		if b, err := os.ReadFile(dir + "/limits"); err == nil && hasLimit(b, t.limit) {
			return true
		}
	}
	b, err := os.ReadFile(dir + "/environ")
	return err == nil && hasVariable(b, t.env)
}

// readStat reads the state, the process group and the session of a process. The
// name before them is in parentheses and may have any character.
func readStat(dir string) (state byte, group, session int, ok bool) {
	b, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return 0, 0, 0, false
	}
	i := bytes.LastIndexByte(b, ')')
	f := bytes.Fields(b[i+1:])
	if i < 0 || len(f) < 4 {
		return 0, 0, 0, false
	}
	group, err1 := strconv.Atoi(string(f[2]))
	session, err2 := strconv.Atoi(string(f[3]))
	return f[0][0], group, session, err1 == nil && err2 == nil
}

func hasLimit(limits, want []byte) bool {
	i := bytes.Index(limits, []byte("Max realtime timeout"))
	if i < 0 {
		return false
	}
	f := bytes.Fields(limits[i+len("Max realtime timeout"):])
	return len(f) > 0 && bytes.Equal(f[0], want)
}

func hasVariable(environ, want []byte) bool {
	for v := range bytes.SplitSeq(environ, []byte{0}) {
		if bytes.Equal(v, want) {
			return true
		}
	}
	return false
}

// end ends the tree; exited is closed when the command itself is over.
func (t *tree) end(grace time.Duration, exited <-chan struct{}) {
	if t.signal(syscall.SIGTERM) > 0 && !t.emptied(grace, 0) {
		_ = t.emptied(killGrace, syscall.SIGKILL)
	}
	select {
	case <-exited:
	case <-time.After(killGrace):
	}
}

// sweep ends what an ended command left. Where no process was made since, by
// anybody, there is nothing to look for.
func (t *tree) sweep() {
	if time.Since(t.born) < quick && lastPid() == t.root {
		return
	}
	if t.signal(0) > 0 {
		t.end(termGrace, closedChannel())
	}
}

func closedChannel() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// emptied waits until no member is left, sending sig to those there are, and
// reports whether that happened in time.
func (t *tree) emptied(most time.Duration, sig syscall.Signal) bool {
	end := time.Now().Add(most)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		if t.signal(sig) == 0 {
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
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return signalName(w.Signal())
	}
	return ""
}

func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return "signal " + strconv.Itoa(int(s))
}
