//go:build !linux && !windows

package engine

// limitMemory has nothing here that a kernel would enforce; the look at the memory
// has to do.
func limitMemory(int64) {}
