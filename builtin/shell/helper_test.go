package shell

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// bench is a Shell with a workspace of its own.
type bench struct {
	t    testing.TB
	s    *Shell
	dir  string
	bash *bash
	kill *killShell
	mode string
}

const testSession = "s-test"

func newBench(t testing.TB, o Options) *bench {
	t.Helper()
	s := New(o)
	t.Cleanup(func() {
		if err := s.EndSession(context.Background(), testSession); err != nil {
			t.Error(err)
		}
		s.guard.close()
	})
	return &bench{t: t, s: s, dir: realDir(t), bash: newBash(s), kill: newKillShell(s), mode: "default"}
}

// realDir is a folder by the name that pwd prints: no link leads to it.
func realDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func (b *bench) config(input string) tool.Config {
	return tool.Config{
		Name: "Bash", Input: json.RawMessage(input), SessionID: testSession, Mode: b.mode,
		Snapshot: &tool.Snapshot{SessionID: testSession, Roots: []string{b.dir}, Cwd: b.dir},
	}
}

// run runs Bash with an input, directly.
func (b *bench) run(ctx context.Context, input string) *abi.Result {
	b.t.Helper()
	return b.with(ctx, b.bash, b.config(input))
}

func (b *bench) with(ctx context.Context, t tool.Tool, c tool.Config) *abi.Result {
	b.t.Helper()
	r, err := t.Execute(ctx, tool.NewCall(c))
	if err != nil {
		return abi.Failure(abi.AsError(err))
	}
	return r
}

// line runs one command line and gives what a model reads.
func (b *bench) line(line string) bashOut {
	b.t.Helper()
	r := b.run(b.t.Context(), `{"command":`+string(abi.String(line))+`}`)
	if r.IsError() {
		b.t.Fatalf("%s: %+v", line, r.Error)
	}
	var out bashOut
	if err := json.Unmarshal(r.Model, &out); err != nil {
		b.t.Fatal(err)
	}
	return out
}

// until waits for something that another process does.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited too long for: %s", what)
		}
	}
}
