package fs

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// TestGuestProbes plays the guest of the study: it starts in a clean grant, may make
// links, and tries to get out. Every row must fail and leave no trace outside.
func TestGuestProbes(t *testing.T) {
	probes := []struct {
		name string
		try  func(d *Dir) error
	}{
		{"dotdot", func(d *Dir) error { _, err := readAll(d, "../secret/secret.txt"); return err }},
		{"dotdot through a directory", func(d *Dir) error { _, err := readAll(d, "d/../../secret/secret.txt"); return err }},
		{"absolute", func(d *Dir) error { _, err := readAll(d, "/etc/passwd"); return err }},
		{"open the parent", func(d *Dir) error { _, err := d.OpenFile("..", OpenFlags{Directory: true}); return err }},
		{"open the parent with a slash", func(d *Dir) error { _, err := d.OpenFile("../", OpenFlags{}); return err }},
		{"stat the parent", func(d *Dir) error { _, err := d.Stat(".."); return err }},
		{"absolute link", func(d *Dir) error { return d.Symlink("/etc/passwd", "abs") }},
		{"link up", func(d *Dir) error { return d.Symlink("..", "up") }},
		{"link up with a slash", func(d *Dir) error { return d.Symlink("../", "up2") }},
		{"link to the secret", func(d *Dir) error { return d.Symlink("../secret/secret.txt", "rel") }},
		{"link up from below", func(d *Dir) error { return d.Symlink("../../secret", "d/up") }},
		{"link that climbs late", func(d *Dir) error { return d.Symlink("d/../../secret", "late") }},
		{"link through a link to less depth", func(d *Dir) error {
			if err := d.Symlink("..", "d/top"); err != nil {
				return nil // the first step is allowed: it stays inside
			}
			return d.Symlink("d/top/..", "out")
		}},
		{"move a link up", func(d *Dir) error {
			if err := d.Symlink("../inside.txt", "d/back"); err != nil {
				return nil
			}
			return d.Rename("d/back", d, "moved")
		}},
		{"hard-link a link up", func(d *Dir) error {
			if err := d.Symlink("../inside.txt", "d/back2"); err != nil {
				return nil
			}
			return d.Link("d/back2", d, "moved2")
		}},
		{"move a directory with a link up", func(d *Dir) error {
			if d.MkdirAll("a/b/c", 0) != nil || d.Symlink("../../../inside.txt", "a/b/c/l") != nil {
				return nil
			}
			return d.Rename("a/b/c", d, "c")
		}},
		{"rename out", func(d *Dir) error { return d.Rename("inside.txt", d, "../stolen.txt") }},
		{"rename in", func(d *Dir) error { return d.Rename("../secret/secret.txt", d, "got.txt") }},
		{"hard link in", func(d *Dir) error { return d.Link("../secret/secret.txt", d, "hard") }},
		{"hard link out", func(d *Dir) error { return d.Link("inside.txt", d, "../secret/new") }},
		{"mkdir out", func(d *Dir) error { return d.Mkdir("../secret/newdir", 0) }},
		{"unlink out", func(d *Dir) error { return d.Unlink("../secret/secret.txt") }},
		{"rmdir out", func(d *Dir) error { return d.Rmdir("../secret/dir") }},
		{"create out", func(d *Dir) error { return writeTo(d, "../secret/new", "x") }},
		{"times out", func(d *Dir) error {
			return d.SetTimes("../secret/secret.txt", true, TimeSet{Now: true}, TimeSet{Now: true})
		}},
		{"truncate out", func(d *Dir) error { return d.Truncate("../secret/secret.txt", 0) }},
		{"NUL", func(d *Dir) error { _, err := readAll(d, "inside.txt\x00/../../secret/secret.txt"); return err }},
		{"empty", func(d *Dir) error { _, err := d.Stat(""); return err }},
	}
	eachBackend(t, func(t *testing.T, opt Options) {
		for _, p := range probes {
			t.Run(p.name, func(t *testing.T) {
				w := newWorld(t)
				opt.AllowSymlinkCreation = true
				d := mustOpen(t, w.root, opt).View(Limits{}).Root()
				if err := p.try(d); err == nil {
					t.Error("succeeded")
				}
				w.untouched(t)
			})
		}
	})
}

