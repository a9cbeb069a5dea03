package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/bladehost/bladehost/host/internal/lockfile"
)

// DefaultCacheSize bounds the folder of compiled code: some 80 Go plugins.
const DefaultCacheSize = 1 << 30

// cacheDir is the folder of compiled code. Each module has a folder of its own,
// named by its key, with the runtime's files and an index of their SHA-256. The
// runtime guards its files with a CRC only and runs what they hold, so code of an entry
// runs only if every digest is right; otherwise it is made anew.
type cacheDir struct {
	path string
	max  int64
}

const (
	// indexName is the list of digests, moduleName the rewritten module.
	indexName  = "index.json"
	moduleName = "module"
)

// index lists the digests of an entry's files by their path in the entry, and the
// SHA-256 of the modules that it was made or found for: those were scanned, and
// need not be again. Key is the entry's own: a folder under another's name is no entry.
type index struct {
	Key     string             `json:"key"`
	Files   map[string]fileSum `json:"files"`
	Sources []string           `json:"sources"`
}

func openCache(path string, limit int64) (*cacheDir, error) {
	if limit == 0 {
		limit = DefaultCacheSize
	}
	if err := privateDir(path); err != nil {
		return nil, fmt.Errorf("the cache folder cannot be used: %w", err)
	}
	return &cacheDir{path: path, max: limit}, nil
}

func (c *cacheDir) entry(key string) string { return filepath.Join(c.path, key) }

// has says whether there is an entry, good or bad.
func (c *cacheDir) has(key string) bool {
	_, err := os.Stat(filepath.Join(c.entry(key), indexName))
	return err == nil
}

// storedModule is what the rewriter made of a module, as the cache has it.
type storedModule struct {
	bytes []byte
	sum   fileSum
}

// open returns the rewritten module of an entry and the folder of its machine
// code. Rest looks at what is left of that, which must be done before it is used:
// an error means that it is not as it was written. A module that recall returned is
// not read again.
func (c *cacheDir) open(key string, have *storedModule) (module []byte, dir string, rest func() error, err error) {
	dir = c.entry(key)
	if module, rest, err = openEntry(dir, have); err != nil {
		return nil, "", nil, err
	}
	now := time.Now()
	_ = os.Chtimes(filepath.Join(dir, indexName), now, now) // for eviction; without it that is only worse
	return module, dir, rest, nil
}

// sourcePrefix begins the names of the files that lead from a module to its entry.
const sourcePrefix = "source-"

func (c *cacheDir) sourceFile(source string) string {
	return filepath.Join(c.path, sourcePrefix+source)
}

// recall returns the entry of a module that was seen before, and what the rewriter
// made of it.
func (c *cacheDir) recall(source string) (key string, module *storedModule, err error) {
	b, err := os.ReadFile(c.sourceFile(source))
	if err != nil {
		return "", nil, err
	}
	if key = string(b); len(key) != 2*sha256.Size || strings.ContainsAny(key, "./\\") {
		return "", nil, errors.New("a source file was changed")
	}
	ix, err := readIndex(c.entry(key))
	if err != nil {
		return "", nil, err
	}
	if !slices.Contains(ix.Sources, source) {
		return "", nil, errors.New("the entry is another module's")
	}
	module, err = ix.module(c.entry(key))
	return key, module, err
}

// remember lets recall find the entry of a module. What fails only costs a scan.
func (c *cacheDir) remember(source, key string) {
	dir := c.entry(key)
	ix, err := readIndex(dir)
	if err != nil {
		return
	}
	if !slices.Contains(ix.Sources, source) {
		ix.Sources = append(ix.Sources, source)
		if len(ix.Sources) > maxSources || ix.write(c.path, dir) != nil {
			return
		}
	}
	_ = replaceFile(c.path, c.sourceFile(source), []byte(key))
}

// maxSources bounds the modules that share machine code: with and without a
// manifest, and with older ones.
const maxSources = 100

// replaceFile writes a file whole or not at all, by way of a folder where a part of
// it disturbs nobody.
func replaceFile(by, path string, b []byte) error {
	f, err := os.CreateTemp(by, "part-")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// lock lets one process at a time make an entry.
func (c *cacheDir) lock(ctx context.Context, key string) (unlock func(), err error) {
	l, err := lockfile.Acquire(ctx, c.entry(key)+".lock")
	if err != nil {
		return nil, err
	}
	return func() { _ = l.Release() }, nil // the end of the process would free it
}

// make lets build fill a new folder with machine code and return the rewritten
// module, and puts the folder in place whole. A process that dies half-way leaves
// a folder that sweep removes.
func (c *cacheDir) make(key, source string, build func(dir string) ([]byte, error)) error {
	tmp, err := os.MkdirTemp(c.path, "new-")
	if err != nil {
		return fmt.Errorf("make a cache entry: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	module, err := build(tmp)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tmp, moduleName), module, 0o600); err != nil {
		return fmt.Errorf("write a cache entry: %w", err)
	}
	ix, err := newIndex(tmp, key, source)
	if err == nil {
		err = ix.write(c.path, tmp)
	}
	if err != nil {
		return fmt.Errorf("write a cache entry: %w", err)
	}
	entry := c.entry(key)
	if err := os.RemoveAll(entry); err != nil {
		return fmt.Errorf("replace a cache entry: %w", err)
	}
	if err := os.Rename(tmp, entry); err != nil {
		return fmt.Errorf("put a cache entry in place: %w", err)
	}
	c.remember(source, key)
	c.sweep(entry)
	return nil
}

// newIndex lists what is in a folder.
func newIndex(dir, key, source string) (*index, error) {
	ix := &index{Key: key, Files: map[string]fileSum{}, Sources: []string{source}}
	err := walkEntry(dir, func(rel, path string) error {
		sum, err := fileDigest(path)
		ix.Files[rel] = sum
		return err
	})
	return ix, err
}

func (ix *index) write(by, dir string) error {
	b, err := json.Marshal(ix)
	if err != nil {
		return err
	}
	return replaceFile(by, filepath.Join(dir, indexName), b)
}

func readIndex(dir string) (*index, error) {
	b, err := os.ReadFile(filepath.Join(dir, indexName))
	if err != nil {
		return nil, err
	}
	ix := &index{}
	if err := json.Unmarshal(b, ix); err != nil {
		return nil, err
	}
	if ix.Key != filepath.Base(dir) {
		return nil, errors.New("the entry is another's")
	}
	return ix, nil
}

// walkEntry calls f with all files of an entry but its index.
func walkEntry(dir string, f func(rel, path string) error) error {
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == indexName {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is not a file", rel)
		}
		return f(rel, p)
	})
}

