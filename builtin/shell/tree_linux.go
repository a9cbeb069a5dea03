package shell

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tree is a command and everything it started, also what called setsid, was
// forked twice or cleared its environment.
//
// A command leads a session and a process group of its own, which one signal
// reaches. Beyond that, it is tagged in three ways that pass on over fork and exec:
// by an environment variable; by a pattern of blocked real-time signals, set before
// it is made; and by the soft limit of RLIMIT_RTTIME, which binds real-time threads
// only and is set, right after its start, to a number so large that nothing reaches
// it. Whoever has one of them belongs to the tree. To leave it, a process must make
// a session of its own, clear its environment, unblock all signals and set that
// limit anew. Nothing does so by accident. Where there is no /proc, only the group is
// known.
type tree struct {
	root  int
	env   []byte // the variable as it stands in an environment
	limit uint64 // the limit; 0 if it is not set
	mask  uint64 // the blocked signals among maskField; 0 if they are not
	born  time.Time
}

// maskField are the signals 41 to 60 of a mask: real-time signals that neither C
// libraries nor the usual runtimes use.
const maskField = 0xfffff << 40

// tagged is the range of the limits that are tags.
const tagged = 1 << 62

// ownTree makes a command lead a session of its own, and end with this process.
func ownTree() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// launch starts a command as the root of a tree. The calling goroutine keeps its
// thread, so the mask is nobody else's.
func launch(cmd *exec.Cmd, tag string) (*tree, error) {
	t := &tree{env: []byte(tagName + "=" + tag), born: time.Now()}
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	mask := binary.LittleEndian.Uint64(b[:]) & maskField
	var old, set unix.Sigset_t
	if mask != 0 && unix.PthreadSigmask(unix.SIG_BLOCK, nil, &old) == nil {
		set = old
		setField(&set, mask)
		if unix.PthreadSigmask(unix.SIG_SETMASK, &set, nil) == nil {
			t.mask = mask
		}
	}
	err := cmd.Start()
	if t.mask != 0 {
		_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil) // as it was
	}
	if err != nil {
		return nil, err
	}
	t.root = cmd.Process.Pid
	limit := tagged | binary.LittleEndian.Uint64(b[8:])>>2
	var was unix.Rlimit
	if unix.Prlimit(t.root, unix.RLIMIT_RTTIME, nil, &was) == nil && was.Max == unix.RLIM_INFINITY &&
		unix.Prlimit(t.root, unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: limit, Max: was.Max}, nil) == nil {
		t.limit = limit
	}
	return t, nil
}

// setField puts a pattern into a mask, whose words may have 32 or 64 bits.
func setField(s *unix.Sigset_t, mask uint64) {
	const bits = 8 * int(unsafe.Sizeof(s.Val[0]))
	for sig := range 64 {
		word, bit := sig/bits, uint(sig%bits)
		if maskField>>sig&1 == 1 {
			s.Val[word] &^= 1 << bit
			if mask>>sig&1 == 1 {
				s.Val[word] |= 1 << bit
			}
		}
	}
}

// mark is the limit, for the guard; 0 is none.
func (t *tree) mark() string { return strconv.FormatUint(t.limit, 10) }

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
	limit := limitOf(dir)
	if t.limit != 0 && limit == t.limit {
		return true
	}
	environ, err := os.ReadFile(dir + "/environ")
	if err == nil && hasVariable(environ, t.env) {
		return true
	}
	// The pattern has no more than 20 bits: it does not count for what has the tag of
	// another tree.
	if t.mask == 0 || limit&tagged != 0 && limit != unix.RLIM_INFINITY || bytes.Contains(environ, []byte(tagName+"=")) {
		return false
	}
	status, err := os.ReadFile(dir + "/status")
	return err == nil && blockedOf(status)&maskField == t.mask
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

// limitOf is the soft limit of RLIMIT_RTTIME of a process, or no limit.
func limitOf(dir string) uint64 {
	b, err := os.ReadFile(dir + "/limits")
	if err != nil {
		return unix.RLIM_INFINITY
	}
	_, rest, ok := bytes.Cut(b, []byte("Max realtime timeout"))
	f := bytes.Fields(rest)
	if !ok || len(f) == 0 {
		return unix.RLIM_INFINITY
	}
	n, err := strconv.ParseUint(string(f[0]), 10, 64)
	if err != nil {
		return unix.RLIM_INFINITY
	}
	return n
}

// blockedOf is the mask of blocked signals in a status.
func blockedOf(status []byte) uint64 {
	_, rest, ok := bytes.Cut(status, []byte("\nSigBlk:"))
	f := bytes.Fields(rest)
	if !ok || len(f) == 0 {
		return 0
	}
	n, _ := strconv.ParseUint(string(f[0]), 16, 64) // 0 is no tag
	return n
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
