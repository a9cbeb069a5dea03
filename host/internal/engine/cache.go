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

	"github.com/tetratelabs/wazero"

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

const indexName = "index.json"

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

// compileIn calls build with a folder for the runtime's cache. One process at a
// time builds an entry; the others wait for it and then find it. It reports
// whether the entry was there.
func (c *cacheDir) compileIn(ctx context.Context, key string, build func(cache wazero.CompilationCache) error) (hit bool, err error) {
	entry := filepath.Join(c.path, key)
	if verifyEntry(entry) == nil {
		return true, c.load(entry, build)
	}
	lock, err := lockfile.Acquire(ctx, entry+".lock")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if verifyEntry(entry) == nil {
		return true, c.load(entry, build)
	}
	return false, c.make(entry, build)
}

// load uses an entry and notes the use for eviction.
func (c *cacheDir) load(entry string, build func(wazero.CompilationCache) error) error {
	now := time.Now()
	_ = os.Chtimes(filepath.Join(entry, indexName), now, now) // only makes eviction worse
	return withCache(entry, build)
}

// make compiles into a new folder and puts it in place whole. A process that
// dies half-way leaves a folder that sweep removes.
func (c *cacheDir) make(entry string, build func(wazero.CompilationCache) error) error {
	tmp, err := os.MkdirTemp(c.path, "new-")
	if err != nil {
		return fmt.Errorf("make a cache entry: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := withCache(tmp, build); err != nil {
		return err
	}
	if err := writeIndex(tmp); err != nil {
		return fmt.Errorf("write a cache entry: %w", err)
	}
	if err := os.RemoveAll(entry); err != nil {
		return fmt.Errorf("replace a cache entry: %w", err)
	}
	if err := os.Rename(tmp, entry); err != nil {
		return fmt.Errorf("put a cache entry in place: %w", err)
	}
	c.sweep(entry)
	return nil
}

func withCache(dir string, build func(wazero.CompilationCache) error) error {
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return fmt.Errorf("open the compile cache: %w", err)
	}
	return build(cache)
}

func writeIndex(dir string) error {
	ix := index{Files: map[string]string{}}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		sum, err := fileDigest(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
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

// verifyEntry is nil if the entry has exactly the files of its index, unchanged.
func verifyEntry(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, indexName))
	if err != nil {
		return err
	}
	var ix index
	if err := json.Unmarshal(b, &ix); err != nil {
		return err
	}
	seen := 0
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == indexName {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		want, ok := ix.Files[rel]
		if !ok || !d.Type().IsRegular() {
			return fmt.Errorf("%s is not in the index", rel)
		}
		got, err := fileDigest(p)
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("%s was changed", rel)
		}
		seen++
		return nil
	})
	if err == nil && (seen != len(ix.Files) || seen == 0) {
		err = errors.New("files are missing")
	}
	return err
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

// sweep removes left-over folders and the entries that were not used for the
// longest time, until the rest fits. The entry keep stays. Failures only leave
// the folder larger.
func (c *cacheDir) sweep(keep string) {
	list, err := os.ReadDir(c.path)
	if err != nil {
		return
	}
	type item struct {
		path string
		size int64
		used time.Time
	}
	var items []item
	var total int64
	for _, d := range list {
		p := filepath.Join(c.path, d.Name())
		if !d.IsDir() {
			continue
		}
		it := item{path: p, size: dirSize(p)}
		fi, err := os.Stat(filepath.Join(p, indexName))
		if err != nil {
			if info, err := d.Info(); err == nil && time.Since(info.ModTime()) > staleAfter {
				_ = os.RemoveAll(p)
			}
			continue
		}
		it.used = fi.ModTime()
		total += it.size
		items = append(items, it)
	}
	sort.Slice(items, func(i, j int) bool { return items[i].used.Before(items[j].used) })
	for _, it := range items {
		if total <= c.max {
			return
		}
		if it.path != keep && os.RemoveAll(it.path) == nil {
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
