package wasi

import (
	"strings"

	"github.com/bladehost/bladehost/host/caps/fs"
)

type kind uint8

const (
	kindFree kind = iota
	kindStdin
	kindStdout
	kindStderr
	kindFile
	kindDir
)

// desc is one entry of the descriptor table.
type desc struct {
	kind            kind
	preopen         bool
	nonblock, rsync bool // remembered for fd_fdstat_get only
	rights, inherit rights
	file            *fs.File // nil for stdio and for preopens that were not read yet
	dir             *fs.Dir
	path            string // absolute guest path, for preopens and effects
}

func (d *desc) stdio() bool { return d.kind >= kindStdin && d.kind <= kindStderr }

// get returns an open descriptor.
func (s *State) get(fd uint32) (*desc, Errno) {
	if uint64(fd) >= uint64(len(s.fds)) || s.fds[fd].kind == kindFree {
		return nil, ErrnoBadf
	}
	return &s.fds[fd], ErrnoSuccess
}

// need returns an open descriptor that has all of the rights.
func (s *State) need(fd uint32, r rights) (*desc, Errno) {
	d, e := s.get(fd)
	if e != 0 {
		return nil, e
	}
	if d.rights&r != r {
		return nil, ErrnoNotcapable
	}
	return d, ErrnoSuccess
}

// fileOf returns the open file of a descriptor, opening a preopened directory when it
// is first used as one. Stdio has none. In Init nothing lent may be used.
func (s *State) fileOf(d *desc) (*fs.File, Errno) {
	if d.stdio() {
		return nil, ErrnoBadf
	}
	if s.phase == Init {
		return nil, ErrnoNotcapable
	}
	if d.file == nil {
		f, err := d.dir.OpenFile(".", fs.OpenFlags{Directory: true})
		if err != nil {
			return nil, errnoOf(err)
		}
		d.file = f
	}
	return d.file, ErrnoSuccess
}

// dirOf returns the directory that a path operation starts from.
func (s *State) dirOf(fd uint32, r rights) (*desc, Errno) {
	d, e := s.get(fd)
	switch {
	case e != 0:
		return nil, e
	case d.kind != kindDir:
		return nil, ErrnoNotdir
	case s.phase == Init:
		return nil, ErrnoNotcapable
	case d.rights&r != r:
		return nil, ErrnoNotcapable
	}
	return d, ErrnoSuccess
}

// add puts a descriptor in the lowest free place from 3 on.
func (s *State) add(d desc) uint32 {
	for i := 3; i < len(s.fds); i++ {
		if s.fds[i].kind == kindFree {
			s.fds[i] = d
			return uint32(i)
		}
	}
	for len(s.fds) < 3 {
		s.fds = append(s.fds, desc{})
	}
	s.fds = append(s.fds, d)
	return uint32(len(s.fds) - 1)
}

func (s *State) closeDesc(d *desc) Errno {
	var e Errno
	if d.file != nil {
		e = errnoOf(d.file.Close())
	}
	*d = desc{}
	return e
}

// guestPath is the path of a name in a directory as the guest sees it, for effects.
func (d *desc) guestPath(name string) string {
	if name == "." || name == "" {
		return d.path
	}
	return strings.TrimSuffix(d.path, "/") + "/" + name
}
