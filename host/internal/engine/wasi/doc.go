// Package wasi is the host module wasi_snapshot_preview1 for guests of the engine.
//
// It stands on wazero's host-function interface and on host/caps/fs, and uses neither
// wazero's WASI module nor its file systems. The world of one guest instance is a
// [State]: arguments, environment, clock, stdio and a table of descriptors that
// Reset puts back, so that an instance can be used again.
//
//	guest ── import ── host function ── State of ctx ── descriptor ── fs.View
//
// Every pointer of the guest is checked against its memory; a bad one is the errno
// FAULT and nothing else happens. No function blocks without regard to its context:
// stdin is in memory, files are regular, sleeps end with the context.
//
// Rights are kept and enforced as in the specification of preview 1: a descriptor can
// lose rights and never gains them; what is opened from a directory gets no more than
// its inheriting rights.
package wasi
