// Command bladehost runs, builds, checks and installs plugins, lists and calls
// tools, and serves a session of them to agents in any language.
package main

import "os"

func main() {
	os.Exit(start(os.Args[1:]))
}
