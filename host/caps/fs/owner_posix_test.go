//go:build linux || darwin

package fs

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A file that is replaced keeps its owner and its mode; without the right to give files away it
// gets the owner of the process.
func TestReplaceKeepsOwner(t *testing.T) {
	dir := t.TempDir()
	p := filepath.Join(dir, "f")
	if err := errors.Join(os.WriteFile(p, []byte("old"), 0o600), os.Chmod(p, 0o640)); err != nil { // whatever the umask
		t.Fatal(err)
	}
	want := uint32(os.Getuid())
	if want == 0 {
		want = 54321
		if err := os.Chown(p, int(want), int(want)); err != nil {
			t.Fatal(err)
		}
	}
	g, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	err = g.View(Limits{}).Root().WriteAtomic("f", 0, func(w io.Writer) error {
		_, err := w.Write([]byte("new"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(p)
	if err != nil {
		t.Fatal(err)
	}
	if st := fi.Sys().(*syscall.Stat_t); st.Uid != want || fi.Mode().Perm() != 0o640 {
		t.Errorf("owner %d, mode %v", st.Uid, fi.Mode())
	}
}
