package shell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/args"
	"github.com/bladehost/bladehost/host/tool"
)

// Limits of the parameter timeout, in milliseconds.
const (
	defaultTimeout = 30000
	minTimeout     = 1000
	maxTimeout     = 300000
)

// maxWord is the longest word or variable that Linux gives to a program, in bytes.
const maxWord = 128<<10 - 1

const bashSchema = `{"type":"object","properties":{` +
	`"command":{"type":"string","minLength":1,"description":"The command line, as bash reads it."},` +
	`"timeout":{"type":"integer","minimum":1000,"maximum":300000,"default":30000,"description":"Milliseconds after which the command is ended. Background commands have no timeout."},` +
	`"cwd":{"type":"string","description":"The folder to run in, inside the workspace. What is relative starts in the session's current folder, or in the first root if that folder is outside. Without it, that folder itself."},` +
	`"env":{"type":"object","additionalProperties":{"type":"string"},"description":"More environment variables."},` +
	`"run_in_background":{"type":"boolean","default":false,"description":"Return at once and let the command run on."}},` +
	`"required":["command"],"additionalProperties":false}`

type bashIn struct {
	Command    string            `json:"command"`
	Timeout    args.Int          `json:"timeout"`
	Cwd        string            `json:"cwd"`
	Env        map[string]string `json:"env"`
	Background bool              `json:"run_in_background"`
}

// bash is the tool Bash.
type bash struct {
	*Shell
	spec *abi.ToolSpec
}

func newBash(s *Shell) *bash {
	return &bash{s, &abi.ToolSpec{
		Name: "Bash", DisplayName: "Bash Command", Group: abi.GroupShell,
		Description: abi.Description{
			Short: "Runs a command line in bash and returns what it prints.",
			Long: "Every call is a fresh shell: variables, functions and the current folder do not carry over. " +
				"Standard input is empty. Output is cut in the middle when it is long.",
			UsageNotes: []string{
				"A command that ends with an exit code other than 0 is still a success of this tool: look at exit_code and stderr.",
				"timeout is in milliseconds, from 1000 to 300000; without it a command is ended after 30000. All that it started ends with it.",
				"Use run_in_background for servers and watchers, TaskOutput to read what they print, and KillShell to end them. What a foreground command leaves running is ended.",
				"Prefer Read, Glob and Grep to cat, find and grep.",
				"A single command that only reads passes without a question. A person is still asked where it leads out of the workspace, where grep -r, rg or git diff would show files that may hold secrets, and where git's settings make it run programs.",
			},
			Examples: []abi.Example{{Description: "Run the tests of one package", Params: json.RawMessage(`{"command":"go test ./pkg/...","timeout":120000}`)}},
		},
		Parameters: json.RawMessage(bashSchema), Kind: abi.KindExecute, SideEffect: abi.SideEffectNonIdempotent, Interrupt: abi.InterruptCancel,
		PathParams: []string{"/cwd"}, MaxResultSize: 200000,
	}}
}

func (b *bash) Spec() *abi.ToolSpec { return b.spec }

// NormalizeInput takes numbers and booleans written as strings, and drops what
// the tool does not know.
func (b *bash) NormalizeInput(input json.RawMessage) (json.RawMessage, error) {
	return args.Shape{
		Known:   []string{"command", "timeout", "cwd", "env", "run_in_background"},
		Numbers: []string{"timeout"}, Booleans: []string{"run_in_background"},
	}.Normalize(input)
}

// read is the input, with defaults.
func (b *bash) read(input json.RawMessage) (bashIn, error) {
	in := bashIn{Timeout: defaultTimeout}
	if err := json.Unmarshal(input, &in); err != nil {
		return in, abi.NewError(abi.CodeValidation, "the input of Bash is not what its schema says: %v", err)
	}
	return in, nil
}

// ResolveBehavior narrows foreground commands that only read.
func (b *bash) ResolveBehavior(input json.RawMessage) (tool.Partial, error) {
	if input == nil {
		return tool.Partial{}, nil
	}
	if norm, err := b.NormalizeInput(input); err == nil {
		input = norm
	}
	in, err := b.read(input)
	if err != nil {
		return tool.Partial{}, err
	}
	if _, ok := b.narrowed(in); ok {
		return tool.Partial{Kind: abi.KindReadOnly, SideEffect: abi.SideEffectPure}, nil
	}
	p := tool.Partial{}
	if destructive(in.Command) {
		yes := true
		p.Destructive = &yes
	}
	if in.Background {
		p.Interrupt = abi.InterruptBlock
	}
	return p, nil
}

