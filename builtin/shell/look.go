package shell

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// maxLooked bounds the files and folders that are looked at before a command that
// reads all of them runs.
const maxLooked = 100000

// looks is why a person should be asked about a read-only command whose operands are
// in order, or "": it reads files that it does not name.
func (b *bash) looks(ctx context.Context, call *tool.Call, words []string, judge policy.Paths) string {
	switch words[0] {
	case "git":
		return b.gitLooks(ctx, call, words, judge)
	case "diff": // of folders it compares what is in both, and follows links there
		if dirs := foldersIn(words, judge.Cwd); len(dirs) > 0 {
			return quoted(dirs[0]) + " is a folder, so diff compares all files in it, wherever links there lead"
		}
	case "grep", "egrep", "fgrep", "rg":
		if !readsBelow(words) {
			return ""
		}
		dirs := foldersIn(words, judge.Cwd)
		if len(dirs) == 0 {
			dirs = []string{judge.Cwd}
		}
		for _, d := range dirs {
			if why := secretsBelow(ctx, d); why != "" {
				return why
			}
		}
	}
	return ""
}

// readsBelow reports whether a search goes through folders and prints what it finds.
func readsBelow(words []string) bool {
	if words[0] == "rg" {
		return !slices.Contains(words, "--files") && !slices.Contains(words, "--type-list")
	}
	return slices.ContainsFunc(words[1:], func(w string) bool {
		return w == "--recursive" || strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && strings.Contains(w, "r")
	})
}

// foldersIn are the operands that are folders.
func foldersIn(words []string, cwd string) (out []string) {
	list, _ := ruleFor(words[0]).operands(words[1:])
	for _, p := range list {
		if !filepath.IsAbs(p) {
			p = cwd + string(filepath.Separator) + p
		}
		if fi, err := os.Stat(p); err == nil && fi.IsDir() {
			out = append(out, p)
		}
	}
	return out
}

var errEnough = errors.New("enough was seen")

// secretsBelow says which file below a folder usually holds secrets, or that the
// folder holds too much to know. Links are not followed, as searches do not.
func secretsBelow(ctx context.Context, dir string) (why string) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	left := maxLooked
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if left--; left < 0 {
			why = quoted(dir) + " holds more files than can be looked through for secrets first"
			return errEnough
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil || e.IsDir() || !e.Type().IsRegular() {
			return nil //nolint:nilerr // what cannot be read here is not read by the command either
		}
		if l := policy.Sensitivity(path); l == policy.SensitiveHigh || l == policy.SensitiveMedium {
			why = "it would read " + quoted(path) + " too, which may hold secrets"
			return errEnough
		}
		return nil
	})
	if err != nil && why == "" {
		why = quoted(dir) + " cannot be looked through for secrets first: " + err.Error()
	}
	return why
}
