// Package store keeps installed plugins on disk. A module lies under the SHA-256
// of its bytes; lock.json says which name means which module, and what its tools
// and requests were when the user accepted it. Nothing is fetched here and no
// plugin is run. A reader never sees a half-written state, and several processes
// may install at once.
package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/lockfile"
	"github.com/bladehost/bladehost/host/internal/strictjson"
)

// lockVersion is the version of lock.json's format.
const lockVersion = 1

// Store is the folder of installed plugins. It is safe for concurrent use, by
// several processes too.
type Store struct{ dir string }

// Open uses dir, which is made when the first plugin is installed.
func Open(dir string) *Store { return &Store{dir} }

// Dir is the store's folder.
func (s *Store) Dir() string { return s.dir }

// Entry is one installed plugin as it was accepted.
type Entry struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Source is where it came from, for people.
	Source string `json:"source"`
	// SHA256 is the digest of the module, in hex, and Size its length in bytes.
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
	// Manifest is the digest of the manifest section.
	Manifest string `json:"manifestSha256"`
	// Tools are the digests of the tools' definitions.
	Tools map[string]string `json:"tools"`
	// Definitions and Capabilities are what was accepted, for telling what changed.
	Definitions  json.RawMessage   `json:"definitions"`
	Capabilities *abi.Capabilities `json:"capabilities,omitempty"`
	// Imports are the host functions the module may call.
	Imports     []string  `json:"imports"`
	InstalledAt time.Time `json:"installedAt"`
}

type lockData struct {
	Version int               `json:"version"`
	Plugins map[string]*Entry `json:"plugins"`
}

// Candidate is a plugin that somebody wants to install. The module was checked.
type Candidate struct {
	Module   []byte
	Manifest *abi.Manifest
	// RawManifest is the section's bytes.
	RawManifest []byte
	Imports     []string
	Source      string
}

// Entry is what the lock file will say about the candidate.
func (c *Candidate) entry() (*Entry, error) {
	sum := sha256.Sum256(c.Module)
	msum := sha256.Sum256(c.RawManifest)
	defs, err := abi.Marshal(c.Manifest.Tools)
	if err != nil {
		return nil, err
	}
	e := &Entry{
		Name: c.Manifest.Name, Version: c.Manifest.Version, Source: c.Source, SHA256: hex.EncodeToString(sum[:]), Size: int64(len(c.Module)),
		Manifest: hex.EncodeToString(msum[:]), Tools: map[string]string{}, Definitions: defs, Capabilities: c.Manifest.Capabilities,
		Imports: append([]string{}, c.Imports...), InstalledAt: time.Now().UTC().Truncate(time.Second),
	}
	sort.Strings(e.Imports)
	for _, t := range c.Manifest.Tools {
		raw, err := abi.Marshal(t)
		if err != nil {
			return nil, err
		}
		tsum := sha256.Sum256(raw)
		e.Tools[t.Name] = hex.EncodeToString(tsum[:])
	}
	return e, nil
}

// Install keeps a candidate under its name. A plugin of that name with other
// bytes is refused with the difference (CodeChanged), unless accept is set. It
// returns the entry and what it replaced, which is nil for a new plugin.
func (s *Store) Install(ctx context.Context, c Candidate, accept bool) (now, was *Entry, err error) {
	e, err := c.entry()
	if err != nil {
		return nil, nil, abi.NewError(abi.CodeManifest, "the manifest cannot be kept: %v", err)
	}
	err = s.change(ctx, func(l *lockData) error {
		was = l.Plugins[e.Name]
		if was != nil && was.SHA256 == e.SHA256 { // mends what is damaged
			if now = was; was.differs(e) != "" {
				now, l.Plugins[e.Name] = e, e
			}
			return s.keep(c.Module, e.SHA256)
		}
		if was != nil && !accept {
			return changedError(was, e)
		}
		if err := s.keep(c.Module, e.SHA256); err != nil {
			return err
		}
		l.Plugins[e.Name] = e
		now = e
		return nil
	})
	return now, was, err
}

