package filesystem

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/file"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// Git's hooks and configuration are written by no tool: nested, through links, and before they exist.
func TestWriteProtectedNames(t *testing.T) {
	r := newRoom(t, map[string]string{".git/config": "[core]\n", ".git/hooks/old": "x\n", "a.txt": "x\n", "sub/x.txt": ""})
	r.link(".git/hooks", "hooks")
	r.link(".git/config", "cfg")
	r.link(".git", "g")
	for _, p := range []string{".git/config", ".git/hooks/old", "hooks/old", "cfg", "g/config"} {
		r.ok("Read", map[string]any{"file_path": p})
		r.fails("Write", map[string]any{"file_path": p, "content": "evil"}, file.CodeProtectedName, abi.TypePermission)
	}
	r.fails("Edit", map[string]any{"file_path": "cfg", "old_string": "[core]", "new_string": "[evil]"}, file.CodeProtectedName, abi.TypePermission)
	for _, p := range []string{".git/hooks/pre-commit", "hooks/pre-commit", "g/hooks/new", "sub/.git/hooks/x", "sub/.git/config", "new/.git/config", "sub/../.git/hooks/y", ".git//hooks/w", "a/b/.git/hooks/c/d"} {
		r.fails("Write", map[string]any{"file_path": p, "content": "evil"}, file.CodeProtectedName, abi.TypePermission)
	}
	// A write that failed leaves nothing behind.
	for _, p := range []string{"new", "sub/.git", "a"} {
		if _, err := os.Lstat(r.path(p)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is there: %v", p, err)
		}
	}
	if r.get(".git/config") != "[core]\n" {
		t.Error("changed")
	}
}

// What others obey is asked about also where changes are let pass; the rest is not.
func TestWriteObeyedAsks(t *testing.T) {
	r := newRoom(t, map[string]string{"a.txt": "x\n", ".vscode/tasks.json": "{}\n"})
	r.link(".vscode", "ed")
	s, err := r.h.NewSession(host.SessionOptions{ID: "auto", Mode: policy.ModeAutoEdit,
		Context: abi.RuntimeContext{Capabilities: &abi.ContextCapabilities{Filesystem: &abi.FilesystemFacet{Roots: []string{r.root}, Cwd: r.root}}}})
	if err != nil {
		t.Fatal(err)
	}
	for p, asked := range map[string]bool{
		"new.txt": false, "src/main.go": false, "vscode/tasks.json": false, "bashrc": false, "doc/git/config": false,
		".bashrc": true, ".envrc": true, ".vscode/launch.json": true, "ed/settings.json": true, "sub/.ENVRC": true, ".zshenv": true, ".git/info/attributes": true, ".gitmodules": true, ".husky/pre-push": true, ".github/workflows/x.yml": true, "blade.yaml": true, ".mcp.json": true, "x/../.profile": true, ".idea/workspace.xml": true,
	} {
		in := map[string]any{"content": "x"}
		in["file_path"] = "=" + r.root + "/" + p
		res := r.runIn(s, host.Call{Tool: "Write", Input: r.input(in)})
		if res.IsError() != asked {
			t.Errorf("%s: %v %+v", p, res.Status, res.Error)
		}
	}
}

