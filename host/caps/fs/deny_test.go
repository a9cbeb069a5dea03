package fs

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestDeny: rules hold for the resolved file, for what does not exist yet, and against
// moving whole directories away or into place.
func TestDeny(t *testing.T) {
	type row struct {
		name string
		try  func(d *Dir) error
	}
	link := func(target, path string, then func(d *Dir) error) func(d *Dir) error {
		return func(d *Dir) error {
			if err := d.Symlink(target, path); err != nil {
				return err
			}
			return then(d)
		}
	}
	read := func(p string) func(d *Dir) error {
		return func(d *Dir) error { _, err := readAll(d, p); return err }
	}
	write := func(p string) func(d *Dir) error { return func(d *Dir) error { return writeTo(d, p, "x") } }
	denied := []row{
		{"read", read("secret.txt")},
		{"read with dots", read("./d/../secret.txt")},
		{"read through a link", link("secret.txt", "x", read("x"))},
		{"read through a linked directory", link("..", "d/self", read("d/self/secret.txt"))},
		{"stat", func(d *Dir) error { _, err := d.Stat("secret.txt"); return err }},
		{"write", write("secret.txt")},
		{"create what does not exist", write(".bladehost")},
		{"mkdir what does not exist", func(d *Dir) error { return d.Mkdir(".bladehost", 0) }},
		{"create through a dangling link", link(".bladehost", "y", write("y"))},
		{"hard link", func(d *Dir) error { return d.Link("secret.txt", d, "h") }},
		{"rename away", func(d *Dir) error { return d.Rename("secret.txt", d, "r") }},
		{"rename over", func(d *Dir) error { return d.Rename("inside.txt", d, "secret.txt") }},
		{"unlink", func(d *Dir) error { return d.Unlink("secret.txt") }},
		{"symlink in its place", func(d *Dir) error { return d.Symlink("inside.txt", ".bladehost") }},
		{"protected: write", write(".git/config")},
		{"protected: create hook", write(".git/hooks/pre-commit")},
		{"protected: create below", func(d *Dir) error { return d.Mkdir(".git/hooks/sub", 0) }},
		{"protected: hard link", func(d *Dir) error { return d.Link(".git/config", d, "h") }},
		{"protected: move the parent away", func(d *Dir) error { return d.Rename(".git", d, "g") }},
		{"protected: times", func(d *Dir) error { return d.SetTimes(".git/config", true, TimeSet{Now: true}, TimeSet{}) }},
		{"protected: atomic", func(d *Dir) error { return d.WriteAtomic(".git/config", 0, func(io.Writer) error { return nil }) }},
		{"protected: move a made one in", func(d *Dir) error {
			if err := d.MkdirAll("made/hooks", 0); err != nil {
				return nil
			}
			return d.Rename("made", d, "sub/.git")
		}},
		{"protected: link a made one in", func(d *Dir) error { return d.Symlink("made", "sub/.git") }},
		{"protected: through an open directory", func(d *Dir) error {
			f, err := d.OpenFile(".git", OpenFlags{Directory: true})
			if err != nil {
				return nil
			}
			defer f.Close()
			sub, _ := f.Dir()
			return writeTo(sub, "hooks/x", "x")
		}},
		{"protected: after moving a parent's parent", func(d *Dir) error { return d.Rename("sub", d, "sub2") }},
	}
	eachBackend(t, func(t *testing.T, opt Options) {
		opt.AllowSymlinkCreation = true
		opt.Deny = []string{"secret.txt", ".bladehost"}
		opt.Protect = []string{".git/hooks", "./.git//config", "sub/.git/hooks"}
		for _, r := range denied {
			t.Run(r.name, func(t *testing.T) {
				w := newWorld(t)
				put(t, filepath.Join(w.root, "secret.txt"), "s")
				must(t, os.MkdirAll(filepath.Join(w.root, ".git", "hooks"), 0o755))
				must(t, os.MkdirAll(filepath.Join(w.root, "sub"), 0o755))
				put(t, filepath.Join(w.root, ".git", "config"), "c")
				d := mustOpen(t, w.root, opt).View(Limits{}).Root()
				wantErr(t, r.name, r.try(d), ErrDenied)
			})
		}
	})
}

