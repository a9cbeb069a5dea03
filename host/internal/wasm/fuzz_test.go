package wasm

import (
	"reflect"
	"testing"
)

// FuzzScan: no panic, memory bounded by the length, and an Info that agrees
// with itself.
func FuzzScan(f *testing.F) {
	f.Add(full())
	f.Add(program(opLoop, typeVoid, opBr, 0, opEnd))
	f.Add(program(opI32Const, 0, opIf, typeVoid, opElse, opEnd, opBlock, 0, opI32Const, 0, opBrTable, 1, 0, 1, opEnd))
	f.Add(program(opI32Const, 0, opVec, 0x0f, opVec, 0x81, 0x01, opDrop))
	f.Add([]byte("\x00asm\x0d\x00\x01\x00"))
	f.Add(mod(sec(secElement, vec(raw(5, 0x70, 1, opRefNull, 0x70, opEnd)))))
	f.Fuzz(func(t *testing.T, b []byte) {
		checkAllocation(t, b)
		info, err := Scan(b, Limits{})
		if err != nil {
			if ReasonOf(err) == "" || err.Error() == "" || info != nil {
				t.Fatalf("got %+v, %v", info, err)
			}
			return
		}
		checkInfo(t, b, info)
	})
}

func checkInfo(t *testing.T, b []byte, info *Info) {
	t.Helper()
	if info.Size != len(b) {
		t.Errorf("size %d of %d", info.Size, len(b))
	}
	count := map[Kind]int{Func: info.Functions, Table: len(info.Tables), Global: len(info.Globals)}
	for _, im := range info.Imports {
		if im.Kind == Func {
			count[Func]++
		}
	}
	if info.Memory != nil {
		count[Memory] = 1
	}
	names := map[string]bool{}
	for _, e := range info.Exports {
		if names[e.Name] || int64(e.Index) >= int64(count[e.Kind]) {
			t.Errorf("export %+v of %v", e, count)
		}
		names[e.Name] = true
	}
	if info.HasStart && int(info.Start) >= count[Func] {
		t.Errorf("start %d of %d", info.Start, count[Func])
	}
	again, err := Scan(b, Limits{})
	if err != nil || !reflect.DeepEqual(info, again) {
		t.Error("a second scan differs")
	}
}

// FuzzRewrite: what Scan accepts, Rewrite refuses for a stated reason, or turns
// into a module that Scan and Verify accept; twice the same bytes.
func FuzzRewrite(f *testing.F) {
	f.Add(full())
	f.Add(program(opLoop, typeVoid, opBr, 0, opEnd))
	f.Add(program(opCall, 0))
	f.Add(program(opI32Const, 0, opCallIndirect, 0, 0, opReturn))
	f.Add(program(opI32Const, 0, opI32Const, 0, opI32Const, 0, opMisc, miscMemoryFill, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		opt := Options{MemoryPages: 100, Keep: []string{"name", "first"}}
		if _, err := Scan(b, Limits{}); err != nil {
			return
		}
		m, err := Rewrite(b, opt)
		if err != nil {
			if ReasonOf(err) == "" {
				t.Fatal(err)
			}
			return
		}
		if _, err := Scan(m.Bytes, unlimited(len(m.Bytes))); err != nil {
			t.Fatalf("the output is refused: %v\n%x", err, m.Bytes)
		}
		if err := Verify(m.Bytes, opt); err != nil {
			t.Fatalf("%v\n%x\n%x", err, b, m.Bytes)
		}
		again, err := Rewrite(b, opt)
		if err != nil || !reflect.DeepEqual(m, again) {
			t.Fatal("a second rewrite differs")
		}
	})
}