// A file with several names is as it was when there is no room for its new bytes.
func TestReplaceNoRoom(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("limits of a process are set with prlimit here")
	}
	if dir := os.Getenv("BLADE_TEST_NO_ROOM"); dir != "" {
		ignoreFileSize()
		w := filepath.Join(dir, "w")
		r := newRoom(t, nil, Options{StateDir: filepath.Join(dir, "state"), AllowUnread: true, Ripgrep: "-"})
		res := r.runIn(r.session("s", w), host.Call{Tool: "Write", Input: r.input(map[string]any{"file_path": filepath.Join(w, "a"), "content": strings.Repeat("n", 3<<20)})})
		if !res.IsError() {
			t.Fatal("there was room")
		}
		t.Logf("%s: %s", res.Error.Code, res.Error.Message)
		return
	}
	prlimit, err := exec.LookPath("prlimit")
	if err != nil {
		t.Skip("no prlimit")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{10, 1 << 19} {
		dir := t.TempDir()
		old := strings.Repeat("o", size)
		if err := os.MkdirAll(filepath.Join(dir, "w"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "w", "a"), []byte(old), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(filepath.Join(dir, "w", "a"), filepath.Join(dir, "w", "b")); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(context.Background(), prlimit, "--fsize=1048576", self, "-test.run=^TestReplaceNoRoom$", "-test.v")
		cmd.Env = append(os.Environ(), "BLADE_TEST_NO_ROOM="+dir)
		out, err := cmd.CombinedOutput()
		b, _ := os.ReadFile(filepath.Join(dir, "w", "b"))
		if err != nil || string(b) != old || !strings.Contains(string(out), "io_error") {
			t.Errorf("%d bytes, not the %d old ones; %v %s", len(b), size, err, out)
		}
	}
}

// Errors about paths tell what is the matter.
func TestPathErrorsTold(t *testing.T) {
	r := newRoom(t, map[string]string{"a.txt": "x"})
	r.link("gone", "dangling")
	r.link(r.path("a.txt"), "absolute")
	in := map[string]any{"file_path": "=" + r.root + "/a\x00.txt"}
	res := r.direct("Read", tool.Config{Input: r.input(in)})
	if !res.IsError() || res.Error.Code != file.CodeArguments || !strings.Contains(res.Error.Message, "NUL") {
		t.Errorf("%+v", res.Error)
	}
	res = r.direct("Write", tool.Config{Input: r.input(map[string]any{"file_path": "dangling", "content": "x"})})
	if !res.IsError() || !strings.Contains(res.Error.Message, "link that leads to nothing") {
		t.Errorf("%+v", res.Error)
	}
	res = r.direct("Read", tool.Config{Input: r.input(map[string]any{"file_path": "absolute"})})
	if !res.IsError() || res.Error.Code != file.CodeEscape || !strings.Contains(res.Error.Message, "absolute") {
		t.Errorf("%+v", res.Error)
	}
}

// Mode bits stay, the set-id and sticky ones too.
func TestWriteKeepsBits(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no such bits")
	}
	r := newRoom(t, map[string]string{"a.sh": "x\n"})
	want := os.FileMode(0o751) | os.ModeSetuid | os.ModeSetgid | os.ModeSticky
	if err := os.Chmod(r.path("a.sh"), want); err != nil {
		t.Skipf("they cannot be set: %v", err)
	}
	if st, err := os.Stat(r.path("a.sh")); err != nil || st.Mode() != want {
		t.Skipf("they cannot be set: %v", err)
	}
	r.ok("Read", map[string]any{"file_path": "a.sh"})
	r.ok("Edit", map[string]any{"file_path": "a.sh", "old_string": "x", "new_string": "y"})
	if st, err := os.Stat(r.path("a.sh")); err != nil || st.Mode() != want {
		t.Errorf("%v, not %v; %v", st.Mode(), want, err)
	}
}

// The host's own folder is refused as such, also where nothing is there yet.
func TestWriteOwnState(t *testing.T) {
	r := newRoom(t, map[string]string{"home/x": ""})
	r.tools = Tools(Options{StateDir: r.path("home")})
	for _, p := range []string{"home/x", "home/new", "home/a/b/c", "home/.git/config"} {
		res := r.direct("Write", tool.Config{Input: r.input(map[string]any{"file_path": p, "content": "x"})})
		if !res.IsError() || res.Error.Code != file.CodeProtected {
			t.Errorf("%s: %+v", p, res.Error)
		}
	}
}

// A change of a file that is marked read-only is said to be one.
func TestWriteReadOnlyTold(t *testing.T) {
	r := newRoom(t, map[string]string{"a.txt": "x\n", "b.txt": "x\n"})
	if err := os.Chmod(r.path("a.txt"), 0o444); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(r.path("a.txt"), 0o644) }) // so that it can be removed
	for p, told := range map[string]bool{"a.txt": true, "b.txt": false} {
		r.ok("Read", map[string]any{"file_path": p})
		for _, res := range []*abi.Result{r.ok("Edit", map[string]any{"file_path": p, "old_string": "x", "new_string": "y"}), r.ok("Write", map[string]any{"file_path": p, "content": "z"})} {
			if strings.Contains(string(res.Model), "marked read-only") != told {
				t.Errorf("%s: %s", p, res.Model)
			}
		}
	}
}
