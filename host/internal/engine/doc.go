// Package engine runs plugin modules. It scans a module before the runtime sees
// a byte of it, reads its manifest without running it, compiles it once for all
// processes of a user, and runs each call in an instance that nothing else can
// observe, under a deadline that always works. A plugin's tools are tool.Tool
// like native ones.
//
//	Load ── scan, rewrite (or find in the cache) ── Plugin
//	Plugin ── compile, here or in a child process, cached ── compiled
//	compiled × World ── pool ── instance ── one call ── reset ── pool
//
// Rewritten modules count down fuel and ask the host for more (meter.go): that is
// where a guest is stopped, and what keeps the host's garbage collector from
// waiting for it. An instance is put back to an image of its memory after each call
// (pool.go, linear.go), so that isolation costs microseconds. A gate bounds the
// guests that compute at once (gate.go).
//
// It is the one owner of wazero, whose types stay inside.
package engine
