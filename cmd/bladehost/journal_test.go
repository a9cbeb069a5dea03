package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
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

	"github.com/bladehost/bladehost/host/journal"
	"github.com/bladehost/bladehost/host/journal/sqlite"
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
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // it waits for a file
	defer cancel()
	cmd := exec.CommandContext(ctx, bash, "-u", "-c", string(script[1]))
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

// Everything an operator can do with what a dead process left, by the command
// line.
func TestJournalRecover(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	scope := func(n string) journal.Scope {
		return journal.Scope{RequestID: "r", TurnID: "t", ModelAttemptID: "m", ToolAttemptID: n}
	}
	add := func(typ journal.Type, n, data string) journal.Draft {
		d := journal.Draft{Type: typ, Data: json.RawMessage(data)}
		if n != "" {
			d.Scope = scope(n)
		}
		return d
	}
	call := func(n, tool, effect string) journal.Draft {
		return add(journal.ToolScheduled, n, fmt.Sprintf(`{"toolCallId":"c-%s","toolName":%q,"modelInput":{"query":"x"},"input":{"query":"x"},"sideEffect":%q,"interruptBehavior":"block"}`, n, tool, effect))
	}
	start := func(n, tool, effect string) journal.Draft {
		return add(journal.ToolStarted, n, fmt.Sprintf(`{"toolCallId":"c-%s","toolName":%q,"input":{"query":"x","max_results":5},"sideEffect":%q}`, n, tool, effect))
	}
	asked := func(n string) journal.Draft {
		return add(journal.PermissionRequested, n, fmt.Sprintf(`{"permissionRequestId":"p-%s","toolCallId":"c-%s","toolName":"DiscoverTools","input":{"query":"x"}}`, n, n))
	}
	_, err = s.Append(t.Context(), "s", []journal.Draft{
		add(journal.SessionCreated, "", `{}`),
		call("a", "DiscoverTools", "idempotent"),
		call("b", "DiscoverTools", "idempotent"), start("b", "DiscoverTools", "idempotent"),
		call("c", "DiscoverTools", "idempotent"), asked("c"),
		call("d", "Bash", "non_idempotent"), start("d", "Bash", "non_idempotent"),
		call("e", "DiscoverTools", "idempotent"), asked("e"), add(journal.PermissionResolved, "e", `{"permissionRequestId":"p-e","decision":"deny"}`),
		call("f", "DiscoverTools", "idempotent"), asked("f"),
		call("g", "Gone", "pure"), start("g", "Gone", "pure"),
	}, journal.AppendOptions{})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	env := ownPlaces(t)
	run := func(code int, args ...string) string {
		t.Helper()
		cmd := process(t, env, append([]string{"journal", "recover", "s", "--journal", path}, args...)...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Fatalf("%v: exit code %d, want %d (%v)\n%s%s", args, got, code, err, out, errs.String())
		}
		return string(out) + errs.String()
	}
	plan := func(code int, args ...string) string {
		t.Helper()
		var v struct{ Sessions []journal.Plan }
		out := run(code, append(args, "--json")...)
		if err := json.Unmarshal([]byte(strings.SplitN(out, "\n", 2)[0]), &v); err != nil {
			t.Fatal(err, out)
		}
		text := string(v.Sessions[0].Action)
		p := v.Sessions[0]
		for _, l := range [][]journal.Attempt{p.Unknown, p.Permissions, p.Retryable, p.Cancelable} {
			text += " /"
			for _, a := range l {
				text += " " + a.ID
			}
		}
		return text
	}
	open := func(args ...string) string { t.Helper(); return plan(0, args...) }
	failing := func(args ...string) string { t.Helper(); return plan(7, args...) }
	for _, c := range []struct {
		want string
		args []string
	}{
		{"reconcile_tool_outcomes / d / c f / a b g / e", nil},
		{"reconcile_tool_outcomes / d / f / a b c g / e", []string{"--permission", "c=allow"}},
		{"reconcile_tool_outcomes / d / / a b c g / e", []string{"--permission", "f=deny", "--message", "not now"}},
		{"reconcile_tool_outcomes / d / / b c g / e", []string{"--replay", "a"}},
	} {
		if got := open(c.args...); got != c.want {
			t.Fatalf("%v:\n%s\n%s", c.args, got, c.want)
		}
	}
	if out := run(7, "--replay", "d"); !strings.Contains(out, "DURABLE_RECOVERY_REFUSED") {
		t.Error(out)
	}
	if out := run(7, "--cancel", "d"); !strings.Contains(out, "find out, then reconcile") {
		t.Error(out)
	}
	if out := run(7, "--replay", "g"); !strings.Contains(out, "was not made again") { // Gone is no tool any more
		t.Error(out)
	}
	for _, args := range [][]string{
		{"--reconcile", "d"}, {"--reconcile", "d="}, {"--reconcile", "=failed"}, {"--permission", "f"}, {"--permission", "f=maybe"},
		{"--reconcile", "d=failed", "--result", `"x"`}, {"--result", "1"}, {"--cancel", "a", "--message", "x"},
	} {
		if out := run(2, args...); !strings.Contains(out, "--") {
			t.Error(out)
		}
	}
	if got := failing("--replay", "all"); got != "reconcile_tool_outcomes / d / / g / e" { // Gone is no tool any more
		t.Error(got)
	}
	if got := open("--cancel", "all"); got != "reconcile_tool_outcomes / d / / /" {
		t.Error(got)
	}
	if got := open("--reconcile", "d=failed", "--message", "the card was refused"); got != "none / / / /" {
		t.Error(got)
	}
	out, err := process(t, env, "journal", "show", "s", "--journal", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`permission_resolved +c allow`, `permission_resolved +f deny not now\n.*tool_cancelled +f .*permission_denied`, `tool_started +c DiscoverTools non_idempotent`,
		`tool_outcome_unknown +d .*\n.*tool_failed +d .*the card was refused\n`, `tool_cancelled +e .*permission_denied`, `tool_outcome_unknown +g .*\n.*tool_cancelled +g .*process_restart`, `tool_completed +b `,
	} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	if out, err := process(t, env, "journal", "verify", "--journal", path).CombinedOutput(); err != nil {
		t.Errorf("%s %v", out, err)
	}
}

