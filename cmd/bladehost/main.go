// Command bladehost runs, builds, checks and installs plugins, lists and calls
// tools, and serves a session of them to agents in any language.
package main

import (
	"os"
	"runtime/debug"
)

// startupGC is the garbage that a process may have for each byte in use, in percent,
// until it turns out to be one that stays (see the command session): most commands
// end before a collection would have been worth it.
const startupGC = 400

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(startupGC)
	}
	os.Exit(start(os.Args[1:]))
}
