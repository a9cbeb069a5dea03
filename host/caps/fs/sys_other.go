//go:build !linux && !darwin

package fs

import (
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const openNoBlock = 0

func pickBackend(bool) backend { return rootBackend{} }

// copyOwner does nothing: a file belongs to who made it.
func copyOwner(*os.File, *os.File) iofs.FileMode { return 0 }

// fold makes names compare without case.
func fold(p string) string { return strings.ToLower(p) }

func toSlash(p string) string { return filepath.ToSlash(p) }

// isAbs also refuses volumes and rooted paths.
func isAbs(p string) bool {
	return strings.HasPrefix(p, "/") || strings.HasPrefix(p, `\`) || filepath.VolumeName(p) != "" || filepath.IsAbs(p)
}

// checkOSPath refuses what the system would read as something else: other separators,
// streams, and names that lose a trailing dot or space.
func checkOSPath(p string) error {
	if strings.ContainsAny(p, `\:*?"<>|`) {
		return EINVAL
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == "" || part == "." || part == ".." {
			continue
		}
		if strings.HasSuffix(part, ".") || strings.HasSuffix(part, " ") || !filepath.IsLocal(part) {
			return EINVAL
		}
	}
	return nil
}

func refuseSpecial(dir string) error {
	st, err := os.Stat(dir)
	if err == nil && !st.IsDir() {
		err = ENOTDIR
	}
	return fail(err)
}

func fileIsSpecial(*os.File) bool { return false }

func (g *Grant) fdPath(int) (string, bool, error) { return "", false, nil }

func closeFD(int) {}

func (g *Grant) rootOf(f *os.File, rel string) (*os.Root, error) { return g.rootByPath(f, rel) }

func writeAt(f *os.File, b []byte, off int64) (int, error) { return f.WriteAt(b, off) }

// appendFile writes at the end as it was seen; there is no append mode here.
func appendFile(f *os.File, b []byte, end int64) (int, error) { return f.WriteAt(b, end) }

func setAppend(*os.File, bool) error { return nil }

func setFileTimes(*os.File, TimeSet, TimeSet) error { return ENOTSUP }

func datasync(f *os.File) error { return f.Sync() }

func sysInfo(iofs.FileInfo, *Info) {}

// osErrno translates an error of the system; 0 leaves it to the portable rules.
func osErrno(e syscall.Errno) Errno {
	switch e {
	case syscall.ENOTDIR:
		return ENOTDIR
	case syscall.ENOTEMPTY:
		return ENOTEMPTY
	case syscall.EISDIR:
		return EISDIR
	case syscall.ELOOP:
		return ELOOP
	case syscall.ENAMETOOLONG:
		return ENAMETOOLONG
	case syscall.EINVAL:
		return EINVAL
	case syscall.ENOSPC:
		return ENOSPC
	case syscall.EXDEV:
		return EXDEV
	}
	return 0
}
