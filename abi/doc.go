// Package abi is the contract between a bladehost and the tools it runs: the
// manifest a plugin carries, the definition of one tool, the events a running
// call yields, its one result, the error codes, the names and the limits.
//
// It holds data and the rules that data alone can decide, nothing that runs. It
// imports the standard library only and builds for GOOS=wasip1, so that the host
// and the guest kits share one source. The prose, complete enough to write a
// guest in assembler, is SPEC.md beside this file. All values are plain data:
// safe to copy, safe for concurrent readers, not safe for concurrent writers.
package abi
