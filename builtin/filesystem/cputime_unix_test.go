//go:build unix

package filesystem

import (
	"syscall"
	"time"
)

// cpuTime is what this process has worked.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it cannot fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
