package filesystem

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/file"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/tool"
)

// Files are made and replaced, in every encoding, with their folders.
func TestWrite(t *testing.T) {
	r := newRoom(t, map[string]string{"old.txt": "before\n"})
	for _, c := range []struct {
		in   map[string]any
		want string
	}{
		{map[string]any{"file_path": "a.txt", "content": "x\r\ny\n"}, "x\r\ny\n"},
		{map[string]any{"file_path": "deep/er/b.txt", "content": ""}, ""},
		{map[string]any{"file_path": "c.bin", "content": "AAH/", "encoding": "base64"}, "\x00\x01\xff"},
		{map[string]any{"file_path": "d.bin", "content": "\x00ÿA", "encoding": "binary"}, "\x00\xffA"},
		{map[string]any{"file_path": "e.txt", "content": "é😀"}, "é😀"},
	} {
		name := c.in["file_path"].(string)
		res := r.ok("Write", c.in)
		if got := r.get(name); got != c.want || res.Metadata["file_size"] != len(c.want) || res.Metadata["created"] != true || res.Metadata["has_diff"] != false || res.Metadata["oldContent"] != "" {
			t.Errorf("%s: %q %v", name, got, res.Metadata)
		}
		if want := name == "deep/er/b.txt"; res.Metadata["directories_made"] != want {
			t.Errorf("%s: directories_made %v", name, res.Metadata["directories_made"])
		}
		// Again, without reading: what a session wrote it has seen.
		r.ok("Write", c.in)
	}
	if fi, err := os.Stat(r.path("deep")); err != nil || (runtime.GOOS != "windows" && fi.Mode().Perm()&^0o755 != 0) {
		t.Errorf("%v %v", fi.Mode(), err)
	}
	r.ok("Read", map[string]any{"file_path": "old.txt"})
	res := r.runIn(r.s, host.Call{Tool: "Write", MessageID: "m", Input: r.input(map[string]any{"file_path": "old.txt", "content": "after\n"})})
	if res.Metadata["has_diff"] != true || res.Metadata["oldContent"] != "before\n" || res.Metadata["newContent"] != "after\n" || res.Metadata["created"] != false || !strings.Contains(fmt.Sprint(res.Metadata["diff_snippet"]), `-before\n+after\n`) || res.Metadata["snapshot_created"] != true {
		t.Errorf("%v", res.Metadata)
	}
	if !strings.HasPrefix(string(res.Model), `{"file_path":"`+r.path("old.txt")+`","size":6,"modified":"20`) {
		t.Errorf("%s", res.Model)
	}
}

// A file is replaced as a whole: its mode stays, who has it open keeps the old bytes, nothing is
// left beside it; links stay links, and files with several names stay one file.
func TestWriteReplaces(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes and links are different there")
	}
	r := newRoom(t, map[string]string{"script.sh": "old", "real/target.txt": "old", "hard1": "old, and longer"})
	if err := os.Chmod(r.path("script.sh"), 0o751); err != nil {
		t.Fatal(err)
	}
	r.link("real/target.txt", "link")
	r.link("../link", "real/link2")
	if err := os.Link(r.path("hard1"), r.path("hard2")); err != nil {
		t.Fatal(err)
	}
	open, err := os.Open(r.path("script.sh"))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	for _, f := range []string{"script.sh", "real/link2", "hard1"} {
		r.ok("Read", map[string]any{"file_path": f})
		r.ok("Write", map[string]any{"file_path": f, "content": "new"})
	}
	b := make([]byte, 10)
	n, err := open.Read(b)
	if err != nil || string(b[:n]) != "old" {
		t.Errorf("who has it open reads %q %v", b[:n], err)
	}
	fi, err := os.Stat(r.path("script.sh"))
	if err != nil || fi.Mode().Perm() != 0o751 {
		t.Errorf("%v %v", fi.Mode(), err)
	}
	if r.get("real/target.txt") != "new" {
		t.Error("the target of the link is " + r.get("real/target.txt"))
	}
	for _, l := range []string{"link", "real/link2"} {
		if fi, err := os.Lstat(r.path(l)); err != nil || fi.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s is no link any more: %v %v", l, fi.Mode(), err)
		}
	}
	if r.get("hard2") != "new" {
		t.Errorf("the other name has %q", r.get("hard2"))
	}
	left, err := filepath.Glob(r.path(".blade-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q %v", left, err)
	}
}

