// Package wasm reads, judges and rewrites WebAssembly binaries. It runs before
// the engine sees a byte: a module of fifteen bytes can otherwise make a
// compiler ask for more memory than the machine has.
//
//	bytes ── Scan ──► Info         what is in it, or one clear sentence why not
//	      ── SetCustom ──► bytes   the manifest section, written and read back
//	      ── Rewrite ──► Module    stoppable, bounded and resettable; checked by
//	                               Verify, cached under Key by Marshal
//
// Nothing here executes a module, and nothing here trusts a number in it: each
// count is held against the bytes that are left and against a fixed limit
// before anything is allocated for it.
//
// The accepted language is WebAssembly 2.0 without relaxed SIMD: no threads, no
// exceptions, no tail calls, no 64-bit or second memory, no typed function
// references, no garbage-collected types.
//
// All functions are pure and safe for concurrent use.
package wasm
