//go:build !race

package engine

// raceEnabled makes long tests shorter.
const raceEnabled = false
