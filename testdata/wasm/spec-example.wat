;; A whole plugin: the tool Measure answers {"bytes":N}, the length of its input.
;; It yields one message, reads the input in pieces, obeys cancellation, and
;; needs neither WASI nor an allocator.
;;
;;   wat2wasm spec-example.wat -o measure.wasm
;;   bladehost build measure.wasm -o blade-tool-measure.wasm   # adds the manifest section
(module
  (import "blade_v1" "take" (func $take (param i32 i32 i32) (result i32)))
  (import "blade_v1" "yield" (func $yield (param i32 i32) (result i32)))
  (import "blade_v1" "ret" (func $ret (param i32 i32 i32)))
  (import "blade_v1" "cancelled" (func $cancelled (result i32)))

  (memory (export "memory") 2)

  ;; 0x0000  the manifest
  (data (i32.const 0x0000) "{\"abi\":1,\"name\":\"blade-tool-measure\",\"version\":\"0.1.0\",\"description\":\"Measures its input.\",\"tools\":[{\"name\":\"Measure\",\"description\":\"Counts the bytes of its input.\",\"parameters\":{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"}},\"required\":[\"text\"]},\"kind\":\"readonly\",\"sideEffect\":\"pure\",\"interruptBehavior\":\"cancel\",\"yields\":[\"message\"]}]}")
  ;; 0x0800  a yield and an error
  (data (i32.const 0x0800) "{\"kind\":\"message\",\"content\":{\"summary\":\"measuring\"}}")
  (data (i32.const 0x0900) "{\"message\":\"stopped as told\",\"code\":\"cancelled\"}")
  ;; 0x0a00  the result, its number written from 0x0a40 down
  ;; 0x1000  a piece of the input, up to the end of the second page

  (func (export "blade_describe")
    (call $ret (i32.const 0) (i32.const 0x0000) (i32.const 346)))

  (func (export "blade_execute") (param $tool i32) (param $len i32)
    (local $n i32) (local $total i32) (local $p i32)
    ;; $tool is 0: the manifest has one tool.
    (if (call $yield (i32.const 0x0800) (i32.const 52))
      (then (call $fail) (return)))
    (loop $more
      (if (call $cancelled)
        (then (call $fail) (return)))
      (local.set $n (call $take (i32.const 0) (i32.const 0x1000) (i32.const 0x1f000)))
      (local.set $total (i32.add (local.get $total) (local.get $n)))
      (br_if $more (local.get $n)))
    ;; The digits, the last one first, and "}" behind them.
    (local.set $p (i32.const 0x0a40))
    (i32.store8 (local.get $p) (i32.const 0x7d))
    (loop $digit
      (local.set $p (i32.sub (local.get $p) (i32.const 1)))
      (i32.store8 (local.get $p) (i32.add (i32.const 0x30) (i32.rem_u (local.get $total) (i32.const 10))))
      (local.set $total (i32.div_u (local.get $total) (i32.const 10)))
      (br_if $digit (local.get $total)))
    ;; {"bytes": before them, as one i64 and one i8.
    (local.set $p (i32.sub (local.get $p) (i32.const 9)))
    (i64.store (local.get $p) (i64.const 0x227365747962227b)) ;; {"bytes"
    (i32.store8 offset=8 (local.get $p) (i32.const 0x3a))     ;; :
    (call $ret (i32.const 0) (local.get $p) (i32.sub (i32.const 0x0a41) (local.get $p))))

  (func $fail
    (call $ret (i32.const 2) (i32.const 0x0900) (i32.const 48))))