// Remove forgets a plugin and deletes its module unless another name uses it.
func (s *Store) Remove(ctx context.Context, name string) (*Entry, error) {
	var gone *Entry
	err := s.change(ctx, func(l *lockData) error {
		e, ok := l.Plugins[name]
		if !ok {
			return s.notInstalled(name, l)
		}
		gone = e
		delete(l.Plugins, name)
		return nil
	})
	return gone, err
}

// List returns the installed plugins, sorted by name.
func (s *Store) List() ([]*Entry, error) {
	l, err := s.read()
	if err != nil {
		return nil, err
	}
	out := make([]*Entry, 0, len(l.Plugins))
	for _, e := range l.Plugins {
		out = append(out, e)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

// Get returns the entry of a plugin.
func (s *Store) Get(name string) (*Entry, error) {
	l, err := s.read()
	if err != nil {
		return nil, err
	}
	e, ok := l.Plugins[name]
	if !ok {
		return nil, s.notInstalled(name, l)
	}
	return e, nil
}

func (s *Store) notInstalled(name string, l *lockData) error {
	if len(l.Plugins) == 0 {
		return abi.NewError(abi.CodeNotInstalled, "%s is not installed; no plugin is. Install one with: bladehost install FILE.wasm", name)
	}
	return abi.NewError(abi.CodeNotInstalled, "%s is not installed; see: bladehost list", name)
}

// Module reads the module of an entry, once, and checks the very bytes it
// returns: against the entry's digest, and the entry against the manifest in them.
func (s *Store) Module(e *Entry) ([]byte, error) {
	b, err := readRegular(s.path(e.SHA256), maxModule)
	if err != nil {
		return nil, abi.NewError(abi.CodeCorrupt, "the module of %s cannot be read: %v; install the plugin again with: %s", e.Name, err, e.again()).Because(err)
	}
	sum := sha256.Sum256(b)
	if got := hex.EncodeToString(sum[:]); got != e.SHA256 {
		return nil, abi.NewError(abi.CodeCorrupt, "the module of %s is not the one that was installed (its SHA-256 is %s, not %s); install the plugin again with: %s", e.Name, got, e.SHA256, e.again())
	}
	if why := e.differsFrom(b); why != "" {
		return nil, abi.NewError(abi.CodeCorrupt, "the entry of %s in %s does not belong to its module: %s; install the plugin again with: %s", e.Name, s.lockPath(), why, e.again())
	}
	return b, nil
}

func (s *Store) path(digest string) string {
	return filepath.Join(s.dir, "modules", "sha256", digest+".wasm")
}

func (s *Store) lockPath() string { return filepath.Join(s.dir, "lock.json") }

// read returns the lock file's content; a missing file is an empty one.
func (s *Store) read() (*lockData, error) {
	b, err := readRegular(s.lockPath(), maxLock)
	if errors.Is(err, fs.ErrNotExist) {
		return &lockData{Version: lockVersion, Plugins: map[string]*Entry{}}, nil
	}
	if err != nil {
		return nil, abi.NewError(abi.CodeIO, "the list of installed plugins cannot be read: %v; restore it, or remove it and install the plugins again", err).Because(err)
	}
	var l *lockData // a file that is null leaves it nil
	if err := strictjson.Decode(b, &l); err != nil {
		return nil, damaged(s.lockPath(), "%v", err)
	}
	switch {
	case l == nil:
		return nil, damaged(s.lockPath(), "it is null")
	case l.Version > lockVersion:
		return nil, abi.NewError(abi.CodeIO, "%s has the format version %d; this bladehost knows %d: use a newer one", s.lockPath(), l.Version, lockVersion)
	case l.Version < lockVersion:
		return nil, damaged(s.lockPath(), "there is no format version %d", l.Version)
	case l.Plugins == nil:
		return nil, damaged(s.lockPath(), "plugins is null or missing")
	}
	return l, l.check(s.lockPath())
}

// damaged is the error for a lock file that makes no sense.
func damaged(path, format string, args ...any) error {
	return abi.NewError(abi.CodeIO, "%s is damaged: %s; restore it, or remove it and install the plugins again", path, fmt.Sprintf(format, args...))
}

// check refuses entries that could make this package touch other files.
func (l *lockData) check(path string) error {
	for name, e := range l.Plugins {
		if e == nil || e.Name != name || !abi.ValidPackageName(name) || !isDigest(e.SHA256) {
			return damaged(path, "the entry %q makes no sense", name)
		}
	}
	return nil
}

func isDigest(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && hex.EncodeToString(b) == s
}

// change runs f on the lock file's content while no other process does, and puts
// the result in place whole. When f fails nothing changes.
func (s *Store) change(ctx context.Context, f func(*lockData) error) (err error) {
	if err := os.MkdirAll(filepath.Join(s.dir, "modules", "sha256"), 0o700); err != nil {
		return abi.NewError(abi.CodeIO, "the plugin folder cannot be made: %v", err).Because(err)
	}
	lock, err := lockfile.Acquire(ctx, filepath.Join(s.dir, "install.lock"))
	if err != nil {
		return abi.NewError(abi.CodeIO, "another bladehost holds the plugin folder: %v", err).Because(err)
	}
	defer func() {
		if e := lock.Release(); err == nil && e != nil {
			err = abi.NewError(abi.CodeIO, "%v", e)
		}
	}()
	l, err := s.read()
	if err != nil {
		return err
	}
	if err := f(l); err != nil {
		return err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // it is for people, too
	enc.SetIndent("", "  ")
	if err := enc.Encode(l); err != nil {
		return err
	}
	if b.Len() > maxLock {
		return abi.NewError(abi.CodeIO, "%s would have %d bytes, at most %d are allowed; remove a plugin with: bladehost remove PLUGIN", s.lockPath(), b.Len(), maxLock)
	}
	if err := writeWhole(s.lockPath(), b.Bytes()); err != nil {
		return abi.NewError(abi.CodeIO, "the lock file cannot be written: %v", err).Because(err)
	}
	s.collect(l)
	return nil
}

// keep writes a module under its digest unless it is there, intact.
func (s *Store) keep(module []byte, digest string) error {
	if b, err := readRegular(s.path(digest), maxModule); err == nil {
		if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) == digest {
			return nil
		}
	}
	if err := writeWhole(s.path(digest), module); err != nil {
		return abi.NewError(abi.CodeIO, "the module cannot be written: %v", err).Because(err)
	}
	return nil
}

// collect deletes modules that no entry names. A failure leaves a file too many.
func (s *Store) collect(l *lockData) {
	used := map[string]bool{}
	for _, e := range l.Plugins {
		used[e.SHA256+".wasm"] = true
	}
	dir := filepath.Join(s.dir, "modules", "sha256")
	list, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, d := range list {
		if !used[d.Name()] {
			_ = os.Remove(filepath.Join(dir, d.Name()))
		}
	}
}

// writeWhole puts a file in place so that a reader sees the old bytes or the new
// ones, and both survive a crash.
func writeWhole(path string, b []byte) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".new-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(b); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes a rename last. Where folders cannot be synced there is nothing
// to do.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer func() { _ = d.Close() }() // read only
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrInvalid) {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

// ToolNames are the names and aliases of the plugin's tools, sorted.
func (e *Entry) ToolNames() []string {
	var list []struct {
		Name    string   `json:"name"`
		Aliases []string `json:"aliases"`
	}
	if json.Unmarshal(e.Definitions, &list) != nil {
		return nil
	}
	var out []string
	for _, t := range list {
		out = append(append(out, t.Name), t.Aliases...)
	}
	sort.Strings(out)
	return out
}
