// Package engine runs plugin modules. It scans a module before the runtime sees
// a byte of it, reads its manifest without running it, compiles it once for all
// processes of a user, and runs each call in an instance that nothing else can
// observe, under a deadline that always works. A plugin's tools are tool.Tool
// like native ones.
//
// The way instances are made and stopped sits behind the interface pool
// (pool.go). It is the one owner of wazero, whose types stay inside.
package engine
