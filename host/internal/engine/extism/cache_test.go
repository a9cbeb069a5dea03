package extism

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/bladehost/bladehost/host/internal/engine"
	"github.com/bladehost/bladehost/host/tool"
)

// The machine code of a plugin is kept by the same rules as that of ours: used again
// by the next process, and never when a byte of it was changed.
func TestMachineCodeIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	once := func() string {
		t.Helper()
		e, err := engine.New(engine.Options{CacheDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = e.Close(t.Context()) }()
		b := load(t, Options{Compiler: e}, file(t, "mcp1.wasm"), "blade-tool-time", "1.0.0")
		r := b.do(t, "time", `{"name":"x"}`)
		if r.IsError() {
			t.Fatal(r.Error)
		}
		if err := b.p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		return r.Metadata["compile"].(string)
	}
	if got := once(); got != "miss" {
		t.Errorf("the first time: %s", got)
	}
	if got := once(); got != "hit" {
		t.Errorf("the second time: %s", got)
	}
	damaged := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) == ".lock" || filepath.Base(filepath.Dir(path)) == "cache" {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil || len(b) == 0 {
			return err
		}
		b[len(b)/2] ^= 1
		damaged++
		return os.WriteFile(path, b, 0o600)
	})
	if err != nil || damaged == 0 {
		t.Fatal(damaged, err)
	}
	if got := once(); got != "miss" {
		t.Errorf("after damage to %d files: %s", damaged, got)
	}
	if got := once(); got != "hit" {
		t.Errorf("it was not made anew: %s", got)
	}
}

var _ tool.Warmer = (*Guest)(nil)
