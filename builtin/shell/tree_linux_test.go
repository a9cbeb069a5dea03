package shell

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Each of the tags is enough to find a process that left group and session, and
// none of them is taken for that of another tree.
func TestTags(t *testing.T) {
	b := newBench(t, Options{})
	sh, err := b.s.bash()
	if err != nil {
		t.Fatal(err)
	}
	var all []*tree
	var pids []int
	for i := range 2 {
		mark := fmt.Sprintf("8%d00.%d", i, os.Getpid())
		tag := b.s.newTag()
		_ = os.Remove(filepath.Join(b.dir, "go"))
		p, err := start(command{path: sh, argv: []string{"bash", "-c", "while [ ! -e go ]; do :; done; setsid -f sleep " + mark + "; sleep 600"}, dir: b.dir, env: b.s.commandEnv(nil, nil, b.dir, tag), tag: tag, out: io.Discard, err: io.Discard}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { p.stop(termGrace); <-p.done }()
		if err := os.WriteFile(filepath.Join(b.dir, "go"), nil, 0o600); err != nil { // all tags are set
			t.Fatal(err)
		}
		pid := 0
		until(t, "it runs", func() bool {
			for _, l := range leftovers(t, "sleep\x00"+mark) {
				// Not the setsid that is about to start it.
				if dir, line, _ := strings.Cut(l, " "); strings.HasPrefix(line, "sleep ") {
					pid, _ = strconv.Atoi(filepath.Base(dir))
				}
			}
			return pid != 0
		})
		all, pids = append(all, p.tree), append(pids, pid)
	}
	// The trees have a root, as all have: session 0 is what a process has whose
	// session is outside of its PID namespace, as that of a test in a container.
	for i, own := range all {
		if own.limit == 0 || own.mask == 0 || len(own.env) == 0 {
			t.Errorf("%+v has not all tags", own)
		}
		for name, one := range map[string]*tree{"variable": {root: own.root, env: own.env}, "limit": {root: own.root, env: []byte("X=y"), limit: own.limit}} {
			if !one.member(pids[i]) || one.member(pids[1-i]) || one.member(os.Getpid()) {
				t.Errorf("by its %s alone the wrong ones are found", name)
			}
		}
		// The pattern does not count for what has another tag.
		if pattern := (&tree{root: own.root, env: []byte("X=y"), mask: own.mask}); pattern.member(pids[i]) {
			t.Error("the pattern beats the tag of another tree")
		}
	}
	// With no other tag, it is the pattern that finds it.
	mark := fmt.Sprintf("8900.%d", os.Getpid())
	p, err := start(command{path: sh, argv: []string{"bash", "-c", "env -i setsid -f prlimit --rttime=unlimited:unlimited sleep " + mark + "; sleep 600"}, dir: b.dir, env: b.s.commandEnv(nil, nil, b.dir, "t"), tag: "t", out: io.Discard, err: io.Discard}, nil)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "it runs", func() bool { return len(leftovers(t, "sleep\x00"+mark)) > 0 })
	p.stop(termGrace)
	<-p.done
	if left := leftovers(t, mark); len(left) > 0 {
		t.Errorf("still there: %q", left)
	}
	// The thread of the test has its own mask.
	var now unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, nil, &now); err != nil || now.Val[0]&maskField != 0 {
		t.Errorf("%x %v", now.Val[0], err)
	}
}

// FuzzProc: whatever stands in the files of /proc, reading them does no harm.
func FuzzProc(f *testing.F) {
	f.Add([]byte("1 (a) b) S 1 2 3 4"), []byte("Max realtime timeout      5     6    us\n"), []byte("x\nSigBlk:\t00ff\n"))
	f.Add([]byte(""), []byte("Max realtime timeout"), []byte("\nSigBlk:"))
	f.Fuzz(func(t *testing.T, stat, limits, status []byte) {
		dir := t.TempDir()
		for name, b := range map[string][]byte{"stat": stat, "limits": limits} {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		readStat(dir)
		limitOf(dir)
		blockedOf(status)
		hasVariable(status, []byte("A=b"))
	})
}