// narrowed gives the words of a read-only foreground command. A call with an
// environment of its own never narrows: a variable can change what a program does.
// Nor does a program that is in none of the folders: bash may know another place.
func (b *bash) narrowed(in bashIn) ([]string, bool) {
	if in.Background || len(in.Env) > 0 || len(b.opt.ReadOnlyDirs) == 0 {
		return nil, false
	}
	words, ok := readOnly(in.Command)
	if !ok {
		return nil, false
	}
	if _, err := b.program(words[0]); err != nil {
		return nil, false
	}
	return words, true
}

// ValidateInput refuses what no shell could run, and folders outside the workspace.
func (b *bash) ValidateInput(_ context.Context, call *tool.Call) error {
	in, err := b.read(call.Input)
	if err != nil {
		return err
	}
	snap := call.Snapshot()
	_, err = b.check(in, &snap)
	return err
}

// check refuses what cannot run and gives the folder to run in.
func (b *bash) check(in bashIn, snap *tool.Snapshot) (dir string, err error) {
	switch {
	case in.Command == "":
		return "", invalid("/command", "it is empty")
	case strings.ContainsRune(in.Command, 0):
		return "", invalid("/command", "it has a NUL byte, which no command can have")
	case len(in.Command) > maxWord:
		return "", invalid("/command", fmt.Sprintf("it has %d bytes, and systems take at most %d; write it to a file and run that: bash FILE", len(in.Command), maxWord))
	}
	for _, k := range slices.Sorted(maps.Keys(in.Env)) {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(in.Env[k], 0) {
			return "", invalid("/env", fmt.Sprintf("%q and its value cannot be a variable: no empty name, no = in the name, no NUL byte", k))
		}
		if n := len(k) + 1 + len(in.Env[k]); n > maxWord {
			return "", invalid("/env", fmt.Sprintf("%s has %d bytes with its value, and systems take at most %d; write the value to a file", quoted(k), n, maxWord))
		}
	}
	return workingDir(in.Cwd, snap)
}

// PermissionSignature is the command, with the variables of the call behind it: an
// approval of a command does not cover it in another environment.
func (b *bash) PermissionSignature(input json.RawMessage) (content, rule string) {
	in, err := b.read(input)
	if err != nil {
		return string(input), ""
	}
	content = strings.TrimSpace(in.Command)
	for i, k := range slices.Sorted(maps.Keys(in.Env)) {
		if i == 0 {
			content += " # with"
		}
		content += fmt.Sprintf(" %s=%q", k, in.Env[k])
	}
	return content, ruleSuggestion(in.Command)
}

// DescribeCall tells a person what is special about a command.
func (b *bash) DescribeCall(input json.RawMessage) (title string, risks []string) {
	in, err := b.read(input)
	if err != nil {
		return "Run a command", nil
	}
	title = "Run a command"
	if in.Background {
		title = "Run a command in the background"
	}
	if destructive(in.Command) {
		risks = append(risks, "It may delete or overwrite something, or end programs.")
	}
	if names := riskyEnv(in.Env); len(names) > 0 {
		risks = append(risks, "It sets "+strings.Join(names, ", ")+", which can change what programs do.")
	}
	return title, risks
}

// Execute runs the command.
func (b *bash) Execute(ctx context.Context, call *tool.Call) (*abi.Result, error) {
	in, err := b.read(call.Input)
	if err != nil {
		return nil, err
	}
	if err := call.Yield(abi.Message("Running: " + firstLine(in.Command))); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	snap := call.Snapshot()
	dir, err := b.check(in, &snap)
	if err != nil {
		return nil, err
	}
	if in.Background {
		return b.background(call, in, dir, snap.Environment)
	}
	return b.foreground(ctx, call, in, dir, snap.Environment)
}

// firstLine is a command for a person, in one short line.
func firstLine(s string) string {
	s = strings.TrimSpace(s)
	line, _, more := strings.Cut(s, "\n")
	if cut := firstUnits(line, 120); cut != line {
		line, more = cut, true
	}
	if more {
		line += " …"
	}
	return line
}

