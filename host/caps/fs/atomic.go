package fs

import (
	"crypto/rand"
	"encoding/hex"
	"io"
	iofs "io/fs"
)

// ReadFile reads a whole regular file, following links inside the grant. More than
// limit bytes fail with EFBIG; a limit of 0 or less means none.
func (d *Dir) ReadFile(path string, limit int64) ([]byte, error) {
	f, err := d.OpenFile(path, OpenFlags{Read: true})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.IsDir() {
		return nil, EISDIR
	}
	if limit <= 0 {
		b, err := io.ReadAll(f)
		return b, fail(err)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		return nil, EFBIG
	}
	return b, fail(err)
}

// WriteAtomic replaces or makes the file at path so that others see the old or the new
// bytes, never a part, and that it is on the disk when it returns. A link in the last
// place fails with ELOOP; a file that is there keeps its mode bits, set-id bits only with their owner, and its owner where
// that can be, but neither access lists nor extended attributes; a new one gets perm
// (0 means 0o666) less the umask. The bytes come from write.
func (d *Dir) WriteAtomic(path string, perm iofs.FileMode, write func(io.Writer) error) error {
	return d.Replace(path, perm, write, nil)
}

// Replace is WriteAtomic with a last look: once the new bytes are on the disk and right
// before they take the place, check may still refuse; its error is returned as it is
// and nothing has changed. A nil check agrees.
func (d *Dir) Replace(path string, perm iofs.FileMode, write func(io.Writer) error, check func() error) error {
	st, err := d.Lstat(path)
	keep := err == nil
	switch {
	case err == nil && st.Type == TypeSymlink:
		return ELOOP
	case err == nil && st.IsDir():
		return EISDIR
	case err == nil && !st.IsRegular():
		return ErrNotRegular
	case err == nil:
		perm = 0o600 // until the old mode is put on
	case ErrnoOf(err) != ENOENT:
		return err
	}
	dir, base, slash := splitLast(path)
	if slash || base == "." {
		return EISDIR
	}
	tmp := joinRel(dir, tempName())
	f, err := d.OpenFile(tmp, OpenFlags{Write: true, Create: true, Exclusive: true, NoFollow: true, Perm: perm})
	if err != nil {
		return err
	}
	if keep {
		bits, fill := d.keepOwner(f, path), write
		write = func(w io.Writer) error {
			if err := fill(w); err != nil {
				return err
			}
			return f.chmod(st.Perm | bits) // last: a new owner clears set-id bits, and so does writing by anybody but root
		}
	}
	if err := f.fill(write); err != nil {
		_ = d.Unlink(tmp)
		return err
	}
	if check != nil {
		if err := check(); err != nil {
			_ = d.Unlink(tmp)
			return err
		}
	}
	// The target is judged again here: rules hold for it, not for the temporary name.
	if err := d.Rename(tmp, d, path); err != nil {
		_ = d.Unlink(tmp)
		return err
	}
	return d.syncDir(dir)
}

// keepOwner gives a new file the owner and the group of the one that it will replace, where the system
// lets it: usually only root may. It returns the old one's set-id and sticky bits, as far as they mean the same
// on the new one.
func (d *Dir) keepOwner(f *File, path string) iofs.FileMode {
	old, err := d.OpenFile(path, OpenFlags{NoFollow: true})
	if err != nil {
		return 0 // it has gone, or may not be read: then nobody's owner can be kept
	}
	defer old.Close()
	return copyOwner(f.f, old.f)
}

func tempName() string {
	var b [12]byte
	_, _ = rand.Read(b[:])
	return ".blade-" + hex.EncodeToString(b[:]) + ".tmp"
}

// fill writes, flushes and closes a temporary file.
func (f *File) fill(write func(io.Writer) error) error {
	err := write(f)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

func (f *File) chmod(perm iofs.FileMode) error {
	if err := f.begin(); err != nil {
		return err
	}
	defer f.mu.Unlock()
	return fail(f.f.Chmod(perm & (iofs.ModePerm | iofs.ModeSetuid | iofs.ModeSetgid | iofs.ModeSticky)))
}

// syncDir makes a new name in a directory durable. Systems that cannot do that are fine.
func (d *Dir) syncDir(dir string) error {
	if dir == "" {
		dir = "."
	}
	f, err := d.OpenFile(dir, OpenFlags{Directory: true})
	if err != nil {
		return err
	}
	defer f.Close()
	_ = f.Sync()
	return nil
}

// MkdirAll makes a directory and what is missing above it.
func (d *Dir) MkdirAll(path string, perm iofs.FileMode) error {
	if st, err := d.Stat(path); err == nil {
		if st.IsDir() {
			return nil
		}
		return ENOTDIR
	}
	dir, base, _ := splitLast(path)
	if base == "." {
		return d.Mkdir(path, perm)
	}
	if dir != "" {
		if err := d.MkdirAll(dir, perm); err != nil {
			return err
		}
	}
	err := d.Mkdir(joinRel(dir, base), perm)
	if ErrnoOf(err) == EEXIST {
		return nil
	}
	return err
}
