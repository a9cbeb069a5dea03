package engine

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitMemory lets the kernel refuse this process more private memory. Address
// space is not counted: Go reserves much more than it uses.
func limitMemory(n int64) {
	// A lower limit that is there already stays.
	_ = unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: uint64(n), Max: uint64(n)})
}

// peakMemory is the most memory in bytes that an ended process held at a time, or 0
// where that is not known.
func peakMemory(s *os.ProcessState) int64 {
	if u, ok := s.SysUsage().(*syscall.Rusage); ok {
		return int64(u.Maxrss) << 10 // it counts KiB
	}
	return 0
}
