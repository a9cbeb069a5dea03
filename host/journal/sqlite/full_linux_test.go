package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/journal"
	. "github.com/bladehost/bladehost/host/journal/journaltest"
	"github.com/bladehost/bladehost/host/journal/sqlite"
)

const limitEnv = "BLADEHOST_JOURNAL_LIMIT"

// limited writes until the size of files is reached, under a limit of the system,
// and says how many events were acknowledged and what came then.
func limited(path string) int {
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 150 << 10, Max: 150 << 10}); err != nil {
		fmt.Println("no limit:", err)
		return 1
	}
	ctx := context.Background()
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	n, refusals := 0, 0
	for refusals < 5 { // the log is moved to the file after the first, which makes room in it
		var k int
		if k, err = fillUp(ctx, s, n); k == n {
			refusals++
		}
		n = k
	}
	fmt.Println(n, abi.CodeOf(err), s.Close() != nil)
	return 0
}

// fillUp writes until that fails, having written some.
func fillUp(ctx context.Context, s journal.Store, acknowledged int) (int, error) {
	for {
		d := Scheduled(fmt.Sprint(acknowledged), abi.SideEffectPure)
		if acknowledged == 0 {
			d = Created()
		}
		if _, err := s.Append(ctx, "s", []journal.Draft{d}, journal.AppendOptions{}); err != nil {
			return acknowledged, err
		}
		acknowledged++
	}
}

// A limit of the size of files ends in a refusal, not in a lost record; without
// the limit writing goes on.
func TestFileSizeLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), limitEnv+"="+path)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var n int
	var code string
	var bad bool
	if _, err := fmt.Fscan(bytes.NewReader(out), &n, &code, &bad); err != nil || n < 50 || code != string(abi.CodeJournalWrite) {
		t.Fatalf("%s %v", out, err)
	}
	s := open(t, path, sqlite.Options{})
	if got := len(All(t, s, "s")); got != n {
		t.Errorf("%d of %d acknowledged events", got, n)
	}
	must(t, s, "s", Scheduled("after", abi.SideEffectPure))
}

// A file system that is full ends in a refusal; when there is room again, the same
// store goes on.
func TestFullFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=600k"); err != nil {
		if errors.Is(err, syscall.EPERM) {
			t.Skip("only root mounts a small file system")
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 150<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "j.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n, err := fillUp(t.Context(), s, 0)
	if c := abi.CodeOf(err); n < 5 || c != abi.CodeJournalWrite || !strings.Contains(err.Error(), "no space") {
		t.Errorf("%d events, then %v", n, err)
	}
	if _, err := s.Append(t.Context(), "s", []journal.Draft{Scheduled("full", abi.SideEffectPure)}, journal.AppendOptions{}); err == nil {
		t.Error("it wrote on a full file system")
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	must(t, s, "s", Scheduled("room", abi.SideEffectPure))
	list := All(t, s, "s")
	if len(list) != n+1 || list[n].ToolAttemptID != "room" {
		t.Errorf("%d events of %d acknowledged", len(list), n+1)
	}
	r, err := s.Verify(t.Context(), "", nil)
	if err != nil || r.Found != 0 {
		t.Errorf("%+v %v", r, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
