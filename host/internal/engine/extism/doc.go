// Package extism runs plugins that are built on Extism's memory model: modules
// with imports from extism:host/env. They go through the same pipeline as other
// plugins, under the same limits and with the same outcomes; docs/guests.md has
// their contract.
//
// The Go SDK of Extism makes the instances and gives them its kernel: memory,
// input, output and error. What else it offers (network, folders, settings, its
// own log) is never reached, because a module is rewritten before it is compiled:
// those imports lead here. So do those that write into the kernel's memory, which
// a guest could break. Fuel and call depth are metered as in package engine; the
// SDK does not show its instances, so a listener at the exports finds them.
//
// Each call runs in an instance of its own.
package extism
