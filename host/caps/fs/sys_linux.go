package fs

import (
	"encoding/binary"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fold is the identity: file systems here tell upper from lower case.
func fold(p string) string { return p }

// specialFS are file systems that are windows into the kernel, not storage.
func specialFS(t int64) bool {
	switch t {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEVPTS_SUPER_MAGIC, unix.CGROUP_SUPER_MAGIC,
		unix.CGROUP2_SUPER_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC,
		unix.BPF_FS_MAGIC, unix.EFIVARFS_MAGIC, unix.PSTOREFS_MAGIC, unix.BINFMTFS_MAGIC,
		unix.NSFS_MAGIC, unix.SELINUX_MAGIC, unix.SMACK_MAGIC, unix.RDTGROUP_SUPER_MAGIC,
		unix.XENFS_SUPER_MAGIC, unix.HUGETLBFS_MAGIC, unix.BINDERFS_SUPER_MAGIC,
		0x19800202 /* mqueue */, 0x62656570 /* configfs */, 0x65735543 /* fusectl */ :
		return true
	}
	return false
}

func refuseSpecial(dir string) error {
	if dir == "/dev" || (strings.HasPrefix(dir, "/dev/") && dir != "/dev/shm" && !strings.HasPrefix(dir, "/dev/shm/")) {
		return ErrNotRegular
	}
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Statfs(dir, &st) }); err != nil {
		return fail(err)
	}
	if specialFS(st.Type) {
		return ErrNotRegular
	}
	return nil
}

func fileIsSpecial(f *os.File) bool { return fdIsSpecial(int(f.Fd())) }

func fdIsSpecial(fd int) bool {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(fd, &st) }); err != nil {
		return true
	}
	return specialFS(st.Type)
}

func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// openBeneath opens a directory below the handle in one system call that the kernel
// keeps from leaving it. done is false where that call is missing or had to give up
// in a race; then os.Root walks the path.
func openBeneath(h *handle, rel string) (fd int, done bool, err error) {
	if h.g.noOpenat2.Load() {
		return noFD, false, nil
	}
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	}
	err = retry(func() (err error) {
		fd, err = unix.Openat2(int(h.f.Fd()), rel, &how)
		return err
	})
	switch err {
	case nil:
		return fd, true, nil
	case unix.EXDEV:
		return noFD, true, ErrEscape
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EACCES, unix.ENAMETOOLONG, unix.EMFILE, unix.ENFILE:
		return noFD, true, err
	case unix.ENOSYS, unix.EPERM, unix.EINVAL, unix.E2BIG:
		h.g.noOpenat2.Store(true)
	}
	return noFD, false, nil
}

// fdPath is the path of an open directory relative to the root, as the kernel sees it
// now. known is false where /proc is missing.
func (g *Grant) fdPath(fd int) (rel string, known bool, err error) {
	if fd == int(g.top.Fd()) {
		return ".", true, nil
	}
	p, err := os.Readlink(procPath(fd))
	if err != nil || !path.IsAbs(p) {
		return "", false, nil
	}
	top, err := os.Readlink(procPath(int(g.top.Fd())))
	if err != nil {
		return "", false, nil
	}
	if p == top {
		return ".", true, nil
	}
	rel, inside := strings.CutPrefix(p, strings.TrimSuffix(top, "/")+"/")
	if !inside {
		return "", false, ErrEscape // moved out of the grant while it was open
	}
	return rel, true, nil
}

// rootOf opens an os.Root on an open directory: through /proc it is that very
// directory, else its path is looked up again and compared.
func (g *Grant) rootOf(f *os.File, rel string) (*os.Root, error) {
	if r, err := os.OpenRoot(procPath(int(f.Fd()))); err == nil {
		return r, nil
	}
	return g.rootByPath(f, rel)
}

func timespecs(atim, mtim TimeSet) [2]unix.Timespec {
	one := func(t TimeSet) unix.Timespec {
		switch {
		case t.Now:
			return unix.Timespec{Nsec: unix.UTIME_NOW}
		case t.Set:
			return unix.NsecToTimespec(t.Ns)
		}
		return unix.Timespec{Nsec: unix.UTIME_OMIT}
	}
	return [2]unix.Timespec{one(atim), one(mtim)}
}

func (posixBackend) setTimes(p place, atim, mtim TimeSet) error {
	ts := timespecs(atim, mtim)
	return retry(func() error { return unix.UtimesNanoAt(p.fd, p.base, ts[:], unix.AT_SYMLINK_NOFOLLOW) })
}

// setFileTimes is futimens, which is utimensat without a path.
func setFileTimes(f *os.File, atim, mtim TimeSet) error {
	ts := timespecs(atim, mtim)
	_, _, e := syscall.Syscall6(unix.SYS_UTIMENSAT, f.Fd(), 0, uintptr(unsafe.Pointer(&ts[0])), 0, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

func datasync(f *os.File) error {
	return retry(func() error { return unix.Fdatasync(int(f.Fd())) })
}

func (posixBackend) dirReader() dirReader { return &rawDir{} }

// rawDir reads directory entries straight from the kernel, with their inode numbers
// and without a stat for each.
type rawDir struct {
	buf []byte
}

func (r *rawDir) next(f *os.File) ([]DirEntry, error) {
	if r.buf == nil {
		r.buf = make([]byte, 16<<10)
	}
	var n int
	err := retry(func() (err error) {
		n, err = unix.Getdents(int(f.Fd()), r.buf)
		return err
	})
	if err != nil {
		return nil, err
	}
	return parseDirents(r.buf[:n]), nil
}

// parseDirents reads linux_dirent64 records: ino u64, off u64, reclen u16, type u8, name.
func parseDirents(b []byte) []DirEntry { return appendDirents(nil, b) }

func appendDirents(out []DirEntry, b []byte) []DirEntry {
	text := string(b) // one allocation for all names
	for len(b) >= 19 {
		size := int(binary.NativeEndian.Uint16(b[16:]))
		if size < 19 || size > len(b) {
			break
		}
		name := text[19:size]
		if i := strings.IndexByte(name, 0); i >= 0 {
			name = name[:i]
		}
		e := DirEntry{Name: name, Ino: binary.NativeEndian.Uint64(b)}
		switch b[18] {
		case unix.DT_REG:
			e.Type = TypeRegular
		case unix.DT_DIR:
			e.Type = TypeDir
		case unix.DT_LNK:
			e.Type = TypeSymlink
		}
		out = append(out, e)
		b, text = b[size:], text[size:]
	}
	return out
}
