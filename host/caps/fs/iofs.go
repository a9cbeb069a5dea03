package fs

import (
	"io"
	iofs "io/fs"
	"path"
	"sort"
	"time"
)

// FS returns the directory as an io/fs file system, for walking and globbing. It has
// the methods of fs.StatFS, fs.ReadDirFS, fs.ReadFileFS and fs.ReadLinkFS. Errors are
// *fs.PathError around an Errno. Files are opened for reading.
func (d *Dir) FS() iofs.FS { return dirFS{d} }

type dirFS struct{ d *Dir }

func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &iofs.PathError{Op: op, Path: name, Err: ErrnoOf(err)}
}

func (f dirFS) Open(name string) (iofs.File, error) {
	if !iofs.ValidPath(name) {
		return nil, pathError("open", name, EINVAL)
	}
	h, err := f.d.OpenFile(name, OpenFlags{Read: true})
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &openFile{File: h, name: name}, nil
}

func (f dirFS) Stat(name string) (iofs.FileInfo, error) { return f.stat("stat", name, f.d.Stat) }

// Lstat does not follow a link in the last place.
func (f dirFS) Lstat(name string) (iofs.FileInfo, error) { return f.stat("lstat", name, f.d.Lstat) }

func (f dirFS) stat(op, name string, stat func(string) (Info, error)) (iofs.FileInfo, error) {
	if !iofs.ValidPath(name) {
		return nil, pathError(op, name, EINVAL)
	}
	st, err := stat(name)
	if err != nil {
		return nil, pathError(op, name, err)
	}
	return fileInfo{path.Base(name), st}, nil
}

func (f dirFS) ReadLink(name string) (string, error) {
	if !iofs.ValidPath(name) {
		return "", pathError("readlink", name, EINVAL)
	}
	s, err := f.d.Readlink(name)
	return s, pathError("readlink", name, err)
}

func (f dirFS) ReadFile(name string) ([]byte, error) {
	if !iofs.ValidPath(name) {
		return nil, pathError("open", name, EINVAL)
	}
	b, err := f.d.ReadFile(name, 0)
	return b, pathError("read", name, err)
}

// ReadDir returns the entries sorted by name.
func (f dirFS) ReadDir(name string) ([]iofs.DirEntry, error) {
	h, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	list, err := h.(*openFile).ReadDir(-1)
	sort.Slice(list, func(i, j int) bool { return list[i].Name() < list[j].Name() })
	return list, err
}

// openFile makes a File an io/fs file.
type openFile struct {
	*File
	name   string
	cookie uint64
}

func (f *openFile) Stat() (iofs.FileInfo, error) {
	st, err := f.File.Stat()
	if err != nil {
		return nil, pathError("stat", f.name, err)
	}
	return fileInfo{path.Base(f.name), st}, nil
}

func (f *openFile) Read(b []byte) (int, error) {
	n, err := f.File.Read(b)
	if err != nil && err != io.EOF {
		err = pathError("read", f.name, err)
	}
	return n, err
}

// ReadDir follows fs.ReadDirFile: with n > 0 the end is io.EOF.
func (f *openFile) ReadDir(n int) ([]iofs.DirEntry, error) {
	var out []iofs.DirEntry
	for n <= 0 || len(out) < n {
		want := 256
		if n > 0 {
			want = min(want, n-len(out))
		}
		batch, err := f.File.ReadDir(f.cookie, want)
		if err != nil {
			return out, pathError("readdir", f.name, err)
		}
		if len(batch) == 0 {
			if n > 0 && len(out) == 0 {
				return nil, io.EOF
			}
			break
		}
		for _, e := range batch {
			f.cookie = e.Next
			if e.Name != "." && e.Name != ".." {
				out = append(out, dirEntry{e, f})
			}
		}
	}
	return out, nil
}

// dirEntry is an entry whose Info is looked up when asked for.
type dirEntry struct {
	e DirEntry
	f *openFile
}

func (e dirEntry) Name() string        { return e.e.Name }
func (e dirEntry) IsDir() bool         { return e.e.Type == TypeDir }
func (e dirEntry) Type() iofs.FileMode { return e.e.Type.mode() }
func (e dirEntry) String() string      { return iofs.FormatDirEntry(e) }
func (e dirEntry) Info() (iofs.FileInfo, error) {
	top := Dir{v: e.f.v, h: e.f.v.root.h}
	st, err := top.Lstat(joinRel(e.f.rel, e.e.Name))
	if err != nil {
		return nil, pathError("lstat", e.e.Name, err)
	}
	return fileInfo{e.e.Name, st}, nil
}

// mode is the kind as type bits.
func (t FileType) mode() iofs.FileMode {
	switch t {
	case TypeRegular:
		return 0
	case TypeDir:
		return iofs.ModeDir
	case TypeSymlink:
		return iofs.ModeSymlink
	}
	return iofs.ModeIrregular
}

// fileInfo is an Info with a name.
type fileInfo struct {
	name string
	i    Info
}

func (f fileInfo) Name() string        { return f.name }
func (f fileInfo) Size() int64         { return f.i.Size }
func (f fileInfo) Mode() iofs.FileMode { return f.i.Type.mode() | f.i.Perm }
func (f fileInfo) ModTime() time.Time  { return f.i.ModTime() }
func (f fileInfo) IsDir() bool         { return f.i.IsDir() }
func (f fileInfo) String() string      { return iofs.FormatFileInfo(f) }

// Sys returns the Info.
func (f fileInfo) Sys() any { return f.i }

var (
	_ iofs.StatFS     = dirFS{}
	_ iofs.ReadDirFS  = dirFS{}
	_ iofs.ReadFileFS = dirFS{}
	_ iofs.ReadLinkFS = dirFS{}
)
