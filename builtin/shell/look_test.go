package shell

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// put writes files below a folder, with their folders.
func put(t testing.TB, dir string, files ...string) {
	t.Helper()
	for _, f := range files {
		p := filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte("text\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// asked is what a person is asked about an input, or "".
func (b *bench) asked(c tool.Config) string {
	b.t.Helper()
	p, err := b.bash.CheckPermissions(b.t.Context(), tool.NewCall(c))
	if err != nil || p.Behavior == tool.PermissionDeny || (p.Behavior == tool.PermissionAsk) != (p.Message != "") {
		b.t.Fatalf("%s: %+v %v", c.Input, p, err)
	}
	return p.Message
}

// A person is asked where a read-only command reads files that it does not name
// itself, and those outside that it names in a roundabout way.
func TestNarrowedLooks(t *testing.T) {
	b := newBench(t, Options{})
	outside := t.TempDir()
	put(t, outside, "sub/x", "secret.txt")
	put(t, b.dir, "a.txt", "b.txt", "d1/a", "d2/a", "keys/id_rsa", "clean/a", "clean/deep/b", "env/.env")
	for link, to := range map[string]string{"lk": outside + "/sub", "-lk": outside, "clean/out": outside, "in": "clean/deep"} {
		if err := os.Symlink(to, filepath.Join(b.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]string{
		"cat lk/../secret.txt": "outside", "cat ./lk/.././secret.txt": "outside", "cat in/../a": "", "head -n 1 lk/../secret.txt": "outside", "grep text lk/../secret.txt": "outside", "find lk/.. -name x": "outside",
		"cat -- -lk/secret.txt": "outside", "cat a.txt -- -lk/secret.txt": "outside",
		"grep -r text .": "secrets", "grep -rn text": "secrets", "grep -nr text keys": "secrets", "grep --recursive text env": "secrets", "egrep -r text .": "secrets", "fgrep -hr text .": "secrets",
		"grep -r text clean": "", "grep -r text clean/deep d1": "", "grep text a.txt": "", "grep -n text a.txt b.txt": "", "grep -r text clean keys": "secrets",
		"diff d1 d2": "folder", "diff -r d1 d2": "folder", "diff a.txt d1": "folder", "diff a.txt b.txt": "",
		"cut -d/ -f1 a.txt": "", "cut -d / -f 1 a.txt": "", "sort -t/ -k2 a.txt": "", "cut -d / -f 1 /etc/passwd": "outside", "ls -R": "", "find . -name x": "", "du -a": "",
	} {
		got := b.asked(b.config(input(line)))
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	// In a folder of its own, the folder counts.
	if got := b.asked(b.config(input("grep -r text", `"cwd":"clean"`))); got != "" {
		t.Error(got)
	}
	if got := b.asked(b.config(input("grep -r text", `"cwd":"keys"`))); !strings.Contains(got, "secrets") {
		t.Error(got)
	}
	for words, want := range map[string]bool{"rg x": true, "rg -n x src": true, "rg --files": false, "grep -i x": false, "grep --recursive x": true, "grep -ir x": true} {
		if got := readsBelow(strings.Fields(words)); got != want {
			t.Errorf("%s: %v", words, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if why := secretsBelow(ctx, b.dir); why == "" {
		t.Error("who looked no further knows that there is nothing")
	}
}

// Git is asked about where the repository leads out of the workspace, or shows what
// the file tools would not.
func TestGitLooks(t *testing.T) {
	b := newBench(t, Options{})
	outside := t.TempDir()
	t.Setenv("HOME", outside)
	must := func(line string) {
		t.Helper()
		if got := b.line("set -e; out=" + outside + "; git config --global user.name n; git config --global user.email e\n" + line); got.ExitCode == nil || *got.ExitCode != 0 {
			t.Fatalf("%s: %+v", line, got)
		}
	}
	const repo = "git init -q R; cd R; echo one >f; git add f; git commit -qm one; echo two >f\n"
	for name, c := range map[string]struct {
		make string
		want string // "" for nothing
	}{
		"plain":               {"", ""},
		"work tree":           {"git config core.worktree /etc", "outside"},
		"work tree by a link": {"ln -s /etc w; git config core.worktree ../w", "outside"},
		"folder elsewhere":    {"mv .git $out/R.git; echo gitdir: $out/R.git >.git", "outside"},
		"folder by a link":    {"mv .git $out/R.git; ln -s $out/R.git .git", "outside"},
		"objects by a link":   {"mv .git/objects $out/R.o; ln -s $out/R.o .git/objects", "outside"},
		"index by a link":     {"mv .git/index $out/R.i; ln -s $out/R.i .git/index", "outside"},
		"common folder":       {"mkdir $out/R.c; cp -r .git/* $out/R.c; echo $out/R.c >.git/commondir", "outside"},
		"alternates":          {"mkdir $out/R.a; echo $out/R.a >.git/objects/info/alternates", "objects"},
		"alternates, far":     {"mkdir -p .git/a/info; echo ../a >.git/objects/info/alternates; echo $out >.git/a/info/alternates", "objects"},
		"alternates, near":    {"mkdir .git/a; echo ../a >.git/objects/info/alternates", ""},
		"include":             {"echo '[a]b=c' >$out/R.inc; git config include.path $out/R.inc", "include"},
		"include, near":       {"echo '[a]b=c' >.git/inc; git config include.path inc", ""},
		"runs programs":       {"git config filter.x.clean cat", "filter.x.clean"},
		"no repository":       {"rm -rf .git", "no repository"},
		"secrets":             {"echo x >.env; git add .env", ""},
		"no secrets":          {"echo x >.env", ""},
	} {
		dir := strings.NewReplacer(" ", "-", ",", "").Replace(name)
		must(strings.ReplaceAll(repo+c.make, "R", dir))
		for _, line := range []string{"git status", "git branch", "git diff", "git diff HEAD -- f"} {
			want := c.want
			if got := b.asked(b.config(input(line, `"cwd":"`+dir+`"`))); (got == "") != (want == "") || !strings.Contains(got, want) {
				t.Errorf("%s: %s: %q, want %q", name, line, got, want)
			}
		}
	}
	for line, want := range map[string]bool{"git diff --cached": true, "git diff HEAD": true, "git diff --staged -- .env": true, "git diff": false, "git diff HEAD -- f": false, "git status": false} {
		if got := b.asked(b.config(input(line, `"cwd":"secrets"`))); strings.Contains(got, "secrets") != want {
			t.Errorf("%s: %q, want %v", line, got, want)
		}
	}
	// The workspace lies below the repository.
	must("mkdir plain/sub")
	c := b.config(input("git status"))
	c.Snapshot.Roots, c.Snapshot.Cwd = []string{b.dir + "/plain/sub"}, b.dir+"/plain/sub"
	if got := b.asked(c); !strings.Contains(got, "outside") {
		t.Errorf("%q", got)
	}
}

// What was asked about as running programs is then run as bash runs it, once; what was
// not is refused.
func TestGitAskedRuns(t *testing.T) {
	b := newBench(t, Options{})
	t.Setenv("HOME", b.dir)
	b.line("git init -q; git config filter.x.clean cat")
	c := b.config(input("git status --porcelain"))
	c.ToolCallID = "c1"
	if r := b.with(t.Context(), b.bash, c); r.Error == nil || r.Error.Code != codeRepository {
		t.Errorf("%+v", r)
	}
	if got := b.asked(c); !strings.Contains(got, "filter.x.clean") {
		t.Fatalf("%q", got)
	}
	if r := b.with(t.Context(), b.bash, c); r.IsError() || !strings.Contains(string(r.Model), `"exit_code":0`) {
		t.Errorf("%s %+v", r.Model, r.Error)
	}
	if r := b.with(t.Context(), b.bash, c); r.Error == nil || r.Error.Code != codeRepository {
		t.Errorf("a second time: %+v", r)
	}
	c.Mode = "plan"
	if got := b.asked(c); got != "" {
		t.Errorf("in plan mode: %q", got)
	}
	if r := b.with(t.Context(), b.bash, c); r.Error == nil || r.Error.Code != codeRepository {
		t.Errorf("in plan mode: %+v", r)
	}
	c.Mode = "yolo"
	if r := b.with(t.Context(), b.bash, c); r.IsError() {
		t.Errorf("in yolo mode: %+v", r.Error)
	}
	for n := range maxAgreed + 10 {
		c.ToolCallID = strings.Repeat("x", n)
		b.s.agree(tool.NewCall(c))
	}
	if len(b.s.agreed) > maxAgreed {
		t.Errorf("%d calls are remembered", len(b.s.agreed))
	}
}

// A program that is in none of the folders is bash's to find, and which looks where
// bash does.
func TestNarrowedFindsWhatBashFinds(t *testing.T) {
	own := t.TempDir()
	for name, text := range map[string]string{"tree": "echo own tree", "my-own-program": "true"} {
		if err := os.WriteFile(filepath.Join(own, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", own+":"+os.Getenv("PATH"))
	b := newBench(t, Options{})
	if got := b.line("which my-own-program"); got.Stdout != filepath.Join(own, "my-own-program") {
		t.Errorf("%+v", got)
	}
	c := b.config(input("which my-own-program"))
	c.Snapshot.Environment = map[string]string{"PATH": "/usr/bin:/bin"}
	if r := b.with(t.Context(), b.bash, c); !strings.Contains(string(r.Model), `"stdout":""`) {
		t.Errorf("with the session's PATH: %s", r.Model)
	}
	b.s.opt.ReadOnlyDirs = []string{"relative", t.TempDir()}
	if got, _ := tool.Resolve(b.bash, json.RawMessage(input("tree"))); got.ReadOnly {
		t.Errorf("%+v", got)
	}
	if got := b.line("tree"); got.Stdout != "own tree" {
		t.Errorf("%+v", got)
	}
	if got := b.asked(b.config(input("tree /"))); got != "" {
		t.Errorf("the mode asks about it: %q", got)
	}
}

// What is relative starts in the session's folder if that is in the workspace, else in
// the first root.
func TestWorkingDir(t *testing.T) {
	root, second, beside := t.TempDir(), t.TempDir(), t.TempDir()
	put(t, root, "src/x", "sub/src/x")
	put(t, second, "src/x")
	put(t, beside, "src/x")
	for _, c := range []struct{ cwd, asked, want string }{
		{root, "src", root + "/src"}, {root + "/sub", "src", root + "/sub/src"}, {beside, "src", root + "/src"}, {beside, "", root}, {second, "src", second + "/src"}, {second, "", second},
		{beside, second + "/src", second + "/src"}, {beside, ".", root}, {beside, beside, ""}, {beside, "../" + filepath.Base(beside), ""}, {root, "..", ""},
	} {
		got, err := workingDir(c.asked, &tool.Snapshot{Roots: []string{root, second}, Cwd: c.cwd})
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%+v: %q %v", c, got, err)
		}
	}
}

// A folder that cannot be entered is told from a program that cannot be run.
func TestSpawnError(t *testing.T) {
	sh, err := newBench(t, Options{}).s.bash()
	if err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		path string
		err  error
		code abi.Code
	}{
		{sh, &fs.PathError{Op: "fork/exec", Path: sh, Err: syscall.EACCES}, codeCwdMissing},
		{sh, &fs.PathError{Op: "fork/exec", Path: sh, Err: syscall.ENOENT}, codeCwdMissing},
		{sh, &fs.PathError{Op: "fork/exec", Path: sh, Err: syscall.ENOMEM}, codeSpawn},
		{"/nowhere/bash", &fs.PathError{Op: "fork/exec", Path: "/nowhere/bash", Err: syscall.ENOENT}, codeSpawn},
	} {
		if got := spawnError(command{path: c.path, dir: "/the/folder"}, c.err); got.Code != c.code || strings.Contains(got.Message, "/the/folder") != (c.code == codeCwdMissing) {
			t.Errorf("%v: %+v", c.err, got)
		}
	}
}