// No tool can read or write the files of the journal that is kept, by any name that
// leads to them, also where the file was named by the user and lies in the workspace.
func TestJournalIsNotForTools(t *testing.T) {
	dir, env := t.TempDir(), ownPlaces(t)
	link := filepath.Join(dir, "l.db")
	if err := os.Symlink("j.db", link); err != nil {
		t.Skip(err)
	}
	if r := runCLI(t.Context(), env, "", "run", "--journal", filepath.Join(dir, "j.db"), "DiscoverTools", `{"query":"x"}`); r.code != 0 {
		t.Fatal(r.err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, "j.db"))
	if err != nil {
		t.Fatal(err)
	}
	if r := runCLI(t.Context(), env, "", "install", plugins(t)["hash"]); r.code != 0 {
		t.Fatal(r.err)
	}
	for _, name := range []string{"j.db", "j.db-wal", "j.db-shm", "j.db-lock", "j.db-owners/x", "l.db"} {
		for _, kept := range []string{filepath.Join(dir, "j.db"), link} {
			for tool, input := range map[string]map[string]string{
				"Read":  {"file_path": filepath.Join(dir, name)},
				"Write": {"file_path": filepath.Join(dir, name), "content": "gone"},
				"Hash":  {"path": filepath.Join(dir, name)},
			} {
				in, err := json.Marshal(input)
				if err != nil {
					t.Fatal(err)
				}
				r := runCLI(t.Context(), env, "", "run", "--journal", kept, "--root", dir, "--allow-read", dir, tool, string(in))
				if r.code == 0 {
					t.Errorf("%s of %s (journal %s): %s", tool, name, kept, r.out)
				}
			}
		}
	}
	if r := runCLI(t.Context(), env, "", "journal", "verify", "--journal", link); r.code != 0 {
		t.Errorf("%s", r.err)
	}
	if now, err := os.ReadFile(filepath.Join(dir, "j.db")); err != nil || len(now) < len(whole) {
		t.Errorf("%d of %d bytes are left: %v", len(now), len(whole), err)
	}
}