// A file that changes between the look at it and the replacement is not overwritten.
func TestWriteLastLook(t *testing.T) {
	r := newRoom(t, map[string]string{"a": "one"})
	a, err := file.Open(tool.Snapshot{Roots: []string{r.root}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	target, err := a.File("/p", r.path("a"))
	if err != nil {
		t.Fatal(err)
	}
	st, err := target.Stat()
	if err != nil {
		t.Fatal(err)
	}
	r.put("a", "someone else's")
	if _, err := target.Replace(t.Context(), &st, []byte("mine"), false); abi.CodeOf(err) != file.CodeModified || r.get("a") != "someone else's" {
		t.Errorf("%v, %q", err, r.get("a"))
	}
	if err := os.Remove(r.path("a")); err != nil {
		t.Fatal(err)
	}
	if _, err := target.Replace(t.Context(), &st, []byte("mine"), false); abi.CodeOf(err) != file.CodeModified {
		t.Errorf("a file that has gone: %v", err)
	}
	r.put("a", "new one")
	if _, err := target.Replace(t.Context(), nil, []byte("mine"), false); abi.CodeOf(err) != file.CodeModified || r.get("a") != "new one" {
		t.Errorf("a file that has come: %v", err)
	}
	left, err := filepath.Glob(r.path(".blade-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q %v", left, err)
	}
}

// Every change by a message can be taken back, to the byte; what the session had is its own.
func TestRestore(t *testing.T) {
	r := newRoom(t, map[string]string{"a.txt": "first\xff\x00\r\n", "b.txt": "b1"})
	call := func(message, tl string, in map[string]any) *abi.Result {
		t.Helper()
		res := r.runIn(r.s, host.Call{Tool: tl, MessageID: message, Input: r.input(in)})
		if res.IsError() {
			t.Fatalf("%+v", res.Error)
		}
		return res
	}
	call("", "Read", map[string]any{"file_path": "a.txt"})
	call("", "Read", map[string]any{"file_path": "b.txt"})
	for i, m := range []string{"m1", "m1", "m2"} {
		if res := call(m, "Write", map[string]any{"file_path": "a.txt", "content": fmt.Sprint("v", i)}); res.Metadata["snapshot_created"] != true {
			t.Error("no copy")
		}
	}
	call("m2", "Edit", map[string]any{"file_path": "b.txt", "old_string": "b1", "new_string": "b2"})
	if res := call("", "Write", map[string]any{"file_path": "b.txt", "content": "b3"}); res.Metadata["snapshot_created"] != false {
		t.Error("a copy without a message")
	}
	h := OpenHistory(r.state) // as another process would
	for _, c := range []struct{ message, name, want string }{{"m2", "a.txt", "v1"}, {"m1", "a.txt", "first\xff\x00\r\n"}, {"m2", "b.txt", "b1"}} {
		if err := h.Restore(t.Context(), []string{r.root}, "s1", c.message, r.path(c.name)); err != nil {
			t.Fatal(err)
		}
		if got := r.get(c.name); got != c.want {
			t.Errorf("%s before %s is %q", c.name, c.message, got)
		}
	}
	// After that the session has to read again.
	r.fails("Write", map[string]any{"file_path": "a.txt", "content": "x"}, file.CodeModified, vErr)
	if err := os.Remove(r.path("a.txt")); err != nil {
		t.Fatal(err)
	}
	if err := h.Restore(t.Context(), []string{r.root}, "s1", "m2", r.path("a.txt")); err != nil || r.get("a.txt") != "v1" {
		t.Errorf("a file that has gone: %v", err)
	}
	for name, err := range map[string]error{
		"another session":  h.Restore(t.Context(), []string{r.root}, "s2", "m1", r.path("a.txt")),
		"another message":  h.Restore(t.Context(), []string{r.root}, "s1", "m9", r.path("a.txt")),
		"another file":     h.Restore(t.Context(), []string{r.root}, "s1", "m1", r.path("c.txt")),
		"outside of roots": h.Restore(t.Context(), []string{t.TempDir()}, "s1", "m1", r.path("a.txt")),
	} {
		if err == nil {
			t.Errorf("%s: restored", name)
		}
	}
	list, err := h.List("s1")
	if err != nil || len(list) != 3 {
		t.Errorf("%+v %v", list, err)
	}
}

// Copies are private, the newest ten of a file, checked, and go with the session where the folder is a
// temporary one.
func TestHistory(t *testing.T) {
	r := newRoom(t, map[string]string{"a.txt": "v0"})
	r.ok("Read", map[string]any{"file_path": "a.txt"})
	for i := 1; i <= 15; i++ {
		r.runIn(r.s, host.Call{Tool: "Write", MessageID: fmt.Sprint("m", i), Input: r.input(map[string]any{"file_path": "a.txt", "content": fmt.Sprint("v", i)})})
	}
	h := OpenHistory(r.state)
	list, err := h.List("s1")
	if err != nil || len(list) != 10 || list[0].MessageID != "m6" || list[9].Version != 15 {
		t.Errorf("%+v %v", list, err)
	}
	n := 0
	err = filepath.WalkDir(h.Dir(), func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		if runtime.GOOS != "windows" && fi.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %v", p, fi.Mode())
		}
		if !d.IsDir() {
			n++
		}
		return nil
	})
	if err != nil || n != 11 {
		t.Errorf("%d files, %v", n, err)
	}
	blobs, err := filepath.Glob(filepath.Join(h.Dir(), "*", list[9].SHA256))
	if err != nil || len(blobs) != 1 {
		t.Fatal(blobs, err)
	}
	if err := os.WriteFile(blobs[0], []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.Restore(t.Context(), []string{r.root}, "s1", "m15", r.path("a.txt")); err == nil || r.get("a.txt") != "v15" {
		t.Errorf("a damaged copy was restored: %v", err)
	}

	temp := newRoom(t, map[string]string{"a.txt": "v0"}, Options{})
	temp.ok("Read", map[string]any{"file_path": "a.txt"})
	res := temp.runIn(temp.s, host.Call{Tool: "Write", MessageID: "m", Input: temp.input(map[string]any{"file_path": "a.txt", "content": "v1"})})
	dir := temp.tools[0].(*native).core.history.Dir()
	if _, err := os.Stat(dir); err != nil || res.Metadata["snapshot_created"] != true {
		t.Errorf("%v %v", err, res.Metadata)
	}
	if err := temp.s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s stays: %v", dir, err)
	}
}

