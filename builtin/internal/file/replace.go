package file

import (
	"cmp"
	"context"
	"errors"
	"io"
	iofs "io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/caps/fs"
)

// maxLinks bounds the links that lead to a file that is replaced.
const maxLinks = 40

// Replace puts data in the place of the target, or makes it if old is nil. The others
// see the old or the new bytes, never a part; mode bits are kept, a new file gets
// 0644 less the umask. A link is followed and stays a link. A file with several names
// (hard links) is written in place instead, so that they stay one file; that is the one
// case in which a crash can leave a part. After an error the old bytes are there again.
//
// Right before the change the target is looked at again: if it is not as in old, the
// error is modified_externally and nothing was changed. New folders above it are made
// if mkdir is set.
func (t *Target) Replace(ctx context.Context, old *fs.Info, data []byte, mkdir bool) (out fs.Info, err error) {
	if err := Aborted(ctx); err != nil {
		return fs.Info{}, err
	}
	rel, err := t.follow()
	if err == nil && strings.HasSuffix(rel, "/") {
		err = fs.EISDIR
	}
	if err != nil {
		return fs.Info{}, Failed("write", t.Path, err)
	}
	if old == nil && mkdir {
		if err := t.Dir.MayMake(rel); err != nil {
			return fs.Info{}, t.refused("write", rel, err)
		}
		made, err := t.makeFolder(path.Dir(rel))
		defer func() {
			if out == (fs.Info{}) { // it was for nothing
				t.removeFolders(made)
			}
		}()
		if err != nil {
			return fs.Info{}, t.refused("make the folder of", rel, err)
		}
	}
	check := func() error {
		if err := Aborted(ctx); err != nil {
			return err
		}
		st, err := t.Dir.Lstat(rel)
		switch {
		case old == nil && fs.ErrnoOf(err) == fs.ENOENT:
			return nil
		case old != nil && err == nil && unchanged(*old, st):
			return nil
		}
		return Modified(t)
	}
	write := func(w io.Writer) error {
		for len(data) > 0 {
			if err := Aborted(ctx); err != nil {
				return err
			}
			n, err := w.Write(data[:min(len(data), 1<<20)])
			if err != nil {
				return err
			}
			data = data[n:]
		}
		return nil
	}
	if old != nil && old.Nlink > 1 {
		err = t.inPlace(rel, check, data)
	} else {
		err = t.Dir.Replace(rel, perm(old), write, check)
	}
	if err != nil {
		return fs.Info{}, t.refused("write", rel, err)
	}
	st, err := t.Dir.Stat(rel)
	if err != nil {
		return fs.Info{}, Failed("look at", t.Path, err)
	}
	return st, nil
}

func perm(old *fs.Info) iofs.FileMode {
	if old != nil {
		return old.Perm
	}
	return 0o644
}

// follow is the path of the file that the target's links lead to.
func (t *Target) follow() (string, error) {
	rel := t.Rel
	for range maxLinks {
		st, err := t.Dir.Lstat(rel)
		if err != nil || st.Type != fs.TypeSymlink {
			if fs.ErrnoOf(err) == fs.ENOENT {
				err = nil
			}
			return rel, err
		}
		to, err := t.Dir.Readlink(rel)
		if fs.ErrnoOf(err) == fs.EPERM { // it does not tell where to
			err = fs.ErrEscape
		}
		if err != nil {
			return "", err
		}
		to = filepath.ToSlash(to)
		if to == "" || path.IsAbs(to) || filepath.IsAbs(to) {
			return "", fs.ErrEscape
		}
		// ".." in a link starts at the real folder, so it is not cleaned away here.
		if dir := path.Dir(strings.TrimRight(rel, "/")); dir != "." {
			to = dir + "/" + to
		}
		rel = to
	}
	return "", fs.ELOOP
}

