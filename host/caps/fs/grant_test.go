package fs

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "file"), "")
	for name, c := range map[string]struct {
		dir string
		opt Options
	}{
		"missing":           {dir: filepath.Join(dir, "none")},
		"file":              {dir: filepath.Join(dir, "file")},
		"deny outside":      {dir, Options{Deny: []string{"../x"}}},
		"deny absolute":     {dir, Options{Deny: []string{"/x"}}},
		"deny empty":        {dir, Options{Deny: []string{""}}},
		"protect all":       {dir, Options{Protect: []string{"."}}},
		"protect by dotdot": {dir, Options{Protect: []string{"a/../.."}}},
		"protect anything":  {dir, Options{Protect: []string{"**/"}}},
		"pattern":           {dir, Options{Protect: []string{"a/*.txt"}}},
	} {
		if g, err := Open(c.dir, c.opt); err == nil {
			g.Close()
			t.Errorf("%s: granted", name)
		}
	}
}

func TestGrantBindsRealPath(t *testing.T) {
	base := t.TempDir()
	for _, n := range []string{"a", "b"} {
		must(t, os.Mkdir(filepath.Join(base, n), 0o755))
		put(t, filepath.Join(base, n, "who"), n)
	}
	link := filepath.Join(base, "link")
	must(t, os.Symlink("a", link))
	g := mustOpen(t, link+"/./", Options{})
	if g.GuestPath() != link {
		t.Errorf("guest path %s", g.GuestPath())
	}
	if want, _ := filepath.EvalSymlinks(filepath.Join(base, "a")); g.RealPath() != want {
		t.Errorf("real path %s", g.RealPath())
	}
	must(t, os.Remove(link))
	must(t, os.Symlink("b", link))
	if s, err := readAll(g.View(Limits{}).Root(), "who"); err != nil || s != "a" {
		t.Errorf("after the link moved: %q, %v", s, err)
	}
}

func TestReadOnly(t *testing.T) {
	eachBackend(t, func(t *testing.T, opt Options) {
		w := newWorld(t)
		opt.ReadOnly, opt.AllowSymlinkCreation = true, true
		before := tree(t, w.root)
		d := mustOpen(t, w.root, opt).View(Limits{}).Root()
		now := TimeSet{Now: true}
		open := func(p string, o OpenFlags) error { _, err := d.OpenFile(p, o); return err }
		for name, err := range map[string]error{
			"write":        open("inside.txt", OpenFlags{Write: true}),
			"create":       open("new", OpenFlags{Read: true, Create: true}),
			"truncate":     open("inside.txt", OpenFlags{Truncate: true}),
			"mkdir":        d.Mkdir("m", 0),
			"unlink":       d.Unlink("inside.txt"),
			"rmdir":        d.Rmdir("d"),
			"rename":       d.Rename("inside.txt", d, "x"),
			"link":         d.Link("inside.txt", d, "x"),
			"symlink":      d.Symlink("inside.txt", "x"),
			"times":        d.SetTimes("inside.txt", true, now, now),
			"set size":     d.Truncate("inside.txt", 0),
			"atomic write": d.WriteAtomic("new", 0, nil),
		} {
			wantErr(t, name, err, EROFS)
		}
		f, err := d.OpenFile("inside.txt", OpenFlags{Read: true})
		must(t, err)
		wantErr(t, "write to it", func() error { _, err := f.Write([]byte("x")); return err }(), EBADF)
		wantErr(t, "times of it", f.SetTimes(now, now), EROFS)
		must(t, f.Close())
		if now := tree(t, w.root); now != before {
			t.Errorf("changed:\n%s", now)
		}
	})
}

// TestCrossGrant: hard link and rename from a read-only into a writable grant
// (GHSA-4ch3-9j33-3pmj), and between any two.
func TestCrossGrant(t *testing.T) {
	w := newWorld(t)
	sub := filepath.Join(w.root, "d")
	ro := mustOpen(t, w.root, Options{ReadOnly: true}).View(Limits{}).Root()
	rw := mustOpen(t, sub, Options{}).View(Limits{}).Root()
	rw2 := mustOpen(t, sub, Options{}).View(Limits{}).Root()
	for name, err := range map[string]error{
		"link ro to rw":          ro.Link("inside.txt", rw, "x"),
		"rename ro to rw":        ro.Rename("inside.txt", rw, "x"),
		"link rw to ro":          rw.Link("f.txt", ro, "x"),
		"rename rw to ro":        rw.Rename("f.txt", ro, "x"),
		"rename to a same grant": rw.Rename("f.txt", rw2, "x"),
	} {
		wantErr(t, name, err, EXDEV)
	}
}

