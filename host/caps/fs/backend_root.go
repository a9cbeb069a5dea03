package fs

import (
	"errors"
	"hash/fnv"
	"io"
	iofs "io/fs"
	"os"
	"time"
)

// rootBackend uses only the methods of os.Root. It is what Windows and other systems
// get; tests run it everywhere.
type rootBackend struct{}

func (rootBackend) openDir(p *place) error {
	if p.dirRel == "" || p.dirRel == "." {
		return nil
	}
	root, err := p.h.osRoot()
	if err != nil {
		return err
	}
	st, err := root.Stat(p.dirRel)
	if err == nil && !st.IsDir() {
		err = ENOTDIR
	}
	return err
}

// with runs f on the os.Root that p lies in.
func (p place) with(f func(*os.Root, string) error) error {
	r, err := p.h.osRoot()
	if err != nil {
		return err
	}
	return f(r, p.rel())
}

func (rootBackend) open(p place, o OpenFlags, perm uint32) (*os.File, error) {
	fl := openNoBlock
	switch {
	case o.Write && o.Read, o.Truncate && !o.Write:
		fl |= os.O_RDWR
	case o.Write:
		fl |= os.O_WRONLY
	}
	for _, x := range [...]struct {
		on   bool
		flag int
	}{{o.Create, os.O_CREATE}, {o.Exclusive, os.O_EXCL}} {
		if x.on {
			fl |= x.flag
		}
	}
	var f *os.File
	err := p.with(func(r *os.Root, rel string) (err error) {
		f, err = r.OpenFile(rel, fl, iofs.FileMode(perm))
		return err
	})
	return f, err
}

func (rootBackend) lstat(p place) (Info, error) {
	var i Info
	err := p.with(func(r *os.Root, rel string) error {
		st, err := r.Lstat(rel)
		if err == nil {
			i = infoOfGo(st, joinRel(p.h.rel, rel))
		}
		return err
	})
	return i, err
}

func (rootBackend) fstat(f *os.File, rel string) (Info, error) {
	st, err := f.Stat()
	if err != nil {
		return Info{}, err
	}
	return infoOfGo(st, rel), nil
}

// infoOfGo fills what the portable interface knows; the identity is derived from the path.
func infoOfGo(st iofs.FileInfo, rel string) Info {
	i := Info{
		Dev: 1, Nlink: 1, Size: st.Size(), Type: typeOf(st.Mode()), Perm: st.Mode().Perm(),
		Atim: st.ModTime().UnixNano(), Mtim: st.ModTime().UnixNano(), Ctim: st.ModTime().UnixNano(),
	}
	if i.IsDir() {
		i.Size = 0
	}
	h := fnv.New64a()
	_, _ = io.WriteString(h, cleanRel(rel))
	i.Ino = h.Sum64() | 1
	sysInfo(st, &i)
	return i
}

func (rootBackend) readlink(p place) (string, error) {
	var s string
	err := p.with(func(r *os.Root, rel string) (err error) {
		s, err = r.Readlink(rel)
		return err
	})
	return s, err
}

func (rootBackend) mkdir(p place, perm uint32) error {
	return p.with(func(r *os.Root, rel string) error { return r.Mkdir(rel, iofs.FileMode(perm)) })
}

func (rootBackend) unlink(p place) error {
	return p.with(func(r *os.Root, rel string) error { return r.Remove(rel) })
}

func (rootBackend) rmdir(p place) error {
	return p.with(func(r *os.Root, rel string) error { return r.Remove(rel) })
}

// rename needs one os.Root for both ends: with two different directories it works from
// the root of the grant, if their paths are still the same.
func (b rootBackend) rename(from, to place) error {
	return pair(from, to, func(r *os.Root, a, c string) error {
		sf, err := r.Lstat(a)
		if err != nil {
			return err
		}
		st, err := r.Lstat(c)
		switch {
		case err != nil:
		case os.SameFile(st, sf):
			return nil
		case sf.IsDir() && !st.IsDir():
			return ENOTDIR
		case !sf.IsDir() && st.IsDir():
			return EISDIR
		case sf.IsDir() && st.IsDir():
			if err := r.Remove(c); err != nil {
				if errors.Is(err, iofs.ErrExist) {
					return ENOTEMPTY
				}
				return err
			}
		}
		return r.Rename(a, c)
	})
}

func (rootBackend) link(from, to place) error {
	return pair(from, to, func(r *os.Root, a, c string) error { return r.Link(a, c) })
}

func pair(from, to place, f func(r *os.Root, a, b string) error) error {
	if from.h == to.h {
		return from.with(func(r *os.Root, a string) error { return f(r, a, to.rel()) })
	}
	return f(from.h.g.root, joinRel(from.h.rel, from.rel()), joinRel(to.h.rel, to.rel()))
}

func (rootBackend) symlink(target string, p place) error {
	return p.with(func(r *os.Root, rel string) error { return r.Symlink(target, rel) })
}

func (b rootBackend) setTimes(p place, atim, mtim TimeSet) error {
	st, err := b.lstat(p)
	if err != nil {
		return err
	}
	if st.Type == TypeSymlink {
		return ENOTSUP
	}
	return p.with(func(r *os.Root, rel string) error {
		return r.Chtimes(rel, goTime(atim, st.Atim), goTime(mtim, st.Mtim))
	})
}

func goTime(t TimeSet, old int64) time.Time {
	switch {
	case t.Now:
		return time.Now()
	case t.Set:
		return time.Unix(0, t.Ns)
	}
	return time.Unix(0, old)
}

// rootByPath opens an os.Root at a path of the grant and makes sure that it is f.
func (g *Grant) rootByPath(f *os.File, rel string) (*os.Root, error) {
	r, err := g.root.OpenRoot(rel)
	if err != nil {
		return nil, err
	}
	a, err := r.Stat(".")
	if err == nil {
		var b iofs.FileInfo
		if b, err = f.Stat(); err == nil && !os.SameFile(a, b) {
			err = ESTALE
		}
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (rootBackend) dirReader() dirReader { return goDir{} }

// goDir reads directory entries through os.File.
type goDir struct{}

func (goDir) next(f *os.File) ([]DirEntry, error) {
	list, err := f.ReadDir(256)
	if err != nil && err != io.EOF {
		return nil, err
	}
	out := make([]DirEntry, 0, len(list))
	for _, e := range list {
		out = append(out, DirEntry{Name: e.Name(), Type: typeOf(e.Type())})
	}
	return out, nil
}
