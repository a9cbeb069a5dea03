package fs

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// treeOf opens the tree below a path of a view.
func treeOf(t testing.TB, d *Dir, path string) *Tree {
	t.Helper()
	f, err := d.OpenFile(path, OpenFlags{Directory: true})
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	tr, err := f.Tree()
	must(t, err)
	return tr
}

func readTree(tr *Tree, path string) (string, error) {
	buf := make([]byte, 100)
	n, _, err := tr.Read(path, buf)
	return string(buf[:n]), err
}

func listTree(t testing.TB, tr *Tree, path string) string {
	t.Helper()
	f, err := tr.Folder(path)
	must(t, err)
	defer f.Close()
	list, err := f.List(nil)
	must(t, err)
	var out []string
	for _, e := range list {
		st, err := f.Lstat(e.Name)
		must(t, err)
		if st.Type != e.Type {
			t.Errorf("%s is %v in the listing, and %v", e.Name, e.Type, st.Type)
		}
		out = append(out, e.Name)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// A tree gives what Dir gives, and refuses every link and every path that is not plain.
func TestTree(t *testing.T) {
	eachBackend(t, func(t *testing.T, opt Options) {
		w := newWorld(t)
		w.plant(t)
		must(t, os.Mkdir(filepath.Join(w.root, "d", "e"), 0o755))
		must(t, os.WriteFile(filepath.Join(w.root, "d", "e", "g.txt"), []byte(strings.Repeat("g", 150)), 0o644))
		must(t, os.Symlink("inside.txt", filepath.Join(w.root, "good")))
		must(t, os.Symlink("d", filepath.Join(w.root, "gooddir")))
		v := mustOpen(t, w.root, opt).View(Limits{MaxOpen: 3})
		tr := treeOf(t, v.Root(), ".")
		for path, want := range map[string]string{"inside.txt": "inside", "d/f.txt": "f"} {
			if s, err := readTree(tr, path); err != nil || s != want {
				t.Errorf("%s: %q, %v", path, s, err)
			}
		}
		if s, err := readTree(treeOf(t, v.Root(), "gooddir/e"), "g.txt"); err != nil || s != strings.Repeat("g", 100) {
			t.Errorf("through a link to the start: %q, %v", s, err)
		}
		if got := listTree(t, tr, "d"); got != "e f.txt up" {
			t.Errorf("d has %s", got)
		}
		for _, p := range []string{"rel", "abs", "good", "chain2", "dangling", "gooddir"} {
			_, err := readTree(tr, p)
			wantErr(t, "read "+p, err, ELOOP)
			_, err = tr.Folder(p)
			wantErr(t, "folder "+p, err, ELOOP, ENOTDIR)
		}
		for _, p := range []string{"reldir/secret.txt", "absdir/secret.txt", "d/up/secret/secret.txt", "proc/etc/passwd", "chain2/secret.txt"} {
			_, err := readTree(tr, p)
			wantErr(t, "read "+p, err, ELOOP, ErrEscape)
			_, err = tr.Folder(filepath.ToSlash(filepath.Dir(p)))
			wantErr(t, "folder of "+p, err, ELOOP, ErrEscape, ENOTDIR)
		}
		for _, p := range []string{"", ".", "..", "../secret/secret.txt", "/etc/passwd", "d/../inside.txt", "d//f.txt", "d/", "./inside.txt", "inside.txt\x00", strings.Repeat("x", maxPath+1)} {
			if _, err := readTree(tr, p); err == nil {
				t.Errorf("read %q succeeded", p)
			}
			if f, err := tr.Folder(p); err == nil {
				f.Close()
				if p != "" {
					t.Errorf("folder %q succeeded", p)
				}
			}
		}
		if _, err := readTree(tr, "gooddir/f.txt"); tr.raw && ErrnoOf(err) != ELOOP {
			t.Errorf("a link on the way that stays inside: %v", err)
		}
		_, err := readTree(tr, "d")
		wantErr(t, "read a folder", err, EISDIR)
		_, err = tr.Folder("inside.txt")
		wantErr(t, "list a file", err, ENOTDIR)
		if n, all, err := tr.Read("inside.txt", make([]byte, 6)); n != 6 || all || err != nil {
			t.Errorf("a buffer that just fits: %d %v %v", n, all, err)
		}
		w.untouched(t)
	})
}

// What a grant denies is denied in its trees, from wherever they start, and after it is revoked nothing is read.
func TestTreeDenies(t *testing.T) {
	eachBackend(t, func(t *testing.T, opt Options) {
		w := newWorld(t)
		put(t, filepath.Join(w.root, "d", "no.txt"), "no")
		put(t, filepath.Join(w.root, "d", ".key"), "no")
		must(t, os.Symlink("d", filepath.Join(w.root, "l")))
		opt.Deny = []string{"d/no.txt", "**/.key"}
		g := mustOpen(t, w.root, opt)
		d := g.View(Limits{}).Root()
		for _, start := range []string{".", "d", "l"} {
			tr, at := treeOf(t, d, start), ""
			if start == "." {
				at = "d/"
			}
			if s, err := readTree(tr, at+"f.txt"); err != nil || s != "f" {
				t.Errorf("%s: %q %v", start, s, err)
			}
			for _, p := range []string{"no.txt", ".key"} {
				_, err := readTree(tr, at+p)
				wantErr(t, start+": "+p, err, ErrDenied)
			}
			if got := listTree(t, tr, strings.TrimSuffix(at, "/")); got != "f.txt" {
				t.Errorf("%s has %s", start, got)
			}
			f, err := tr.Folder(strings.TrimSuffix(at, "/"))
			must(t, err)
			defer f.Close()
			_, err = f.Lstat(".key")
			wantErr(t, "look at", err, ErrDenied)
		}
		tr := treeOf(t, d, ".")
		f, err := tr.Folder("d")
		must(t, err)
		defer f.Close()
		g.Revoke()
		_, err = readTree(tr, "inside.txt")
		wantErr(t, "read", err, ErrRevoked)
		_, err = tr.Folder("d")
		wantErr(t, "folder", err, ErrRevoked)
		_, err = f.List(nil)
		wantErr(t, "list", err, ErrRevoked)
		_, err = f.Lstat("f.txt")
		wantErr(t, "look at", err, ErrRevoked)
	})
}

// A folder that leaves the grant while it is open takes nothing along: paths start at the root of the grant.
func TestTreeMovedOut(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the paths are walked by name there")
	}
	w := newWorld(t)
	g := mustOpen(t, w.root, Options{})
	tr := treeOf(t, g.View(Limits{}).Root(), "d")
	if !tr.raw {
		t.Skip("the kernel has no openat2")
	}
	must(t, os.Rename(filepath.Join(w.root, "d"), filepath.Join(w.outside, "d")))
	if s, err := readTree(tr, "f.txt"); err == nil {
		t.Errorf("it reads %q", s)
	}
	must(t, os.Symlink("../secret/d", filepath.Join(w.root, "d")))
	_, err := readTree(tr, "f.txt")
	wantErr(t, "behind a link in its place", err, ELOOP)
}

// While a folder and a file change places with links outwards, no read and no listing shows anything from outside.
func TestTreeSwapRace(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs symbolic links and rename over open directories")
	}
	rounds := 20_000
	if testing.Short() {
		rounds = 3_000
	}
	eachBackend(t, func(t *testing.T, opt Options) {
		w := newWorld(t)
		p := func(n string) string { return filepath.Join(w.root, n) }
		must(t, os.WriteFile(filepath.Join(w.outside, "f.txt"), []byte("secret"), 0o644))
		w.before = tree(t, w.outside)
		must(t, os.Symlink("../secret", p("lnk")))
		must(t, os.Symlink("../secret/f.txt", p("flnk")))
		tr := treeOf(t, mustOpen(t, w.root, opt).View(Limits{}).Root(), ".")
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() { // ends with stop
			for {
				select {
				case <-stop:
					return
				default:
				}
				for _, x := range [][3]string{{"d", "spare", "lnk"}, {"inside.txt", "fspare", "flnk"}} {
					_ = os.Rename(p(x[0]), p(x[1]))
					_ = os.Rename(p(x[2]), p(x[0]))
					_ = os.Rename(p(x[0]), p(x[2]))
					_ = os.Rename(p(x[1]), p(x[0]))
				}
			}
		})
		good := 0
		for range rounds {
			for path, want := range map[string]string{"d/f.txt": "f", "inside.txt": "inside"} {
				if s, err := readTree(tr, path); err == nil && s == want {
					good++
				} else if s != "" {
					t.Errorf("%s: %q %v", path, s, err)
				}
			}
			f, err := tr.Folder("d")
			if err != nil {
				continue
			}
			list, _ := f.List(nil) // the portable one may lose the race
			if slices.ContainsFunc(list, func(e DirEntry) bool { return e.Name == "secret.txt" }) {
				t.Error("it lists what is outside")
			}
			f.Close()
		}
		close(stop)
		wg.Wait()
		w.untouched(t)
		t.Logf("%d of %d right", good, 2*rounds)
	})
}
