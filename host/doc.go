// Package host is the library that an agent embeds: it turns a model's raw
// arguments into one result per call, through one pipeline for native tools and
// Wasm plugins alike.
//
//	raw arguments ─ parse ─ scheduled ─ hooks ─ validate ─ tool checks ─ rules,
//	paths, handler, mode ─ confirmation ─ slot ─ file locks ─ place ─ started
//	─ deadline ─ EXECUTE ─ clean-up ─ normalise ─ hooks ─ effects ─ settled ─ result
//
// A Host owns what sessions share: the engine for plugins, the slots, the file
// locks and the artifacts. A Session owns one conversation: its tools, its
// permissions, its context. Session.Start runs one call and gives an Execution
// to range over; Session.Run waits for the result; Session.Turn runs the calls
// of one model turn together. pipeline.go has the whole life of a call on one
// screen, and each stage has a file of its own.
package host
