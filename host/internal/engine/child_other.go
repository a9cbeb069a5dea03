//go:build !linux && !windows

package engine

import "os"

// limitMemory has nothing here that a kernel would enforce; the look at the memory
// has to do.
func limitMemory(int64) {}

func peakMemory(*os.ProcessState) int64 { return 0 }
