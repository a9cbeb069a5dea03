package shell

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// CheckPermissions has a person asked about two things that a mode or a rule would
// let pass: a read-only command that looks at what the file tools would not read,
// and variables that change what a command does.
func (b *bash) CheckPermissions(_ context.Context, call *tool.Call) (tool.Permission, error) {
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
	for _, w := range words[1:] {
		for _, p := range pathsIn(w) {
			if v := judge.Judge(p, true); v.Behavior != tool.PermissionAllow {
				return tool.Permission{Behavior: tool.PermissionAsk, Message: quoted(p) + ": " + v.Reason}, nil
			}
		}
	}
	return allow, nil
}

// pathsIn are the paths that a word may name: itself, what follows an equals sign,
// and what is joined to a short flag. A word that is none is judged too; it then
// names nothing that exists.
func pathsIn(word string) []string {
	out := []string{}
	if !strings.HasPrefix(word, "-") {
		out = append(out, word)
	} else if i := strings.IndexAny(word, "/."); i > 0 {
		out = append(out, word[i:])
	}
	if _, v, ok := strings.Cut(word, "="); ok && v != "" {
		out = append(out, v)
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
