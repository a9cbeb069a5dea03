;; The smallest plugin: Noop reads nothing and answers null.
;;
;;   wat2wasm noop.wat -o noop.wasm && bladehost build noop.wasm -o blade-tool-noop.wasm
(module
  (import "blade_v1" "ret" (func $ret (param i32 i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "{\"abi\":1,\"name\":\"blade-tool-noop\",\"version\":\"1.0.0\",\"description\":\"Does nothing.\",\"tools\":[{\"name\":\"Noop\",\"description\":\"Does nothing.\",\"parameters\":{\"type\":\"object\"},\"kind\":\"readonly\",\"sideEffect\":\"pure\",\"interruptBehavior\":\"cancel\",\"yields\":[]}]}")
  (data (i32.const 1024) "null")
  (func (export "blade_describe") (call $ret (i32.const 0) (i32.const 0) (i32.const 248)))
  (func (export "blade_execute") (param i32 i32) (call $ret (i32.const 0) (i32.const 1024) (i32.const 4))))
