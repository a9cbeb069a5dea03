package fs

import (
	"errors"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

// eachBackend runs a test with the system's backend and with the portable one.
func eachBackend(t *testing.T, f func(t *testing.T, opt Options)) {
	t.Helper()
	t.Run("native", func(t *testing.T) { f(t, Options{}) })
	t.Run("walk", func(t *testing.T) { f(t, Options{walk: true}) })
	t.Run("portable", func(t *testing.T) { f(t, Options{portable: true}) })
}

func mustOpen(t testing.TB, dir string, opt Options) *Grant {
	t.Helper()
	g, err := Open(dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

// world is a folder to grant, and a secret beside it.
type world struct {
	root, outside string
	before        string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	base := t.TempDir()
	w := &world{root: filepath.Join(base, "w"), outside: filepath.Join(base, "secret")}
	for _, d := range []string{w.root, w.outside, filepath.Join(w.outside, "dir"), filepath.Join(w.root, "d")} {
		must(t, os.Mkdir(d, 0o755))
	}
	put(t, filepath.Join(w.outside, "secret.txt"), "secret")
	put(t, filepath.Join(w.outside, "dir", "deep.txt"), "deep")
	put(t, filepath.Join(w.root, "inside.txt"), "inside")
	put(t, filepath.Join(w.root, "d", "f.txt"), "f")
	w.before = tree(t, w.outside)
	return w
}

// untouched fails when anything outside has changed.
func (w *world) untouched(t testing.TB) {
	t.Helper()
	if now := tree(t, w.outside); now != w.before {
		t.Fatalf("outside changed:\n%s\nwas\n%s", now, w.before)
	}
}

// tree describes a folder: names, kinds, modes, times, sizes, link counts by content.
func tree(t testing.TB, dir string) string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(dir, func(p string, e iofs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := os.Lstat(p)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		line := rel + " " + st.Mode().String()
		switch {
		case st.Mode().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			line += " " + string(b) + " " + st.ModTime().String()
		case st.Mode()&iofs.ModeSymlink != 0:
			l, _ := os.Readlink(p)
			line += " -> " + l
		}
		lines = append(lines, line)
		return nil
	})
	must(t, err)
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

// wantErr compares by Errno.
func wantErr(t testing.TB, what string, err error, want ...Errno) {
	t.Helper()
	got := ErrnoOf(err)
	for _, w := range want {
		if got == w {
			return
		}
	}
	t.Errorf("%s: got %v (%s), want %v", what, err, got.Code(), want)
}

func readAll(d *Dir, path string) (string, error) {
	b, err := d.ReadFile(path, 0)
	return string(b), err
}

func writeTo(d *Dir, path, text string) error {
	f, err := d.OpenFile(path, OpenFlags{Write: true, Create: true, Truncate: true})
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write([]byte(text))
	return err
}

func names(t testing.TB, f *File) []string {
	t.Helper()
	var out []string
	for cookie := uint64(0); ; {
		list, err := f.ReadDir(cookie, 3)
		must(t, err)
		if len(list) == 0 {
			break
		}
		for _, e := range list {
			cookie = e.Next
			if e.Name != "." && e.Name != ".." {
				out = append(out, e.Name)
			}
		}
	}
	sort.Strings(out)
	return out
}

func ignoreEOF(n int, err error) (int, error) {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}
