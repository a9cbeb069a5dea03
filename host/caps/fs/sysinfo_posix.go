//go:build linux || darwin

package fs

import (
	iofs "io/fs"
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
