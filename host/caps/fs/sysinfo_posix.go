//go:build linux || darwin

package fs

import (
	iofs "io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const openNoBlock = unix.O_NONBLOCK

// sysInfo adds what the system's own record knows.
func sysInfo(st iofs.FileInfo, i *Info) {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		i.Dev, i.Ino, i.Nlink = uint64(s.Dev), s.Ino, uint64(s.Nlink) //nolint:unconvert // differs by system
	}
}

// copyOwner gives to the owner and group of from, if the system lets it, and returns those of from's set-id
// and sticky bits that mean the same on to.
func copyOwner(to, from *os.File) iofs.FileMode {
	want, err := from.Stat()
	if err != nil {
		return 0
	}
	have, err := to.Stat()
	if err != nil {
		return 0
	}
	w, ok := want.Sys().(*syscall.Stat_t)
	h, ok2 := have.Sys().(*syscall.Stat_t)
	if !ok || !ok2 {
		return 0
	}
	uid, gid := h.Uid, h.Gid
	if (w.Uid != uid || w.Gid != gid) && to.Chown(int(w.Uid), int(w.Gid)) == nil { // only root may, as a rule
		uid, gid = w.Uid, w.Gid
	}
	bits := want.Mode() & iofs.ModeSticky
	if uid == w.Uid {
		bits |= want.Mode() & iofs.ModeSetuid
	}
	if gid == w.Gid {
		bits |= want.Mode() & iofs.ModeSetgid
	}
	return bits
}
