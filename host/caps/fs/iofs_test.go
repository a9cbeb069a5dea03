package fs

import (
	"errors"
	iofs "io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

func TestIOFS(t *testing.T) {
	eachBackend(t, func(t *testing.T, opt Options) {
		w := newWorld(t)
		must(t, os.MkdirAll(filepath.Join(w.root, "a", "b"), 0o755))
		put(t, filepath.Join(w.root, "a", "b", "c.txt"), "c")
		v := mustOpen(t, w.root, opt).View(Limits{MaxOpen: -1})
		if err := fstest.TestFS(v.Root().FS(), "inside.txt", "d/f.txt", "a/b/c.txt"); err != nil {
			t.Fatal(err)
		}
		w.plant(t)
		fsys := v.Root().FS()
		for _, name := range []string{"rel", "reldir/secret.txt", "../secret/secret.txt", "/etc/passwd", "none"} {
			if _, err := iofs.ReadFile(fsys, name); err == nil {
				t.Errorf("read %s", name)
			} else if p := new(iofs.PathError); !errors.As(err, &p) {
				t.Errorf("%s: %T", name, err)
			}
		}
		var seen []string
		must(t, iofs.WalkDir(fsys, ".", func(p string, e iofs.DirEntry, err error) error {
			seen = append(seen, p)
			return err
		}))
		if s := strings.Join(seen, " "); strings.Contains(s, "secret.txt") || !strings.Contains(s, "a/b/c.txt") {
			t.Errorf("walk: %s", s)
		}
		if st, err := iofs.Lstat(fsys, "rel"); err != nil || st.Mode()&iofs.ModeSymlink == 0 {
			t.Errorf("lstat: %v %v", st, err)
		}
		if v.Usage().Open != 0 {
			t.Errorf("%+v", v.Usage())
		}
	})
}

// TestRandomPrograms is FuzzOperations with fixed seeds.
func TestRandomPrograms(t *testing.T) {
	programs := 150
	if testing.Short() {
		programs = 20
	}
	for seed := range programs {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		p := make([]byte, 240)
		for i := range p {
			p[i] = byte(r.Uint32())
		}
		runProgram(t, p)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