func TestDenyAllowsTheRest(t *testing.T) {
	eachBackend(t, func(t *testing.T, opt Options) {
		opt.Deny = []string{"secret.txt", "d/no"}
		opt.Protect = []string{".git/hooks"}
		w := newWorld(t)
		put(t, filepath.Join(w.root, "secret.txt"), "s")
		must(t, os.Mkdir(filepath.Join(w.root, "d", "no"), 0o755))
		d := mustOpen(t, w.root, opt).View(Limits{}).Root()
		must(t, d.Mkdir(".git", 0))
		must(t, writeTo(d, ".git/HEAD", "ref"))
		must(t, writeTo(d, "secret.txt2", "fine"))
		must(t, writeTo(d, "d/secret.txt", "fine"))
		f, err := d.OpenFile(".", OpenFlags{Directory: true})
		must(t, err)
		defer f.Close()
		if got := names(t, f); len(got) != 4 { // .git d inside.txt secret.txt2
			t.Errorf("listing shows %v", got)
		}
		df, err := d.OpenFile("d", OpenFlags{Directory: true})
		must(t, err)
		defer df.Close()
		if got := names(t, df); len(got) != 2 {
			t.Errorf("listing of d shows %v", got)
		}
	})
}

// TestDenyAnyDepth: a rule with **/ holds in every directory and travels with it.
func TestDenyAnyDepth(t *testing.T) {
	eachBackend(t, func(t *testing.T, opt Options) {
		opt.AllowSymlinkCreation = true
		opt.Protect = RecommendedProtect()
		opt.Deny = []string{"**/.env"}
		w := newWorld(t)
		d := mustOpen(t, w.root, opt).View(Limits{}).Root()
		must(t, d.MkdirAll("p/q/.git", 0))
		must(t, d.MkdirAll("made/hooks", 0))
		must(t, writeTo(d, "p/q/.git/HEAD", "x"))
		must(t, writeTo(d, "p/hooks", "not a repository"))
		must(t, writeTo(d, "p/.environment", "x"))
		for what, err := range map[string]error{
			"hook":              d.Mkdir("p/q/.git/hooks", 0),
			"hook at the top":   d.MkdirAll(".git/hooks", 0),
			"config":            writeTo(d, "p/q/.git/config", "x"),
			"move .git":         d.Rename("p/q/.git", d, "p/q/g"),
			"move one in":       d.Rename("made", d, "p/.git"),
			"link one in":       d.Symlink("made", "d/.git"),
			"link one in, deep": d.Symlink("../../made", "p/q/.git/hooks"),
			"env":               writeTo(d, "p/q/.env", "x"),
			"env at the top":    writeTo(d, ".env", "x"),
			"rename to env":     d.Rename("inside.txt", d, "d/.env"),
		} {
			wantErr(t, what, err, ErrDenied)
		}
		must(t, d.Rename("p", d, "p2")) // takes its repository along
		wantErr(t, "after the move", writeTo(d, "p2/q/.git/config", "x"), ErrDenied)
	})
}

func TestDenies(t *testing.T) {
	dir := t.TempDir()
	g, err := Open(dir, Options{Deny: []string{"secret", "**/.key"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close() }()
	for _, c := range []struct {
		path           string
		inside, denied bool
	}{
		{"", true, false}, {"a", true, false}, {"secret", true, true}, {"secret/a", true, true}, {"secrets", true, false},
		{"a/.key", true, true}, {"..", false, false}, {"../secret", false, false}, {"..secret", true, false},
	} {
		if inside, denied := g.Denies(filepath.Join(g.RealPath(), c.path)); inside != c.inside || denied != c.denied {
			t.Errorf("%s: %v %v", c.path, inside, denied)
		}
	}
}
