package fs

import (
	"io"
	"strings"
)

// Tree reads what lies below a folder, for walks that open very many files. Its paths are slash separated, relative
// to the folder and without empty elements, "." and ".."; "" is the folder itself.
//
// Every path is opened from the root of the grant anew, and no link in it is followed: ELOOP. Where the system has no
// call for that, links on the way are followed as far as they stay inside, as by Dir, and only the last name is none.
type Tree struct {
	d *Dir
	// at is where the folder is in the grant, if raw: then the kernel walks the paths.
	at  string
	raw bool
}

// Tree returns the tree below a directory, ENOTDIR for a file. It is valid until Close.
func (f *File) Tree() (*Tree, error) {
	d, err := f.Dir()
	if err != nil {
		return nil, err
	}
	if err := d.h.enter(); err != nil {
		return nil, err
	}
	defer d.h.leave()
	t := &Tree{d: d}
	at, known, err := f.v.g.fdPath(int(f.f.Fd()))
	if err != nil {
		return nil, err
	}
	t.at, t.raw = at, known && hasRawTree(f.v.g)
	return t, nil
}

// Direct reports whether a path is opened in one call. Else its folders are opened one by one each time, so that
// many files of one folder are better opened through its Dir.
func (t *Tree) Direct() bool { return t.raw }

// plain reports whether a path has only names in it.
func plain(path string) bool {
	if len(path) > maxPath || strings.IndexByte(path, 0) >= 0 {
		return false
	}
	for {
		name, rest, more := strings.Cut(path, "/")
		if name == "" || name == "." || name == ".." {
			return false
		}
		if !more {
			return true
		}
		path = rest
	}
}

// Read reads the start of a regular file, as much as fits into buf. all says that this is the whole of it. It is for
// paths that a listing has said to be files: what is there now is looked at behind the open, which does not block.
func (t *Tree) Read(path string, buf []byte) (n int, all bool, err error) {
	if !plain(path) {
		return 0, false, EINVAL
	}
	if t.raw {
		if n, all, done, err := t.rawRead(path, buf); done {
			return n, all, err
		}
	}
	f, err := t.d.OpenFile(path, OpenFlags{Read: true, NoFollow: true})
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = f.Close() }() // read only
	for n < len(buf) {
		m, err := f.Read(buf[n:])
		n += m
		if err == io.EOF {
			return n, true, nil
		}
		if err != nil {
			return n, false, err
		}
	}
	return n, false, nil
}

// Folder is an open folder of a tree.
type Folder struct {
	t    *Tree
	path string
	fd   int   // if raw
	f    *File // else
}

// Folder opens a folder. The caller closes it.
func (t *Tree) Folder(path string) (*Folder, error) {
	if path != "" && !plain(path) {
		return nil, EINVAL
	}
	if t.raw {
		if f, done, err := t.rawFolder(path); done {
			return f, err
		}
	}
	rel := path
	if rel == "" {
		rel = "."
	}
	f, err := t.d.OpenFile(rel, OpenFlags{Directory: true, NoFollow: true})
	if err != nil {
		return nil, err
	}
	return &Folder{t: t, path: path, fd: noFD, f: f}, nil
}

// Close releases the folder.
func (f *Folder) Close() {
	if f.f != nil {
		_ = f.f.Close() // read only
		return
	}
	closeFD(f.fd)
	f.t.d.v.give(cOpen, 1)
}

// List appends the entries of the folder, without "." and ".." and without names that the grant denies, to list. What
// it has read before an error is returned too. It is called once.
func (f *Folder) List(list []DirEntry) ([]DirEntry, error) {
	if f.f == nil {
		return f.rawList(list)
	}
	for cookie := uint64(0); ; {
		batch, err := f.f.ReadDir(cookie, 1024)
		if err != nil || len(batch) == 0 {
			return list, err
		}
		for _, e := range batch {
			if cookie = e.Next; e.Name != "." && e.Name != ".." {
				list = append(list, e)
			}
		}
	}
}

// Lstat describes an entry of the folder itself, a link too.
func (f *Folder) Lstat(name string) (Info, error) {
	if !plain(name) || strings.Contains(name, "/") {
		return Info{}, EINVAL
	}
	if f.f == nil {
		return f.rawLstat(name)
	}
	d, err := f.f.Dir()
	if err != nil {
		return Info{}, err
	}
	return d.Lstat(name)
}
