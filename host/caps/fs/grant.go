package fs

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

// Options says what a grant allows. The zero value is a writable grant without
// symbolic-link creation and without protected names.
type Options struct {
	// ReadOnly refuses every change with EROFS.
	ReadOnly bool
	// AllowSymlinkCreation lets users create symbolic links whose target stays
	// inside the grant lexically. Off, Symlink fails with EPERM.
	AllowSymlinkCreation bool
	// RefuseHardLinked refuses to open files for writing in place that have more than one
	// name (ErrHardLinked): the others may be outside of the grant, as in the store of a
	// package manager. WriteAtomic still replaces such a file.
	RefuseHardLinked bool
	// Deny names paths inside, relative to the folder and slash separated, that can
	// neither be read nor changed, with everything below them. They are matched on
	// the resolved file and hold before it exists. "**/" in front means at any depth;
	// there are no other patterns.
	Deny []string
	// Protect names paths inside that can be read but not changed, created,
	// replaced or moved. See RecommendedProtect.
	Protect []string

	portable bool // tests: use only the methods of os.Root
	walk     bool // tests: as on a kernel without openat2
}

// Grant is one granted folder. It holds the folder open, so a later rename of the
// folder does not change what is granted.
type Grant struct {
	guest, real string
	opt         Options
	rules       rules
	be          backend
	dev         uint64
	badDev      sync.Map // uint64 device → bool: a pseudo file system

	root    *os.Root
	top     *os.File
	topInfo Info

	noOpenat2 atomic.Bool // the kernel has no openat2

	mu      sync.Mutex
	refs    int
	closed  bool
	revoked atomic.Bool
}

// Open grants dir, which must be a directory of an ordinary file system. A relative
// dir is taken from the working directory. Symbolic links in dir are resolved once,
// now. The caller closes the grant.
func Open(dir string, opt Options) (*Grant, error) {
	if err := CheckToolchain(runtime.Version()); err != nil {
		return nil, err
	}
	guest, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("grant %s: %w", dir, err)
	}
	realDir, err := filepath.EvalSymlinks(guest)
	if err != nil {
		return nil, fmt.Errorf("grant %s: %w", dir, err)
	}
	if err := refuseSpecial(realDir); err != nil {
		return nil, fmt.Errorf("grant %s: %w", dir, err)
	}
	rules, err := newRules(opt)
	if err != nil {
		return nil, fmt.Errorf("grant %s: %w", dir, err)
	}
	g := &Grant{guest: guest, real: realDir, opt: opt, rules: rules, be: pickBackend(opt.portable)}
	g.noOpenat2.Store(opt.walk)
	if g.root, err = os.OpenRoot(realDir); err != nil {
		return nil, fmt.Errorf("grant %s: %w", dir, err)
	}
	if g.top, err = g.root.Open("."); err != nil {
		g.root.Close()
		return nil, fmt.Errorf("grant %s: %w", dir, err)
	}
	if g.topInfo, err = g.be.fstat(g.top, "."); err != nil {
		g.Close()
		return nil, fmt.Errorf("grant %s: %w", dir, err)
	}
	g.dev = g.topInfo.Dev
	return g, nil
}

// GuestPath is the absolute, cleaned path as the user wrote it: where guests see the folder.
func (g *Grant) GuestPath() string { return g.guest }

// RealPath is the folder's path with links resolved, as of Open.
func (g *Grant) RealPath() string { return g.real }

// Denies reports whether an absolute path without links lies inside the folder, at a
// place that Deny keeps from everybody. It looks at the text only: the guard is in the
// operations themselves, and this is for saying so in good time.
func (g *Grant) Denies(path string) (inside, denied bool) {
	for _, root := range []string{g.real, g.guest} {
		rel, err := filepath.Rel(root, path)
		if rel = toSlash(rel); err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
			continue
		}
		return true, g.rules.check(rel, accRead) != nil
	}
	return false, false
}

// ReadOnly reports whether the grant refuses changes.
func (g *Grant) ReadOnly() bool { return g.opt.ReadOnly }

// Revoke ends the grant: the next operation of every user fails with ErrRevoked,
// also on files that are already open. An operation under way may still end.
func (g *Grant) Revoke() { _ = g.Close() }

// Close is Revoke and releases the folder. It can be called more than once.
func (g *Grant) Close() error {
	g.revoked.Store(true)
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed && g.refs == 0 {
		g.release()
	}
	g.closed = true
	return nil
}

func (g *Grant) release() {
	g.root.Close()
	if g.top != nil {
		g.top.Close()
	}
}

// enter keeps the folder's descriptors open until leave.
func (g *Grant) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return ErrRevoked
	}
	g.refs++
	return nil
}

func (g *Grant) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refs--
	if g.closed && g.refs == 0 {
		g.release()
	}
}

// allowDev refuses files of pseudo file systems mounted below the grant.
func (g *Grant) allowDev(dev uint64, f func() bool) error {
	if dev == g.dev {
		return nil
	}
	bad, ok := g.badDev.Load(dev)
	if !ok {
		bad = f()
		g.badDev.Store(dev, bad)
	}
	if bad.(bool) {
		return ErrNotRegular
	}
	return nil
}
