// Package guesttest builds guests for tests. It needs nothing but Go.
package guesttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var built sync.Map // package path to *build

type build struct {
	once sync.Once
	b    []byte
	msg  string
}

// Go builds a package as a plugin module, without a manifest section, once a
// process. dir is where the go command runs: a folder of the module that has the
// package.
func Go(t testing.TB, dir, pkg string) []byte {
	t.Helper()
	v, _ := built.LoadOrStore(dir+" "+pkg, &build{})
	g := v.(*build)
	g.once.Do(func() { g.b, g.msg = compile(dir, pkg) })
	if g.msg != "" {
		t.Fatalf("build %s: %s", pkg, g.msg)
	}
	return g.b
}

func compile(dir, pkg string) ([]byte, string) {
	tmp, err := os.MkdirTemp("", "guest-")
	if err != nil {
		return nil, err.Error()
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	out := filepath.Join(tmp, "guest.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o", out, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return nil, err.Error() + "\n" + string(msg)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		return nil, err.Error()
	}
	return b, ""
}
