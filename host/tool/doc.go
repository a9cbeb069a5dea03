// Package tool says what a tool is, for native Go tools and Wasm plugins alike.
//
// A Tool has a definition (abi.ToolSpec) and executes calls. Most native tools
// are made with Define from a plain Go function: its parameters become the JSON
// Schema and its return value becomes the result, and it cannot yield.
// DefineStream, and types that implement Tool themselves, can also yield
// progress, messages and effects. What a tool may do beyond executing is an
// optional interface (optional.go). The pipeline around a call (validation,
// permissions, locks, deadline, lifecycle) is in package host: calling Execute
// directly bypasses all of it.
package tool
