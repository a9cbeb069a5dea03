package wasm

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestVerifyFindsDefects damages good output in one place each.
func TestVerifyFindsDefects(t *testing.T) {
	swap := func(old, new []byte) func([]byte) []byte {
		return func(b []byte) []byte { return bytes.Replace(b, old, new, 1) }
	}
	loop := program(opLoop, typeVoid, opBr, 0, opEnd)
	self := program(opCall, 0, opBlock, typeVoid, opReturn, opEnd)
	fill := program(opI32Const, 0, opI32Const, 0, opI32Const, 9, opMisc, miscMemoryFill, 0)
	small := program(opLoop, typeVoid, opI32Const, 0, opBrIf, 0, opEnd)
	tests := []struct {
		name   string
		bytes  []byte
		damage func([]byte) []byte
		want   string
	}{
		{"a loop that does not charge", loop, swap(raw(0x7d, 0x24, 1), raw(0x7c, 0x24, 1)), "has no check"},
		{"a check that looks the wrong way", loop, swap(raw(0x42, 0, 0x53), raw(0x42, 0, 0x55)), "has no check"},
		{"an entry without a check", self, swap(raw(0x42, 0, 0x53), raw(0x42, 0, 0x55)), ""},
		{"depth that is given, not taken", self, swap(raw(0x42, 1, 0x7d, 0x24, 2), raw(0x42, 0x7f, 0x7d, 0x24, 2)), "taken in a wrong way"},
		{"depth that is not put back", self, swap(raw(0x20, 0, 0x24, 2, 0x0b), raw(0x20, 0, 0x1a, 1, 0x0b)), "does not put its depth back"},
		{"a return past the counter", self, swap(raw(opBlock, typeVoid, opBr, 1), raw(opBlock, typeVoid, opReturn, opNop)), "without putting its depth back"},
		{"a branch past the counter", self, swap(raw(opBlock, typeVoid, opBr, 1), raw(opBlock, typeVoid, opBr, 2)), "without putting its depth back"},
		{"a fill that is not paid for", fill, swap(raw(0xad, opI64Const, 5, 0x88, 0x7d), raw(0xad, opI64Const, 5, 0x88, 0x7c)), ""},
		{"a fill paid by the wrong measure", fill, swap(raw(opI64Const, 5, 0x88), raw(opI64Const, 6, 0x88)), ""},
		{"an inner loop that leaves too far", small, swap(raw(0x53, opBrIf, 1), raw(0x53, opBrIf, 0)), "has no check"},
		{"an inner loop that does not charge", small, swap(raw(opBrIf, 1, 0x23, 1, 0x42, 26, 0x7d), raw(opBrIf, 1, 0x23, 1, 0x42, 26, 0x7c)), "has no check"},
		{"an outer loop with more in it", small, swap(raw(opCall, 0, opEnd, opLoop), raw(opCall, 0, opEnd, opNop)), ""},
		{"an indirect call that gives back more than it took", sites, swap(raw(0x42, 2, 0x7c), raw(0x42, 3, 0x7c)), "names a counter"},
		{"an indirect call that takes nothing", sites, swap(raw(0x42, 2, 0x7d), raw(0x42, 0, 0x7d)), "names a counter"},
		{"refill under another name", loop, swap([]byte("refill"), []byte("reload")), "refill is not the last import"},
		{"fuel under another name", loop, swap([]byte(FuelExport), []byte("__blade_full")), "the counters are not exported"},
		{"a global that is not exported", loop, swap([]byte("__blade_g0"), []byte("__BLADE_g0")), "mutable global 0 is not exported"},
		{"a memory that may grow further", loop, swap(raw(secMemory, 4, 1, 1, 1, 9), raw(secMemory, 4, 1, 1, 1, 10)), "the memory may grow to 10 pages"},
		{"a table that may grow further", loop, swap(raw(secTable, 5, 1, 0x70, 1, 1, 9), raw(secTable, 5, 1, 0x70, 1, 1, 10)), "a table may grow to 10 entries"},
	}
	opt := Options{MemoryPages: 9, TableEntries: 9}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Rewrite(tt.bytes, opt)
			if err != nil {
				t.Fatal(err)
			}
			if err := Verify(m.Bytes, opt); err != nil {
				t.Fatal(err)
			}
			bad := tt.damage(m.Bytes)
			if bytes.Equal(bad, m.Bytes) {
				t.Fatal("nothing was damaged")
			}
			if err := Verify(bad, opt); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// sites are two functions that call each other, and themselves, through a table.
var sites = mod(types(), sec(secFunction, vec(raw(0), raw(0))), sec(secTable, vec(raw(0x70, 0, 2))), sec(secGlobal, vec(raw(0x7f, 1, opI32Const, 5, opEnd))),
	sec(secElement, vec(raw(0, opI32Const, 0, opEnd, 2, 0, 1))), sec(secCode, vec(fn(opI32Const, 0, opCallIndirect, 0, 0), fn(opI32Const, 0, opCallIndirect, 0, 0))))

// TestVerifyFindsHeavy takes the check away from functions that need it.
func TestVerifyFindsHeavy(t *testing.T) {
	much := bytes.Repeat(raw(opI32Const, 1, opDrop), 70)
	for name, b := range map[string][]byte{
		"long":                   lines(fn(append(much, much...)...)),
		"long together":          lines(fn(append(raw(opCall, 1), much...)...), fn(much...)),
		"in a circle":            lines(fn(opCall, 1), fn(opCall, 0)),
		"itself":                 lines(fn(opCall, 0)),
		"with a loop after code": lines(fn(opI32Const, 0, opBrIf, 0, opLoop, typeVoid, opEnd)),
		"with an indirect call":  lines(fn(opI32Const, 0, opCallIndirect, 0, 0)),
	} {
		t.Run(name, func(t *testing.T) {
			w := prepared(t, b)
			for i := range w.graph.facts {
				w.graph.facts[i].light = 0
			}
			if err := w.assemble(w.code()); err != nil {
				t.Fatal(err)
			}
			if err := Verify(w.out.Bytes, Options{}); err == nil || !strings.Contains(err.Error(), "no check at its entry") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func prepared(t *testing.T, b []byte) *rewriter {
	t.Helper()
	m := newModule(b, Limits{})
	m.graph = &callGraph{}
	if err := m.parse(); err != nil {
		t.Fatal(err)
	}
	w := &rewriter{module: m, opt: Options{}.withDefaults(), out: &Module{}}
	w.prepare()
	return w
}

// TestVerifyFindsCircles takes the depth away from one function of a circle.
func TestVerifyFindsCircles(t *testing.T) {
	for name, b := range map[string][]byte{
		"direct":                lines(fn(opCall, 1), fn(opCall, 2), fn(opCall, 0)),
		"of several in a table": sites,
		"through a table": mod(types(), sec(secFunction, vec(raw(0))), sec(secTable, vec(raw(0x70, 0, 1))),
			sec(secElement, vec(raw(0, opI32Const, 0, opEnd, 1, 0))), sec(secCode, vec(fn(opI32Const, 0, opCallIndirect, 0, 0)))),
	} {
		t.Run(name, func(t *testing.T) {
			w := prepared(t, b)
			if n := len(slices.DeleteFunc(slices.Clone(w.counted), func(c bool) bool { return !c })); n+map[bool]int{true: 1}[w.sites] != 1 {
				t.Errorf("functions %v and sites %v keep the depth", w.counted, w.sites)
			}
			clear(w.counted)
			w.sites = false
			if err := w.assemble(w.code()); err != nil {
				t.Fatal(err)
			}
			if err := Verify(w.out.Bytes, Options{}); err == nil || !strings.Contains(err.Error(), "circle") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestRecursive(t *testing.T) {
	tests := []struct {
		name   string
		bodies [][]byte
		want   string // one letter a function
	}{
		{"nobody", [][]byte{fn(opCall, 1), fn(opCall, 2), fn()}, "..."},
		{"itself", [][]byte{fn(opCall, 0), fn(opCall, 0)}, "r."},
		{"two", [][]byte{fn(opCall, 1), fn(opCall, 0), fn(opCall, 1)}, "rr."},
		{"two circles and a bridge", [][]byte{fn(opCall, 1), fn(opCall, 0, opCall, 2), fn(opCall, 3), fn(opCall, 4), fn(opCall, 3)}, "rr.rr"},
		{"diamond", [][]byte{fn(opCall, 1, opCall, 2), fn(opCall, 3), fn(opCall, 3), fn()}, "...."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newModule(lines(tt.bodies...), Limits{})
			m.graph = &callGraph{}
			if err := m.parse(); err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, r := range m.graph.recursive()[:len(tt.want)] {
				got.WriteByte(".r"[map[bool]int{true: 1}[r]])
			}
			if got.String() != tt.want {
				t.Errorf("got %s, want %s", got.String(), tt.want)
			}
		})
	}
}

// TestCounters: as few functions as there must be keep the depth.
func TestCounters(t *testing.T) {
	big := fnWith(raw(1, 0xc8, 1, byte(I32)), opCall, 1)
	chain := make([][]byte, countPath+10)
	for i := range chain {
		chain[i] = fn(append(raw(opCall), num(uint32((i+1)%len(chain)))...)...)
	}
	tests := []struct {
		name  string
		bytes []byte
		want  string // the functions, and x for indirect calls
	}{
		{"none", lines(fn(opCall, 1), fn()), ""},
		{"one of a circle", lines(fn(opCall, 1), fn(opCall, 2), fn(opCall, 0)), "0"},
		{"all that call themselves", lines(fn(opCall, 0, opCall, 1), fn(opCall, 1, opCall, 0)), "0 1"},
		{"the one that two circles share", lines(fn(opCall, 1), fn(opCall, 0, opCall, 2), fn(opCall, 1)), "1"},
		{"one with a large frame, whoever else", lines(big, fn(opCall, 0)), "0"},
		{"indirect calls", sites, "x"},
		{"two circles apart", lines(fn(opCall, 1), fn(opCall, 0), fn(opCall, 3), fn(opCall, 2)), "0 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := prepared(t, tt.bytes)
			var got []string
			for i, c := range w.counted {
				if c {
					got = append(got, fmt.Sprint(i))
				}
			}
			if w.sites {
				got = append(got, "x")
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("got %s, want %s", s, tt.want)
			}
		})
	}
	w := prepared(t, lines(chain...))
	for i, c := range w.counted {
		if !c {
			t.Fatalf("function %d of a circle that is too long for one counter does not keep the depth", i)
		}
	}
}

// TestUnrollIsBounded: a module of nothing but tiny loops does not grow without end.
func TestUnrollIsBounded(t *testing.T) {
	b := lines(fn(bytes.Repeat(raw(opLoop, typeVoid, opI32Const, 0, opBrIf, 0, opEnd), 20_000)...))
	m := newModule(b, Limits{})
	m.graph = &callGraph{}
	if err := m.parse(); err != nil {
		t.Fatal(err)
	}
	m.unroll()
	if body := m.bodies[0]; body.end-body.start > 2*len(b)+unrollLeast+len(b)/unrollPart {
		t.Errorf("%d bytes have become %d", len(b), body.end-body.start)
	}
}
