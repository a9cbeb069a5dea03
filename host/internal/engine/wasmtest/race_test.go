//go:build race

package wasmtest

// raceEnabled: the race detector is slow and needs much address space.
const raceEnabled = true