// makeFolder makes a folder and what is missing above it, and tells what it made, the deepest first.
func (t *Target) makeFolder(dir string) (made []string, err error) {
	for d := dir; d != "." && d != "/"; d = path.Dir(d) {
		if _, err := t.Dir.Lstat(d); fs.ErrnoOf(err) != fs.ENOENT {
			break
		}
		made = append(made, d)
	}
	if dir == "." {
		return nil, nil
	}
	return made, t.Dir.MkdirAll(dir, 0o755)
}

// removeFolders takes folders away again, as long as they are empty.
func (t *Target) removeFolders(made []string) {
	for _, d := range made {
		_ = t.Dir.Rmdir(d) // one that is not there, or in use by others, stays as it is
	}
}

// refused is the error of a change. A name that may be read and not changed is told apart from
// one that may not be used at all.
func (t *Target) refused(op, rel string, err error) *abi.Error {
	if fs.ErrnoOf(err) == fs.ErrDenied {
		if e := t.Dir.MayLook(rel); fs.ErrnoOf(e) != fs.ErrDenied {
			return Error(abi.TypePermission, CodeProtectedName, "%s is not changed by tools: Git runs its hooks and obeys its configuration, so whoever changes them runs programs. Have the user change it, or use git itself in a shell.", t.Path).
				With(failure{Op: op, Path: t.Path, Errno: fs.ErrDenied.Code()}).Because(err)
		}
	}
	return Failed(op, t.Path, err)
}

// inPlace writes into the file that is there. What does not fit is noticed before the old bytes are
// touched, because the end is written first; after an error the old bytes are put back.
func (t *Target) inPlace(rel string, check func() error, data []byte) error {
	f, err := t.Dir.OpenFile(rel, fs.OpenFlags{Read: true, Write: true, NoFollow: true})
	if err != nil {
		return err
	}
	if err = check(); err == nil {
		err = t.overwrite(f, data)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

func (t *Target) overwrite(f *fs.File, data []byte) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	size := int64(len(data))
	saved := make([]byte, min(size, st.Size))
	if n, err := f.ReadAt(saved, 0); n < len(saved) {
		return cmp.Or(err, io.ErrUnexpectedEOF)
	}
	if size > st.Size {
		_, err = f.WriteAt(data[st.Size:], st.Size)
		if err == nil {
			err = f.Sync()
		}
		if err != nil {
			return errors.Join(err, f.Truncate(st.Size))
		}
	}
	n, err := f.WriteAt(data[:len(saved)], 0)
	if err == nil {
		err = f.Sync() // the old end is still there
	}
	if err == nil && size < st.Size {
		err = f.Truncate(size)
	}
	if err == nil {
		return f.Sync()
	}
	_, back := f.WriteAt(saved[:n], 0)
	if back == nil && size > st.Size {
		back = f.Truncate(st.Size)
	}
	if back == nil {
		back = f.Sync()
	}
	if back != nil {
		return Error(abi.TypeExecution, CodeIO, "cannot write %s: %v; and its old bytes could not be put back: %v. It is damaged: restore it from its copy (bladehost history) or from a backup.", t.Path, fs.ErrnoOf(err), fs.ErrnoOf(back)).Because(err)
	}
	return err
}

// ReadAll reads the whole of an open file of at most limit bytes; a longer one is
// file_too_large.
func ReadAll(ctx context.Context, t *Target, f *fs.File, st fs.Info, limit int64) ([]byte, error) {
	if st.Size > limit {
		return nil, TooLarge(t, st.Size, limit)
	}
	buf := make([]byte, 0, st.Size+512)
	for {
		if err := Aborted(ctx); err != nil {
			return nil, err
		}
		if len(buf) == cap(buf) {
			buf = append(buf, make([]byte, 64<<10)...)[:len(buf)]
		}
		n, err := f.Read(buf[len(buf):min(cap(buf), len(buf)+1<<20)])
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > limit { // it grows while it is read
			return nil, TooLarge(t, int64(len(buf)), limit)
		}
		if err == io.EOF {
			return buf, nil
		}
		if err != nil {
			return nil, Failed("read", t.Path, err)
		}
	}
}
