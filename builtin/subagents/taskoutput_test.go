package subagents

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/shell"
	"github.com/bladehost/bladehost/host/tool"
	"github.com/bladehost/bladehost/host/tool/tooltest"
)

func TestMain(m *testing.M) {
	_ = os.Setenv("LC_ALL", "C") // bash complains of a locale that is not installed
	goleak.VerifyTestMain(m)
}

const session = "s"

// agents are two stub agents: one that has ended, and one that never does.
type agents struct{}

func (agents) Owns(s, id string) bool { return s == session && (id == "done" || id == "runs") }

func (agents) Output(ctx context.Context, _, id string, wait time.Duration) (json.RawMessage, string, error) {
	if id == "runs" {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil, "", context.Cause(ctx)
		}
	}
	return json.RawMessage(`{"task_id":"` + id + `","type":"agent"}`), id, nil
}

// start starts a background shell and returns its id.
func start(t testing.TB, sh *shell.Shell, line string) string {
	t.Helper()
	dir := t.TempDir()
	r, err := sh.Tools()[0].Execute(t.Context(), tool.NewCall(tool.Config{
		SessionID: session, Snapshot: &tool.Snapshot{Roots: []string{dir}, Cwd: dir}, Input: json.RawMessage(`{"command":` + string(abi.String(line)) + `,"run_in_background":true}`),
	}))
	if err != nil {
		t.Fatal(err)
	}
	var out struct {
		ID string `json:"shell_id"`
	}
	if err := json.Unmarshal(r.Model, &out); err != nil {
		t.Fatal(err)
	}
	return out.ID
}

func shells(t testing.TB) *shell.Shell {
	sh := shell.New(shell.Options{})
	t.Cleanup(func() {
		if err := sh.EndSession(context.Background(), session); err != nil {
			t.Error(err)
		}
	})
	return sh
}

func run(ctx context.Context, tl tool.Tool, s, input string) *abi.Result {
	r, err := tl.Execute(ctx, tool.NewCall(tool.Config{SessionID: s, Input: json.RawMessage(input)}))
	if err != nil {
		return abi.Failure(abi.AsError(err))
	}
	return r
}

func ask(id, more string) string { return `{"task_id":` + string(abi.String(id)) + more + `}` }

// Shells: while they run, once they have ended, and what was read already.
func TestShells(t *testing.T) {
	sh := shells(t)
	tl := newTaskOutput(Options{Shells: sh})
	runs, ends := start(t, sh, "sleep 600"), start(t, sh, "echo out; echo err >&2; exit 3")
	r := run(t.Context(), tl, session, ask(ends, ""))
	for _, want := range []string{`"task_id":"` + ends + `"`, `"type":"shell"`, `"status":"exited"`, `"exit_code":3`, `"signal":null`, `"stdout":"out\n"`, `"stderr":"err\n"`, `"finished_at":"2`, `"started_at":"2`, `"pid":`} {
		if !strings.Contains(string(r.Model), want) {
			t.Errorf("%s is not in %s", want, r.Model)
		}
	}
	for _, key := range []string{"task_id", "type", "status", "command", "pid", "exit_code", "signal", "started_at", "finished_at", "stdout", "stderr", "summary"} {
		if _, ok := r.Metadata[key]; !ok {
			t.Errorf("metadata has no %s", key)
		}
	}
	if r := run(t.Context(), tl, session, ask(ends, "")); !strings.Contains(string(r.Model), `"stdout":"","stderr":""`) {
		t.Errorf("%s", r.Model)
	}
	for _, more := range []string{`,"block":false`, `,"timeout":0`, `,"timeout":1`, `,"block":false,"timeout":600000`} {
		r := run(t.Context(), tl, session, ask(runs, more))
		if r.IsError() || !strings.Contains(string(r.Model), `"status":"running"`) || strings.Contains(string(r.Model), "exit_code") || strings.Contains(string(r.Model), "finished_at") {
			t.Errorf("%s: %s %+v", more, r.Model, r.Error)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("enough")
	time.AfterFunc(time.Millisecond, func() { cancel(stop) })
	if _, err := tl.Execute(ctx, tool.NewCall(tool.Config{SessionID: session, Input: json.RawMessage(ask(runs, `,"timeout":600000`))})); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}

// The catalogue of errors, and who answers for which id.
func TestRouting(t *testing.T) {
	sh := shells(t)
	both, none := newTaskOutput(Options{Shells: sh, Agents: agents{}}), newTaskOutput(Options{})
	id := start(t, sh, "sleep 600")
	for _, c := range []struct {
		tl          *taskOutput
		session, id string
		code        abi.Code
		kind        abi.ErrorType
	}{
		{both, session, "ghost", codeUnknown, abi.TypeValidation}, {both, session, "bash_ghost", "shell_not_found", abi.TypeExecution}, {both, "other", id, "shell_not_found", abi.TypeExecution},
		{both, "other", "done", codeUnknown, abi.TypeValidation}, {none, session, id, codeUnknown, abi.TypeValidation}, {none, session, "done", codeUnknown, abi.TypeValidation}, {both, session, "", codeUnknown, abi.TypeValidation},
		{both, session, strings.Repeat("x", 1000), codeUnknown, abi.TypeValidation},
	} {
		r := run(t.Context(), c.tl, c.session, ask(c.id, ""))
		if r.Error == nil || r.Error.Code != c.code || r.Error.Type != c.kind || len(r.Error.Message) > 500 {
			t.Errorf("%.20s of %s: %+v", c.id, c.session, r.Error)
		}
	}
	if r := run(t.Context(), both, session, `{"task_id":1}`); r.Error == nil || r.Error.Code != abi.CodeValidation {
		t.Errorf("%+v", r.Error)
	}
	if r := run(t.Context(), both, session, ask("done", "")); r.IsError() || !strings.Contains(string(r.Model), `"type":"agent"`) || r.Metadata["summary"] != "done" {
		t.Errorf("%s", r.Model)
	}
	if r := run(t.Context(), both, session, ask("runs", `,"timeout":0`)); r.IsError() {
		t.Errorf("%+v", r.Error)
	}
}

// BLT-01: its contract.
func TestSuite(t *testing.T) {
	sh := shells(t)
	id := start(t, sh, "true")
	tl := newTaskOutput(Options{Shells: sh, Agents: agents{}})
	tooltest.Run(t, tooltest.Case{
		New: func(testing.TB) tool.Tool { return tl }, Input: json.RawMessage(ask(id, "")), Slow: json.RawMessage(ask("runs", `,"timeout":600000`)),
		Bad:    []json.RawMessage{json.RawMessage(`{}`), json.RawMessage(`{"task_id":""}`), json.RawMessage(`{"task_id":"x","timeout":-1}`), json.RawMessage(`{"task_id":"x","timeout":600001}`)},
		Config: func(c *tool.Config) { c.SessionID = session },
	})
	if b := tool.Static(tl.Spec()); b.Kind != abi.KindReadOnly || b.SideEffect != abi.SideEffectNonIdempotent || !b.ConcurrencySafe || b.Interrupt != abi.InterruptBlock || tl.Spec().Group != abi.GroupSubagents || len(Tools(Options{})) != 1 {
		t.Errorf("%+v", b)
	}
	got, err := tl.NormalizeInput(json.RawMessage(`{"task_id":"x","block":"off","timeout":"5","more":1}`))
	if err != nil || string(got) != `{"block":false,"task_id":"x","timeout":5}` {
		t.Errorf("%s %v", got, err)
	}
}
