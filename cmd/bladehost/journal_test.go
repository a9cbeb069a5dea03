package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// The demonstration in docs/journal.md, word for word.
func TestJournalDemo(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil || runtime.GOOS == "windows" {
		t.Skip("no bash")
	}
	doc, err := os.ReadFile(filepath.Join(root(t), "docs", "journal.md"))
	if err != nil {
		t.Fatal(err)
	}
	script := regexp.MustCompile("(?s)```sh\n(.*?)```").FindSubmatch(doc)
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	named := filepath.Join(t.TempDir(), "bladehost")
	if err := os.Symlink(bin, named); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bash, "-u", "-c", string(script[1]))
	cmd.Dir = t.TempDir()
	env := ownPlaces(t)
	env["PATH"] = filepath.Dir(named) + string(filepath.ListSeparator) + os.Getenv("PATH")
	cmd.Env = processEnv(env)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	cmd.WaitDelay = 5 * time.Second // what the killed host had started may hold the pipes
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState.ExitCode() != 0 {
		t.Fatalf("%v\n%s\n%s", err, out, errs.String())
	}
	for _, want := range []string{
		`Bash +started +non_idempotent +it may have had its effect`, `\nrefused\n`, `\ncharged\n`, `nothing is open`,
		`tool_outcome_unknown .*process_restart\n.*tool_completed .*"charged"`, `everything is as it was written`,
	} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("no %s in\n%s\n%s", want, out, errs.String())
		}
	}
}

// sessionProcess is bladehost session as a process.
type sessionProcess struct {
	*exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
	errs  bytes.Buffer
}

func serveSession(t *testing.T, env map[string]string, args ...string) *sessionProcess {
	t.Helper()
	s := &sessionProcess{Cmd: process(t, env, append([]string{"session"}, args...)...)}
	var err error
	if s.in, err = s.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.Stderr = &s.errs
	s.lines = bufio.NewScanner(out)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Process.Kill() }) // if it did not end
	return s
}

// until reads lines up to the first of a type.
func (s *sessionProcess) until(t *testing.T, typ string) string {
	t.Helper()
	for s.lines.Scan() {
		if strings.Contains(s.lines.Text(), `"type":"`+typ+`"`) {
			return s.lines.Text()
		}
	}
	t.Fatalf("no %s; %s", typ, s.errs.String())
	return ""
}

func (s *sessionProcess) say(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

// DUR-06: a second process on one session gets a clear error, while the first
// one lives; when that is killed, the next one goes on at once.
func TestTwoProcessesOneSession(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no signal that kills")
	}
	env := ownPlaces(t)
	first := serveSession(t, env, "--session-id", "s", "--auto-approve")
	first.until(t, "ready")
	second := process(t, env, "session", "--session-id", "s")
	var errs bytes.Buffer
	second.Stderr = &errs
	if err := second.Run(); err == nil || second.ProcessState.ExitCode() != exitLease {
		t.Errorf("%v: %s", err, errs.String())
	}
	if want := fmt.Sprintf("session s is owned by process %d", first.Process.Pid); !strings.Contains(errs.String(), want) || !strings.Contains(errs.String(), "DURABLE_EXECUTION_LEASE_CONFLICT") {
		t.Errorf("%s, want %s", errs.String(), want)
	}
	// An operator who would recover it is told the same.
	first.say(t, `{"type":"call","id":"c1","tool":"DiscoverTools","input":{"query":"x"}}`)
	first.until(t, "tool_result")
	rec := process(t, env, "journal", "recover", "s", "--cancel", "all")
	if out, err := rec.CombinedOutput(); err == nil || rec.ProcessState.ExitCode() != exitLease {
		t.Errorf("%v: %s", err, out)
	}
	// Another session is nobody's business.
	other := serveSession(t, env, "--session-id", "t")
	other.until(t, "ready")
	_ = other.in.Close()
	if err := other.Wait(); err != nil {
		t.Errorf("%v: %s", err, other.errs.String())
	}
	_ = first.Process.Kill()
	_ = first.Wait()
	began := time.Now()
	third := serveSession(t, env, "--session-id", "s")
	third.until(t, "ready")
	if d := time.Since(began); d > 20*time.Second { // a lease lasts 30 s
		t.Errorf("it waited %v", d)
	}
	_ = third.in.Close()
	if err := third.Wait(); err != nil {
		t.Errorf("%v: %s", err, third.errs.String())
	}
	out, err := process(t, env, "journal", "ls", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Sessions []struct {
			SessionID string
			Closed    bool
			Lease     struct{ FencingToken int }
		}
	}
	if err := json.Unmarshal(out, &list); err != nil || len(list.Sessions) != 2 || list.Sessions[0].SessionID != "s" || !list.Sessions[0].Closed || list.Sessions[0].Lease.FencingToken != 2 {
		t.Errorf("%s %v", out, err)
	}
}
