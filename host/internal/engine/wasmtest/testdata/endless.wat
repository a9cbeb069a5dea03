;; Functions that never end of themselves, or not before the sun does.
(module
  (memory (export "memory") 2 2)
  (type $void (func))
  (type $deep (func (param i32)))
  (table 1 funcref)
  (elem (i32.const 0) $indirect)

  (func (export "loop") (loop $l (br $l)))

  (func (export "nested") (loop $a (loop $b (loop $c (br $c)) (br $b)) (br $a)))

  (func (export "conditional") (local $i i32)
    (loop $l
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $l (i32.or (local.get $i) (i32.const 1)))))

  (func (export "table_loop") (local $i i32)
    (loop $l
      (block $a (block $b
        (br_table $a $b $l (local.tee $i (i32.and (i32.add (local.get $i) (i32.const 1)) (i32.const 3)))))
        (br $l))
      (br $l)))

  (func (export "values_loop")
    (i32.const 1) (i64.const 2)
    (loop $l (param i32 i64) (result i32 i64)
      (i64.add (i64.const 1))
      (br $l))
    drop drop)

  ;; A tree of 2^60 calls without a single loop.
  (func $left (param $n i32)
    (if (local.get $n) (then
      (call $right (i32.sub (local.get $n) (i32.const 1)))
      (call $right (i32.sub (local.get $n) (i32.const 1))))))
  (func $right (param $n i32)
    (if (local.get $n) (then
      (call $left (i32.sub (local.get $n) (i32.const 1)))
      (call $left (i32.sub (local.get $n) (i32.const 1))))))
  (func (export "tree") (call $left (i32.const 60)))

  (func $self (param $n i32)
    (if (local.get $n) (then
      (call $self (i32.sub (local.get $n) (i32.const 1)))
      (call $self (i32.sub (local.get $n) (i32.const 1))))))
  (func (export "self_tree") (call $self (i32.const 60)))

  ;; The same without recursion: each function calls the next one twice.
  (func $t0 (nop))
  (func $t1 (call $t0) (call $t0) (call $t0) (call $t0) (call $t0) (call $t0) (call $t0) (call $t0))
  (func $t2 (call $t1) (call $t1) (call $t1) (call $t1) (call $t1) (call $t1) (call $t1) (call $t1))
  (func $t3 (call $t2) (call $t2) (call $t2) (call $t2) (call $t2) (call $t2) (call $t2) (call $t2))
  (func $t4 (call $t3) (call $t3) (call $t3) (call $t3) (call $t3) (call $t3) (call $t3) (call $t3))
  (func $t5 (call $t4) (call $t4) (call $t4) (call $t4) (call $t4) (call $t4) (call $t4) (call $t4))
  (func $t6 (call $t5) (call $t5) (call $t5) (call $t5) (call $t5) (call $t5) (call $t5) (call $t5))
  (func $t7 (call $t6) (call $t6) (call $t6) (call $t6) (call $t6) (call $t6) (call $t6) (call $t6))
  (func $t8 (call $t7) (call $t7) (call $t7) (call $t7) (call $t7) (call $t7) (call $t7) (call $t7))
  (func $t9 (call $t8) (call $t8) (call $t8) (call $t8) (call $t8) (call $t8) (call $t8) (call $t8))
  (func (export "ladder") (call $t9) (call $t9) (call $t9) (call $t9) (call $t9) (call $t9) (call $t9) (call $t9))

  (func $leaf)
  (func (export "leaves") (loop $l (call $leaf) (call $leaf) (br $l)))

  (func (export "fill")
    (loop $l (memory.fill (i32.const 0) (i32.const 1) (i32.const 131072)) (br $l)))

  (func (export "grow")
    (loop $l (drop (memory.grow (i32.const 1))) (br $l)))

  ;; Fails each time, and must not take four billion units for it.
  (func (export "grow_table")
    (loop $l (drop (table.grow 0 (ref.null func) (i32.const -1))) (br $l)))

  ;; Recursion that never returns.
  (func $down (export "down") (call $down))
  (func $ping (export "ping") (call $pong))
  (func $pong (call $ping))
  (func $indirect (export "indirect") (call_indirect (type $void) (i32.const 0)))
  (func $wide (export "wide")
    (local i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64)
    (call $wide))
)
