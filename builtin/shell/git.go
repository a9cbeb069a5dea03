package shell

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// configTime bounds the look at a repository's settings.
const configTime = 5 * time.Second

// harmlessGit begins the arguments of every git command here: the settings of a
// repository can name programs that git then runs, and these shut off those that a
// flag can.
func harmlessGit() []string {
	return []string{"git", "--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "safe.bareRepository=explicit"}
}

// askGit runs a git command of ours and gives what it prints.
func askGit(ctx context.Context, c command, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, configTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.path, append(harmlessGit()[1:], args...)...) //nolint:gosec // fixed words and judged operands
	cmd.Dir, cmd.Env = c.dir, c.env
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return string(out), err
}

// listSettings are the arguments that list the settings: a scope, an origin and a
// name each.
func listSettings() []string {
	return []string{"config", "--list", "--show-scope", "--show-origin", "--name-only", "-z"}
}

// gitSafe gives the arguments that a read-only git command runs with. A repository
// with a setting that no flag shuts off is refused.
//
// The judged words stay as they are; what is added can only restrict.
func gitSafe(ctx context.Context, c command) ([]string, error) {
	out, err := askGit(ctx, c, listSettings()...)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, failure(abi.TypePermission, codeRepository, "the settings of the repository cannot be read ("+err.Error()+"), so git does not count as read-only here; ask for it plainly: git -C . "+strings.Join(c.argv[1:], " "))
	}
	if key := runsPrograms(out); key != "" {
		return nil, failure(abi.TypePermission, codeRepository, "the repository's own settings have "+quoted(key)+
			", which makes git run a program, so git does not count as read-only here; remove the setting, or ask for it plainly: git -C . "+strings.Join(c.argv[1:], " "))
	}
	return safeArgs(c.argv), nil
}