// A call is made again where it was made, or where the operator says.
func TestReplayElsewhere(t *testing.T) {
	dir, env := t.TempDir(), ownPlaces(t)
	path := filepath.Join(dir, "j.db")
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	list := []journal.Draft{{Type: journal.SessionCreated, Data: json.RawMessage(`{}`)}}
	for _, id := range []string{"a", "b", "c", "d"} {
		data := map[string]any{"toolCallId": id, "toolName": "DiscoverTools", "modelInput": map[string]string{"query": "x"}, "input": map[string]string{"query": "x"},
			"sideEffect": "pure", "interruptBehavior": "block", "place": journal.Place{Cwd: cwd, Roots: []string{dir}}}
		switch id {
		case "b":
			data["place"] = journal.Place{Cwd: dir, Roots: []string{dir}}
		case "d":
			delete(data, "place")
		}
		raw, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, journal.Draft{Type: journal.ToolScheduled, Data: raw, Scope: journal.Scope{RequestID: "r", TurnID: "t", ModelAttemptID: "m", ToolAttemptID: id}})
	}
	_, err = s.Append(t.Context(), "s", list, journal.AppendOptions{})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code int
		args []string
	}{
		{7, []string{"--replay", "a"}},
		{7, []string{"--replay", "a", "--root", cwd}},
		{0, []string{"--replay", "a", "--root", dir}},
		{7, []string{"--replay", "b", "--root", dir}},
		{0, []string{"--replay", "b", "--elsewhere"}},
		{7, []string{"--replay", "all"}}, // d is made, c is not
		{0, []string{"--replay", "all", "--root", dir}},
	} {
		r := runCLI(t.Context(), env, "", append([]string{"journal", "recover", "s", "--journal", path}, c.args...)...)
		if r.code != c.code || (c.code != 0 && (!strings.Contains(r.err, "was made in") || !strings.Contains(r.err, "--root "+dir))) {
			t.Errorf("%v: %d, want %d: %s", c.args, r.code, c.code, r.err)
		}
	}
	if r := runCLI(t.Context(), env, "", "journal", "recover", "--journal", path); !strings.Contains(r.out, "nothing is open") {
		t.Error(r.out)
	}
	// And it is recorded.
	if r := runCLI(t.Context(), env, "", "run", "--journal", path, "--root", dir, "DiscoverTools", `{"query":"x"}`); r.code != 0 {
		t.Fatal(r.err)
	}
	want, _ := json.Marshal(journal.Place{Cwd: cwd, Roots: []string{dir}})
	if r := runCLI(t.Context(), env, "", "journal", "export", "--journal", path); !strings.Contains(r.out, `"place":`+string(want)) || strings.Count(r.out, `"tool_completed"`) != 5 {
		t.Error(r.out)
	}
}

// A journal that was cut off is verified and exported as far as it goes.
func TestJournalCutOff(t *testing.T) {
	env, path := ownPlaces(t), filepath.Join(t.TempDir(), "j.db")
	for range 8 {
		if r := runCLI(t.Context(), env, "", "run", "--journal", path, "DiscoverTools", `{"query":"`+strings.Repeat("x", 2000)+`"}`); r.code != 0 {
			t.Fatal(r.err)
		}
	}
	sound := runCLI(t.Context(), env, "", "journal", "export", "--journal", path)
	if sound.code != 0 {
		t.Fatal(sound.err)
	}
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, fi.Size()-4096); err != nil {
		t.Fatal(err)
	}
	if r := runCLI(t.Context(), env, "", "journal", "export", "--journal", path); r.code == 0 || r.out == "" || !strings.Contains(r.err, "lost") || strings.Count(r.out, "\n") < strings.Count(sound.out, "\n")/2 {
		t.Errorf("%d %d lines of %d: %s", r.code, strings.Count(r.out, "\n"), strings.Count(sound.out, "\n"), r.err)
	}
	if r := runCLI(t.Context(), env, "", "journal", "verify", "--journal", path); r.code == 0 || !strings.Contains(r.out, "session ") || strings.Contains(r.err, "verify says where") {
		t.Errorf("%d %s%s", r.code, r.out, r.err)
	}
}
