package shell

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
)

// long is a wait that no test is meant to use up.
const long = time.Minute

// start starts a background shell and returns its id.
func (b *bench) start(line string) string {
	b.t.Helper()
	r := b.run(b.t.Context(), input(line, `"run_in_background":true`))
	var out backgroundOut
	if r.IsError() || json.Unmarshal(r.Model, &out) != nil {
		b.t.Fatalf("%s: %+v", line, r.Error)
	}
	if out.ShellID != out.BashID || !strings.HasPrefix(out.ShellID, "bash_") || len(out.ShellID) != len("bash_")+36 || out.PID <= 0 || !out.Background || out.Command != line {
		b.t.Errorf("%+v", out)
	}
	for _, key := range []string{"command", "background", "pid", "bash_id", "shell_id", "message", "summary"} {
		if r.Metadata[key] == nil {
			b.t.Errorf("metadata has no %s", key)
		}
	}
	return out.ShellID
}

func (b *bench) read(id string, wait time.Duration) *Output {
	b.t.Helper()
	out, err := b.s.Output(b.t.Context(), testSession, id, wait)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func (b *bench) killed(id string) *abi.Result {
	b.t.Helper()
	return b.with(b.t.Context(), b.kill, b.config(`{"shell_id":`+string(abi.String(id))+`}`))
}

// A background shell from its start to its end.
func TestBackgroundLife(t *testing.T) {
	b := newBench(t, Options{})
	id := b.start("echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; echo oops >&2; exit 4")
	if out := b.read(id, 0); out.Status != StatusRunning || out.ExitCode != nil || out.Signal != nil || !out.Finished.IsZero() {
		t.Errorf("%+v", out)
	}
	if err := os.WriteFile(filepath.Join(b.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out := b.read(id, long)
	if out.Status != StatusExited || out.ExitCode == nil || *out.ExitCode != 4 || out.Finished.Before(out.Started) || !strings.HasSuffix(out.Stdout, "two\n") || !strings.Contains(out.Stderr, "oops\n") {
		t.Errorf("%+v", out)
	}
	if out := b.read(id, long); out.Stdout != "" || out.Stderr != "" || out.Status != StatusExited {
		t.Errorf("what was read comes again: %+v", out)
	}
	r := b.killed(id)
	if r.IsError() || !strings.Contains(string(r.Model), `"status":"exited","already_exited":true`) || !strings.Contains(string(r.Model), `"exit_code":4,"signal":null`) || r.Metadata["success"] != false || r.Metadata["alreadyExited"] != true {
		t.Errorf("%s %v", r.Model, r.Metadata)
	}
}

// KillShell ends everything, tells of the end once it is one, and may be repeated.
func TestKillShell(t *testing.T) {
	b := newBench(t, Options{})
	for i, line := range []string{"sleep MARK", "sleep MARK; true", "setsid sleep MARK & env -i /usr/bin/setsid -f /usr/bin/sleep MARK; sleep MARK", "trap '' TERM; while :; do sleep MARK; done"} {
		mark := fmt.Sprintf("%d.%d", 5000+i, os.Getpid())
		id := b.start(strings.ReplaceAll(line, "MARK", mark))
		until(t, "the shell runs", func() bool { return len(leftovers(t, mark)) > 0 })
		r := b.killed(id)
		if r.IsError() || !strings.Contains(string(r.Model), `"status":"killed","already_exited":false`) || strings.Contains(string(r.Model), "exit_code") || r.Metadata["success"] != true || r.Metadata["status"] != StatusKilled {
			t.Errorf("%s: %s %+v", line, r.Model, r.Error)
		}
		if left := leftovers(t, mark); len(left) > 0 {
			t.Errorf("%s: still there: %q", line, left)
		}
		out := b.read(id, long)
		if out.Status != StatusKilled || out.Signal == nil || out.ExitCode != nil {
			t.Errorf("%s: %+v", line, out)
		}
		if i == 0 && *out.Signal != "SIGTERM" {
			t.Errorf("%s", *out.Signal)
		}
		if r := b.killed(id); r.IsError() || !strings.Contains(string(r.Model), `"status":"killed","already_exited":true`) {
			t.Errorf("again: %s %+v", r.Model, r.Error)
		}
	}
}

// The catalogue of errors, a row each. Only shells of the calling session count.
func TestShellErrors(t *testing.T) {
	b := newBench(t, Options{MaxBackground: 2})
	id := b.start("sleep 600")
	for _, c := range []struct{ session, id string }{{testSession, "bash_x"}, {testSession, ""}, {"other", id}, {"", id}} {
		cfg := b.config(`{"shell_id":` + string(abi.String(c.id)) + `}`)
		cfg.SessionID = c.session
		if r := b.with(t.Context(), b.kill, cfg); r.Error == nil || r.Error.Code != codeNoShell || r.Error.Type != abi.TypeExecution {
			t.Errorf("%+v: %+v", c, r.Error)
		}
		if _, err := b.s.Output(t.Context(), c.session, c.id, 0); abi.CodeOf(err) != codeNoShell {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if !b.s.Known(testSession, id) || b.s.Known("other", id) {
		t.Error("known to the wrong session")
	}
	b.start("sleep 600")
	if r := b.run(t.Context(), input("sleep 600", `"run_in_background":true`)); r.Error == nil || r.Error.Code != codeTooMany {
		t.Errorf("%+v", r)
	}
	b.killed(id)
	b.start("sleep 600")
	// A shell that cannot be ended: one whose process is not ours any more.
	r := b.kill.alive(killOut{ShellID: id, Status: StatusRunning})
	if r.Error.Code != codeKill || r.Error.Type != abi.TypeExecution || r.Metadata["success"] != false || r.Valid() != "" {
		t.Errorf("%+v", r)
	}
}

// A wait ends with the shell, with its time, and with the call; what a cancelled
// reader did not get, the next one does.
func TestOutputWaits(t *testing.T) {
	b := newBench(t, Options{})
	id := b.start("echo x; sleep 600")
	until(t, "it printed", func() bool {
		b.s.mu.Lock()
		defer b.s.mu.Unlock()
		bg := b.s.sessions[testSession][id]
		bg.out.mu.Lock()
		defer bg.out.mu.Unlock()
		return len(bg.out.ring.buf) == 2
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	want := errors.New("enough")
	cancel(want)
	if _, err := b.s.Output(ctx, testSession, id, long); !errors.Is(err, want) {
		t.Errorf("%v", err)
	}
	if out := b.read(id, time.Millisecond); out.Status != StatusRunning || out.Stdout != "x\n" {
		t.Errorf("%+v", out)
	}
}

// Unread output is bounded: the oldest is dropped and counted.
func TestBackgroundFlood(t *testing.T) {
	b := newBench(t, Options{})
	out := b.read(b.start("seq 1 2000"), long)
	if !strings.HasPrefix(out.Stdout, "1\n2\n") || !strings.HasSuffix(out.Stdout, "\n2000\n") || out.Dropped != 0 {
		t.Errorf("%d, %d dropped", len(out.Stdout), out.Dropped)
	}
	out = b.read(b.start("head -c 5000000 /dev/zero | tr '\\0' x; echo end"), long)
	if len(out.Stdout) != keepPending || !strings.HasSuffix(out.Stdout, "xend\n") || out.Dropped != 5000004-keepPending {
		t.Errorf("%d, %d dropped", len(out.Stdout), out.Dropped)
	}
}

// A session that closes ends its shells, and only its own.
func TestEndSession(t *testing.T) {
	s := New(Options{})
	h, err := host.New(host.Options{Builtins: s.Tools()})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	open := func(id string) *host.Session {
		x, err := h.NewSession(host.SessionOptions{ID: id, Mode: "yolo", Context: abi.RuntimeContext{Capabilities: &abi.ContextCapabilities{Filesystem: &abi.FilesystemFacet{Roots: []string{dir}, Cwd: dir}}}})
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	one, two := open("one"), open("two")
	mark := func(i int) string { return fmt.Sprintf("%d.%d", 6000+i, os.Getpid()) }
	for i, x := range []*host.Session{one, two} {
		for _, line := range []string{"sleep " + mark(i), "setsid -f sleep " + mark(i) + "; sleep " + mark(i)} {
			r, err := x.Run(t.Context(), host.Call{Tool: "Bash", Input: json.RawMessage(input(line, `"run_in_background":"true"`))})
			if err != nil || r.IsError() {
				t.Fatalf("%+v %v", r, err)
			}
		}
	}
	until(t, "they run", func() bool { return len(leftovers(t, mark(0))) >= 3 && len(leftovers(t, mark(1))) >= 3 })
	if err := one.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if left := leftovers(t, mark(0)); len(left) > 0 {
		t.Errorf("still there: %q", left)
	}
	if len(leftovers(t, mark(1))) < 3 {
		t.Error("the other session's are gone too")
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if left := leftovers(t, mark(1)); len(left) > 0 {
		t.Errorf("still there: %q", left)
	}
	if waits(s.guard) {
		t.Error("the guard still waits")
	}
	if err := s.EndSession(t.Context(), "one"); err != nil {
		t.Error(err)
	}
}

// hostMark makes this test binary a host that is to be killed.
const hostMark = "SHELL_TEST_HOST"

func TestHostThatIsKilled(t *testing.T) {
	if dir := os.Getenv(hostMark); dir != "" {
		victim(t, dir)
		return
	}
	if runtime.GOOS != "linux" {
		t.Skip("only Linux lists processes in /proc")
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestHostThatIsKilled$") //nolint:gosec // this very program
	cmd.Env = append(os.Environ(), hostMark+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(ready, "ready") {
		t.Fatalf("%q %v", ready, err)
	}
	mark := fmt.Sprintf("7000.%d", cmd.Process.Pid)
	until(t, "all run", func() bool { return len(leftovers(t, "sleep\x00"+mark)) >= 8 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	until(t, "nothing is left", func() bool { return len(leftovers(t, mark)) == 0 })
}

// victim runs commands in all ways and never comes back.
func victim(t *testing.T, dir string) {
	b := newBench(t, Options{})
	b.dir = dir
	mark := fmt.Sprintf("7000.%d", os.Getpid())
	lines := []string{"sleep " + mark, "sleep " + mark + "; true", "sleep " + mark + " & setsid sleep " + mark + " & wait", "sleep 0.1; env -i /usr/bin/setsid -f /usr/bin/sleep " + mark + "; sleep " + mark}
	done := make(chan struct{})
	for _, l := range lines {
		go func() { // ends with the process, which is killed
			b.run(context.Background(), input(l, `"timeout":300000`))
			close(done)
		}()
	}
	b.start("sleep " + mark)
	b.start("sleep " + mark + " & wait")
	fmt.Println("ready")
	<-done
}

// Output that is dropped, cut in the middle of a character, or no UTF-8 at all.
func TestStreams(t *testing.T) {
	var p pending
	_, _ = p.Write([]byte("a\xe4\xb8"))
	if text, _ := p.take(true); text != "a" {
		t.Errorf("%q", text)
	}
	_, _ = p.Write([]byte("\x96b\xf0\x9d"))
	if text, _ := p.take(true); text != "世b" {
		t.Errorf("%q", text)
	}
	if text, _ := p.take(false); text != "\ufffd\ufffd" {
		t.Errorf("%q", text)
	}
	var c capture
	for range 3 {
		_, _ = c.Write([]byte(strings.Repeat("世", keepEnd/3)))
	}
	got := c.read()
	if strings.ContainsRune(got.head+got.tail, '\ufffd') || got.dropped+int64(len(got.head)+len(got.tail)) != c.bytes || got.units != 3*(keepEnd/3) {
		t.Errorf("%d + %d + %d of %d bytes", len(got.head), got.dropped, len(got.tail), c.bytes)
	}
	var u units
	for _, b := range []byte("a\xf0\x9d\x84\x9e\xff\xe4\xe4\xb8\x96\xf0\x9d") {
		u.add([]byte{b})
	}
	if u.total() != 1+2+1+1+1+2 {
		t.Errorf("%d units", u.total())
	}
}

// FuzzStreams: whatever the pieces, the two ends and the count are those of the
// whole, and everything is UTF-8.
func FuzzStreams(f *testing.F) {
	f.Add([]byte("a\n世\xff"), uint8(1))
	f.Add([]byte(strings.Repeat("x", 100)), uint8(7))
	f.Fuzz(func(t *testing.T, data []byte, step uint8) {
		var u units
		r := ring{most: 16}
		for i := 0; i < len(data); i += int(step) + 1 {
			part := data[i:min(len(data), i+int(step)+1)]
			u.add(part)
			r.add(part)
		}
		if want := utf16Len(valid(string(data))); int(u.total()) != want {
			t.Fatalf("%q: %d units, want %d", data, u.total(), want)
		}
		if got := string(r.bytes()); !strings.HasSuffix(string(data), got) || len(got) != min(16, len(data)) || int(r.dropped) != len(data)-len(got) {
			t.Fatalf("%q: %q, %d dropped", data, got, r.dropped)
		}
	})
}
