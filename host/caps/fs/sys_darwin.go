package fs

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// fold makes names compare without case, as the usual file systems here do.
func fold(p string) string { return strings.ToLower(p) }

func specialFS(name []byte) bool {
	switch unix.ByteSliceToString(name) {
	case "devfs", "fdesc", "procfs", "autofs":
		return true
	}
	return false
}

func refuseSpecial(dir string) error {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Statfs(dir, &st) }); err != nil {
		return fail(err)
	}
	if specialFS(st.Fstypename[:]) {
		return ErrNotRegular
	}
	return nil
}

func fileIsSpecial(f *os.File) bool {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(int(f.Fd()), &st) }); err != nil {
		return true
	}
	return specialFS(st.Fstypename[:])
}

// fdPath is not available: rules fall back to walking the path.
func (g *Grant) fdPath(fd int) (string, bool, error) { return ".", fd == int(g.top.Fd()), nil }

// openBeneath needs a system call that is missing here.
func openBeneath(*handle, string) (fd int, done bool, err error) { return noFD, false, nil }

func (g *Grant) rootOf(f *os.File, rel string) (*os.Root, error) { return g.rootByPath(f, rel) }

// pick fills in what is left alone or "now", since this system has no such constants
// in utimensat here.
func pick(t TimeSet, old int64) unix.Timespec {
	switch {
	case t.Now:
		return unix.NsecToTimespec(time.Now().UnixNano())
	case t.Set:
		return unix.NsecToTimespec(t.Ns)
	}
	return unix.NsecToTimespec(old)
}

func (b posixBackend) setTimes(p place, atim, mtim TimeSet) error {
	st, err := b.lstat(p)
	if err != nil {
		return err
	}
	ts := []unix.Timespec{pick(atim, st.Atim), pick(mtim, st.Mtim)}
	return retry(func() error { return unix.UtimesNanoAt(p.fd, p.base, ts, unix.AT_SYMLINK_NOFOLLOW) })
}

// setFileTimes has the precision of a microsecond here.
func setFileTimes(f *os.File, atim, mtim TimeSet) error {
	st, err := posixBackend{}.fstat(f, "")
	if err != nil {
		return err
	}
	a, m := pick(atim, st.Atim), pick(mtim, st.Mtim)
	tv := []unix.Timeval{unix.NsecToTimeval(a.Nano()), unix.NsecToTimeval(m.Nano())}
	return retry(func() error { return unix.Futimes(int(f.Fd()), tv) })
}

func datasync(f *os.File) error { return f.Sync() }

func (posixBackend) dirReader() dirReader { return goDir{} }