// module reads the rewritten module of an entry.
func (ix *index) module(dir string) (*storedModule, error) {
	b, err := os.ReadFile(filepath.Join(dir, moduleName))
	if err != nil {
		return nil, err
	}
	m := &storedModule{b, ix.Files[moduleName]}
	if err := m.sum.check(bytes.NewReader(b), int64(len(b)), 0, len(m.sum.Chunks)); err != nil {
		return nil, fmt.Errorf("%s %w", moduleName, err)
	}
	return m, nil
}

// openEntry returns the module of an entry that has exactly the files of its index.
// Of the others only the start is looked at, which is what the runtime needs to find
// them in order; rest looks at all that follows.
func openEntry(dir string, have *storedModule) (module []byte, rest func() error, err error) {
	ix, err := readIndex(dir)
	if err != nil {
		return nil, nil, err
	}
	if have == nil || !have.sum.is(ix.Files[moduleName]) {
		if have, err = ix.module(dir); err != nil {
			return nil, nil, err
		}
	}
	seen, left := 0, []func() error{}
	err = walkEntry(dir, func(rel, path string) error {
		seen++
		want, ok := ix.Files[rel]
		if !ok {
			return fmt.Errorf("%s was not there before", rel)
		}
		if rel == moduleName {
			return nil
		}
		left = append(left, func() error { return want.checkFile(rel, path, 1, len(want.Chunks)) })
		return want.checkFile(rel, path, 0, 1)
	})
	if err == nil && seen != len(ix.Files) {
		err = errors.New("files are missing")
	}
	rest = func() error {
		for _, f := range left {
			if err := f(); err != nil {
				return err
			}
		}
		return nil
	}
	return have.bytes, rest, err
}

// checkEntry is nil if all of an entry is as it was written.
func checkEntry(dir string) error {
	_, rest, err := openEntry(dir, nil)
	if err != nil {
		return err
	}
	return rest()
}

// staleAfter is how old the folder of a process that died while compiling must
// be before it is removed: far longer than any compile.
const staleAfter = time.Hour

// item is one entry of the folder.
type item struct {
	path string
	size int64
	used time.Time
}

// entries are the finished entries, good or bad, the longest unused first.
func (c *cacheDir) entries() (items []item) {
	c.each(func(path string, _ fs.DirEntry) {
		if fi, err := os.Stat(filepath.Join(path, indexName)); err == nil {
			items = append(items, item{path, dirSize(path), fi.ModTime()})
		}
	})
	sort.Slice(items, func(i, j int) bool { return items[i].used.Before(items[j].used) })
	return items
}

// each calls f with the folders of the cache.
func (c *cacheDir) each(f func(path string, d fs.DirEntry)) {
	list, err := os.ReadDir(c.path)
	if err != nil {
		return
	}
	for _, d := range list {
		if d.IsDir() {
			f(filepath.Join(c.path, d.Name()), d)
		}
	}
}

// sweep removes left-over folders and the entries that were not used for the
// longest time, until the rest fits. The entry keep stays. Failures only leave
// the folder larger.
func (c *cacheDir) sweep(keep string) {
	c.each(func(path string, d fs.DirEntry) {
		if _, err := os.Stat(filepath.Join(path, indexName)); err == nil {
			return
		}
		if info, err := d.Info(); err == nil && time.Since(info.ModTime()) > staleAfter {
			_ = os.RemoveAll(path)
		}
	})
	defer c.sweepSources()
	var total int64
	items := c.entries()
	for _, it := range items {
		total += it.size
	}
	for _, it := range items {
		if total <= c.max {
			return
		}
		if it.path != keep && os.RemoveAll(it.path) == nil {
			if l, ok, err := lockfile.Try(it.path + ".lock"); err == nil && ok {
				_ = os.Remove(it.path + ".lock")
				_ = l.Release() // at worst two processes make the entry anew
			}
			total -= it.size
		}
	}
}

// sweepSources removes the files that lead to entries that are gone, and what a
// process left of a write.
func (c *cacheDir) sweepSources() {
	list, err := os.ReadDir(c.path)
	if err != nil {
		return
	}
	for _, d := range list {
		p := filepath.Join(c.path, d.Name())
		switch {
		case strings.HasPrefix(d.Name(), sourcePrefix):
			if key, err := os.ReadFile(p); err == nil && !c.has(filepath.Base(string(key))) {
				_ = os.Remove(p)
			}
		case strings.HasPrefix(d.Name(), "part-"):
			if info, err := d.Info(); err == nil && time.Since(info.ModTime()) > staleAfter {
				_ = os.Remove(p)
			}
		}
	}
}

func dirSize(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if fi, err := d.Info(); err == nil {
				n += fi.Size()
			}
		}
		return nil
	})
	return n
}
