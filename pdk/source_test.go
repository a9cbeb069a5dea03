//go:build !wasip1

package pdk_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/pdk"
)

// The embedded source is whole: it builds offline beside that of abi, natively
// and for Wasm, as the CLI puts it into a new plugin.
func TestSource(t *testing.T) {
	for _, want := range []string{"doc.go", "pdktest/run.go", "pdkhttp/pdkhttp.go", "source.go"} {
		if _, err := fs.Stat(pdk.Source(), want); err != nil {
			t.Error(err)
		}
	}
	dir := t.TempDir()
	for name, fsys := range map[string]fs.FS{"abi": abi.Source(), "pdk": pdk.Source()} {
		if err := os.CopyFS(filepath.Join(dir, name), fsys); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module github.com/bladehost/bladehost\n\ngo 1.26.0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	goTool(t, dir, "vet", "./...")
	goTool(t, dir, "GOOS=wasip1", "GOARCH=wasm", "build", "./abi", "./pdk", "./pdk/pdkhttp")
}

// goTool runs the go command offline in a folder; arguments with = come first
// and are its environment.
func goTool(t *testing.T, dir string, args ...string) {
	t.Helper()
	env := append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOPROXY=off")
	for len(args) > 0 && strings.Contains(args[0], "=") {
		env, args = append(env, args[0]), args[1:]
	}
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = dir, env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
