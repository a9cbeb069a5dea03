//go:build unix

package engine

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

func ownedByUs(dir string, fi fs.FileInfo) error {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user (uid %d), but it holds code that is run", dir, st.Uid)
	}
	return nil
}
