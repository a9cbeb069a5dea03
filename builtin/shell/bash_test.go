package shell

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
	"github.com/bladehost/bladehost/host/tool/tooltest"
)

func TestMain(m *testing.M) {
	_ = os.Setenv("LC_ALL", "C") // programs speak English, and bash knows this locale everywhere
	goleak.VerifyTestMain(m)
}

func input(line string, more ...string) string {
	return `{"command":` + string(abi.String(line)) + strings.Join(append([]string{""}, more...), ",") + `}`
}

// What commands print and how they end.
func TestBashOutcomes(t *testing.T) {
	b := newBench(t, Options{})
	for name, c := range map[string]struct {
		line, out, err string
		code           int
		signal         string
	}{
		"read-only":       {line: "echo hi", out: "hi"},
		"both streams":    {line: "echo out; echo err >&2; exit 3", out: "out", err: "err", code: 3},
		"pipe":            {line: "printf 'b\na\n' | sort", out: "a\nb"},
		"not found":       {line: "nosuchcmd_zz", err: "bash: line 1: nosuchcmd_zz: command not found", code: 127},
		"false":           {line: "false", code: 1},
		"signal":          {line: "kill -TERM $$", signal: "SIGTERM"},
		"killed":          {line: "kill -9 $$", signal: "SIGKILL"},
		"empty input":     {line: "cat; read x; echo $?", out: "1"},
		"no terminal":     {line: "test -t 0 || test -t 1 || (true < /dev/tty) 2>/dev/null || echo none", out: "none"},
		"starts with -":   {line: "-x", err: "bash: line 1: -x: command not found", code: 127},
		"not UTF-8":       {line: `printf "\xe4\xb8\x96\xff"`, out: "世\ufffd"},
		"several lines":   {line: "x=1\necho $x\n# end\n", out: "1"},
		"quotes stay":     {line: `echo "a  'b'" '$HOME'`, out: "a  'b' $HOME"},
		"own name":        {line: "echo $0", out: "bash"},
		"blank":           {line: " ", out: ""},
		"read-only error": {line: "cat nothing-here", err: "cat: nothing-here: No such file or directory", code: 1},
	} {
		got := b.line(c.line)
		if got.Stdout != c.out || got.Stderr != c.err {
			t.Errorf("%s: %q %q, want %q %q", name, got.Stdout, got.Stderr, c.out, c.err)
		}
		if c.signal != "" {
			if got.Signal == nil || *got.Signal != c.signal || got.ExitCode != nil {
				t.Errorf("%s: %+v, want %s", name, got, c.signal)
			}
		} else if got.ExitCode == nil || *got.ExitCode != c.code || got.Signal != nil {
			t.Errorf("%s: %+v, want %d", name, got, c.code)
		}
	}
	if got := b.line("exit 2 )"); got.ExitCode == nil || *got.ExitCode != 2 || got.Stderr == "" {
		t.Errorf("a syntax error: %+v", got)
	}
	r := b.run(t.Context(), input("echo é; echo 𝄞 >&2"))
	if r.Metadata["stdout_length"] != int64(2) || r.Metadata["stderr_length"] != int64(3) || r.Metadata["has_stderr"] != true || string(r.Data) != string(r.Model) || r.Display == nil {
		t.Errorf("%+v", r)
	}
}

