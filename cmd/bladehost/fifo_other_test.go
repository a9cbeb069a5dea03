//go:build !unix

package main

import "github.com/rogpeppe/go-internal/testscript"

func scriptFifo(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Fatalf("there are no FIFOs here; skip this part")
}
