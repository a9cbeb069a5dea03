//go:build linux || darwin

package fs

import (
	iofs "io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// posixBackend acts on the last name relative to the directory that was really
// opened, with one *at call, and never follows a link there.
type posixBackend struct{}

func pickBackend(portable bool) backend {
	if portable {
		return rootBackend{}
	}
	return posixBackend{}
}

func isAbs(p string) bool      { return strings.HasPrefix(p, "/") }
func toSlash(p string) string  { return p }
func checkOSPath(string) error { return nil }
func closeFD(fd int)           { _ = unix.Close(fd) }
func retry(f func() error) (err error) {
	for {
		if err = f(); err != unix.EINTR {
			return err
		}
	}
}

func (posixBackend) openDir(p *place) error {
	if p.dirRel == "" || p.dirRel == "." {
		p.fd = int(p.h.f.Fd())
		return nil
	}
	if fd, done, err := openBeneath(p.h, p.dirRel); done {
		p.fd, p.own = fd, err == nil
		return err
	}
	root, err := p.h.osRoot()
	if err != nil {
		return err
	}
	f, err := root.OpenFile(p.dirRel, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	p.file, p.fd, p.own = f, int(f.Fd()), true
	return nil
}

func (posixBackend) open(p place, o OpenFlags, perm uint32) (*os.File, error) {
	fl := unix.O_NONBLOCK | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NOCTTY
	switch {
	case o.Write && o.Read, o.Truncate && !o.Write:
		fl |= unix.O_RDWR
	case o.Write:
		fl |= unix.O_WRONLY
	}
	for _, x := range [...]struct {
		on   bool
		flag int
	}{{o.Append, unix.O_APPEND}, {o.Create, unix.O_CREAT}, {o.Exclusive, unix.O_EXCL}, {o.Directory || p.slash, unix.O_DIRECTORY}} {
		if x.on {
			fl |= x.flag
		}
	}
	var fd int
	err := retry(func() (err error) {
		fd, err = unix.Openat(p.fd, p.base, fl, perm)
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), p.base), nil
}

func infoOf(st *unix.Stat_t) Info {
	i := Info{
		Dev: uint64(st.Dev), Ino: st.Ino, Nlink: uint64(st.Nlink), Size: st.Size, //nolint:unconvert // differs by system
		Perm: iofs.FileMode(st.Mode) & iofs.ModePerm,
		Atim: st.Atim.Nano(), Mtim: st.Mtim.Nano(), Ctim: st.Ctim.Nano(),
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		i.Type = TypeRegular
	case unix.S_IFDIR:
		i.Type = TypeDir
	case unix.S_IFLNK:
		i.Type = TypeSymlink
	}
	return i
}

func (posixBackend) lstat(p place) (Info, error) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstatat(p.fd, p.base, &st, unix.AT_SYMLINK_NOFOLLOW) })
	if err != nil {
		return Info{}, err
	}
	return infoOf(&st), nil
}

func (posixBackend) fstat(f *os.File, _ string) (Info, error) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstat(int(f.Fd()), &st) })
	if err != nil {
		return Info{}, err
	}
	return infoOf(&st), nil
}

func (posixBackend) readlink(p place) (string, error) {
	for size := 256; ; size *= 2 {
		b := make([]byte, size)
		var n int
		err := retry(func() (err error) {
			n, err = unix.Readlinkat(p.fd, p.base, b)
			return err
		})
		if err != nil {
			return "", err
		}
		if n < size {
			return string(b[:n]), nil
		}
		if size > 4*maxPath {
			return "", unix.ENAMETOOLONG
		}
	}
}

func (posixBackend) mkdir(p place, perm uint32) error {
	return retry(func() error { return unix.Mkdirat(p.fd, p.base, perm) })
}

func (posixBackend) unlink(p place) error {
	return retry(func() error { return unix.Unlinkat(p.fd, p.base, 0) })
}

func (posixBackend) rmdir(p place) error {
	return retry(func() error { return unix.Unlinkat(p.fd, p.base, unix.AT_REMOVEDIR) })
}

func (posixBackend) rename(from, to place) error {
	return retry(func() error { return unix.Renameat(from.fd, from.base, to.fd, to.base) })
}

func (posixBackend) link(from, to place) error {
	return retry(func() error { return unix.Linkat(from.fd, from.base, to.fd, to.base, 0) })
}

func (posixBackend) symlink(target string, p place) error {
	return retry(func() error { return unix.Symlinkat(target, p.fd, p.base) })
}

// writeAt is pwrite. os.File refuses it for files in append mode.
func writeAt(f *os.File, b []byte, off int64) (int, error) {
	done := 0
	for done < len(b) {
		var n int
		err := retry(func() (err error) {
			n, err = unix.Pwrite(int(f.Fd()), b[done:], off+int64(done))
			return err
		})
		if err != nil {
			return done, err
		}
		if n == 0 {
			return done, unix.EIO
		}
		done += n
	}
	return done, nil
}

// appendFile writes where the kernel says the end is.
func appendFile(f *os.File, b []byte, _ int64) (int, error) { return f.Write(b) }

func setAppend(f *os.File, on bool) error {
	fl, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	fl &^= unix.O_APPEND
	if on {
		fl |= unix.O_APPEND
	}
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, fl)
	return err
}

// osErrno translates an error of the system; 0 means unknown.
func osErrno(e syscall.Errno) Errno {
	switch e {
	case unix.EACCES:
		return EACCES
	case unix.EAGAIN:
		return EAGAIN
	case unix.EBADF:
		return EBADF
	case unix.EBUSY:
		return EBUSY
	case unix.EDQUOT:
		return EDQUOT
	case unix.EEXIST:
		return EEXIST
	case unix.EFBIG:
		return EFBIG
	case unix.EINTR:
		return EINTR
	case unix.EINVAL:
		return EINVAL
	case unix.EISDIR:
		return EISDIR
	case unix.ELOOP:
		return ELOOP
	case unix.EMFILE:
		return EMFILE
	case unix.EMLINK:
		return EMLINK
	case unix.ENAMETOOLONG:
		return ENAMETOOLONG
	case unix.ENFILE:
		return ENFILE
	}
	return osErrno2(e)
}

func osErrno2(e syscall.Errno) Errno {
	switch e {
	case unix.ENOENT:
		return ENOENT
	case unix.ENOMEM:
		return ENOMEM
	case unix.ENOSPC:
		return ENOSPC
	case unix.ENOSYS:
		return ENOSYS
	case unix.ENOTDIR:
		return ENOTDIR
	case unix.ENOTEMPTY:
		return ENOTEMPTY
	case unix.ENOTSUP:
		return ENOTSUP
	case unix.EOVERFLOW:
		return EOVERFLOW
	case unix.EPERM:
		return EPERM
	case unix.EROFS:
		return EROFS
	case unix.ESTALE:
		return ESTALE
	case unix.ETXTBSY:
		return ETXTBSY
	case unix.EXDEV:
		return EXDEV
	case unix.ENXIO, unix.ENODEV:
		return ErrNotRegular
	}
	return EIO
}
