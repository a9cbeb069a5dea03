;; Kernels for comparing a module with its rewritten form. Each export takes a
;; size and returns a number that depends on all the work.
(module
  (memory (export "memory") 4)
  (type $unary (func (param i32) (result i64)))
  (table 2 funcref)
  (elem (i32.const 0) $indirect $triple)
  (global $state (mut i32) (i32.const 7))

  (func (export "count") (param $n i32) (result i64) (local $i i64)
    (loop $l
      (local.set $i (i64.add (local.get $i) (i64.const 3)))
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $i))

  (func (export "empty") (param $n i32) (result i64)
    (loop $l (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (i64.const 0))

  ;; Sums 64 KiB, n times.
  (func (export "memsum") (param $n i32) (result i64) (local $p i32) (local $s i64)
    (loop $outer
      (local.set $p (i32.const 0))
      (loop $inner
        (local.set $s (i64.add (local.get $s) (i64.load32_u (local.get $p))))
        (br_if $inner (i32.lt_u (local.tee $p (i32.add (local.get $p) (i32.const 4))) (i32.const 65536))))
      (br_if $outer (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $s))

  (func $fib (export "fib") (param $n i32) (result i64)
    (if (i32.lt_u (local.get $n) (i32.const 2)) (then (return (i64.extend_i32_u (local.get $n)))))
    (i64.add (call $fib (i32.sub (local.get $n) (i32.const 1))) (call $fib (i32.sub (local.get $n) (i32.const 2)))))

  ;; Mutual recursion with every way out of a function.
  (func $even (export "even") (param $n i32) (result i64)
    (block $b
      (br_if $b (i32.eqz (local.get $n)))
      (return (call $odd (i32.sub (local.get $n) (i32.const 1)))))
    (i64.const 1))
  (func $odd (param $n i32) (result i64)
    (i64.const 0)
    (br_if 0 (i32.eqz (local.get $n)))
    (drop)
    (br 0 (call $even (i32.sub (local.get $n) (i32.const 1)))))

  ;; A loop that carries values, left through br_table.
  (func (export "carry") (param $n i32) (result i64) (local $k i32)
    (i64.const 1) (i64.const 1)
    (loop $l (param i64 i64) (result i64 i64)
      (local.set $k (i32.rem_u (local.get $n) (i32.const 3)))
      (i64.add (i64.const 5))
      (block $two (param i64 i64) (result i64 i64)
        (block $one (param i64 i64) (result i64 i64)
          (br_table $one $two $two (local.get $k)))
        (i64.add (i64.const 11)))
      (local.set $n (i32.sub (local.get $n) (i32.const 1)))
      (br_if $l (local.get $n)))
    (i64.mul))

  ;; Several results, called in a circle.
  (func $pair (param $n i32) (result i64 i32)
    (if (result i64 i32) (i32.eqz (local.get $n))
      (then (i64.const 1) (return (i64.const 10) (i32.const 20)))
      (else
        (call $pair (i32.sub (local.get $n) (i32.const 1)))
        (i32.add (i32.const 3)))))
  (func (export "pairs") (param $n i32) (result i64) (local $x i32)
    (call $pair (local.get $n))
    (local.set $x)
    (i64.add (i64.extend_i32_u (local.get $x))))

  ;; Recursion through a table.
  (func $indirect (export "indirect") (param $n i32) (result i64)
    (if (i32.eqz (local.get $n)) (then (return (i64.const 1))))
    (i64.add
      (call_indirect (type $unary) (i32.sub (local.get $n) (i32.const 1)) (i32.const 0))
      (call_indirect (type $unary) (local.get $n) (i32.const 1))))
  (func $triple (param $n i32) (result i64) (i64.mul (i64.extend_i32_u (local.get $n)) (i64.const 3)))

  ;; Calls of a small leaf, and a global.
  (func $next (result i32)
    (global.set $state (i32.add (i32.mul (global.get $state) (i32.const 1664525)) (i32.const 1013904223)))
    (global.get $state))
  (func (export "random") (param $n i32) (result i64) (local $s i64)
    (loop $l
      (local.set $s (i64.xor (i64.rotl (local.get $s) (i64.const 7)) (i64.extend_i32_u (call $next))))
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $s))

  ;; Fill, copy and grow.
  (func (export "bulk") (param $n i32) (result i64) (local $s i64)
    (loop $l
      (memory.fill (i32.const 100) (local.get $n) (i32.const 30000))
      (memory.copy (i32.const 40000) (i32.const 90) (i32.const 20000))
      (drop (memory.grow (i32.const 0)))
      (local.set $s (i64.add (local.get $s) (i64.load (i32.const 40004))))
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $s))
)
