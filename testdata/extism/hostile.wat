;; A plugin of bladehost's contract whose tools, A to N, each try to get out of
;; hand. What they do is chosen by the tool's name in the request.
(module
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store (param i64 i32)))
  (import "extism:host/env" "store_u64" (func $store64 (param i64 i64)))
  (import "extism:host/env" "load_u64" (func $load64 (param i64) (result i64)))
  (import "extism:host/env" "input_load_u8" (func $input (param i64) (result i32)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (import "extism:host/env" "error_set" (func $error_set (param i64)))
  (import "extism:host/env" "log_info" (func $log (param i64)))
  (import "extism:host/env" "var_set" (func $var_set (param i64 i64)))
  (import "extism:host/user" "blade_yield" (func $yield (param i64) (result i64)))
  (import "extism:host/user" "blade_call" (func $call (param i64 i64) (result i64)))
  (memory (export "memory") 1)
  (table $t 1 funcref)
  (data (i32.const 0) "{\"abi\":1,\"name\":\"blade-tool-hostile\",\"version\":\"1.0.0\",\"description\":\"Tries to get out of hand.\",\"tools\":[{\"name\":\"A\",\"description\":\"-\",\"parameters\":{\"type\":\"object\"}},{\"name\":\"B\",\"description\":\"-\",\"parameters\":{\"type\":\"object\"}},{\"name\":\"C\",\"description\":\"-\",\"parameters\":{\"type\":\"object\"}},{\"name\":\"D\",\"description\":\"-\",\"parameters\":{\"type\":\"object\"}},{\"name\":\"E\",\"description\":\"-\",\"parameters\":{\"type\":\"object\"}},{\"name\":\"F\",\"description\":\"-\",\"parameters\":{\"type\":\"object\"}},{\"name\":\"G\",\"description\":\"-\",\"parameters\":{\"type\":\"object\"}},{\"name\":\"H\",\"description\":\"-\",\"parameters\":{\"type\":\"object\"}},{\"name\":\"I\",\"description\":\"-\",\"parameters\":{\"type\":\"object\"}},{\"name\":\"J\",\"description\":\"-\",\"parameters\":{\"type\":\"object\"}},{\"name\":\"K\",\"description\":\"-\",\"parameters\":{\"type\":\"object\"}},{\"name\":\"L\",\"description\":\"-\",\"parameters\":{\"type\":\"object\"}},{\"name\":\"M\",\"description\":\"-\",\"parameters\":{\"type\":\"object\"}},{\"name\":\"N\",\"description\":\"-\",\"parameters\":{\"type\":\"object\"}}]}")
  (data (i32.const 4096) "null")
  (func $block (param $at i32) (param $n i32) (result i64)
    (local $p i64) (local $i i32)
    (local.set $p (call $alloc (i64.extend_i32_u (local.get $n))))
    (loop $more
      (call $store (i64.add (local.get $p) (i64.extend_i32_u (local.get $i))) (i32.load8_u (i32.add (local.get $at) (local.get $i))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $i) (local.get $n))))
    (local.get $p))
  (func (export "blade_describe") (result i32)
    (call $output_set (call $block (i32.const 0) (i32.const 975)) (i64.const 975))
    (i32.const 0))
  (func $fib (param $n i32) (result i32)
    (if (i32.lt_u (local.get $n) (i32.const 2)) (then (return (local.get $n))))
    (i32.add (call $fib (i32.sub (local.get $n) (i32.const 1))) (call $fib (i32.sub (local.get $n) (i32.const 2)))))
  (func $deep (param $n i32) (result i32) (i32.add (call $deep (i32.add (local.get $n) (i32.const 1))) (i32.const 1)))
  ;; writes the same number all over the kernel's first page
  (func $scribble (param $v i64)
    (local $i i64)
    (loop $more
      (call $store64 (local.get $i) (local.get $v))
      (local.set $i (i64.add (local.get $i) (i64.const 8)))
      (br_if $more (i64.lt_u (local.get $i) (i64.const 65536)))))
  (func (export "blade_execute") (result i32)
    (local $tool i32) (local $p i64)
    (local.set $tool (call $input (i64.const 9)))
    ;; A: a tree of calls without a loop
    (if (i32.eq (local.get $tool) (i32.const 65)) (then (drop (call $fib (i32.const 60)))))
    ;; B: calls without an end
    (if (i32.eq (local.get $tool) (i32.const 66)) (then (drop (call $deep (i32.const 0)))))
    ;; C, D, E: broken blocks, then a yield, a log line, a variable
    (local.set $p (call $block (i32.const 4096) (i32.const 4)))
    (if (i32.and (i32.ge_u (local.get $tool) (i32.const 67)) (i32.le_u (local.get $tool) (i32.const 69))) (then (call $scribble (i64.const 1))))
    (if (i32.eq (local.get $tool) (i32.const 67)) (then (drop (call $yield (local.get $p)))))
    (if (i32.eq (local.get $tool) (i32.const 68)) (then (call $log (local.get $p))))
    (if (i32.eq (local.get $tool) (i32.const 69)) (then (call $var_set (local.get $p) (local.get $p))))
    ;; F: an output that is nowhere
    (if (i32.eq (local.get $tool) (i32.const 70)) (then (call $output_set (i64.const 0xfffffff0) (i64.const 0x7fffffff)) (return (i32.const 0))))
    ;; G: a table without an end
    (if (i32.eq (local.get $tool) (i32.const 71)) (then
      (loop $more (br_if $more (i32.ne (table.grow $t (ref.null func) (i32.const 10000)) (i32.const -1))))))
    ;; H: an offset of more than 32 bits
    (if (i32.eq (local.get $tool) (i32.const 72)) (then (drop (call $yield (i64.const 0x10000000000)))))
    ;; I: blocks without an end
    (if (i32.eq (local.get $tool) (i32.const 73)) (then (loop $more (drop (call $alloc (i64.const 1048576))) (br $more))))
    ;; J: a code without an error text
    (if (i32.eq (local.get $tool) (i32.const 74)) (then (return (i32.const 5))))
    ;; K: logs without an end
    (if (i32.eq (local.get $tool) (i32.const 75)) (then (loop $more (call $log (local.get $p)) (br $more))))
    ;; L: memory without an end
    (if (i32.eq (local.get $tool) (i32.const 76)) (then
      (loop $more (br_if $more (i32.ne (memory.grow (i32.const 100)) (i32.const -1)))) unreachable))
    ;; M: the kernel's memory beyond its end
    (if (i32.eq (local.get $tool) (i32.const 77)) (then (drop (call $load64 (i64.const 0xfffffff0)))))
    ;; N: an output over the limit
    (if (i32.eq (local.get $tool) (i32.const 78)) (then
      (call $output_set (call $alloc (i64.const 0x1000001)) (i64.const 0x1000001))
      (return (i32.const 0))))
    (call $output_set (local.get $p) (i64.const 4))
    (i32.const 0)))
