package shell

import (
	"context"
	"encoding/json"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/args"
	"github.com/bladehost/bladehost/host/tool"
)

const killSchema = `{"type":"object","properties":{` +
	`"shell_id":{"type":"string","minLength":1,"description":"The id that Bash returned for the background shell."}},` +
	`"required":["shell_id"],"additionalProperties":false}`

// killShell is the tool KillShell.
type killShell struct {
	*Shell
	spec *abi.ToolSpec
}

func newKillShell(s *Shell) *killShell {
	none := []abi.YieldKind{}
	return &killShell{s, &abi.ToolSpec{
		Name: "KillShell", DisplayName: "Kill Shell", Group: abi.GroupShell,
		Description: abi.Description{
			Short:      "Ends a background shell and everything it started.",
			UsageNotes: []string{"A shell that has ended already is no error: already_exited says so."},
		},
		Parameters: json.RawMessage(killSchema), Kind: abi.KindExecute, SideEffect: abi.SideEffectIdempotent,
		PermissionKey: []string{"/shell_id"}, Yields: &none,
	}}
}

func (k *killShell) Spec() *abi.ToolSpec { return k.spec }

// NormalizeInput drops what the tool does not know.
func (k *killShell) NormalizeInput(input json.RawMessage) (json.RawMessage, error) {
	return args.Shape{Known: []string{"shell_id"}}.Normalize(input)
}

type killIn struct {
	ShellID string `json:"shell_id"`
}

// killOut is what a model reads. The two ways of an end are there for a shell that
// had ended before.
type killOut struct {
	ShellID       string `json:"shell_id"`
	Status        Status `json:"status"`
	AlreadyExited bool   `json:"already_exited"`
	PID           int    `json:"pid"`
}

type killOutEnded struct {
	killOut
	ExitCode *int    `json:"exit_code"`
	Signal   *string `json:"signal"`
}

// Execute ends the shell.
func (k *killShell) Execute(ctx context.Context, call *tool.Call) (*abi.Result, error) {
	var in killIn
	if err := json.Unmarshal(call.Input, &in); err != nil {
		return nil, abi.NewError(abi.CodeValidation, "the input of KillShell is not what its schema says: %v", err)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	b, err := k.find(call.SessionID(), in.ShellID)
	if err != nil {
		return nil, err
	}
	ran := b.kill()
	out := killOut{in.ShellID, b.status(), !ran, b.p.pid}
	if out.Status == StatusRunning {
		return k.alive(out), nil
	}
	var model any = out
	if !ran {
		model = killOutEnded{out, b.p.end.code, b.p.end.signal}
	}
	raw, err := abi.Marshal(model)
	if err != nil {
		return nil, err
	}
	r := abi.Success(raw)
	k.describe(r, out, ran)
	if !ran {
		r.SetMeta("exitCode", b.p.end.code)
		r.SetMeta("signal", b.p.end.signal)
	}
	return r, nil
}

// alive is the result for a shell that even SIGKILL did not end in time.
func (k *killShell) alive(out killOut) *abi.Result {
	r := abi.Failure(failure(abi.TypeExecution, codeKill, "the shell "+quoted(out.ShellID)+" did not end; a process of it hangs in the kernel or belongs to another user"))
	k.describe(r, out, false)
	return r
}

func (k *killShell) describe(r *abi.Result, out killOut, success bool) {
	summary := "Ended " + out.ShellID
	switch {
	case r.IsError():
		summary = "Could not end " + out.ShellID
	case out.AlreadyExited:
		summary = out.ShellID + " had ended already"
	}
	for key, v := range map[string]any{"success": success, "alreadyExited": out.AlreadyExited, "status": out.Status, "pid": out.PID, "summary": summary} {
		r.SetMeta(key, v)
	}
	r.Display = &abi.Display{Summary: summary}
}
