//go:build unix

package journal_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/journal"
	. "github.com/bladehost/bladehost/host/journal/journaltest"
	"github.com/bladehost/bladehost/host/journal/sqlite"
)

// DUR-06 DUR-11 DUR-12: a process that is paused for longer than its lease loses
// the session to another one, with a higher token; when it wakes up it knows, and
// nothing that it writes is taken.
func TestPausedOwner(t *testing.T) {
	dir := t.TempDir()
	raw, err := json.Marshal(order{Point: pausePoint})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+dir, childEnv+"_ORDER="+string(raw))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	line := func() string {
		t.Helper()
		s, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(s)
	}
	if got := line(); got != "owner 1" {
		t.Fatal(got)
	}
	s, err := sqlite.Open(t.Context(), filepath.Join(dir, "j.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	_, err = journal.Acquire(t.Context(), s, "s", journal.GuardOptions{})
	WantCode(t, err, abi.CodeLeaseConflict) // it lives and renews
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	g, err := journal.Acquire(t.Context(), s, "s", journal.GuardOptions{Wait: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Release(context.Background()) }()
	if g.Lease().Token != 2 {
		t.Errorf("%+v", g.Lease())
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "go on\n"); err != nil {
		t.Fatal(err)
	}
	lost := string(abi.CodeLeaseStale)
	if got, want := line(), fmt.Sprintf("lost %s %s %s", lost, lost, lost); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if n := len(All(t, s, "s")); n != 1 {
		t.Errorf("%d events", n)
	}
}
