package engine

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

func TestFileSum(t *testing.T) {
	for _, size := range []int{0, 1, chunk - 1, chunk, chunk + 1, 3*chunk + 5} {
		b := make([]byte, size)
		_, _ = rand.NewChaCha8([32]byte{byte(size)}).Read(b) // never fails
		s, err := sumOf(bytes.NewReader(b), int64(size))
		if err != nil || s.Size != int64(size) || len(s.Chunks) != (size+chunk-1)/chunk {
			t.Fatalf("%d bytes: %+v, %v", size, s, err)
		}
		all := len(s.Chunks)
		check := func(b []byte, s fileSum, from, to int) bool {
			return s.check(bytes.NewReader(b), int64(len(b)), from, to) == nil
		}
		if !check(b, s, 0, all) || !check(b, s, 1, all) || !check(b, s, 0, 1) {
			t.Errorf("%d bytes are not what they are", size)
		}
		if check(append(b, 0), s, 0, all) || size > 0 && check(b[:size-1], s, 0, all) {
			t.Errorf("%d bytes: another length is taken", size)
		}
		for _, at := range []int{0, size / 2, size - 1} {
			if size == 0 {
				continue
			}
			bad := bytes.Clone(b)
			bad[at] ^= 1
			if check(bad, s, 0, all) {
				t.Errorf("%d bytes: another one at %d is taken", size, at)
			}
			if whole := at/chunk == 0; check(bad, s, 0, 1) == whole {
				t.Errorf("%d bytes: the first part, with another byte at %d: %v", size, at, !whole)
			}
		}
		if all > 0 {
			fewer := fileSum{s.Size, s.Chunks[:all-1]}
			if check(b, fewer, 0, all) || check(b, fewer, 0, 1) {
				t.Errorf("%d bytes are taken with digests of less", size)
			}
			if s.is(fewer) || !s.is(s) {
				t.Error("is")
			}
		}
	}
}

// Whatever is changed about an entry, it is not taken.
func TestEntryIsWhole(t *testing.T) {
	big := bytes.Repeat([]byte("machine code "), 300_000)
	make1 := func(t *testing.T) string {
		dir := filepath.Join(t.TempDir(), "entry")
		if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, b := range map[string][]byte{moduleName: []byte("the module"), "sub/code": big, "sub/small": {1}} {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		ix, err := newIndex(dir, filepath.Base(dir), "s")
		if err == nil {
			err = ix.write(filepath.Dir(dir), dir)
		}
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	write := func(name string, b []byte) func(string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), b, 0o600) }
	}
	changed := func(b []byte, at int) []byte {
		b = bytes.Clone(b)
		b[at] ^= 0x80
		return b
	}
	listed := func(change func(*index)) func(string) error {
		return func(dir string) error {
			ix, err := readIndex(dir)
			if err != nil {
				return err
			}
			change(ix)
			b, err := json.Marshal(ix)
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, indexName), b, 0o600)
		}
	}
	for name, c := range map[string]struct {
		change func(dir string) error
		// late says that only a look at all of it finds it.
		late bool
	}{
		"nothing":               {},
		"the module":            {write(moduleName, []byte("the Module")), false},
		"a module that is gone": {func(dir string) error { return os.Remove(filepath.Join(dir, moduleName)) }, false},
		"the code's start":      {write("sub/code", changed(big, 0)), false},
		"the code's middle":     {write("sub/code", changed(big, len(big)/2)), true},
		"the code's end":        {write("sub/code", changed(big, len(big)-1)), true},
		"shorter code":          {write("sub/code", big[:len(big)-1]), false},
		"longer code":           {write("sub/code", append(bytes.Clone(big), 0)), false},
		"code that is gone":     {func(dir string) error { return os.Remove(filepath.Join(dir, "sub/code")) }, false},
		"a file more":           {write("sub/more", []byte{1}), false},
		"a link":                {func(dir string) error { return os.Symlink("code", filepath.Join(dir, "sub/link")) }, false},
		"an index without all digests": {listed(func(ix *index) {
			s := ix.Files["sub/code"]
			ix.Files["sub/code"] = fileSum{s.Size, s.Chunks[:1]}
		}), false},
		"an index without the module":   {listed(func(ix *index) { delete(ix.Files, moduleName) }), false},
		"an index with a negative size": {listed(func(ix *index) { ix.Files["sub/code"] = fileSum{-1, nil} }), false},
		"no index":                      {write(indexName, []byte("{")), false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := make1(t)
			ix, err := readIndex(dir)
			if err != nil {
				t.Fatal(err)
			}
			had, err := ix.module(dir)
			if err != nil {
				t.Fatal(err)
			}
			if c.change == nil {
				if err := checkEntry(dir); err != nil {
					t.Error(err)
				}
				return
			}
			if err := c.change(dir); err != nil {
				t.Fatal(err)
			}
			_, rest, err := openEntry(dir, nil)
			if c.late {
				if err != nil {
					t.Errorf("the start: %v", err)
				} else if rest() == nil {
					t.Error("it is taken")
				}
			} else if err == nil {
				t.Error("it is taken")
			}
			if checkEntry(dir) == nil {
				t.Error("doctor takes it")
			}
			// With the module at hand, the rest is looked at all the same.
			if name == "the module" || name == "a module that is gone" {
				return
			}
			if _, rest, err := openEntry(dir, had); err == nil && rest() == nil {
				t.Error("it is taken with the module at hand")
			}
		})
	}
}

// A whole entry under the name of another is no entry, however good it is.
func TestCacheSwapped(t *testing.T) {
	opt, good, other := twoCached(t)
	e := newEngine(t, opt)
	g, o := e.dir.entry(load(t, e, good).key), e.dir.entry(load(t, e, other).key)
	for _, move := range [][2]string{{g, g + "-"}, {o, g}, {g + "-", o}} {
		if err := os.Rename(move[0], move[1]); err != nil {
			t.Fatal(err)
		}
	}
	if compileHit(t, opt, good) || !compileHit(t, opt, good) {
		t.Error("the entry of another module was used, or not replaced")
	}
}
