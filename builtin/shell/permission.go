package shell

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// CheckPermissions has a person asked about what a mode or a rule would let pass: a
// read-only command that looks at what the file tools would not read, by its operands
// or because of what is in the folders that it goes through; git in a repository that
// leads out of the workspace or names programs; and variables that change what a
// command does.
func (b *bash) CheckPermissions(ctx context.Context, call *tool.Call) (tool.Permission, error) {
	allow := tool.Permission{Behavior: tool.PermissionAllow}
	in, err := b.read(call.Input)
	if err != nil {
		return allow, err
	}
	if policy.Mode(call.Mode()) == policy.ModeYolo {
		return allow, nil
	}
	if names := riskyEnv(in.Env); len(names) > 0 {
		return tool.Permission{Behavior: tool.PermissionAsk, Message: "it sets " + strings.Join(names, ", ") + ", which can change what programs do"}, nil
	}
	words, ok := b.narrowed(in)
	if !ok || ruleFor(words[0]).noPaths {
		return allow, nil
	}
	snap := call.Snapshot()
	dir, err := workingDir(in.Cwd, &snap)
	if err != nil {
		return allow, nil //nolint:nilerr // Execute says it in its own words
	}
	judge := policy.Paths{Roots: snap.Roots, Cwd: dir}
	why := ""
	for _, p := range pathsIn(words) {
		if v := judge.Judge(p, true); v.Behavior != tool.PermissionAllow {
			why = quoted(p) + ": " + v.Reason
			break
		}
	}
	if why == "" {
		why = b.looks(ctx, call, words, judge)
	}
	if ctx.Err() != nil {
		return allow, context.Cause(ctx)
	}
	if why != "" {
		return tool.Permission{Behavior: tool.PermissionAsk, Message: why}, nil
	}
	return allow, nil
}

// pathsIn are the paths that the words of a command may name: its operands, and what
// follows an equals sign. The values of short flags are none. A word that is no path
// is judged too; it then names nothing that exists.
func pathsIn(words []string) []string {
	out := words[1:]
	if r := ruleFor(words[0]); r.check == nil {
		out, _ = r.operands(out)
	}
	out = slices.Clone(out)
	for _, w := range words[1:] {
		if _, v, ok := strings.Cut(w, "="); ok {
			out = append(out, v)
		}
	}
	return slices.DeleteFunc(out, func(p string) bool { return p == "" || p == "." })
}

// riskyEnv are the variables of a call that are known to make programs run or load
// something else. The list cannot be complete; that is why no call with variables
// narrows, and why an approval covers them.
func riskyEnv(env map[string]string) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(env)) {
		up := strings.ToUpper(k)
		for _, p := range [...]string{"LD_", "DYLD_", "BASH_", "GIT_", "PYTHON", "PERL", "RUBY", "NODE_", "NPM_CONFIG_", "JAVA_", "_JAVA", "SSH_", "CARGO_", "GO", "RUST", "CC", "CXX"} {
			if strings.HasPrefix(up, p) {
				out = append(out, k)
				break
			}
		}
		switch up {
		case "PATH", "ENV", "IFS", "SHELLOPTS", "PS4", "PROMPT_COMMAND", "HOME", "XDG_CONFIG_HOME", "EDITOR", "VISUAL", "PAGER", "BROWSER", "MAKEFLAGS", "TMPDIR", "SHELL", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY":
			out = append(out, k)
		}
	}
	return out
}
