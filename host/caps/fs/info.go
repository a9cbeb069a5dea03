package fs

import (
	iofs "io/fs"
	"time"
)

// FileType is the kind of a directory entry.
type FileType uint8

// The kinds. TypeOther is a FIFO, a device, a socket or unknown.
const (
	TypeOther FileType = iota
	TypeRegular
	TypeDir
	TypeSymlink
)

func typeOf(m iofs.FileMode) FileType {
	switch {
	case m.IsRegular():
		return TypeRegular
	case m.IsDir():
		return TypeDir
	case m&iofs.ModeSymlink != 0:
		return TypeSymlink
	}
	return TypeOther
}

// Info describes a file. Times are nanoseconds since 1970. Dev and Ino together
// identify a file on Linux and macOS; elsewhere they may be derived from its path.
type Info struct {
	Dev, Ino, Nlink uint64
	Size            int64
	Type            FileType
	Perm            iofs.FileMode // permission bits only
	Atim, Mtim      int64
	Ctim            int64
}

// IsDir reports whether it is a directory.
func (i Info) IsDir() bool { return i.Type == TypeDir }

// IsRegular reports whether it is a regular file.
func (i Info) IsRegular() bool { return i.Type == TypeRegular }

// ModTime is Mtim as a time.
func (i Info) ModTime() time.Time { return time.Unix(0, i.Mtim) }

// Same reports whether both describe the same file.
func (i Info) Same(o Info) bool { return i.Dev == o.Dev && i.Ino == o.Ino }

// TimeSet says what to do with one time stamp. The zero value leaves it alone.
type TimeSet struct {
	Now bool  // set to the current time; Ns is ignored
	Set bool  // set to Ns
	Ns  int64 // nanoseconds since 1970
}

func (t TimeSet) omit() bool { return !t.Now && !t.Set }

// DirEntry is one name in a directory. Next is the cookie with which ReadDir
// continues after this entry.
type DirEntry struct {
	Name string
	Ino  uint64
	Type FileType
	Next uint64
}
