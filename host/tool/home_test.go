package tool

import (
	"os"
	"path/filepath"
	"testing"
)

// Relative paths start in the workspace, wherever the session was started.
func TestHome(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws, beside := filepath.Join(dir, "ws"), filepath.Join(dir, "ws-2")
	for _, d := range []string{filepath.Join(ws, "sub"), beside} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	in := filepath.Join(beside, "in")
	if err := os.Symlink(filepath.Join(ws, "sub"), in); err != nil {
		t.Skipf("no links: %v", err)
	}
	for _, c := range []struct {
		roots     []string
		cwd, want string
	}{
		{nil, "", ""},
		{nil, beside, beside},
		{[]string{ws}, "", ""},
		{[]string{ws}, ws, ws},
		{[]string{ws}, filepath.Join(ws, "sub"), filepath.Join(ws, "sub")},
		{[]string{ws}, filepath.Join(ws, "gone"), filepath.Join(ws, "gone")},
		{[]string{ws}, beside, ws},
		{[]string{ws}, dir, ws},
		{[]string{ws}, in, filepath.Join(ws, "sub")},
		{[]string{filepath.Join(ws, "sub"), beside}, ws, filepath.Join(ws, "sub")},
		{[]string{ws, beside}, beside, beside},
	} {
		if got := (Snapshot{Roots: c.roots, Cwd: c.cwd}).Home(); got != c.want {
			t.Errorf("%v %s: %s, not %s", c.roots, c.cwd, got, c.want)
		}
	}
}
