//go:build unix

package shell

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// guard ends what is still running when this process is killed and can do nothing
// any more. It is a small sh that reads from a pipe which command is running and
// which is over; when the pipe ends, because this process did, it kills the process
// groups of those that are left, and on Linux all that carry one of their tags.
//
// The sh is given process ids and our own tags, never a word of a command.
type guard struct {
	tag string

	mu      sync.Mutex
	pipe    *os.File
	cmd     *exec.Cmd
	running map[int]string // and what marks its tree
}

const guardScript = `
list=
while read -r op id mark; do
	case $op in
	+) list="$list $id:$mark" ;;
	-) new=; for p in $list; do [ "${p%%:*}" = "$id" ] || new="$new $p"; done; list=$new ;;
	esac
done
for p in $list; do kill -KILL -- "-${p%%:*}" 2>/dev/null; done
[ -n "$list" ] && [ -r /proc/self/environ ] || exit 0
end() {
	for f; do
		p=${f#/proc/}
		kill -KILL "${p%/*}" 2>/dev/null
	done
}
end $(grep -lasF -e "$1" /proc/[0-9]*/environ 2>/dev/null)
for p in $list; do
	[ "${p#*:}" = 0 ] || end $(grep -lsE -e "^Max realtime timeout +${p#*:} " /proc/[0-9]*/limits 2>/dev/null)
done
exit 0
`

func newGuard(tag string) *guard { return &guard{tag: tag, running: map[int]string{}} }

// add notes that a process group is running. A nil guard notes nothing.
func (g *guard) add(pid int, mark string) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running[pid] = mark
	if g.pipe == nil {
		g.begin()
		return
	}
	g.tell("+", pid, mark)
}

// remove notes that it is over.
func (g *guard) remove(pid int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.running, pid)
	g.tell("-", pid, "")
}

// tell writes one line; a sh that was killed is started anew with the next command.
func (g *guard) tell(op string, pid int, mark string) {
	if g.pipe == nil {
		return
	}
	_ = g.pipe.SetWriteDeadline(time.Now().Add(time.Second)) // a sh that was stopped holds nobody up
	if _, err := fmt.Fprintf(g.pipe, "%s %d %s\n", op, pid, mark); err != nil {
		g.end()
	}
}

// begin starts the sh and tells it all that is running. Without an sh there is no
// guard; the kernel still ends the commands themselves.
func (g *guard) begin() {
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	defer func() { _ = r.Close() }()                               // the sh has its own
	cmd := exec.Command("/bin/sh", "-c", guardScript, "sh", g.tag) //nolint:gosec // fixed words and our own tag
	cmd.Stdin, cmd.Dir, cmd.Env = r, "/", []string{"PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		_ = w.Close()
		return
	}
	g.pipe, g.cmd = w, cmd
	for pid, mark := range g.running {
		g.tell("+", pid, mark)
	}
}

// close ends the sh if nothing is running.
func (g *guard) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.running) == 0 {
		g.end()
	}
}

func (g *guard) end() {
	if g.pipe == nil {
		return
	}
	_ = g.pipe.Close()
	// It ends as soon as it has read to the end of the pipe.
	stop := time.AfterFunc(time.Second, func() { _ = g.cmd.Process.Kill() })
	_ = g.cmd.Wait()
	stop.Stop()
	g.pipe, g.cmd = nil, nil
}
