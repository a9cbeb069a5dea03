package shell

import (
	"context"
	"os/exec"
	"strings"
	"time"

	"github.com/bladehost/bladehost/abi"
)

// configTime bounds the look at a repository's settings.
const configTime = 5 * time.Second

// gitSafe gives the arguments that a read-only git command runs with. The settings
// of a repository can name programs that git then runs: those that a flag shuts
// off are shut off, and a repository with one of the others is refused.
//
// The judged words stay as they are; what is added can only restrict.
func gitSafe(ctx context.Context, c command) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, configTime)
	defer cancel()
	harmless := []string{"git", "--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "safe.bareRepository=explicit"}
	list := exec.CommandContext(ctx, c.path, append(harmless[1:len(harmless):len(harmless)], "config", "--list", "--show-scope", "--name-only", "-z")...) //nolint:gosec // fixed words
	list.Dir, list.Env = c.dir, c.env
	out, err := list.Output()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, failure(abi.TypePermission, codeRepository, "the settings of the repository cannot be read ("+err.Error()+"), so git does not count as read-only here; ask for it plainly: git -C . "+strings.Join(c.argv[1:], " "))
	}
	if key := runsPrograms(string(out)); key != "" {
		return nil, failure(abi.TypePermission, codeRepository, "the repository's own settings have "+quoted(key)+
			", which makes git run a program, so git does not count as read-only here; remove the setting, or ask for it plainly: git -C . "+strings.Join(c.argv[1:], " "))
	}
	argv := append(harmless, c.argv[1])
	switch c.argv[1] {
	case "diff":
		argv = append(argv, "--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
	case "status":
		argv = append(argv, "--ignore-submodules=all")
	}
	return append(argv, c.argv[2:]...), nil
}

// runsPrograms is the first setting of the repository itself that names a program
// and that no flag shuts off. The list alternates scopes and names.
func runsPrograms(list string) string {
	f := strings.Split(list, "\x00")
	for i := 0; i+1 < len(f); i += 2 {
		if f[i] != "local" && f[i] != "worktree" {
			continue
		}
		key := strings.ToLower(f[i+1])
		if strings.HasPrefix(key, "filter.") || key == "extensions.partialclone" || strings.HasPrefix(key, "remote.") && strings.HasSuffix(key, ".promisor") {
			return f[i+1]
		}
	}
	return ""
}
