package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"time"

	"github.com/bladehost/bladehost/host/internal/lockfile"
)

// DefaultCacheSize bounds the folder of compiled code: some 80 Go plugins.
const DefaultCacheSize = 1 << 30

// cacheDir is the folder of compiled code. Each module has a folder of its own,
// named by its key, with the runtime's files and an index of their SHA-256. The
// runtime guards its files with a CRC only and runs what they hold, so an entry
// is used only if every digest is right; otherwise it is made anew.
type cacheDir struct {
	path string
	max  int64
}

const (
	// indexName is the list of digests, moduleName the rewritten module.
	indexName  = "index.json"
	moduleName = "module"
)

// index lists the digests of an entry's files by their path in the entry.
type index struct {
	Files map[string]string `json:"files"`
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

// open returns the rewritten module of an entry and the folder of its machine
// code, if all of it is as it was written.
func (c *cacheDir) open(key string) (module []byte, dir string, err error) {
	dir = c.entry(key)
	if module, err = readEntry(dir); err != nil {
		return nil, "", err
	}
	now := time.Now()
	_ = os.Chtimes(filepath.Join(dir, indexName), now, now) // for eviction; without it that is only worse
	return module, dir, nil
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
func (c *cacheDir) make(key string, build func(dir string) ([]byte, error)) error {
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
	if err := writeIndex(tmp); err != nil {
		return fmt.Errorf("write a cache entry: %w", err)
	}
	entry := c.entry(key)
	if err := os.RemoveAll(entry); err != nil {
		return fmt.Errorf("replace a cache entry: %w", err)
	}
	if err := os.Rename(tmp, entry); err != nil {
		return fmt.Errorf("put a cache entry in place: %w", err)
	}
	c.sweep(entry)
	return nil
}

func writeIndex(dir string) error {
	ix := index{Files: map[string]string{}}
	err := walkEntry(dir, func(rel, path string) error {
		sum, err := fileDigest(path)
		ix.Files[rel] = sum
		return err
	})
	if err != nil {
		return err
	}
	b, err := json.Marshal(ix)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, indexName), b, 0o600)
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

// readEntry returns the module of an entry that has exactly the files of its
// index, unchanged.
func readEntry(dir string) (module []byte, err error) {
	b, err := os.ReadFile(filepath.Join(dir, indexName))
	if err != nil {
		return nil, err
	}
	var ix index
	if err := json.Unmarshal(b, &ix); err != nil {
		return nil, err
	}
	seen := 0
	err = walkEntry(dir, func(rel, path string) (err error) {
		var got string
		if rel == moduleName {
			if module, err = os.ReadFile(path); err != nil {
				return err
			}
			sum := sha256.Sum256(module)
			got = hex.EncodeToString(sum[:])
		} else if got, err = fileDigest(path); err != nil {
			return err
		}
		if want, ok := ix.Files[rel]; !ok || got != want {
			return fmt.Errorf("%s was changed", rel)
		}
		seen++
		return nil
	})
	if err == nil && (module == nil || seen != len(ix.Files)) {
		err = errors.New("files are missing")
	}
	return module, err
}

func fileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
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
