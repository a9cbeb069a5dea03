;; nomemory.wat: uses pointers without a memory.
(module
  (import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (func (export "random") (result i32) (call $random_get (i32.const 0) (i32.const 1)))
  (func (export "write") (result i32) (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
