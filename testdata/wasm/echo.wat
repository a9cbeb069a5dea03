;; Echo answers with its input. The memory grows where the input needs it.
;;
;;   wat2wasm echo.wat -o echo.wasm && bladehost build echo.wasm -o blade-tool-echo.wasm
(module
  (import "blade_v1" "take" (func $take (param i32 i32 i32) (result i32)))
  (import "blade_v1" "ret" (func $ret (param i32 i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "{\"abi\":1,\"name\":\"blade-tool-echo\",\"version\":\"1.0.0\",\"description\":\"Echoes.\",\"tools\":[{\"name\":\"Echo\",\"description\":\"Answers with its input.\",\"parameters\":{\"type\":\"object\"},\"kind\":\"readonly\",\"sideEffect\":\"pure\",\"interruptBehavior\":\"cancel\",\"yields\":[]}]}")
  (func (export "blade_describe") (call $ret (i32.const 0) (i32.const 0) (i32.const 252)))
  (func (export "blade_execute") (param $tool i32) (param $len i32)
    (local $at i32) (local $n i32)
    ;; as many pages as the input needs behind the first KiB; one is there
    (if (i32.eq (memory.grow (i32.shr_u (i32.add (local.get $len) (i32.const 1024)) (i32.const 16))) (i32.const -1))
      (then unreachable))
    (local.set $at (i32.const 1024))
    (block $all
      (loop $more
        (local.set $n (call $take (i32.const 0) (local.get $at) (local.get $len)))
        (br_if $all (i32.eqz (local.get $n)))
        (local.set $at (i32.add (local.get $at) (local.get $n)))
        (local.set $len (i32.sub (local.get $len) (local.get $n)))
        (br $more)))
    (call $ret (i32.const 0) (i32.const 1024) (i32.sub (local.get $at) (i32.const 1024)))))