// plant makes links that somebody else could have left in the folder.
func (w *world) plant(t testing.TB) {
	t.Helper()
	for name, target := range map[string]string{
		"rel":      "../secret/secret.txt",
		"abs":      filepath.Join(w.outside, "secret.txt"),
		"reldir":   "../secret",
		"absdir":   w.outside,
		"evil":     "../secret/",
		"chain1":   "reldir/",
		"chain2":   "chain1",
		"dangling": "../secret/not-there",
		"d/up":     "../..",
		"proc":     "/proc/self/root",
	} {
		must(t, os.Symlink(target, filepath.Join(w.root, name)))
	}
}

// TestPlantedLinks tries every operation through links that lead outside.
func TestPlantedLinks(t *testing.T) {
	now := TimeSet{Now: true}
	ops := []struct {
		name string
		try  func(d *Dir) error
	}{
		{"open relative link", func(d *Dir) error { _, err := readAll(d, "rel"); return err }},
		{"open absolute link", func(d *Dir) error { _, err := readAll(d, "abs"); return err }},
		{"open in linked dir", func(d *Dir) error { _, err := readAll(d, "reldir/secret.txt"); return err }},
		{"open in absolute linked dir", func(d *Dir) error { _, err := readAll(d, "absdir/secret.txt"); return err }},
		{"open by d/up", func(d *Dir) error { _, err := readAll(d, "d/up/secret/secret.txt"); return err }},
		{"open through /proc", func(d *Dir) error { _, err := readAll(d, "proc/etc/passwd"); return err }},
		{"list linked dir", func(d *Dir) error { _, err := d.OpenFile("reldir", OpenFlags{Directory: true}); return err }},
		{"list with slash", func(d *Dir) error { _, err := d.OpenFile("evil/", OpenFlags{}); return err }},
		{"list chain with slash", func(d *Dir) error { _, err := d.OpenFile("chain2/", OpenFlags{}); return err }},
		{"open for writing", func(d *Dir) error { return writeTo(d, "rel", "x") }},
		{"create with CREAT on link", func(d *Dir) error {
			_, err := d.OpenFile("abs", OpenFlags{Read: true, Write: true, Create: true})
			return err
		}},
		{"create in linked dir", func(d *Dir) error { return writeTo(d, "reldir/new", "x") }},
		{"create through dangling link", func(d *Dir) error { return writeTo(d, "dangling", "x") }},
		{"truncate", func(d *Dir) error { return d.Truncate("rel", 0) }},
		{"open with truncate", func(d *Dir) error { _, err := d.OpenFile("rel", OpenFlags{Truncate: true}); return err }},
		{"stat", func(d *Dir) error { _, err := d.Stat("rel"); return err }},
		{"stat slash", func(d *Dir) error { _, err := d.Stat("evil/"); return err }},
		{"lstat slash", func(d *Dir) error { _, err := d.Lstat("evil/"); return err }},
		{"lstat inside", func(d *Dir) error { _, err := d.Lstat("reldir/secret.txt"); return err }},
		{"mkdir", func(d *Dir) error { return d.Mkdir("reldir/m", 0) }},
		{"mkdir dangling slash", func(d *Dir) error { return d.Mkdir("dangling/", 0) }},
		{"rename into", func(d *Dir) error { return d.Rename("inside.txt", d, "reldir/got") }},
		{"rename out of", func(d *Dir) error { return d.Rename("reldir/secret.txt", d, "got") }},
		{"rename slash", func(d *Dir) error { return d.Rename("evil/", d, "got") }},
		{"hard link into", func(d *Dir) error { return d.Link("inside.txt", d, "absdir/got") }},
		{"hard link out of", func(d *Dir) error { return d.Link("reldir/secret.txt", d, "got") }},
		{"hard link slash", func(d *Dir) error { return d.Link("evil/", d, "got") }},
		{"unlink", func(d *Dir) error { return d.Unlink("reldir/secret.txt") }},
		{"rmdir", func(d *Dir) error { return d.Rmdir("reldir/dir") }},
		{"rmdir link slash", func(d *Dir) error { return d.Rmdir("reldir/") }},
		{"times", func(d *Dir) error { return d.SetTimes("rel", true, now, now) }},
		{"times in linked dir", func(d *Dir) error { return d.SetTimes("reldir/secret.txt", false, now, now) }},
		{"readlink tells the host", func(d *Dir) error { _, err := d.Readlink("abs"); return err }},
		{"readlink relative", func(d *Dir) error { _, err := d.Readlink("rel"); return err }},
		{"readlink in linked dir", func(d *Dir) error { _, err := d.Readlink("reldir/x"); return err }},
		{"symlink in linked dir", func(d *Dir) error { return d.Symlink("x", "reldir/l") }},
		{"symlink to evil slash", func(d *Dir) error {
			if err := d.Symlink("evil/", "l1"); err != nil {
				return err
			}
			_, err := d.OpenFile("l1", OpenFlags{Directory: true})
			return err
		}},
		{"atomic write over link", func(d *Dir) error { return d.WriteAtomic("rel", 0, nil) }},
		{"atomic write in linked dir", func(d *Dir) error { return d.WriteAtomic("reldir/new", 0, nil) }},
		{"mkdir all", func(d *Dir) error { return d.MkdirAll("reldir/a/b", 0) }},
	}
	eachBackend(t, func(t *testing.T, opt Options) {
		for _, op := range ops {
			t.Run(op.name, func(t *testing.T) {
				w := newWorld(t)
				w.plant(t)
				opt.AllowSymlinkCreation = true
				d := mustOpen(t, w.root, opt).View(Limits{}).Root()
				if err := op.try(d); err == nil {
					t.Error("succeeded")
				}
				w.untouched(t)
			})
		}
	})
}

