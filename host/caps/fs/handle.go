package fs

import (
	"os"
	"sync"
)

// handle is an open directory that paths start from.
type handle struct {
	g   *Grant
	f   *os.File // the directory itself
	rel string   // its path in the root when it was opened, for messages and rules
	top bool     // the root of the grant: f and root belong to the grant

	mu     sync.Mutex
	root   *os.Root // opened at the first path that needs it
	refs   int      // operations under way
	closed bool
}

// enter keeps the directory open until leave.
func (h *handle) enter() error {
	if h.top {
		return h.g.enter()
	}
	if h.g.revoked.Load() {
		return ErrRevoked
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return EBADF
	}
	if err := h.g.enter(); err != nil {
		return err
	}
	h.refs++
	return nil
}

func (h *handle) leave() {
	h.g.leave()
	if h.top {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refs--
	if h.closed && h.refs == 0 {
		_ = h.release()
	}
}

// osRoot returns an os.Root on the directory.
func (h *handle) osRoot() (*os.Root, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.root != nil {
		return h.root, nil
	}
	r, err := h.g.rootOf(h.f, h.rel)
	if err != nil {
		return nil, err
	}
	h.root = r
	return r, nil
}

// close ends the directory's use; the last operation under way releases it.
func (h *handle) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if h.refs > 0 {
		return nil
	}
	return h.release()
}

func (h *handle) release() error {
	if h.root != nil {
		h.root.Close()
	}
	return h.f.Close()
}

// place is the last name of a path in the directory that was really opened.
type place struct {
	fd     int      // the directory's descriptor, noFD with the portable backend
	file   *os.File // what holds fd open, if that is a file
	own    bool     // fd must be closed
	dirRel string   // path of the directory relative to the handle, links not resolved
	base   string
	slash  bool // the path demands a directory
	h      *handle

	looked bool // st and stErr are what lstat said when the place was found
	st     Info
	stErr  error
}

// lstat describes what is in the place.
func (p place) lstat() (Info, error) {
	if p.looked {
		return p.st, p.stErr
	}
	return p.h.g.be.lstat(p)
}

const noFD = -1

func (p place) rel() string { return joinRel(p.dirRel, p.base) }

func (p place) done() {
	switch {
	case !p.own:
	case p.file != nil:
		p.file.Close()
	default:
		closeFD(p.fd)
	}
}

// locate opens the directory of the last name of path. With follow, or a trailing
// slash, a link in the last place is followed as long as it stays inside. The caller
// calls done.
func (h *handle) locate(path string, follow bool) (place, error) {
	if err := checkPath(path); err != nil {
		return place{}, err
	}
	slash := false
	for range maxLinks {
		dir, base, s := splitLast(path)
		slash = slash || s
		p := place{fd: noFD, dirRel: dir, base: base, slash: slash, h: h}
		if err := h.g.be.openDir(&p); err != nil {
			return place{}, fail(err)
		}
		if base == "." || (!follow && !slash) {
			return p, nil
		}
		p.st, p.stErr = h.g.be.lstat(p)
		p.looked = true
		if p.stErr != nil || p.st.Type != TypeSymlink {
			return p, nil // not a link, or nothing there: the operation will say
		}
		target, err := h.g.be.readlink(p)
		p.done()
		if err != nil {
			continue // it was swapped in between: look again
		}
		if target == "" || isAbs(target) {
			return place{}, ErrEscape
		}
		path = joinRel(dir, toSlash(target))
		if len(path) > maxPath {
			return place{}, ENAMETOOLONG
		}
	}
	return place{}, ELOOP
}

// backend is what differs between systems: operations on one place. Errors may be raw.
// open leaves truncation to its caller, but opens for it.
type backend interface {
	openDir(p *place) error
	open(p place, o OpenFlags, perm uint32) (*os.File, error)
	lstat(p place) (Info, error)
	fstat(f *os.File, rel string) (Info, error)
	readlink(p place) (string, error)
	mkdir(p place, perm uint32) error
	unlink(p place) error
	rmdir(p place) error
	rename(from, to place) error
	link(from, to place) error
	symlink(target string, p place) error
	setTimes(p place, atim, mtim TimeSet) error
	dirReader() dirReader
}

// dirReader reads an open directory in batches; an empty one is the end. "." and ".."
// may be among the entries, an inode of 0 or TypeOther means that it has to be looked up.
type dirReader interface {
	next(f *os.File) ([]DirEntry, error)
}
