//go:build unix

package shell

import (
	"os"
	"path/filepath"
	"testing"
)

// waits reports whether a guard has its sh.
func waits(g *guard) bool { return g.pipe != nil }

func TestGuardWithoutShell(t *testing.T) {
	var g *guard
	g.add(1, "0")
	g.remove(1)
	if _, err := os.Stat(filepath.FromSlash("/bin/sh")); err != nil {
		t.Skip("no sh")
	}
	own := newGuard("TAG=x")
	own.add(1<<30, "0")
	if err := own.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = own.cmd.Process.Wait()
	own.add(1<<30+1, "0") // finds the sh gone
	own.add(1<<30+2, "7") // and starts another
	if own.pipe == nil {
		t.Error("there is no guard")
	}
	for i := range 3 {
		own.remove(1<<30 + i)
	}
	own.close()
	if own.pipe != nil {
		t.Error("it still waits")
	}
}
