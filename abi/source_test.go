//go:build !wasip1

package abi_test

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
)

// The embedded source has no tests: it is what the CLI puts into a new plugin.
func TestSource(t *testing.T) {
	names := map[string]bool{}
	err := fs.WalkDir(abi.Source(), ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names[p] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"doc.go", "manifest.go", "source.go"} {
		if !names[want] {
			t.Errorf("%s is missing", want)
		}
	}
	for name := range names {
		if strings.HasSuffix(name, "_test.go") || !strings.HasSuffix(name, ".go") {
			t.Errorf("%s should not be there", name)
		}
	}
	if _, err := fs.ReadFile(abi.Source(), "name_test.go"); err == nil {
		t.Error("a test can be opened")
	}
}
