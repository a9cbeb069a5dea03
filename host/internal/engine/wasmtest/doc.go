// Package wasmtest holds no code, only the tests of host/internal/wasm that
// need an engine: rewritten modules behave like the originals, and stop. They
// live here because only host/internal/engine and below may import wazero.
package wasmtest
