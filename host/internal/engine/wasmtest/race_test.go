//go:build race

package wasmtest

// raceEnabled: the race detector needs more address space than a limit allows.
const raceEnabled = true
