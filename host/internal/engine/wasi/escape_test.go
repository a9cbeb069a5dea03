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

// testGoEscape runs the hostile mode of the Go guest in a folder with planted links.
func testGoEscape(t *testing.T, p *wasitest.Program) {
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
	o := p.Run(context.Background(), wasi.Config{
		Args: []string{"guest", "escape", w}, Mounts: []wasi.Mount{{Guest: w, View: v}},
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
