package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is bladehost as a process of its own, with places of the test's own.
func process(t testing.TB, env map[string]string, args ...string) *exec.Cmd {
	t.Helper()
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, args...)
	cmd.Env = processEnv(env)
	return cmd
}

// SIGINT and SIGTERM stop a running tool at once: the exit code tells, and no
// part of a result is printed.
func TestSignals(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no such signals")
	}
	dir := t.TempDir()
	big := filepath.Join(dir, "big")
	if err := os.WriteFile(big, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(big, 64<<30); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	hash, conformance := plugins(t)["hash"], plugins(t)["conformance"]
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		want   int
		args   []string
		// begun is what standard output shows once the tool runs.
		begun string
	}{
		{"SIGINT", syscall.SIGINT, exitInterrupted, []string{hash, "Hash", `{"path":"` + big + `"}`}, "tool_progress"},
		{"SIGTERM", syscall.SIGTERM, exitTerminated, []string{hash, "Hash", `{"path":"` + big + `"}`}, "tool_progress"},
		{"SIGINT in a loop that computes", syscall.SIGINT, exitInterrupted, []string{conformance, "Cancelled", `{}`}, "tool_message"},
		{"SIGINT while it sleeps", syscall.SIGINT, exitInterrupted, []string{conformance, "Cancelled", `{"sleep":true}`}, "tool_message"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := process(t, ownPlaces(t), append([]string{"run", "--json", "--allow-read", dir}, c.args...)...)
			var msg bytes.Buffer
			cmd.Stderr = &msg
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			waitFor(t, out, c.begun)
			sent := time.Now()
			if err := cmd.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			text := readAll(out)
			_ = cmd.Wait()
			t.Logf("it took %v", time.Since(sent))
			if got := cmd.ProcessState.ExitCode(); got != c.want {
				t.Errorf("exit code %d, want %d: %s", got, c.want, msg.String())
			}
			if !strings.Contains(text, `"code":"REQUEST_ABORTED"`) {
				t.Errorf("the last event is %s", text)
			}
		})
	}
}

func waitFor(t *testing.T, r interface{ Read([]byte) (int, error) }, text string) {
	t.Helper()
	var seen []byte
	b := make([]byte, 4096)
	for !bytes.Contains(seen, []byte(text)) {
		n, err := r.Read(b)
		if seen = append(seen, b[:n]...); err != nil {
			t.Fatalf("no %s in %s", text, seen)
		}
	}
}

func readAll(r interface{ Read([]byte) (int, error) }) string {
	var b bytes.Buffer
	_, _ = b.ReadFrom(r) // a closed pipe is the end
	return b.String()
}

// A second signal ends the process whatever it waits for.
func TestSecondSignal(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no such signals")
	}
	// A guest that never ends: at the first signal it is told, and stopped when the
	// clean-up time is over, with a result.
	file := filepath.Join(t.TempDir(), "deaf.wasm")
	if err := os.WriteFile(file, guest{manifest: marshal(t, goodManifest(t)), body: "deaf"}.module(t), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := process(t, ownPlaces(t), "run", file, "Sample", `{"text":"a"}`, "--json")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, out, "tool_use")
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} { // two of one kind may come as one
		if err := cmd.Process.Signal(s); err != nil {
			t.Error(err)
		}
	}
	rest := readAll(out)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted && code != exitTerminated {
		t.Errorf("exit code %d", code)
	}
	if strings.Contains(rest, "tool_result") {
		t.Errorf("it waited for the tool: %s", rest)
	}
}

// Input that never comes does not keep the process from ending.
func TestSignalWhileReading(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no such signals")
	}
	for _, args := range [][]string{{"run", plugins(t)["measure"], "Measure"}, {"session"}} {
		cmd := process(t, ownPlaces(t), args...)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(in, strings.Repeat(" ", 1<<20)); err != nil { // more than a pipe holds: it reads
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		_ = in.Close()
		if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
}

// 100 processes run the same installed tool on an empty cache: all are right, and
// exactly one compiles.
func TestManyProcesses(t *testing.T) {
	n := 100
	if testing.Short() {
		n = 20
	}
	env := ownPlaces(t)
	if r := runCLI(t.Context(), env, "", "install", plugins(t)["measure"]); r.code != 0 {
		t.Fatal(r.err)
	}
	env["XDG_CACHE_HOME"] = t.TempDir()
	var wg sync.WaitGroup
	var mu sync.Mutex
	compiles := map[string]int{}
	for i := range n {
		wg.Go(func() {
			cmd := process(t, env, "run", "--json", "Measure", fmt.Sprintf(`{"text":"%d"}`, i))
			var msg bytes.Buffer
			cmd.Stderr = &msg
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("%v: %s%s", err, out, msg.String())
				return
			}
			lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
			var last struct {
				Output   struct{ Bytes int }
				Metadata struct{ Compile string }
			}
			if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			if want := len(fmt.Sprintf(`{"text":"%d"}`, i)); last.Output.Bytes != want {
				t.Errorf("%d bytes, want %d", last.Output.Bytes, want)
			}
			mu.Lock()
			compiles[last.Metadata.Compile]++
			mu.Unlock()
		})
	}
	wg.Wait()
	if compiles["miss"] != 1 || compiles["hit"] != n-1 {
		t.Errorf("%v, want one miss and %d hits", compiles, n-1)
	}
}

// Many installers at once: the lock file has all plugins in the end.
func TestManyInstallers(t *testing.T) {
	env, dir := ownPlaces(t), t.TempDir()
	const n = 8
	var wg sync.WaitGroup
	for i := range n {
		m := goodManifest(t)
		set(m, "name", fmt.Sprintf("blade-tool-sample-%d", i))
		file := filepath.Join(dir, fmt.Sprintf("%d.wasm", i))
		if err := os.WriteFile(file, guest{manifest: marshal(t, m)}.module(t), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			wg.Go(func() {
				if out, err := process(t, env, "install", file).CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			})
		}
	}
	wg.Wait()
	r := runCLI(t.Context(), env, "", "list", "--json")
	if got := len(unmarshal[struct{ Plugins []any }](t, r.out).Plugins); got != n {
		t.Errorf("%d plugins: %s", got, r.out)
	}
}

// Commands that load no plugin start fast: nothing is compiled or opened for them.
func BenchmarkStart(b *testing.B) {
	for _, args := range [][]string{{"version"}, {"--help"}, {"list"}, {"session", "--help"}} {
		b.Run(strings.Join(args, " "), func(b *testing.B) {
			env := ownPlaces(b)
			for b.Loop() {
				if out, err := process(b, env, args...).CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
			}
		})
	}
}

// BenchmarkRun is a whole process that runs one tool, from a warm cache.
func BenchmarkRun(b *testing.B) {
	for _, c := range []struct{ plugin, tool, input string }{{"measure", "Measure", `{"text":"a"}`}, {"hash", "Hash", `{"text":"a"}`}} {
		b.Run(c.plugin, func(b *testing.B) {
			env, path := ownPlaces(b), plugins(b)[c.plugin]
			for b.Loop() {
				if out, err := process(b, env, "run", path, c.tool, c.input).CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
			}
		})
	}
}