// An approval by a person who typed the call stands for the reading of the file.
func TestAllowUnread(t *testing.T) {
	r := newRoom(t, map[string]string{"a.txt": "x"}, Options{AllowUnread: true})
	r.put("b.txt", "old")
	if res := r.ok("Write", map[string]any{"file_path": "b.txt", "content": "new"}); res.Metadata["has_diff"] != true || res.Metadata["oldContent"] != "old" {
		t.Errorf("%v", res.Metadata)
	}
	r.ok("Edit", map[string]any{"file_path": "a.txt", "old_string": "x", "new_string": "y"})
	r.put("a.txt", "someone else")
	r.fails("Edit", map[string]any{"file_path": "a.txt", "old_string": "e", "new_string": "y", "replace_all": true}, file.CodeModified, vErr)
}

// A disk that is full, or a folder that cannot be written, leaves the old file as it was.
func TestWriteFails(t *testing.T) {
	if runtime.GOOS == "windows" || os.Getuid() == 0 {
		r := newRoom(t, map[string]string{"d/a.txt": "old"})
		r.ok("Read", map[string]any{"file_path": "d/a.txt"})
		// Root may write anywhere: a folder in the place of the file is refused as well.
		if err := os.Remove(r.path("d/a.txt")); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(r.path("d/a.txt"), 0o755); err != nil {
			t.Fatal(err)
		}
		if res := r.run("Write", map[string]any{"file_path": "d/a.txt", "content": "x"}); !res.IsError() {
			t.Error("a folder was replaced")
		}
		return
	}
	r := newRoom(t, map[string]string{"d/a.txt": "old"})
	r.ok("Read", map[string]any{"file_path": "d/a.txt"})
	if err := os.Chmod(r.path("d"), 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(r.path("d"), 0o755) }) // so that it can be removed
	r.fails("Write", map[string]any{"file_path": "d/a.txt", "content": "x"}, file.CodeIO, xErr)
	if r.get("d/a.txt") != "old" {
		t.Error("it was changed")
	}
}
