;; A plugin that yields while it describes itself, which is not allowed.
(module
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (import "extism:host/user" "blade_yield" (func $yield (param i64) (result i64)))
  (memory (export "memory") 1)
  (func (export "blade_describe") (result i32) (drop (call $yield (i64.const 8))) (i32.const 0))
  (func (export "blade_execute") (result i32) (i32.const 0)))
