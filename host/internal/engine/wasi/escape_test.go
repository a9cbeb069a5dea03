package wasi_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/host/caps/fs"
	"github.com/bladehost/bladehost/host/internal/engine/wasi"
	"github.com/bladehost/bladehost/host/internal/engine/wasi/wasitest"
)

// hostileGo tries to leave its folder with what the os package offers. It prints the
// name of each attempt that worked.
const hostileGo = `package main

import (
	"fmt"
	"os"
	"time"
)

func try(name string, f func() error) {
	if err := f(); err == nil {
		fmt.Println("OUT", name)
	} else {
		fmt.Println("ERR", name)
	}
}

func main() {
	w := os.Args[1]
	p := func(n string) string { return w + "/" + n }
	raw := func(n string) string { return w + "/./" + n } // os does not clean this away
	read := func(path string) func() error {
		return func() error { _, err := os.ReadFile(path); return err }
	}
	try("dotdot", read(p("../secret/secret.txt")))
	try("dotdot inside", read(raw("d/../../secret/secret.txt")))
	try("absolute", read("/etc/passwd"))
	try("planted relative link", read(p("rel")))
	try("planted absolute link", read(p("abs")))
	try("planted directory link", read(p("reldir/secret.txt")))
	try("list planted", func() error { _, err := os.ReadDir(p("reldir")); return err })
	try("list planted with slash", func() error { _, err := os.ReadDir(p("evil/")); return err })
	try("list parent", func() error { _, err := os.ReadDir(raw("..")); return err })
	try("stat outside", func() error { _, err := os.Stat(p("rel")); return err })
	try("readlink outside", func() error { _, err := os.Readlink(p("abs")); return err })
	try("make absolute link", func() error { return os.Symlink("/etc/passwd", p("l1")) })
	try("make relative link out", func() error { return os.Symlink("../secret/secret.txt", p("l2")) })
	try("make link up", func() error { return os.Symlink("..", p("up")) })
	try("read through up", read(p("up/secret/secret.txt")))
	try("create outside", func() error { return os.WriteFile(p("reldir/new"), nil, 0o600) })
	try("create through dangling", func() error { return os.WriteFile(p("dangling"), nil, 0o600) })
	try("mkdir outside", func() error { return os.Mkdir(p("reldir/m"), 0o700) })
	try("rename into", func() error { return os.Rename(p("inside.txt"), p("reldir/i")) })
	try("rename out of", func() error { return os.Rename(p("reldir/secret.txt"), p("got")) })
	try("hard link out of", func() error { return os.Link(p("reldir/secret.txt"), p("hard")) })
	try("delete outside", func() error { return os.Remove(p("reldir/secret.txt")) })
	try("truncate outside", func() error { return os.Truncate(p("rel"), 0) })
	try("times outside", func() error { return os.Chtimes(p("rel"), time.Now(), time.Now()) })
	try("open read-write with create", func() error { _, err := os.OpenFile(p("abs"), os.O_RDWR|os.O_CREATE, 0o600); return err })
	try("fifo", read(p("fifo")))
	try("4 TiB", func() error { return os.Truncate(p("inside.txt"), 4<<40) })
	try("write at 4 TiB", func() error {
		f, err := os.OpenFile(p("inside.txt"), os.O_RDWR, 0)
		if err != nil {
			return nil
		}
		_, err = f.WriteAt([]byte("x"), 4<<40)
		return err
	})
	try("5000 descriptors", func() error {
		for range 5000 {
			if _, err := os.Open(p("inside.txt")); err != nil {
				return err
			}
		}
		return nil
	})
}
`

func TestGoGuestCannotEscape(t *testing.T) {
	base := t.TempDir()
	w, secret := filepath.Join(base, "w"), filepath.Join(base, "secret")
	for _, d := range []string{w, secret, filepath.Join(w, "d")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{filepath.Join(w, "inside.txt"): "in", filepath.Join(secret, "secret.txt"): "secret"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"rel": "../secret/secret.txt", "abs": filepath.Join(secret, "secret.txt"),
		"reldir": "../secret", "evil": "../secret/", "dangling": "../secret/none"} {
		if err := os.Symlink(target, filepath.Join(w, name)); err != nil {
			t.Fatal(err)
		}
	}
	makeFIFO(t, filepath.Join(w, "fifo"))
	g := grant(t, w, fs.Options{AllowSymlinkCreation: true})
	v := g.View(fs.Limits{})
	o := wasitest.Run(context.Background(), goGuest(t, hostileGo), wasi.Config{
		Args: []string{"guest", w}, Mounts: []wasi.Mount{{Guest: w, View: v}},
	})
	if o.Err != nil || o.Code != 0 || strings.Contains(o.Stdout, "OUT") || strings.Count(o.Stdout, "ERR") < 29 {
		t.Error(o)
	}
	list, err := os.ReadDir(secret)
	b, err2 := os.ReadFile(filepath.Join(secret, "secret.txt"))
	if err != nil || err2 != nil || len(list) != 1 || !bytes.Equal(b, []byte("secret")) {
		t.Errorf("outside: %v %q %v %v", list, b, err, err2)
	}
	if v.Usage().Open != 0 {
		t.Errorf("%+v", v.Usage())
	}
}