func TestRevoke(t *testing.T) {
	eachBackend(t, func(t *testing.T, opt Options) {
		w := newWorld(t)
		g := mustOpen(t, w.root, opt)
		v := g.View(Limits{})
		d := v.Root()
		f, err := d.OpenFile("inside.txt", OpenFlags{Read: true, Write: true})
		must(t, err)
		df, err := d.OpenFile("d", OpenFlags{Directory: true})
		must(t, err)
		sub, err := df.Dir()
		must(t, err)
		g.Revoke()
		b := make([]byte, 1)
		only := func(_ int, err error) error { return err }
		for name, err := range map[string]error{
			"read":       only(f.Read(b)),
			"pread":      only(f.ReadAt(b, 0)),
			"write":      only(f.Write(b)),
			"pwrite":     only(f.WriteAt(b, 0)),
			"truncate":   f.Truncate(0),
			"sync":       f.Sync(),
			"stat file":  func() error { _, err := f.Stat(); return err }(),
			"readdir":    func() error { _, err := df.ReadDir(0, 1); return err }(),
			"stat":       func() error { _, err := d.Stat("d"); return err }(),
			"open":       func() error { _, err := d.OpenFile("d", OpenFlags{}); return err }(),
			"mkdir":      d.Mkdir("new", 0),
			"sub mkdir":  sub.Mkdir("new", 0),
			"sub rename": sub.Rename("f.txt", d, "x"),
			"unlink":     d.Unlink("inside.txt"),
		} {
			wantErr(t, name, err, ErrRevoked)
		}
		must(t, f.Close())
		must(t, df.Close())
		if v.Usage().Open != 0 {
			t.Error("descriptors still counted")
		}
		must(t, g.Close())
	})
}

func TestCheckToolchain(t *testing.T) {
	for v, ok := range map[string]bool{
		"go1.26.4": false, "go1.26": false, "go1.25.9": false, "go1.26.5": true, "go1.26.8 X:nocoverageredesign": true,
		"go1.27rc1": true, "go2.0": true, "devel go1.27-abc": true, "go1.26rc1": false,
	} {
		if err := CheckToolchain(v); (err == nil) != ok {
			t.Errorf("%s: %v", v, err)
		}
	}
	must(t, CheckToolchain(runtime.Version()))
}

func TestSet(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir()) // a grant knows two names: as it was typed, and without links
	must(t, err)
	for _, n := range []string{"w", "w-evil", "w/out", "real"} {
		must(t, os.MkdirAll(filepath.Join(base, n), 0o755))
	}
	must(t, os.Symlink("real", filepath.Join(base, "typed")))
	p := func(n string) string { return filepath.Join(base, filepath.FromSlash(n)) }
	ro := mustOpen(t, p("w"), Options{ReadOnly: true}).View(Limits{})
	rw := mustOpen(t, p("w/out"), Options{}).View(Limits{})
	typed := mustOpen(t, p("typed"), Options{}).View(Limits{})
	if _, err := NewSet(false, ro, rw); err == nil || !strings.Contains(err.Error(), "may only be read") {
		t.Errorf("a writable grant inside a read-only one: %v", err)
	}
	s, err := NewSet(true, ro, rw, typed)
	must(t, err)
	for path, want := range map[string]struct {
		v   *View
		rel string
	}{
		p("w"):                 {ro, "."},
		p("w/a/b"):             {ro, "a/b"},
		p("w") + "/a/":         {ro, "a/"},
		p("w") + "/x/../y":     {ro, "y"},
		p("w/out"):             {rw, "."},
		p("w/out/f"):           {rw, "f"},
		p("w/outer"):           {ro, "outer"},
		p("typed/f"):           {typed, "f"},
		p("real/f"):            {typed, "f"},
		p("w-evil/x"):          {},
		p("w") + "/../w-evil":  {},
		p("w") + "/../../etc":  {},
		"relative":             {},
		"":                     {},
		p("w") + "/x\x00/../y": {},
	} {
		got, err := s.Resolve(path)
		if want.v == nil {
			wantErr(t, path, err, ErrOutside)
			continue
		}
		if err != nil || got.View != want.v || got.Rel != want.rel || got.Dir != want.v.Root() {
			t.Errorf("%s: %+v, %v", path, got, err)
		}
	}
}

// TestRefuseHardLinked: a file whose other name is outside is not written in place.
func TestRefuseHardLinked(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("link counts are not known")
	}
	eachBackend(t, func(t *testing.T, opt Options) {
		w := newWorld(t)
		must(t, os.Link(filepath.Join(w.outside, "secret.txt"), filepath.Join(w.root, "shared")))
		opt.RefuseHardLinked = true
		d := mustOpen(t, w.root, opt).View(Limits{}).Root()
		wantErr(t, "write", writeTo(d, "shared", "x"), ErrHardLinked)
		wantErr(t, "set size", d.Truncate("shared", 0), ErrHardLinked)
		_, err := d.OpenFile("shared", OpenFlags{Truncate: true})
		wantErr(t, "truncate", err, ErrHardLinked)
		if s, err := readAll(d, "shared"); err != nil || s != "secret" {
			t.Errorf("read: %q, %v", s, err)
		}
		must(t, d.WriteAtomic("shared", 0, func(w io.Writer) error { _, err := io.WriteString(w, "own"); return err }))
		must(t, writeTo(d, "shared", "own now"))
		w.untouched(t)
	})
}