// Each call is a fresh shell, in the folder it names, with the environment that is
// its own.
func TestBashSurroundings(t *testing.T) {
	t.Setenv("MY_API_KEY", "s3cret")
	t.Setenv("LC_ALL", "C.UTF-8")
	t.Setenv("LET_ME", "through")
	t.Setenv("BASH_ENV", "/nonexistent/evil")
	b := newBench(t, Options{PassEnv: []string{"LET_ME"}})
	if err := os.Mkdir(filepath.Join(b.dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.line("cd sub; export X=1; f() { :; }")
	if got := b.line("pwd; echo $X; type f"); !strings.HasPrefix(got.Stdout, b.dir) || *got.ExitCode == 0 {
		t.Errorf("something carried over: %+v", got)
	}
	for _, cwd := range []string{"sub", filepath.Join(b.dir, "sub"), filepath.Join(b.dir, "x", "..", "sub")} {
		for _, line := range []string{"pwd", "pwd; true"} {
			var out bashOut
			r := b.run(t.Context(), input(line, `"cwd":`+string(abi.String(cwd))))
			if err := json.Unmarshal(r.Model, &out); err != nil || out.Stdout != filepath.Join(b.dir, "sub") {
				t.Errorf("%s in %s: %+v", line, cwd, r)
			}
		}
	}
	got := b.line("env").Stdout
	for name, want := range map[string]bool{"MY_API_KEY=": false, "s3cret": false, "BASH_ENV": false, "PATH=": true, "BLADE_CLI=1": true, "LET_ME=through": true, "LC_ALL=C.UTF-8": true} {
		if strings.Contains(got, name) != want {
			t.Errorf("%q in the environment: want %v\n%s", name, want, got)
		}
	}
	c := b.config(input(`echo "$FOO $BLADE_CLI $BOTH $SESSION"`, `"env":{"FOO":"bar","BLADE_CLI":"x","BOTH":"call"}`))
	c.Snapshot.Environment = map[string]string{"BOTH": "session", "SESSION": "s"}
	if r := b.with(t.Context(), b.bash, c); !strings.Contains(string(r.Model), `"stdout":"bar 1 call s"`) {
		t.Errorf("%s", r.Model)
	}
}

// The catalogue of errors, a row each.
func TestBashErrors(t *testing.T) {
	b := newBench(t, Options{})
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(b.dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(b.dir, "link")); err != nil {
		t.Fatal(err)
	}
	b.s.opt.ReadOnlyDirs = []string{"relative", t.TempDir()}
	for name, c := range map[string]struct {
		in   string
		edit func(*tool.Config)
		code abi.Code
		kind abi.ErrorType
	}{
		"no workspace":            {in: input("pwd"), edit: func(c *tool.Config) { c.Snapshot.Roots = nil }, code: codeNoFilesystem, kind: abi.TypePermission},
		"no workspace but cwd":    {in: input("pwd", `"cwd":"/tmp"`), edit: func(c *tool.Config) { c.Snapshot.Roots = nil }, code: codeNoFilesystem, kind: abi.TypePermission},
		"no current folder":       {in: input("pwd"), edit: func(c *tool.Config) { c.Snapshot.Cwd = "" }, code: codeNoCwd, kind: abi.TypeValidation},
		"relative without one":    {in: input("pwd", `"cwd":"x"`), edit: func(c *tool.Config) { c.Snapshot.Cwd = "" }, code: codeNoCwd, kind: abi.TypeValidation},
		"missing folder":          {in: input("pwd", `"cwd":"nope"`), code: codeCwdMissing, kind: abi.TypeValidation},
		"a file":                  {in: input("pwd", `"cwd":"file"`), code: codeCwdMissing, kind: abi.TypeValidation},
		"outside":                 {in: input("pwd", `"cwd":"/"`), code: codeOutside, kind: abi.TypePermission},
		"outside by dots":         {in: input("pwd", `"cwd":"../../.."`), code: codeOutside, kind: abi.TypePermission},
		"outside by a link":       {in: input("pwd", `"cwd":"link"`), code: codeLink, kind: abi.TypePermission},
		"beside with same prefix": {in: input("pwd", `"cwd":`+string(abi.String(b.dir+"x"))), code: codeOutside, kind: abi.TypePermission},
		"NUL in cwd":              {in: input("pwd", `"cwd":"a\u0000b"`), code: abi.CodeValidation, kind: abi.TypeValidation},
		"NUL in the command":      {in: input("ls \x00"), code: abi.CodeValidation, kind: abi.TypeValidation},
		"a variable's name":       {in: input("ls", `"env":{"A=B":"x"}`), code: abi.CodeValidation, kind: abi.TypeValidation},
		"no variable's name":      {in: input("ls", `"env":{"":"x"}`), code: abi.CodeValidation, kind: abi.TypeValidation},
		"NUL in a variable":       {in: input("ls", `"env":{"A":"\u0000"}`), code: abi.CodeValidation, kind: abi.TypeValidation},
		"a long command":          {in: input("true " + strings.Repeat("x", maxWord)), code: abi.CodeValidation, kind: abi.TypeValidation},
		"a long one, background":  {in: input("true "+strings.Repeat("x", maxWord), `"run_in_background":true`), code: abi.CodeValidation, kind: abi.TypeValidation},
		"a long variable":         {in: input("ls", `"env":{"A":"`+strings.Repeat("x", maxWord)+`"}`), code: abi.CodeValidation, kind: abi.TypeValidation},
		"wrong types":             {in: `{"command":1}`, code: abi.CodeValidation, kind: abi.TypeValidation},
		"empty":                   {in: `{}`, code: abi.CodeValidation, kind: abi.TypeValidation},
		"background, no session":  {in: input("ls", `"run_in_background":true`), edit: func(c *tool.Config) { c.SessionID = "" }, code: codeNoSession, kind: abi.TypeValidation},
	} {
		cfg := b.config(c.in)
		if c.edit != nil {
			c.edit(&cfg)
		}
		r := b.with(t.Context(), b.bash, cfg)
		if r.Error == nil || r.Error.Code != c.code || r.Error.Type != c.kind || r.Error.Message == "" {
			t.Errorf("%s: %+v, want %s", name, r.Error, c.code)
		}
		// What can be known before it runs is said before it runs.
		if err := b.bash.ValidateInput(t.Context(), tool.NewCall(cfg)); c.code != codeNoSession && abi.CodeOf(err) != c.code {
			t.Errorf("%s: before it runs: %v", name, err)
		}
	}
	b.s.opt.ReadOnlyDirs = []string{}
	if got, _ := tool.Resolve(b.bash, json.RawMessage(input("ls"))); got.ReadOnly {
		t.Errorf("without folders: %+v", got)
	}
	b.s.opt.Bash = filepath.Join(b.dir, "no-bash")
	for _, in := range []string{input("ls; ls"), input("ls", `"run_in_background":true`)} {
		if r := b.run(t.Context(), in); r.Error == nil || r.Error.Code != codeSpawn {
			t.Errorf("%+v", r.Error)
		}
	}
	// The session's own current folder may lie beside the workspace.
	cfg := b.config(input("pwd"))
	cfg.Snapshot.Cwd = outside
	b.s.opt.ReadOnlyDirs = systemDirs()
	if r := b.with(t.Context(), b.bash, cfg); !strings.Contains(string(r.Model), b.dir) {
		t.Errorf("%s", r.Model)
	}
}

// leftovers are the processes whose command line has this mark.
func leftovers(t testing.TB, mark string) (out []string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux lists processes in /proc")
	}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		cmdline, err := os.ReadFile(filepath.Join(d, "cmdline"))
		if err == nil && strings.Contains(string(cmdline), mark) && d != fmt.Sprintf("/proc/%d", os.Getpid()) {
			out = append(out, d+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return out
}

// trees are command lines that start processes in all the ways that are hard to
// find again. Each process sleeps for MARK seconds, a number that nobody else uses.
var trees = map[string]string{
	"child":               "sleep MARK; true",
	"pipe":                "sleep MARK | cat",
	"background job":      "sleep MARK & wait",
	"own session":         "setsid sleep MARK & wait",
	"forked twice":        "setsid -f sleep MARK; sleep MARK",
	"forked, no variable": "env -i /usr/bin/setsid -f /usr/bin/sleep MARK; sleep MARK",
	"job control":         "set -m; sleep MARK & sleep MARK",
	"disowned":            "sleep MARK & disown; nohup sleep MARK >/dev/null 2>&1 & sleep MARK",
	"ignores SIGTERM":     "trap '' TERM; sleep MARK & sleep MARK; sleep MARK",
	"ignores all":         "trap '' TERM INT HUP PIPE; (setsid bash -c 'trap \"\" TERM; while :; do sleep MARK; done') & while :; do sleep MARK; done",
	"many":                "for i in $(seq 50); do setsid sleep MARK & done; wait",
	"stopped":             "sleep MARK & kill -STOP $!; wait",
	"keeps forking":       "setsid bash -c 'while :; do setsid sleep MARK & sleep 0.02; done' & while :; do sleep MARK & sleep 0.02; done",
	"closed its output":   "setsid sleep MARK >/dev/null 2>&1 </dev/null & sleep MARK",
}

// The whole tree ends with a timeout, and with a cancelled call.
func TestBashEndsTree(t *testing.T) {
	b := newBench(t, Options{})
	n := 0
	for name, line := range trees {
		for _, cancelled := range []bool{false, true} {
			n++
			mark := fmt.Sprintf("%d.%d", 3000+n, os.Getpid())
			t.Run(fmt.Sprintf("%s, cancelled %v", name, cancelled), func(t *testing.T) {
				t.Parallel()
				b.endsTree(t, strings.ReplaceAll(line, "MARK", mark), mark, cancelled)
			})
		}
	}
}

func (b *bench) endsTree(t *testing.T, line, mark string, cancelled bool) {
	in, want := input(line, `"timeout":2000`), codeTimeout
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var wg sync.WaitGroup
	if cancelled {
		in, want = input(line), codeAborted
		wg.Go(func() {
			for len(leftovers(t, mark)) < 2 && ctx.Err() == nil {
				runtime.Gosched()
			}
			cancel(&tool.CancelError{Reason: abi.CancelRequest})
		})
	}
	r := b.run(ctx, in)
	cancel(nil)
	wg.Wait()
	if r.Error == nil || r.Error.Code != want {
		t.Errorf("%+v, want %s", r.Error, want)
	}
	if left := leftovers(t, mark); len(left) > 0 {
		t.Errorf("still there: %q", left)
	}
}

// What a foreground command leaves behind is ended with it.
func TestBashLeavesNothing(t *testing.T) {
	b := newBench(t, Options{})
	for i, line := range []string{"sleep MARK >/dev/null 2>&1 &", "setsid sleep MARK >/dev/null 2>&1 </dev/null &", "setsid -f sleep MARK >/dev/null 2>&1", "env -i /usr/bin/setsid -f /usr/bin/sleep MARK >/dev/null 2>&1", "(trap '' TERM; nohup sleep MARK >/dev/null 2>&1 &)"} {
		mark := fmt.Sprintf("%d.%d", 4000+i, os.Getpid())
		if got := b.line(strings.ReplaceAll(line, "MARK", mark)); *got.ExitCode != 0 {
			t.Errorf("%s: %+v", line, got)
		}
		if left := leftovers(t, mark); len(left) > 0 {
			t.Errorf("%s: still there: %q", line, left)
		}
	}
}

// A command line that no system takes is an error that says so, and one that is long
// works.
func TestBashLongCommands(t *testing.T) {
	b := newBench(t, Options{})
	if got := b.line("echo " + strings.Repeat("x", 100000) + " | wc -c"); got.Stdout != "100001" {
		t.Errorf("%+v", got)
	}
	long := "true " + strings.Repeat("x", maxWord-5)
	if got := b.line(long); *got.ExitCode != 0 {
		t.Errorf("%+v", got)
	}
	var env []string // each is short enough
	for n := range 40 {
		env = append(env, fmt.Sprintf(`"V%d":"%s"`, n, strings.Repeat("x", maxWord-10)))
	}
	if r := b.run(t.Context(), input("true", `"env":{`+strings.Join(env, ",")+`}`)); r.Error == nil || r.Error.Code != codeSpawn || !strings.Contains(r.Error.Message, "variables") {
		t.Errorf("%+v", r.Error)
	}
}

// What a command printed before it was ended is in the result.
func TestBashShowsWhatThereWas(t *testing.T) {
	b := newBench(t, Options{})
	r := b.run(t.Context(), input("echo start; echo oops >&2; sleep 600; true", `"timeout":1000`))
	if r.Error == nil || r.Error.Type != abi.TypeTimeout || r.Metadata["timeout"] != true || r.Metadata["stdout"] != "start\n" || r.Metadata["stderr"] != "oops\n" ||
		!strings.Contains(r.ModelText(), "start") || !strings.Contains(r.ModelText(), "oops") || r.Metadata["command"] == nil {
		t.Errorf("%+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := b.run(ctx, input("touch ran")); !r.IsError() {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "ran")); err == nil {
		t.Error("a call that was cancelled before it began did something")
	}
}

// Floods are kept at their ends only, and do not slow anything down for long.
func TestBashFloods(t *testing.T) {
	b := newBench(t, Options{})
	const total = 64 << 20
	r := b.run(t.Context(), input(fmt.Sprintf("echo begin; head -c %d /dev/zero | tr '\\0' x; echo; echo end", total)))
	var out bashOut
	if err := json.Unmarshal(r.Model, &out); err != nil {
		t.Fatalf("%+v", r)
	}
	if !strings.HasPrefix(out.Stdout, "begin\n") || !strings.HasSuffix(out.Stdout, "\nend") || utf16Len(out.Stdout) > 16000 || out.Truncation == "" || r.Metadata["stdout_length"] != int64(total+11) {
		t.Errorf("%d characters, %q, %v", len(out.Stdout), out.Truncation, r.Metadata["stdout_length"])
	}
	r = b.run(t.Context(), input("yes", `"timeout":1000`))
	if r.Error == nil || r.Error.Code != codeTimeout || len(r.ModelText()) > 40000 {
		t.Errorf("%+v", r.Error)
	}
}

// BLT-01 BLT-04 BLT-11: what a call does depends on its command, and only foreground
// commands with the session's own environment narrow.
func TestBashBehavior(t *testing.T) {
	b := newBench(t, Options{})
	yes, no := true, false
	for in, want := range map[string]struct {
		ro, destructive bool
		interrupt       abi.InterruptBehavior
	}{
		input("ls"): {yes, no, abi.InterruptCancel}, input("ls", `"cwd":"x"`): {yes, no, abi.InterruptCancel}, input("ls", `"env":{}`): {yes, no, abi.InterruptCancel},
		input("ls", `"env":{"LD_PRELOAD":"x.so"}`): {no, no, abi.InterruptCancel}, input("ls", `"run_in_background":true`): {no, no, abi.InterruptBlock},
		input("ls", `"run_in_background":"yes"`): {no, no, abi.InterruptBlock}, input("rm x"): {no, yes, abi.InterruptCancel},
		input("rm x", `"run_in_background":true`): {no, yes, abi.InterruptBlock}, input("make"): {no, no, abi.InterruptCancel}, `{}`: {no, no, abi.InterruptCancel}, `[]`: {no, no, abi.InterruptCancel}, `{"command":1}`: {no, no, abi.InterruptCancel},
	} {
		got, widened := tool.Resolve(b.bash, json.RawMessage(in))
		kind, effect := abi.KindExecute, abi.SideEffectNonIdempotent
		if want.ro {
			kind, effect = abi.KindReadOnly, abi.SideEffectPure
		}
		if got.Kind != kind || got.SideEffect != effect || got.ReadOnly != want.ro || got.ConcurrencySafe != want.ro || got.Destructive != want.destructive || got.Interrupt != want.interrupt || widened != 0 {
			t.Errorf("%s: %+v, widened %d", in, got, widened)
		}
	}
	if got, _ := tool.Resolve(b.bash, nil); got.Kind != abi.KindExecute || got.ReadOnly || got.ConcurrencySafe || got.Interrupt != abi.InterruptCancel {
		t.Errorf("%+v", got)
	}
	if got, _ := tool.Resolve(b.kill, json.RawMessage(`{"shell_id":"x"}`)); got.Kind != abi.KindExecute || got.SideEffect != abi.SideEffectIdempotent || got.Interrupt != abi.InterruptBlock || got.ConcurrencySafe {
		t.Errorf("%+v", got)
	}
}

// A narrowed command runs its words and no shell; what is named like a program in
// the workspace or in a variable is not run.
func TestNarrowedRunsNoShell(t *testing.T) {
	b := newBench(t, Options{})
	evil := "#!/bin/sh\ntouch " + filepath.Join(b.dir, "pwned") + "\n"
	for _, name := range []string{"ls", "cat", "git", "find"} {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(evil), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", b.dir+":.:"+os.Getenv("PATH"))
	t.Setenv("RIPGREP_CONFIG_PATH", filepath.Join(b.dir, "rc"))
	t.Setenv("GIT_EXTERNAL_DIFF", filepath.Join(b.dir, "git"))
	t.Setenv("LD_PRELOAD", filepath.Join(b.dir, "x.so"))
	name := "a\"$(touch pwned)\".txt"
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.s.opt.Bash = "/nonexistent/bash" // no shell is needed, so none is used
	for _, line := range []string{"ls", "cat ls", "find . -name ls", "git status", `cat 'a"$(touch pwned)".txt'`} {
		if _, ok := readOnly(line); !ok {
			t.Fatalf("%q does not narrow", line)
		}
		b.line(line)
	}
	if got := b.line(`cat 'a"$(touch pwned)".txt'`); got.Stdout != "text" {
		t.Errorf("%+v", got)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "pwned")); err == nil {
		t.Error("something was run that was not judged")
	}
}

// A repository whose settings name programs does not get them run by what counts
// as read-only.
func TestNarrowedGit(t *testing.T) {
	b := newBench(t, Options{})
	t.Setenv("HOME", b.dir)
	evil := filepath.Join(b.dir, "evil.sh")
	if err := os.WriteFile(evil, []byte("#!/bin/sh\ntouch '"+b.dir+"/pwned'\ncat\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	must := func(line string) {
		t.Helper()
		if got := b.line(line); got.ExitCode == nil || *got.ExitCode != 0 {
			t.Fatalf("%s: %+v", line, got)
		}
	}
	must("git init -q r && cd r && git config user.name n && git config user.email e && echo one > f.txt && printf '*.txt diff=d filter=x\n' > .gitattributes && git add . && git commit -qm one && echo two > f.txt")
	git := func(line string) *abi.Result { return b.run(t.Context(), input(line, `"cwd":"r"`)) }
	pwned := func() bool { _, err := os.Stat(filepath.Join(b.dir, "pwned")); return err == nil }
	for _, line := range []string{"git status", "git diff", "git branch", "git diff HEAD -- f.txt", "git status --porcelain"} {
		if r := git(line); r.IsError() || !strings.Contains(string(r.Model), `"exit_code":0`) {
			t.Errorf("%s: %s %+v", line, r.Model, r.Error)
		}
	}
	if r := git("git diff"); !strings.Contains(string(r.Model), "+two") {
		t.Errorf("%s", r.Model)
	}
	for _, set := range []string{"core.fsmonitor", "diff.external", "diff.d.textconv", "diff.d.command", "core.pager", "pager.diff", "core.hooksPath", "filter.x.clean", "filter.x.process"} {
		must("cd r && git config " + set + " '" + evil + "' && touch f.txt; cd ..; rm -f pwned")
		for _, line := range []string{"git status", "git diff", "git branch"} {
			r := git(line)
			if pwned() {
				t.Errorf("%s: %s ran it", set, line)
			}
			if strings.HasPrefix(set, "filter.") {
				if r.Error == nil || r.Error.Code != codeRepository || r.Error.Type != abi.TypePermission {
					t.Errorf("%s: %s: %+v", set, line, r.Error)
				}
			} else if r.IsError() {
				t.Errorf("%s: %s: %+v", set, line, r.Error)
			}
		}
		must("cd r && git config --unset " + set)
	}
	// A bare repository in the workspace, as a checkout may hold one.
	must("git init -q --bare bare && cd bare && git config core.fsmonitor '" + evil + "' && git config core.bare false && git config core.worktree .. ; rm -f ../pwned")
	if b.run(t.Context(), input("git status", `"cwd":"bare"`)); pwned() {
		t.Error("a bare repository's setting was run")
	}
}

// A person is asked where a read-only command looks outside, and where variables
// change what a command does; not in yolo mode.
func TestBashPermissions(t *testing.T) {
	b := newBench(t, Options{})
	if err := os.Symlink("/etc", filepath.Join(b.dir, "etc")); err != nil {
		t.Fatal(err)
	}
	for in, ask := range map[string]bool{
		input("ls"): false, input("cat a.txt"): false, input("cat '" + b.dir + "/x'"): false, input("cat /etc/passwd"): true, input("cat ../../x"): true, input("cat etc/passwd"): true, input("ls -la /tmp"): true,
		input("grep -r x /"): true, input("cat .env"): true, input("cat .ssh/id_rsa"): true, input("grep --exclude=/etc/x y z"): true, input("echo /etc/passwd"): false, input("basename /a/b"): false, input("find / -name x"): true, input("df -h"): false,
		input("cat /etc/passwd; true"):            false, // asked about by the mode
		input("make", `"env":{"LD_PRELOAD":"x"}`): true, input("make", `"env":{"PATH":"x"}`): true, input("make", `"env":{"FOO":"x"}`): false, input("pwd", `"cwd":"/"`): false,
	} {
		p, err := b.bash.CheckPermissions(t.Context(), tool.NewCall(b.config(in)))
		if err != nil || (p.Behavior == tool.PermissionAsk) != ask || p.Behavior == tool.PermissionDeny || (ask && p.Message == "") {
			t.Errorf("%s: %+v %v, want ask %v", in, p, err, ask)
		}
		c := b.config(in)
		c.Mode = "yolo"
		if p, _ := b.bash.CheckPermissions(t.Context(), tool.NewCall(c)); p.Behavior != tool.PermissionAllow {
			t.Errorf("%s in yolo mode: %+v", in, p)
		}
	}
	for in, want := range map[string]string{
		input("  npm test "): "npm test", input("npm test", `"env":{"B":"2","A":"1"}`): `npm test # with A="1" B="2"`, input("npm test", `"cwd":"x","timeout":2000`): "npm test",
	} {
		if got, rule := b.bash.PermissionSignature(json.RawMessage(in)); got != want || rule != "write:npm test" {
			t.Errorf("%s: %q %q", in, got, rule)
		}
	}
	if _, risks := b.bash.DescribeCall(json.RawMessage(input("rm x", `"env":{"PATH":"."}`))); len(risks) != 2 {
		t.Errorf("%q", risks)
	}
}

// Lenient input is taken, unknown members are dropped.
func TestBashNormalize(t *testing.T) {
	b := newBench(t, Options{})
	got, err := b.bash.NormalizeInput(json.RawMessage(`{"command":"x","timeout":" 2000 ","run_in_background":"No","description":"d"}`))
	var m map[string]any
	if err != nil || json.Unmarshal(got, &m) != nil || m["timeout"] != 2000.0 || m["run_in_background"] != false || len(m) != 3 {
		t.Errorf("%s %v", got, err)
	}
}

func suite(b *bench) func(*tool.Config) {
	return func(c *tool.Config) {
		c.SessionID, c.Mode = testSession, "default"
		c.Snapshot = &tool.Snapshot{Roots: []string{b.dir}, Cwd: b.dir}
	}
}

func TestBashSuite(t *testing.T) {
	b := newBench(t, Options{})
	tooltest.Run(t, tooltest.Case{
		New: func(testing.TB) tool.Tool { return newBash(b.s) }, Input: json.RawMessage(input("echo a; echo b >&2")), Slow: json.RawMessage(input("sleep 1000; true")),
		Bad:    []json.RawMessage{json.RawMessage(`{}`), json.RawMessage(`{"command":""}`), json.RawMessage(`{"command":"x","timeout":999}`), json.RawMessage(`{"command":"x","timeout":300001}`), json.RawMessage(`{"command":"x","more":1}`)},
		Config: suite(b),
	})
	tooltest.Run(t, tooltest.Case{
		New: func(testing.TB) tool.Tool { return newKillShell(b.s) }, Input: json.RawMessage(`{"shell_id":"bash_x"}`), Fails: true,
		Bad: []json.RawMessage{json.RawMessage(`{}`), json.RawMessage(`{"shell_id":""}`), json.RawMessage(`{"shell_id":1}`)}, Config: suite(b),
	})
	if names := Tools(Options{}); len(names) != 2 || names[0].Spec().Name != "Bash" || names[1].Spec().Name != "KillShell" {
		t.Error("the group has other tools")
	}
	if !slices.IsSortedFunc(b.bash.commandEnv(nil, nil, "/", "t"), strings.Compare) {
		t.Error("the environment is not in order")
	}
}
