package wasi_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bladehost/bladehost/host/caps/fs"
	"github.com/bladehost/bladehost/host/internal/engine/wasi"
	"github.com/bladehost/bladehost/host/internal/engine/wasi/wasitest"
)

// grant opens a folder for a test.
func grant(t testing.TB, dir string, opt fs.Options) *fs.Grant {
	t.Helper()
	g, err := fs.Open(dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

// goGuest builds testdata/goguest for wasip1 and compiles it.
func goGuest(t *testing.T) *wasitest.Program {
	t.Helper()
	out := filepath.Join(t.TempDir(), "guest.wasm")
	cmd := exec.Command("go", "build", "-o", out, "main.go")
	cmd.Dir = filepath.Join("testdata", "goguest")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, b)
	}
	bin, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	p, err := wasitest.Compile(context.Background(), bin)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	return p
}

func TestGoGuest(t *testing.T) {
	p := goGuest(t)
	t.Run("use", func(t *testing.T) { testGoUse(t, p) })
	t.Run("escape", func(t *testing.T) { testGoEscape(t, p) })
}

func testGoUse(t *testing.T, p *wasitest.Program) {
	dir := t.TempDir()
	g := grant(t, dir, fs.Options{AllowSymlinkCreation: true})
	o := p.Run(context.Background(), wasi.Config{
		Args: []string{"guest", "use", dir}, Env: []string{"NAME=value"}, Stdin: bytes.NewReader([]byte("input")),
		Mounts: []wasi.Mount{{Guest: dir, View: g.View(fs.Limits{})}},
	})
	want := "../a.txt hello\nlink L---------\nw d---------\n15 true\n2020-01-02T03:04:05Z\ntrue\ntrue\ntrue\ninput value\n3\n"
	if o.Err != nil || o.Code != 7 || o.Stdout != want || o.Stderr != "" {
		t.Fatal(o)
	}
}
