;; A plugin in the first MCP style: describe and call. The tool "time" answers
;; with its own request as text; a request with "fail" sets an error, one with
;; "wrong" answers with isError.
(module
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store (param i64 i32)))
  (import "extism:host/env" "input_length" (func $input_length (result i64)))
  (import "extism:host/env" "input_load_u8" (func $input (param i64) (result i32)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (import "extism:host/env" "error_set" (func $error_set (param i64)))
  (import "extism:host/user" "notify_tool_list_changed" (func $notify))
  (memory (export "memory") 1)
  (data (i32.const 0) "{\"tools\":[{\"name\":\"time\",\"description\":\"Tells its request.\",\"inputSchema\":{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"}},\"required\":null}}]}")
  (data (i32.const 512) "{\"content\":[{\"type\":\"text\",\"text\":\"")
  (data (i32.const 600) "\"}]}")
  (data (i32.const 620) "\"}],\"isError\":true}")
  (data (i32.const 700) "no such zone")
  ;; copies memory into a block and returns its offset
  (func $block (param $at i32) (param $n i32) (result i64)
    (local $p i64) (local $i i32)
    (local.set $p (call $alloc (i64.extend_i32_u (local.get $n))))
    (loop $more
      (call $store (i64.add (local.get $p) (i64.extend_i32_u (local.get $i))) (i32.load8_u (i32.add (local.get $at) (local.get $i))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $i) (local.get $n))))
    (local.get $p))
  ;; what must have run before anything else
  (func $begin (export "_initialize") (i32.store8 (i32.const 4095) (i32.const 1)))
  (func (export "describe") (result i32)
    (if (i32.eqz (i32.load8_u (i32.const 4095))) (then unreachable))
    (call $output_set (call $block (i32.const 0) (i32.const 150)) (i64.const 150))
    (i32.const 0))
  (func (export "call") (result i32)
    (local $n i32) (local $i i32) (local $at i32) (local $c i32) (local $f i32)
    (call $notify)
    (local.set $n (i32.wrap_i64 (call $input_length)))
    ;; the request with its quotes replaced, behind the beginning of the answer
    (memory.copy (i32.const 1024) (i32.const 512) (i32.const 35))
    (local.set $at (i32.const 1059))
    (loop $more
      (local.set $c (call $input (i64.extend_i32_u (local.get $i))))
      (if (i32.eq (local.get $c) (i32.const 34)) (then (local.set $c (i32.const 39))))
      ;; !fail and !wrong are what is looked for
      (if (i32.eq (local.get $c) (i32.const 33)) (then (local.set $f (call $input (i64.extend_i32_u (i32.add (local.get $i) (i32.const 1)))))))
      (i32.store8 (local.get $at) (local.get $c))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $i) (local.get $n))))
    (if (i32.eq (local.get $f) (i32.const 102)) ;; f
      (then
        (call $error_set (call $block (i32.const 700) (i32.const 12)))
        (return (i32.const -1))))
    (if (i32.eq (local.get $f) (i32.const 119)) ;; w
      (then
        (memory.copy (local.get $at) (i32.const 620) (i32.const 19))
        (local.set $at (i32.add (local.get $at) (i32.const 19))))
      (else
        (memory.copy (local.get $at) (i32.const 600) (i32.const 4))
        (local.set $at (i32.add (local.get $at) (i32.const 4)))))
    (local.set $n (i32.sub (local.get $at) (i32.const 1024)))
    (call $output_set (call $block (i32.const 1024) (local.get $n)) (i64.extend_i32_u (local.get $n)))
    (i32.const 0)))
