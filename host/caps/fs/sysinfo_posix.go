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

// copyOwner gives to the owner and group of from, if the system lets it.
func copyOwner(to, from *os.File) {
	want, err := from.Stat()
	if err != nil {
		return
	}
	have, err := to.Stat()
	if err != nil {
		return
	}
	w, ok := want.Sys().(*syscall.Stat_t)
	h, ok2 := have.Sys().(*syscall.Stat_t)
	if ok && ok2 && (w.Uid != h.Uid || w.Gid != h.Gid) {
		_ = to.Chown(int(w.Uid), int(w.Gid)) // only root may, as a rule
	}
}
