package engine

import "golang.org/x/sys/unix"

// limitMemory lets the kernel refuse this process more private memory. Address
// space is not counted: Go reserves much more than it uses.
func limitMemory(n int64) {
	// A lower limit that is there already stays.
	_ = unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: uint64(n), Max: uint64(n)})
}
