//go:build !wasip1

package abi

import (
	"embed"
	"io/fs"
	"strings"
)

//go:embed *.go
var source embed.FS

// Source is this package's own Go source without its tests.
func Source() fs.FS { return WithoutTests(source) }

// WithoutTests is fsys without files that end in _test.go.
func WithoutTests(fsys fs.FS) fs.FS { return withoutTests{fsys} }

type withoutTests struct{ fs fs.FS }

// Open hides test files and keeps them out of listings.
func (w withoutTests) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, "_test.go") {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return w.fs.Open(name)
}

// ReadDir lists a folder.
func (w withoutTests) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(w.fs, name)
	kept := entries[:0:0]
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), "_test.go") {
			kept = append(kept, e)
		}
	}
	return kept, err
}