// bashOut is what a model reads of a command.
type bashOut struct {
	Stdout        string  `json:"stdout"`
	Stderr        string  `json:"stderr"`
	ExecutionTime int64   `json:"execution_time"`
	ExitCode      *int    `json:"exit_code"`
	Signal        *string `json:"signal"`
	Truncation    string  `json:"truncation_info,omitempty"`
	// The whole output, where it was cut, as handles of artifacts.
	StdoutArtifact string `json:"stdout_artifact,omitempty"`
	StderrArtifact string `json:"stderr_artifact,omitempty"`
}

func (b *bash) foreground(ctx context.Context, call *tool.Call, in bashIn, dir string, env map[string]string) (*abi.Result, error) {
	var out, errs capture
	began := time.Now()
	c, g, err := b.command(ctx, call, in, dir, env)
	if err != nil {
		return nil, err
	}
	c.out, c.err = &out, &errs
	p, err := start(c, g)
	if err != nil {
		return nil, spawnError(c, err)
	}
	timeout := in.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	timer := time.NewTimer(time.Duration(timeout) * time.Millisecond)
	defer timer.Stop()
	late := false
	select {
	case <-p.done:
	case <-timer.C:
		late = true
		p.stop(termGrace)
		<-p.done
	case <-ctx.Done():
		p.stop(termGrace)
		<-p.done
		return b.cut(in, &out, &errs, began, failure(abi.TypeExecution, codeAborted, "the command was ended because the call was cancelled").Because(context.Cause(ctx)), "aborted"), nil
	}
	if late {
		return b.cut(in, &out, &errs, began, failure(abi.TypeTimeout, codeTimeout,
			fmt.Sprintf("the command did not end within %d ms and was ended, with everything it had started; give a longer timeout (at most %d), or run it in the background", timeout, maxTimeout)), "timeout"), nil
	}
	return b.finished(ctx, call, in, p.end, &out, &errs, began)
}

// command is what to start for a foreground call, and who ends it if this process
// is killed: a read-only command starts nothing, so the kernel alone does.
func (b *bash) command(ctx context.Context, call *tool.Call, in bashIn, dir string, env map[string]string) (command, *guard, error) {
	tag := b.newTag()
	if words, ok := b.narrowed(in); ok {
		c, err := b.narrow(ctx, words, dir, env, tag)
		if err == nil {
			return c, nil, nil
		}
		if abi.CodeOf(err) != codeRepository || !b.mayRunPrograms(call) {
			return command{}, nil, err
		}
	}
	sh, err := b.bash()
	if err != nil {
		return command{}, nil, failure(abi.TypeExecution, codeSpawn, fmt.Sprintf("bash could not be started: %v", err))
	}
	return command{path: sh, argv: []string{"bash", "-c", "--", in.Command}, dir: dir, env: b.commandEnv(env, in.Env, dir, tag), tag: tag}, b.guard, nil
}

// narrow is a read-only command, run without a shell.
func (b *bash) narrow(ctx context.Context, words []string, dir string, env map[string]string, tag string) (command, error) {
	path, err := b.program(words[0])
	if err != nil {
		return command{}, failure(abi.TypeExecution, codeSpawn, fmt.Sprintf("%s could not be started: %v", words[0], err))
	}
	c := command{path: path, argv: words, dir: dir, env: b.readOnlyEnv(dir, tag), tag: tag, alone: words[0] != "git" && words[0] != "which"}
	switch words[0] {
	case "git":
		c.argv, err = gitSafe(ctx, c)
	case "which": // it tells where bash finds a program, and runs none
		for _, kv := range b.commandEnv(env, nil, dir, tag) {
			if strings.HasPrefix(kv, "PATH=") {
				c.env = append(slices.DeleteFunc(c.env, func(s string) bool { return strings.HasPrefix(s, "PATH=") }), kv)
			}
		}
	}
	return c, err
}