// TestInnerLinks: links that stay inside work.
func TestInnerLinks(t *testing.T) {
	eachBackend(t, func(t *testing.T, opt Options) {
		w := newWorld(t)
		opt.AllowSymlinkCreation = true
		d := mustOpen(t, w.root, opt).View(Limits{}).Root()
		must(t, d.Symlink("inside.txt", "lk"))
		must(t, d.Symlink("../inside.txt", "d/back"))
		must(t, d.Symlink("d", "dd"))
		must(t, d.Symlink("new.txt", "to-new"))
		for _, p := range []string{"lk", "d/back", "dd/back", "dd/../lk", "d/../d/./back"} {
			if s, err := readAll(d, p); err != nil || s != "inside" {
				t.Errorf("%s: %q, %v", p, s, err)
			}
		}
		must(t, writeTo(d, "to-new", "made"))
		if s, err := readAll(d, "new.txt"); err != nil || s != "made" {
			t.Errorf("create through a dangling link: %q, %v", s, err)
		}
		if l, err := d.Readlink("d/back"); err != nil || l != "../inside.txt" {
			t.Errorf("readlink: %q, %v", l, err)
		}
		must(t, d.Rename("d/back", d, "d/back2"))
		w.untouched(t)
	})
}

// TestSwapRace opens files while a directory and a link that leads outside change
// places. Not one open may see the secret. Bounded by count, not by time.
func TestSwapRace(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs symbolic links and rename over open directories")
	}
	opens := 40_000 // for each of three backends
	if testing.Short() {
		opens = 5_000
	}
	eachBackend(t, func(t *testing.T, opt Options) {
		w := newWorld(t)
		must(t, os.WriteFile(filepath.Join(w.outside, "f.txt"), []byte("secret"), 0o644))
		w.before = tree(t, w.outside)
		must(t, os.Symlink("../secret", filepath.Join(w.root, "lnk")))
		d := mustOpen(t, w.root, opt).View(Limits{}).Root()

		stop := make(chan struct{})
		swaps := 0
		var wg sync.WaitGroup
		wg.Add(1)
		go func() { // waited for below
			defer wg.Done()
			p := func(n string) string { return filepath.Join(w.root, n) }
			for {
				select {
				case <-stop:
					return
				default:
				}
				_ = os.Rename(p("d"), p("spare"))
				_ = os.Rename(p("lnk"), p("d"))
				_ = os.Rename(p("d"), p("lnk"))
				_ = os.Rename(p("spare"), p("d"))
				swaps++
			}
		}()
		leaks, good := 0, 0
		for range opens {
			s, err := readAll(d, "d/f.txt")
			switch {
			case err == nil && s == "f":
				good++
			case err == nil || strings.Contains(s, "secret"):
				leaks++
			}
			if _, err := d.Stat("d/secret.txt"); err == nil {
				leaks++
			}
		}
		close(stop)
		wg.Wait()
		w.untouched(t)
		if leaks != 0 {
			t.Fatalf("%d leaks in %d opens", leaks, opens)
		}
		t.Logf("%d opens, %d right, %d swaps, 0 leaks", opens, good, swaps)
	})
}