func safeArgs(words []string) []string {
	argv := append(harmlessGit(), words[1])
	switch words[1] {
	case "diff":
		argv = append(argv, "--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
	case "status":
		argv = append(argv, "--ignore-submodules=all")
	}
	return append(argv, words[2:]...)
}

// gitLooks is why a person should be asked before git reads a repository, or "".
func (b *bash) gitLooks(ctx context.Context, call *tool.Call, words []string, judge policy.Paths) string {
	path, err := b.program("git")
	if err != nil {
		return ""
	}
	tag := b.newTag()
	c := command{path: path, dir: judge.Cwd, env: b.readOnlyEnv(judge.Cwd, tag), tag: tag}
	out, err := askGit(ctx, c, "rev-parse", "--path-format=absolute", "--show-toplevel", "--git-dir", "--git-common-dir")
	at := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if err != nil || len(at) != 3 {
		return "git finds no repository with a work tree here, so what it would read is not known"
	}
	top, own, common := at[0], at[1], at[2]
	objects := filepath.Join(common, "objects")
	for _, p := range []string{top, own, common, objects, filepath.Join(own, "HEAD"), filepath.Join(own, "index"), filepath.Join(common, "config"), filepath.Join(common, "refs"), filepath.Join(common, "packed-refs")} {
		if v := judge.Judge(p, true); v.Behavior != tool.PermissionAllow {
			return "git would read " + quoted(p) + " here: " + v.Reason
		}
	}
	if why := alternatesLook(objects, judge); why != "" {
		return why
	}
	settings, err := askGit(ctx, c, listSettings()...)
	if err != nil {
		return "the settings of the repository cannot be read: " + err.Error()
	}
	judge.Cwd = top
	f := strings.Split(settings, "\x00")
	for i := 0; i+2 < len(f); i += 3 {
		if p, ok := strings.CutPrefix(f[i+1], "file:"); ok && ofRepository(f[i]) {
			if v := judge.Judge(p, true); v.Behavior != tool.PermissionAllow {
				return "the repository's settings include " + quoted(p) + ": " + v.Reason
			}
		}
	}
	if key := runsPrograms(settings); key != "" {
		if policy.Mode(call.Mode()) == policy.ModePlan {
			return "" // nothing runs programs there, so Execute refuses it
		}
		b.agree(call)
		return "the repository's own settings have " + quoted(key) + ", which makes git run a program"
	}
	return b.diffLooks(ctx, c, words)
}

// alternatesLook is why the other places where a repository keeps objects should be
// asked about, or "".
func alternatesLook(objects string, judge policy.Paths) string {
	todo := []string{objects}
	for n := 0; n < len(todo); n++ {
		file := filepath.Join(todo[n], "info", "alternates")
		raw, err := os.ReadFile(file) //nolint:gosec // its folder was judged
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if v := judge.Judge(file, true); err != nil || v.Behavior != tool.PermissionAllow || len(todo) > 10 {
			return "git would read objects that " + quoted(file) + " names, which cannot be looked at first"
		}
		judge.Cwd = todo[n]
		for line := range strings.Lines(string(raw)) {
			if line = strings.TrimSuffix(line, "\n"); line == "" || line[0] == '#' {
				continue
			}
			v := judge.Judge(line, true)
			if v.Behavior != tool.PermissionAllow || line[0] == '"' {
				return "git would read objects of " + quoted(line) + ": " + v.Reason
			}
			todo = append(todo, v.Real)
		}
	}
	return ""
}

// diffLooks is why a person should be asked about a diff, or "": it shows what was and
// is in files that the file tools would not read.
func (b *bash) diffLooks(ctx context.Context, c command, words []string) string {
	if words[1] != "diff" {
		return ""
	}
	names := []string{"git", "diff"}
	for i, w := range words[2:] {
		if w == "--" {
			names = append(names, words[2+i:]...)
			break
		}
		if !strings.HasPrefix(w, "-") || w == "--cached" || w == "--staged" {
			names = append(names, w)
		}
	}
	names = slices.Insert(names, 2, "--name-only", "-z", "--no-renames")
	out, err := askGit(ctx, c, safeArgs(names)[len(harmlessGit()):]...)
	if err != nil {
		return "" // git says the same when it is run
	}
	for name := range strings.SplitSeq(out, "\x00") {
		if l := policy.Sensitivity(name); l == policy.SensitiveHigh || l == policy.SensitiveMedium {
			return "it would show what changed in " + quoted(name) + ", which may hold secrets"
		}
	}
	return ""
}

// maxAgreed bounds the calls that are remembered; those that nobody approved are
// among them.
const maxAgreed = 1000

// agree remembers that a person is asked about a call as one that runs programs, so
// that it is run as such.
func (s *Shell) agree(call *tool.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.agreed) >= maxAgreed {
		clear(s.agreed)
	}
	s.agreed[call.SessionID()+"\x00"+call.ToolCallID()] = true
}

// mayRunPrograms reports whether a call was asked about as one that runs programs, or
// is in a mode in which nothing is asked.
func (s *Shell) mayRunPrograms(call *tool.Call) bool {
	if policy.Mode(call.Mode()) == policy.ModeYolo {
		return true
	}
	key := call.SessionID() + "\x00" + call.ToolCallID()
	s.mu.Lock()
	defer s.mu.Unlock()
	ok := s.agreed[key]
	delete(s.agreed, key)
	return ok && call.ToolCallID() != ""
}

func ofRepository(scope string) bool { return scope == "local" || scope == "worktree" }

// runsPrograms is the first setting of the repository itself that names a program
// and that no flag shuts off. The list has scopes, origins and names in turn.
func runsPrograms(list string) string {
	f := strings.Split(list, "\x00")
	for i := 0; i+2 < len(f); i += 3 {
		if !ofRepository(f[i]) {
			continue
		}
		key := strings.ToLower(f[i+2])
		if strings.HasPrefix(key, "filter.") || key == "extensions.partialclone" || strings.HasPrefix(key, "remote.") && strings.HasSuffix(key, ".promisor") {
			return f[i+2]
		}
	}
	return ""
}
