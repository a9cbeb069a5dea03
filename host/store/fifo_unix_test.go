//go:build unix

package store

import (
	"syscall"
	"testing"
)

// makeFifo makes a named pipe.
var makeFifo = func(t *testing.T, path string) {
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}
