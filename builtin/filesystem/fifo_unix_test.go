//go:build unix

package filesystem

import (
	"os/signal"
	"testing"

	"golang.org/x/sys/unix"
)

func makeFIFO(t *testing.T, path string) {
	t.Helper()
	if err := unix.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
}

// ignoreFileSize makes a write beyond the limit an error instead of the end of the process.
func ignoreFileSize() { signal.Ignore(unix.SIGXFSZ) }
