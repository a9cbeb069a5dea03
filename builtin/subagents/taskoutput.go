package subagents

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/args"
	"github.com/bladehost/bladehost/builtin/shell"
	"github.com/bladehost/bladehost/host/tool"
)

// defaultWait is the default of the parameter timeout, in milliseconds.
const defaultWait = 30000

const outputSchema = `{"type":"object","properties":{` +
	`"task_id":{"type":"string","minLength":1,"description":"The id of a background shell (bash_…) or of a background agent."},` +
	`"block":{"type":"boolean","default":true,"description":"Wait for the end, for at most timeout."},` +
	`"timeout":{"type":"integer","minimum":0,"maximum":600000,"default":30000,"description":"Milliseconds to wait; 0 does not wait."}},` +
	`"required":["task_id"],"additionalProperties":false}`

type outputIn struct {
	TaskID  string   `json:"task_id"`
	Block   bool     `json:"block"`
	Timeout args.Int `json:"timeout"`
}

// taskOutput is the tool TaskOutput.
type taskOutput struct {
	opt  Options
	spec *abi.ToolSpec
}

func newTaskOutput(o Options) *taskOutput {
	none := []abi.YieldKind{}
	return &taskOutput{o, &abi.ToolSpec{
		Name: "TaskOutput", DisplayName: "Task Output", Group: abi.GroupSubagents,
		Description: abi.Description{
			Short: "Reads what a background task has printed, and how it is.",
			UsageNotes: []string{
				"It waits for the end of the task, for at most timeout milliseconds; set block to false to look only.",
				"Of a shell it gives what is new since the last time. A task that is still running is no error.",
			},
		},
		Parameters: json.RawMessage(outputSchema), Kind: abi.KindReadOnly, SideEffect: abi.SideEffectNonIdempotent,
		PermissionKey: []string{"/task_id"}, Yields: &none,
	}}
}

func (t *taskOutput) Spec() *abi.ToolSpec { return t.spec }

// NormalizeInput takes numbers and booleans written as strings, and drops what the
// tool does not know.
func (t *taskOutput) NormalizeInput(input json.RawMessage) (json.RawMessage, error) {
	return args.Shape{Known: []string{"task_id", "block", "timeout"}, Numbers: []string{"timeout"}, Booleans: []string{"block"}}.Normalize(input)
}

// shellOut is what a model reads of a shell that runs.
type shellOut struct {
	TaskID  string       `json:"task_id"`
	Type    string       `json:"type"`
	Status  shell.Status `json:"status"`
	Command string       `json:"command"`
	PID     int          `json:"pid"`
	Started string       `json:"started_at"`
	Stdout  string       `json:"stdout"`
	Stderr  string       `json:"stderr"`
	Dropped int64        `json:"dropped_bytes,omitempty"`
}

// endedOut is what it reads of one that has ended: one of the two is null.
type endedOut struct {
	shellOut
	ExitCode *int    `json:"exit_code"`
	Signal   *string `json:"signal"`
	Finished string  `json:"finished_at"`
}

// Execute reads the task.
func (t *taskOutput) Execute(ctx context.Context, call *tool.Call) (*abi.Result, error) {
	in := outputIn{Block: true, Timeout: defaultWait}
	if err := json.Unmarshal(call.Input, &in); err != nil {
		return nil, abi.NewError(abi.CodeValidation, "the input of TaskOutput is not what its schema says: %v", err)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	wait := time.Duration(in.Timeout) * time.Millisecond
	if !in.Block {
		wait = 0
	}
	session := call.SessionID()
	switch {
	case t.opt.Shells != nil && (strings.HasPrefix(in.TaskID, "bash_") || t.opt.Shells.Known(session, in.TaskID)):
		return t.shell(ctx, session, in.TaskID, wait)
	case t.opt.Agents != nil && t.opt.Agents.Owns(session, in.TaskID):
		model, summary, err := t.opt.Agents.Output(ctx, session, in.TaskID, wait)
		if err != nil {
			return nil, err
		}
		return described(model, summary)
	}
	id := in.TaskID
	if len(id) > 200 {
		id = strings.ToValidUTF8(id[:200], "") + "…"
	}
	return nil, &abi.Error{Type: abi.TypeValidation, Code: codeUnknown, Message: fmt.Sprintf("there is no background task %q in this session; Bash with run_in_background returns the id of a shell", id)}
}

func (t *taskOutput) shell(ctx context.Context, session, id string, wait time.Duration) (*abi.Result, error) {
	o, err := t.opt.Shells.Output(ctx, session, id, wait)
	if err != nil {
		return nil, err
	}
	out := shellOut{id, "shell", o.Status, o.Command, o.PID, iso(o.Started), o.Stdout, o.Stderr, o.Dropped}
	var model any = out
	if o.Status != shell.StatusRunning {
		model = endedOut{out, o.ExitCode, o.Signal, iso(o.Finished)}
	}
	raw, err := abi.Marshal(model)
	if err != nil {
		return nil, err
	}
	return described(raw, fmt.Sprintf("%s is %s", id, o.Status))
}

func iso(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// described is the result for a JSON object, whose members are in the metadata too.
func described(model json.RawMessage, summary string) (*abi.Result, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(model, &members); err != nil {
		return nil, err
	}
	r := abi.Success(model)
	for k, v := range members {
		r.SetMeta(k, v)
	}
	r.SetMeta("summary", summary)
	r.Display = &abi.Display{Summary: summary}
	return r, nil
}
