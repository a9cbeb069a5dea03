package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/journal"
	. "github.com/bladehost/bladehost/host/journal/journaltest"
	"github.com/bladehost/bladehost/host/journal/sqlite"
)

// ownerEnv makes the test a process that owns a journal and does what it is told.
const ownerEnv = "BLADE_TEST_JOURNAL_OWNER"

// obey opens the journal and takes orders: write NAME, touch FILE.
func obey(path string) error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	fmt.Println("ready")
	for in.Scan() {
		order, arg, _ := strings.Cut(in.Text(), " ")
		switch order {
		case "lease":
			_, err = s.Acquire(ctx, arg, journal.LeaseRequest{OwnerID: "owner", LeaseID: "l", TTL: 2 * time.Second})
		case "write":
			list := []journal.Draft{Scheduled(arg, abi.SideEffectPure)}
			if arg == "first" {
				list = append([]journal.Draft{Created()}, list...)
			}
			_, err = s.Append(ctx, "s", list, journal.AppendOptions{})
		case "touch":
			var f *os.File
			if f, err = os.Open(arg); err == nil {
				_, _ = io.Copy(io.Discard, f)
				err = f.Close()
			}
		}
		if err != nil {
			return err
		}
		fmt.Println("done")
	}
	return nil
}

type owner struct {
	t *testing.T
	*exec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

func startOwner(t *testing.T, path string) *owner {
	t.Helper()
	o := &owner{t: t, Cmd: exec.Command(os.Args[0])}
	o.Env = append(os.Environ(), ownerEnv+"="+path)
	o.Stderr = os.Stderr
	in, err := o.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := o.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	o.in, o.out = in, bufio.NewScanner(out)
	if err := o.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.kill)
	if !o.out.Scan() {
		t.Fatal("the owner did not start")
	}
	return o
}

func (o *owner) say(orders ...string) {
	o.t.Helper()
	for _, line := range orders {
		if _, err := io.WriteString(o.in, line+"\n"); err != nil || !o.out.Scan() {
			o.t.Fatalf("%s: %v", line, err)
		}
	}
}

func (o *owner) kill() {
	_ = o.Process.Kill()
	_ = o.Wait()
}

func attempts(t *testing.T, path string) (ids []string) {
	t.Helper()
	s := open(t, path, sqlite.Options{})
	for _, e := range All(t, s, "s")[1:] {
		ids = append(ids, e.ToolAttemptID)
	}
	if r, err := s.Verify(t.Context(), "", nil); err != nil || r.Found > 0 {
		t.Errorf("%+v %v", r, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return ids
}

// DUR-01: whatever opens and closes the journal's files in the process that has it
// open, and whoever opens and closes the journal after that: no acknowledged record
// is lost when the process is killed.
func TestClosedFilesLoseNothing(t *testing.T) {
	for _, c := range []struct {
		name  string
		touch []string
	}{
		{"nothing", nil},
		{"the file", []string{"j.db"}},
		{"the shared file", []string{"j.db-shm"}},
		{"all", []string{"j.db", "j.db-wal", "j.db-shm", "j.db-lock"}},
		{"other names", []string{"hard", "hard-shm", "soft"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if runtime.GOOS == "windows" {
				t.Skip("no signal that kills, and locks belong to handles")
			}
			dir := t.TempDir()
			path := filepath.Join(dir, "j.db")
			o := startOwner(t, path)
			o.say("write first")
			for _, suffix := range []string{"", "-shm"} {
				if err := os.Link(path+suffix, filepath.Join(dir, "hard"+suffix)); err != nil {
					t.Skip(err)
				}
			}
			if err := os.Symlink(path, filepath.Join(dir, "soft")); err != nil {
				t.Skip(err)
			}
			for _, f := range c.touch {
				o.say("touch " + filepath.Join(dir, f))
			}
			if got := attempts(t, path); !slices.Equal(got, []string{"first"}) {
				t.Fatal(got)
			}
			o.say("write second", "write third")
			for _, f := range c.touch {
				o.say("touch " + filepath.Join(dir, f))
			}
			p := startOwner(t, path) // it writes meanwhile, too
			p.say("write fourth")
			o.say("write fifth")
			o.kill()
			p.kill()
			if got := attempts(t, path); !slices.Equal(got, []string{"first", "second", "third", "fourth", "fifth"}) {
				t.Errorf("lost: there are only %v", got)
			}
		})
	}
}

// DUR-06: another name of the file, or the folder of lock files removed, makes no
// second owner: that a lock file is missing says nothing about its owner.
func TestOneOwnerByAnyName(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(path, other string) error
	}{
		{"a link", func(path, other string) error { return os.Symlink(path, other) }},
		{"a link to the folder", func(path, other string) error {
			if err := os.Symlink(filepath.Dir(path), filepath.Dir(other)); err != nil {
				return err
			}
			return os.Symlink(filepath.Base(path), other)
		}},
		{"no folder of owners", func(path, other string) error {
			if err := os.RemoveAll(path + "-owners"); err != nil {
				return err
			}
			return os.Symlink(path, other)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path, other := filepath.Join(dir, "j.db"), filepath.Join(dir, "l.db")
			if c.name == "a link to the folder" {
				other = filepath.Join(dir, "d", "l.db")
			}
			var now time.Time
			clock := func() time.Time { return now }
			now = time.Now()
			first := open(t, path, sqlite.Options{Clock: clock})
			old, err := first.Acquire(t.Context(), "s", journal.LeaseRequest{OwnerID: "a", LeaseID: "a", TTL: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.do(path, other); err != nil {
				t.Skip(err)
			}
			second := open(t, other, sqlite.Options{Clock: clock})
			req := journal.LeaseRequest{OwnerID: "b", LeaseID: "b", TTL: time.Minute}
			if l, err := second.Acquire(t.Context(), "s", req); abi.CodeOf(err) != abi.CodeLeaseConflict {
				t.Fatalf("two owners: %+v %v", l, err)
			}
			req.Observed = &old
			if _, err := second.Acquire(t.Context(), "s", req); err != nil {
				t.Errorf("observed for its whole length: %v", err)
			}
		})
	}
}

// A link to nothing says so.
func TestDanglingLink(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "j.db")
	if err := os.Symlink(filepath.Join(dir, "gone.db"), path); err != nil {
		t.Skip(err)
	}
	_, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if abi.CodeOf(err) != abi.CodeIO || !strings.Contains(err.Error(), "gone.db, which does not exist") {
		t.Errorf("%v", err)
	}
}
