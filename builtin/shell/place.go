package shell

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// workingDir is the folder a command runs in: the one it names, else the
// session's. It is inside the session's roots, links followed. What is relative starts
// in the session's folder, or, if that lies beside the workspace, in the first root.
func workingDir(asked string, snap *tool.Snapshot) (string, error) {
	if len(snap.Roots) == 0 {
		return "", failure(abi.TypePermission, codeNoFilesystem,
			"commands need a workspace, and this session has none; start it with a root folder (bladehost: --root DIR)")
	}
	dir := asked
	switch {
	case dir == "" && snap.Cwd == "":
		return "", failure(abi.TypeValidation, codeNoCwd, "the session has no current folder; give cwd")
	case dir == "":
		dir = home(snap)
	case !filepath.IsAbs(dir):
		if snap.Cwd == "" {
			return "", failure(abi.TypeValidation, codeNoCwd, "cwd "+quoted(dir)+" is relative and the session has no current folder; give an absolute one")
		}
		dir = filepath.Join(home(snap), dir)
	}
	dir = filepath.Clean(dir)
	if strings.ContainsRune(dir, 0) {
		return "", invalid("/cwd", "it has a NUL byte")
	}
	if !inside(dir, snap.Roots) {
		if lexically(dir, snap.Roots) {
			return "", failure(abi.TypePermission, codeLink, "the folder "+quoted(dir)+" leads out of the workspace by a link; use a folder that is really inside "+strings.Join(snap.Roots, ", "))
		}
		return "", failure(abi.TypePermission, codeOutside,
			"the folder "+quoted(dir)+" is outside the workspace ("+strings.Join(snap.Roots, ", ")+"); use a folder inside it")
	}
	fi, err := os.Stat(dir)
	switch {
	case err != nil:
		return "", failure(abi.TypeValidation, codeCwdMissing, "the folder "+quoted(dir)+" cannot be used: "+reason(err))
	case !fi.IsDir():
		return "", failure(abi.TypeValidation, codeCwdMissing, quoted(dir)+" is not a folder")
	}
	return dir, nil
}

// home is where a session's commands run: who starts a session beside its workspace
// means the workspace.
func home(snap *tool.Snapshot) string {
	if inside(snap.Cwd, snap.Roots) {
		return snap.Cwd
	}
	return snap.Roots[0]
}

// inside reports whether a folder is in one of the roots once links are followed.
func inside(dir string, roots []string) bool {
	v := policy.Paths{Roots: roots}.Judge(dir, true)
	return v.Real != "" && slices.ContainsFunc(roots, func(r string) bool {
		return policy.Paths{Roots: []string{r}}.Judge(v.Real, true).Behavior != tool.PermissionDeny
	})
}

// lexically reports whether a folder is in one of the roots by its name alone.
func lexically(dir string, roots []string) bool {
	return slices.ContainsFunc(roots, func(r string) bool {
		rel, err := filepath.Rel(filepath.Clean(r), dir)
		return err == nil && filepath.IsLocal(rel)
	})
}

func reason(err error) string {
	if pe := new(fs.PathError); errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// quoted is a name for an error, cut if it is long.
func quoted(s string) string {
	const most = 200
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return "\"" + s + "\""
}

// passed are the variables of the host's environment that commands get.
var passed = [...]string{"PATH", "HOME", "LANG", "LANGUAGE", "TERM", "TMPDIR", "USER", "LOGNAME", "SHELL", "TZ"}

// passedWindows are what programs of Windows cannot do without.
var passedWindows = [...]string{"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "USERNAME", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "HOMEDRIVE", "HOMEPATH", "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE"}

// hostEnv is the part of the host's environment that commands get. What often
// holds credentials, or changes what programs do, is left out.
func (s *Shell) hostEnv() map[string]string {
	env := map[string]string{}
	for _, kv := range os.Environ() {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" {
			continue
		}
		up := name
		if runtime.GOOS == "windows" {
			up = strings.ToUpper(name)
		}
		if slices.Contains(passed[:], up) || strings.HasPrefix(up, "LC_") || slices.Contains(s.opt.PassEnv, name) ||
			(runtime.GOOS == "windows" && slices.Contains(passedWindows[:], up)) {
			env[name] = value
		}
	}
	return env
}

// commandEnv is the environment of a command that bash runs: the host's part, the
// session's, the call's, and two variables that nobody else sets.
func (s *Shell) commandEnv(session, asked map[string]string, dir, tag string) []string {
	env := s.hostEnv()
	for _, m := range []map[string]string{session, asked} {
		for k, v := range m {
			if k != "" && !strings.ContainsAny(k, "=\x00") && !strings.ContainsRune(v, 0) {
				env[k] = v
			}
		}
	}
	env["PWD"] = dir
	return listed(env, tag)
}

// readOnlyEnv is the environment of a read-only command: nothing in it names a
// program, but PATH, which has only the folders that its program may be in.
func (s *Shell) readOnlyEnv(dir, tag string) []string {
	env := s.hostEnv()
	for _, k := range s.opt.PassEnv {
		delete(env, k)
	}
	delete(env, "SHELL")
	env["PATH"] = strings.Join(s.opt.ReadOnlyDirs, string(filepath.ListSeparator))
	env["PWD"] = dir
	env["GIT_OPTIONAL_LOCKS"], env["GIT_NO_LAZY_FETCH"], env["GIT_TERMINAL_PROMPT"], env["GIT_PAGER"] = "0", "1", "0", "cat"
	return listed(env, tag)
}

func listed(env map[string]string, tag string) []string {
	env["BLADE_CLI"], env[tagName] = "1", tag
	out := make([]string, 0, len(env))
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}

// invalid is the error for one field that a schema cannot judge.
func invalid(pointer, message string) *abi.Error {
	return tool.InvalidIssues(abi.CodeValidation, "the input does not fit:", []abi.Issue{{Pointer: pointer, Message: message}})
}
