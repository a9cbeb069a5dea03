package fs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzOperations runs a random program of operations in two equal folders, one with the
// system's backend and one with the portable one. Each is the other's model: they must
// agree on what succeeds and on the tree that is left. Nothing outside may change, and
// whatever links are made, none may lead outside.
func FuzzOperations(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Add([]byte("\x05\x08\x00\x05\x03\x01\x02\x08\x03\x00\x01\x09"))
	f.Add([]byte("\x01\x02\x00\x01\x09\x00\x05\x0c\x09\x02\x02\x0a\x07\x04\x03\x03"))
	for i := range 8 {
		p := make([]byte, 90)
		for j := range p {
			p[j] = byte(j*j*(i+3) + 7*i)
		}
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, program []byte) { runProgram(t, program[:min(len(program), 300)]) })
}

func runProgram(t *testing.T, program []byte) {
	t.Helper()
	w := newWorld(t)
	w.plant(t)
	other := filepath.Join(filepath.Dir(w.root), "w2")
	copyTree(t, w.root, other)
	a := mustOpen(t, w.root, Options{AllowSymlinkCreation: true, Protect: []string{"d/no"}}).View(Limits{}).Root()
	b := mustOpen(t, other, Options{AllowSymlinkCreation: true, Protect: []string{"d/no"}, portable: true}).View(Limits{}).Root()
	for i := 0; i+2 < len(program); i += 3 {
		what, ea := step(a, program[i:i+3])
		_, eb := step(b, program[i:i+3])
		if (ea == nil) != (eb == nil) {
			t.Fatalf("step %d, %s: native %v, portable %v", i/3, what, ea, eb)
		}
	}
	w.untouched(t)
	if x, y := shape(t, w.root), shape(t, other); x != y {
		t.Fatalf("trees differ:\n%s\n--- portable:\n%s", x, y)
	}
	checkLinks(t, w)
}

var fuzzNames = [...]string{"x", "d", "d/x", "d/f.txt", "inside.txt", "d/e", "d/e/x", "rel", "reldir", "evil/", "../secret/secret.txt",
	"d/up/secret", "x/", "d/no", "d/../x", ".", "absdir/secret.txt", "d/e/..", "chain2/x", "dangling", "x/../../secret"}

// step runs one operation, chosen by three bytes.
func step(d *Dir, p []byte) (string, error) {
	name := func(i int) string { return fuzzNames[int(p[i])%len(fuzzNames)] }
	m, n := name(1), name(2)
	switch p[0] % 10 {
	case 0:
		return "write " + m, writeTo(d, m, string(p))
	case 1:
		return "mkdir " + m, d.Mkdir(m, 0)
	case 2:
		return "unlink " + m, d.Unlink(m)
	case 3:
		return "rmdir " + m, d.Rmdir(m)
	case 4:
		return "rename " + m + " " + n, d.Rename(m, d, n)
	case 5:
		return "symlink " + m + " " + n, d.Symlink(m, n)
	case 6:
		return "link " + m + " " + n, d.Link(m, d, n)
	case 7:
		return "truncate " + m, d.Truncate(m, int64(p[2]))
	case 8:
		_, err := d.Stat(m)
		return "stat " + m, err
	}
	_, err := readAll(d, m)
	return "read " + m, err
}

// shape is tree without times.
func shape(t testing.TB, dir string) string {
	t.Helper()
	var out []string
	for line := range strings.SplitSeq(tree(t, dir), "\n") {
		if i := strings.Index(line, " 20"); i >= 0 {
			line = line[:i]
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func copyTree(t testing.TB, from, to string) {
	t.Helper()
	must(t, filepath.WalkDir(from, func(p string, e os.DirEntry, err error) error {
		rel, _ := filepath.Rel(from, p)
		dst := filepath.Join(to, rel)
		switch {
		case err != nil:
			return err
		case e.IsDir():
			return os.MkdirAll(dst, 0o755)
		case e.Type()&os.ModeSymlink != 0:
			l, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return os.Symlink(l, dst)
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return os.WriteFile(dst, b, 0o644)
	}))
}

// checkLinks follows every link as another program would: only the planted ones may
// lead outside.
func checkLinks(t testing.TB, w *world) {
	t.Helper()
	planted := map[string]bool{}
	for _, l := range []string{"../secret/secret.txt", filepath.Join(w.outside, "secret.txt"), "../secret", w.outside, "../secret/",
		"reldir/", "chain1", "../secret/not-there", "../..", "/proc/self/root"} {
		planted[l] = true
	}
	must(t, filepath.WalkDir(w.root, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.Type()&os.ModeSymlink == 0 {
			return err
		}
		l, _ := os.Readlink(p)
		if planted[l] {
			return nil
		}
		rel, _ := filepath.Rel(w.root, p)
		if !insideLexically(filepath.ToSlash(rel), l) {
			return fmt.Errorf("link %s -> %s leads outside", rel, l)
		}
		return nil
	}))
}
