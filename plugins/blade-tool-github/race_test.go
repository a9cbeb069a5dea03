//go:build race

package main

// raced says that the race detector is on: it makes the compiler of Wasm some
// thirty times slower, so that the interpreter is quicker there.
const raced = true
