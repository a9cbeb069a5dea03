//go:build race

package filesystem

// raced says that the race detector watches: it makes the regular expressions, which are compiled from
// WebAssembly, some thirty times slower, so that tests that compare a lot compare less.
const raced = true