// spawnError says why a command could not be started. The system gives one error for
// a program and for a folder that it cannot enter.
func spawnError(c command, err error) *abi.Error {
	if _, perr := exec.LookPath(c.path); perr == nil && (errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist)) {
		return failure(abi.TypeValidation, codeCwdMissing, "the folder "+quoted(c.dir)+" cannot be entered: "+reason(err)+"; give another cwd, or allow it to be entered").Because(err)
	}
	if errors.Is(err, syscall.E2BIG) {
		return failure(abi.TypeExecution, codeSpawn, "the command and its variables together are longer than the system takes; pass fewer variables, or write them to a file").Because(err)
	}
	return failure(abi.TypeExecution, codeSpawn, fmt.Sprintf("%s could not be started: %v", c.path, err)).Because(err)
}

// finished is the result of a command that came to its end.
func (b *bash) finished(ctx context.Context, call *tool.Call, in bashIn, end exit, out, errs *capture, began time.Time) (*abi.Result, error) {
	o, e := out.read(), errs.read()
	so, se := fit(in.Command, o), fit(in.Command, e)
	res := bashOut{Stdout: so.text, Stderr: se.text, ExecutionTime: time.Since(began).Milliseconds(), ExitCode: end.code, Signal: end.signal, Truncation: truncation(so, se)}
	if so.truncated {
		res.StdoutArtifact = keep(ctx, call, "stdout", o)
	}
	if se.truncated {
		res.StderrArtifact = keep(ctx, call, "stderr", e)
	}
	raw, err := abi.Marshal(res)
	if err != nil {
		return nil, err
	}
	r := abi.Success(raw)
	summary := "Ended with exit code 0"
	switch {
	case end.signal != nil:
		summary = "Ended by " + *end.signal
	case end.code != nil:
		summary = fmt.Sprintf("Ended with exit code %d", *end.code)
	}
	for k, v := range map[string]any{"command": in.Command, "execution_time": res.ExecutionTime, "exit_code": end.code, "signal": end.signal,
		"stdout_length": o.units, "stderr_length": e.units, "has_stderr": e.units > 0, "summary": summary} {
		r.SetMeta(k, v)
	}
	r.Display = &abi.Display{Summary: summary}
	return r, nil
}

// keep puts what was kept of a stream that is shown cut into an artifact and
// returns its handle, or "" where there is no place for artifacts.
func keep(ctx context.Context, call *tool.Call, name string, c captured) string {
	text := c.head
	if c.dropped > 0 {
		text += fmt.Sprintf("\n... (%d bytes are left out here) ...\n", c.dropped) + c.tail
	}
	head, err := abi.Marshal(map[string]string{"name": name})
	if err != nil {
		return ""
	}
	a, err := call.Invoke(ctx, abi.ArtifactPut, tool.Request{Head: head, Body: []byte(text)})
	if err != nil {
		return ""
	}
	var out struct {
		Handle string `json:"handle"`
	}
	if json.Unmarshal(a.Head, &out) != nil {
		return ""
	}
	return out.Handle
}

func truncation(out, errs shown) string {
	var parts []string
	if out.truncated {
		parts = append(parts, fmt.Sprintf("stdout: %d lines → %d lines", out.before, out.after))
	}
	if errs.truncated {
		parts = append(parts, fmt.Sprintf("stderr: %d lines → %d lines", errs.before, errs.after))
	}
	if len(parts) == 0 {
		return ""
	}
	return "Cut to fit: " + strings.Join(parts, ", ")
}

// cut is the error result of a command that was ended early: the model is shown
// what it had printed.
func (b *bash) cut(in bashIn, out, errs *capture, began time.Time, why *abi.Error, flag string) *abi.Result {
	o, e := out.read(), errs.read()
	so, se := fit(in.Command, o), fit(in.Command, e)
	r := abi.Failure(why)
	text := why.Message
	if so.text != "" {
		text += "\n\nstdout so far:\n" + so.text
	}
	if se.text != "" {
		text += "\n\nstderr so far:\n" + se.text
	}
	r.Model = abi.String(text)
	for k, v := range map[string]any{"command": in.Command, flag: true, "stdout": asPrinted(so, o), "stderr": asPrinted(se, e),
		"execution_time": time.Since(began).Milliseconds(), "summary": why.Message} {
		r.SetMeta(k, v)
	}
	return r
}

// asPrinted is a stream with the blanks around it, unless it was cut.
func asPrinted(s shown, c captured) string {
	if s.truncated {
		return s.text
	}
	return c.head
}
