package wasm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// mustRewrite rewrites and verifies.
func mustRewrite(t *testing.T, b []byte, opt Options) (*Module, *Info) {
	t.Helper()
	m, err := Rewrite(b, opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := Verify(m.Bytes, opt); err != nil {
		t.Fatalf("%v\n%x", err, m.Bytes)
	}
	info, err := Scan(m.Bytes, unlimited(len(m.Bytes)))
	if err != nil {
		t.Fatal(err)
	}
	return m, info
}

// lines is a module with the given bodies, all () -> (), and one global. After
// the rewrite refill is function 0, fuel is global 1 and depth global 2.
func lines(bodies ...[]byte) []byte {
	n := len(bodies)
	return mod(types(), sec(secFunction, num(uint32(n)), make([]byte, n)), sec(secTable, vec(raw(0x70, 0, 1))),
		sec(secMemory, vec(raw(0, 1))), sec(secGlobal, vec(raw(0x7f, 1, opI32Const, 5, opEnd))), sec(secCode, vec(bodies...)))
}

// bodyOf is function i of a module, without its length.
func bodyOf(t *testing.T, b []byte, i int) []byte {
	t.Helper()
	m := newModule(b, unlimited(len(b)))
	if err := m.parse(); err != nil {
		t.Fatal(err)
	}
	return m.bodies[i].of(b)
}

// The inserted sequences, spelled out.
func fuelMinus(cost int64) []byte {
	return cat(raw(0x23, 1, 0x42), appendS64(nil, cost), raw(0x7d, 0x24, 1))
}

func checked(cost int64) []byte {
	return cat(fuelMinus(cost+checkCost), raw(0x23, 1, 0x42, 0, 0x53, 0x04, 0x40, 0x10, 0, 0x0b))
}

func depthMinus(local byte, cost int64) []byte {
	return cat(raw(0x23, 2, 0x22, local, 0x42), appendS64(nil, cost), raw(0x7d, 0x24, 2))
}

func depthBack(local byte) []byte { return raw(0x20, local, 0x24, 2) }

// refills and leaves are the heads of the outer and the inner of two loops, before
// the charge.
var (
	refills = raw(0x23, 1, 0x42, 0, 0x53, 0x04, 0x40, 0x10, 0, 0x0b)
	leaves  = raw(0x23, 1, 0x42, 0, 0x53, opBrIf, 1)
)

func TestRewriteShapes(t *testing.T) {
	empty, much := fn(), bytes.Repeat(raw(opI32Const, 1, opDrop), 100)
	tests := []struct {
		name   string
		bodies [][]byte
		want   []byte // of the first
	}{
		{"a small leaf stays as it is", [][]byte{fn(opI32Const, 1, opDrop)}, raw(0, opI32Const, 1, opDrop, opEnd)},
		{"a loop pays at its header, and for what little comes before it", [][]byte{fn(opI32Const, 1, opDrop, opLoop, typeVoid, opMemorySize, 0, opMemoryGrow, 0, opDrop, opBr, 0, opEnd)},
			cat(raw(0, opI32Const, 1, opDrop, opLoop, typeVoid), checked(503+2), raw(opMemorySize, 0, opMemoryGrow, 0, opDrop, opBr, 0, opEnd, opEnd))},
		{"a small loop that calls nothing is repeated, and refill is outside of it", [][]byte{fn(cat(raw(opBlock, typeVoid, opLoop, typeVoid), bytes.Repeat(raw(opI32Const, 0, opDrop), 80), raw(opI32Const, 0, opBrIf, 0, opBlock, typeVoid, opI32Const, 1, opBrTable, 2, 0, 1, 2, opEnd, opEnd, opEnd))...)},
			func() []byte {
				body := func(outer byte) []byte {
					return cat(bytes.Repeat(raw(opI32Const, 0, opDrop), 80), raw(opI32Const, 0, opBrIf, 0, opBlock, typeVoid, opI32Const, 1, opBrTable, 2, 0, 1, outer, opEnd))
				}
				return cat(raw(0, opBlock, typeVoid, opBlock, typeVoid, opLoop, typeVoid), refills, raw(opLoop, typeVoid), leaves, fuelMinus(2*164+1+checkCost),
					raw(opBlock, typeVoid), body(5), raw(opBr, 3, opEnd), body(4), raw(opEnd, opEnd, opEnd, opEnd, opEnd))
			}()},
		{"a larger one is not repeated", [][]byte{fn(cat(raw(opLoop, typeVoid), bytes.Repeat(raw(opI32Const, 0, opDrop), 200), raw(opI32Const, 1, opBrIf, 0, opI32Const, 1, opBrIf, 1, opEnd))...)},
			cat(raw(0, opLoop, typeVoid), refills, raw(opLoop, typeVoid), leaves, fuelMinus(404+checkCost), bytes.Repeat(raw(opI32Const, 0, opDrop), 200), raw(opI32Const, 1, opBrIf, 0, opI32Const, 1, opBrIf, 2, opEnd, opEnd, opEnd))},
		{"much before a loop is paid at the entry without a check", [][]byte{fn(cat(bytes.Repeat(raw(opI32Const, 1, opDrop), 5), raw(opLoop, typeVoid, opEnd))...)},
			cat(raw(0), fuelMinus(10), bytes.Repeat(raw(opI32Const, 1, opDrop), 5), raw(opLoop, typeVoid), checked(0), raw(opEnd, opEnd))},
		{"a branch before the loop needs a check at the entry", [][]byte{fn(opI32Const, 1, opBrIf, 0, opLoop, typeVoid, opEnd)},
			cat(raw(0), checked(2), raw(opI32Const, 1, opBrIf, 0, opLoop, typeVoid), checked(0), raw(opEnd, opEnd))},
		{"loops pay for themselves, what follows is paid outside", [][]byte{fn(opLoop, typeVoid, opLoop, typeVoid, opNop, opMemorySize, 0, opDrop, opEnd, opMemorySize, 0, opDrop, opEnd, opMemorySize, 0, opDrop)},
			cat(raw(0), raw(opLoop, typeVoid), checked(2+2), raw(opLoop, typeVoid), checked(2), raw(opNop, opMemorySize, 0, opDrop, opEnd, opMemorySize, 0, opDrop, opEnd, opMemorySize, 0, opDrop, opEnd))},
		{"a caller pays for its leaves, and calls move by one", [][]byte{fn(cat(raw(opCall, 1), much)...), fn(opI32Const, 1, opDrop)},
			cat(raw(0), checked(5+2+200), raw(opCall, 2), much, raw(opEnd))},
		{"a light one comes to a check soon", [][]byte{fn(opCall, 1, opCall, 2), fn(opI32Const, 1, opDrop), fn(opLoop, typeVoid, opEnd)},
			raw(0, opCall, 2, opCall, 3, opEnd)},
		{"one with a large frame is not light", [][]byte{fnWith(raw(1, 64, byte(I32)), opCall, 1), fn()},
			cat(raw(1, 64, byte(I32)), checked(5), raw(opCall, 2, opEnd))},
		{"recursion keeps the depth", [][]byte{fn(opCall, 0)},
			cat(raw(1, 1, 0x7e), checked(5), depthMinus(0, 1), raw(opBlock, typeVoid, opCall, 1, opEnd), depthBack(0), raw(opEnd))},
		{"return leaves the block around the body", [][]byte{fn(opBlock, typeVoid, opReturn, opEnd, opCall, 0, opReturn)},
			cat(raw(1, 1, 0x7e), checked(7), depthMinus(0, 1), raw(opBlock, typeVoid, opBlock, typeVoid, opBr, 1, opEnd, opCall, 1, opBr, 0, opEnd), depthBack(0), raw(opEnd))},
		{"without recursion return stays", [][]byte{fn(cat(much, raw(opCall, 1, opReturn))...), empty},
			cat(raw(0), checked(206), much, raw(opCall, 2, opReturn, opEnd))},
		{"of a circle one keeps the depth", [][]byte{fn(opCall, 1), fn(opCall, 2), fn(opCall, 0)},
			cat(raw(1, 1, 0x7e), checked(5), depthMinus(0, 1), raw(opBlock, typeVoid, opCall, 2, opEnd), depthBack(0), raw(opEnd))},
		{"indirect calls without functions in tables are no recursion", [][]byte{fn(opI32Const, 0, opCallIndirect, 0, 0)},
			cat(raw(0), checked(1+indirectCost), raw(opI32Const, 0, opCallIndirect, 0, 0, opEnd))},
		{"a fill pays by its length", [][]byte{fn(opI32Const, 0, opI32Const, 0, opI32Const, 9, opMisc, miscMemoryFill, 0)},
			cat(raw(1, 1, 0x7f), checked(4), raw(opI32Const, 0, opI32Const, 0, opI32Const, 9), raw(opLocalTee, 0, opGlobalGet, 1, opLocalGet, 0, 0xad, opI64Const, 5, 0x88, 0x7d, opGlobalSet, 1, opGlobalGet, 1, opI64Const, 0, 0x53, opIf, typeVoid, opCall, 0, opEnd), raw(opMisc, miscMemoryFill, 0, opEnd))},
		{"table operations pay by entries", [][]byte{fn(opRefNull, 0x70, opI32Const, 9, opMisc, miscTableGrow, 0, opDrop)},
			cat(raw(1, 1, 0x7f), checked(4), raw(opRefNull, 0x70, opI32Const, 9), raw(opLocalTee, 0, opGlobalGet, 1, opLocalGet, 0, 0xad, opI64Const, 0xff, 0xff, 0xff, 0x01, 0x83, 0x7d, opGlobalSet, 1, opGlobalGet, 1, opI64Const, 0, 0x53, opIf, typeVoid, opCall, 0, opEnd), raw(opMisc, miscTableGrow, 0, opDrop, opEnd))},
		{"numbers become as short as can be", [][]byte{fn(opI32Const, 0x85, 0x80, 0, opDrop, opI32Const, 0x80, 0, 0x28, 0x82, 0, 0x81, 0, opDrop)},
			raw(0, opI32Const, 5, opDrop, opI32Const, 0, 0x28, 2, 1, opDrop, opEnd)},
		{"long numbers in br_table and call_indirect", [][]byte{fn(opI32Const, 0, opBrTable, 0x81, 0, 0x80, 0, 0x80, 0), empty},
			raw(0, opI32Const, 0, opBrTable, 1, 0, 0, opEnd)},
		{"long numbers in bulk operations", [][]byte{fn(opI32Const, 0, opRefNull, 0x70, opMisc, 0x90, 0, 0x80, 0, opDrop, opTableSet, 0x80, 0)},
			raw(0, opI32Const, 0, opRefNull, 0x70, opMisc, miscTableSize, 0, opDrop, opTableSet, 0, opEnd)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := mustRewrite(t, lines(tt.bodies...), Options{})
			if got := bodyOf(t, m.Bytes, 0); !bytes.Equal(got, tt.want) {
				t.Errorf("got  %x\nwant %x", got, tt.want)
			}
		})
	}
}

func TestRewriteOutside(t *testing.T) {
	m, info := mustRewrite(t, full(), Options{MemoryPages: 3, TableEntries: 5, Depth: 77})
	wantExports := []Export{
		{Name: "run", Kind: Func, Index: 3, Type: info.Types[1]},
		{Name: "memory", Kind: Memory},
		{Name: "__blade_g1", Kind: Global, Index: 1},
		{Name: FuelExport, Kind: Global, Index: 3},
		{Name: DepthExport, Kind: Global, Index: 4},
		{Name: StartExport, Kind: Func, Index: 2},
	}
	equal := func(a, b Export) bool {
		return a.Name == b.Name && a.Kind == b.Kind && a.Index == b.Index && a.Type.Equal(b.Type)
	}
	if !slices.EqualFunc(info.Exports, wantExports, equal) {
		t.Errorf("exports %+v", info.Exports)
	}
	last := info.Imports[len(info.Imports)-1]
	if len(info.Imports) != 3 || last.Module != MeterModule || last.Name != RefillName {
		t.Errorf("imports %+v", info.Imports)
	}
	if *info.Memory != (MemoryType{Min: 1, Max: 3, HasMax: true}) || info.Tables[0].Max != 5 {
		t.Errorf("memory %+v, tables %+v", info.Memory, info.Tables)
	}
	if len(info.Customs) != 0 || info.HasStart || info.DataSegments != 0 {
		t.Errorf("left over: %+v", info)
	}
	if !m.HasStart || m.DepthLimit != 77 || m.FuelGlobal != FuelExport || m.DepthGlobal != DepthExport {
		t.Errorf("module %+v", m)
	}
	if len(m.Globals) != 1 || m.Globals[0] != (GlobalExport{Name: "__blade_g1", Type: I32}) {
		t.Errorf("globals %+v", m.Globals)
	}
	if len(m.Image) != 1 || m.Image[0].Offset != 8 || string(m.Image[0].Bytes) != "hello" {
		t.Errorf("image %+v", m.Image)
	}
	if !m.Restorable || m.NotRestorableWhy != "" {
		t.Errorf("not restorable: %s", m.NotRestorableWhy)
	}
}

func TestRewriteClamps(t *testing.T) {
	tests := []struct {
		name          string
		memory, table []byte
		opt           Options
		pages         uint32
		entries       uint32
	}{
		{"no maximum", raw(0, 1), raw(0x70, 0, 1), Options{MemoryPages: 9, TableEntries: 8}, 9, 8},
		{"higher maximum", raw(1, 1, 20), raw(0x70, 1, 1, 20), Options{MemoryPages: 9, TableEntries: 8}, 9, 8},
		{"lower maximum", raw(1, 1, 2), raw(0x70, 1, 1, 2), Options{MemoryPages: 9, TableEntries: 8}, 2, 2},
		{"table begins above", raw(0, 1), raw(0x70, 0, 30), Options{MemoryPages: 9, TableEntries: 8}, 9, 30},
		{"defaults", raw(0, 1), raw(0x70, 0, 1), Options{}, 65_535, 100_000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, info := mustRewrite(t, mod(sec(secTable, vec(tt.table)), sec(secMemory, vec(tt.memory))), tt.opt)
			if info.Memory.Max != tt.pages || info.Tables[0].Max != tt.entries {
				t.Errorf("got %d pages and %d entries", info.Memory.Max, info.Tables[0].Max)
			}
		})
	}
}

func TestRewriteRefuses(t *testing.T) {
	export := func(name string) []byte {
		return mod(sec(secMemory, vec(raw(0, 1))), sec(secExport, vec(cat(str(name), raw(2, 0)))))
	}
	data := func(offset ...byte) []byte {
		return mod(sec(secMemory, vec(raw(0, 1))), sec(secData, vec(cat(raw(0, opI32Const), offset, raw(opEnd), str("abc")))))
	}
	tests := []struct {
		name   string
		bytes  []byte
		reason Reason
		text   string
	}{
		{"import of the meter", mod(types(), sec(secImport, vec(cat(str(MeterModule), str("x"), raw(0, 0))))), Reserved, `"blade_meter" is reserved`},
		{"export of a reserved name", export("__blade_fuel"), Reserved, `"__blade_fuel" begins with __blade_`},
		{"memory above the option", mod(sec(secMemory, vec(raw(0, 101)))), OverLimit, "101 pages to begin with are over the limit of 100"},
		{"data past the memory", data(0xfe, 0xff, 0x03), Malformed, "3 bytes at 65534 reach past the memory of 65536 bytes"},
		{"data at a negative place", data(0x7f), Malformed, "at 4294967295 reach past"},
		{"what Scan refuses", full()[:40], Truncated, "left in the file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Rewrite(tt.bytes, Options{MemoryPages: 100})
			if m != nil || ReasonOf(err) != tt.reason || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, %v", m, err)
			}
		})
	}
	if _, err := Rewrite(mustBytes(t, full()), Options{}); ReasonOf(err) != Reserved {
		t.Errorf("a rewritten module is rewritten again: %v", err)
	}
}

func mustBytes(t *testing.T, b []byte) []byte {
	m, _ := mustRewrite(t, b, Options{})
	return m.Bytes
}

func TestNotRestorable(t *testing.T) {
	imported := func(desc ...byte) []byte {
		return mod(sec(secImport, vec(cat(str("env"), str("x"), desc))))
	}
	constant := sec(secImport, vec(cat(str("env"), str("x"), raw(3, 0x7f, 0))))
	tests := []struct {
		name  string
		bytes []byte
		why   string
	}{
		{"imported memory", imported(2, 0, 1), "its memory is imported"},
		{"imported table", imported(1, 0x70, 0, 1), "a table is imported"},
		{"imported mutable global", imported(3, 0x7f, 1), "a mutable global is imported"},
		{"mutable reference", mod(sec(secGlobal, vec(raw(0x70, 1, opRefNull, 0x70, opEnd)))), "a mutable global holds a reference or a vector"},
		{"mutable vector", mod(sec(secGlobal, vec(cat(raw(0x7b, 1, opVec, vecConst), make([]byte, 16), raw(opEnd))))), "a mutable global holds a reference or a vector"},
		{"table.set", program(opI32Const, 0, opRefNull, 0x70, opTableSet, 0), "its code changes tables"},
		{"elem.drop", mod(types(), sec(secFunction, vec(raw(0))), sec(secElement, vec(raw(1, 0, 0))), sec(secCode, vec(fn(opMisc, miscElemDrop, 0)))), "its code drops segments"},
		{"data at an imported place", mod(constant, sec(secMemory, vec(raw(0, 1))), sec(secData, vec(cat(raw(0, opGlobalGet, 0, opEnd), str("x"))))), "the place of its data is an imported global"},
		{"imported constant", imported(3, 0x7f, 0), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := mustRewrite(t, tt.bytes, Options{})
			if m.NotRestorableWhy != tt.why || m.Restorable != (tt.why == "") {
				t.Errorf("got %v, %q", m.Restorable, m.NotRestorableWhy)
			}
		})
	}
}

// TestRewriteKeepsSegmentNumbers: code that names segments finds them where
// they were; the active one is empty, as it is after instantiation.
func TestRewriteKeepsSegmentNumbers(t *testing.T) {
	b := mod(types(), sec(secFunction, vec(raw(0))), sec(secMemory, vec(raw(0, 1))), sec(secDataCount, num(2)),
		sec(secCode, vec(fn(opI32Const, 0, opI32Const, 0, opI32Const, 0, opMisc, miscMemoryInit, 1, 0))),
		sec(secData, vec(cat(raw(0, opI32Const, 9, opEnd), str("active")), cat(raw(1), str("passive")))))
	m, info := mustRewrite(t, b, Options{})
	if !m.Restorable || info.DataSegments != 2 || len(m.Image) != 1 {
		t.Errorf("%+v, %+v", m, info)
	}
	want := sec(secData, vec(raw(0, opI32Const, 0, opEnd, 0), cat(raw(1), str("passive"))))
	if !bytes.HasSuffix(m.Bytes, want) {
		t.Errorf("got %x", m.Bytes)
	}
}

func TestRewriteCustoms(t *testing.T) {
	names := cat(raw(0), str("\x03mod"), raw(1), str(string(vec(cat(raw(0), str("imp")), cat(raw(1), str("own"))))), raw(2), str(string(vec(cat(raw(1), vec(cat(raw(0), str("x"))))))), raw(9), str("what"))
	moved := cat(raw(0), str("\x03mod"), raw(1), str(string(vec(cat(raw(0), str("imp")), cat(raw(2), str("own"))))), raw(2), str(string(vec(cat(raw(2), vec(cat(raw(0), str("x"))))))))
	b := mod(custom(".debug_info", "old"), types(), sec(secImport, vec(cat(str("env"), str("f"), raw(0, 0)))), sec(secFunction, vec(raw(0))),
		sec(secCode, vec(fn())), custom("name", string(names)), custom("producers", "x"), custom("keep", "me"))
	m, info := mustRewrite(t, b, Options{Keep: []string{"keep", "name"}})
	if len(info.Customs) != 2 {
		t.Fatalf("customs %+v", info.Customs)
	}
	if p, n := info.Custom("keep"); n != 1 || string(p) != "me" {
		t.Errorf("keep: %q", p)
	}
	if p, n := info.Custom("name"); n != 1 || !bytes.Equal(p, moved) {
		t.Errorf("name: %x\nwant  %x", p, moved)
	}
	if !bytes.HasSuffix(m.Bytes, cat(custom("name", string(moved)), custom("keep", "me"))) {
		t.Error("the order changed")
	}
}

// TestRewriteMovesReferences: every way to name a function follows the import
// that was put before it.
func TestRewriteMovesReferences(t *testing.T) {
	b := mod(types(),
		sec(secImport, vec(cat(str("env"), str("f"), raw(0, 0)))),
		sec(secFunction, vec(raw(0), raw(0))),
		sec(secTable, vec(raw(0x70, 0, 4))),
		sec(secGlobal, vec(raw(0x70, 0, opRefFunc, 1, opEnd), raw(0x70, 0, opRefFunc, 0, opEnd))),
		sec(secExport, vec(cat(str("a"), raw(0, 0)), cat(str("b"), raw(0, 2)))),
		sec(secElement, vec(
			cat(raw(0, opI32Const, 0, opEnd), vec(raw(0), raw(2))),
			cat(raw(5, 0x70), vec(raw(opRefFunc, 1, opEnd), raw(opRefNull, 0x70, opEnd))),
			cat(raw(3, 0), vec(raw(1))),
			cat(raw(6, 0, opI32Const, 0, opEnd, 0x70), vec(raw(opRefFunc, 0, opEnd))))),
		sec(secCode, vec(fn(opCall, 0, opCall, 2), fn(opRefFunc, 1, opDrop))))
	m, _ := mustRewrite(t, b, Options{})
	for _, want := range [][]byte{
		raw(0x70, 0, opRefFunc, 2, opEnd, 0x70, 0, opRefFunc, 0, opEnd),
		cat(str("a"), raw(0, 0), str("b"), raw(0, 3)),
		cat(num(4), raw(0, opI32Const, 0, opEnd, 2, 0, 3), raw(5, 0x70, 2, opRefFunc, 2, opEnd, opRefNull, 0x70, opEnd), raw(3, 0, 1, 2), raw(6, 0, opI32Const, 0, opEnd, 0x70, 1, opRefFunc, 0, opEnd)),
		raw(opCall, 0, opCall, 3, opEnd),
		raw(opRefFunc, 2, opDrop, opEnd),
	} {
		if !bytes.Contains(m.Bytes, want) {
			t.Errorf("%x is not in %x", want, m.Bytes)
		}
	}
}

// TestRewriteGiant: a function that would pay for too much at once pays block
// by block, so that no stretch without a check is long.
func TestRewriteGiant(t *testing.T) {
	b := lines(fn(bytes.Repeat(raw(opI32Const, 1, opIf, typeVoid, opMemorySize, 0, opDrop, opEnd), 40_000)...))
	m, _ := mustRewrite(t, b, Options{})
	if m.Checks < 80_000 {
		t.Errorf("%d checks", m.Checks)
	}
	b = lines(fn(bytes.Repeat(raw(opCall, 1), 3_000)...), fn(bytes.Repeat(raw(opMemorySize, 0, opDrop), 100)...))
	m, _ = mustRewrite(t, b, Options{})
	if m.Checks < 3_000*205/maxStretch {
		t.Errorf("%d checks", m.Checks)
	}
}

// TestRewriteIsGolden pins the output: whoever changes it raises
// RewriterVersion, because caches live by it.
func TestRewriteIsGolden(t *testing.T) {
	h := sha256.New()
	for _, b := range [][]byte{full(), program(opLoop, typeVoid, opBr, 0, opEnd), program(opCall, 0), lines(fn(opCall, 1), fn(opCall, 0))} {
		m, _ := mustRewrite(t, b, Options{Keep: []string{"first"}})
		_, _ = h.Write(m.Bytes)
		_, _ = fmt.Fprintf(h, "%+v", m.Image)
	}
	got := hex.EncodeToString(h.Sum(nil)[:8])
	if want := "97ad7d63bba89390"; RewriterVersion != 3 || got != want {
		t.Errorf("version %d makes %s, the test knows version 3 and %s", RewriterVersion, got, want)
	}
}

func TestImageIsJoined(t *testing.T) {
	type seg = struct {
		at   uint32
		text string
	}
	for name, c := range map[string]struct{ in, want []seg }{
		"side by side":      {[]seg{{8, "ab"}, {10, "cd"}, {12, "e"}}, []seg{{8, "abcde"}}},
		"a small gap":       {[]seg{{0, "ab"}, {4, "c"}}, []seg{{0, "ab\x00\x00c"}}},
		"the largest gap":   {[]seg{{0, "a"}, {65, "b"}}, []seg{{0, "a" + strings.Repeat("\x00", 64) + "b"}}},
		"a larger gap":      {[]seg{{0, "a"}, {66, "b"}}, []seg{{0, "a"}, {66, "b"}}},
		"overlap":           {[]seg{{0, "abcd"}, {2, "xy"}}, []seg{{0, "abcd"}, {2, "xy"}}},
		"backwards":         {[]seg{{90, "a"}, {0, "b"}, {2, "c"}}, []seg{{0, "b\x00c"}, {90, "a"}}},
		"overlap elsewhere": {[]seg{{0, "abcdef"}, {2, "x"}, {8, "y"}}, []seg{{0, "abcdef"}, {2, "x"}, {8, "y"}}},
		"twice the same":    {[]seg{{9, "a"}, {9, "b"}, {10, "c"}}, []seg{{9, "a"}, {9, "b"}, {10, "c"}}},
		"none":              {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			input := []byte("input: ")
			var list []Segment
			var parts [][2]int
			for _, s := range c.in {
				parts = append(parts, [2]int{len(input), len(input) + len(s.text)})
				input = append(input, s.text...)
			}
			before := string(input)
			plain, memory := make([]byte, 128), make([]byte, 128)
			for i, s := range c.in {
				b := input[parts[i][0]:parts[i][1]]
				copy(plain[s.at:], b)
				list = append(list, Segment{s.at, b})
			}
			m := &Module{Image: joined(list)}
			var got []seg
			for _, s := range m.Image {
				got = append(got, seg{s.Offset, string(s.Bytes)})
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			if err := m.WriteImage(memory); err != nil || !bytes.Equal(plain, memory) {
				t.Errorf("%v: the memory is %q, want %q", err, memory, plain)
			}
			if string(input) != before {
				t.Error("the module was written to")
			}
		})
	}
}

func TestKey(t *testing.T) {
	b := full()
	keys := map[[32]byte]string{}
	for name, key := range map[string][32]byte{
		"plain":   Key(b, Options{}),
		"pages":   Key(b, Options{MemoryPages: 9}),
		"entries": Key(b, Options{TableEntries: 9}),
		"depth":   Key(b, Options{Depth: 9}),
		"keep":    Key(b, Options{Keep: []string{"a", "b"}}),
		"keep 2":  Key(b, Options{Keep: []string{"a b"}}),
		"limits":  Key(b, Options{Limits: Limits{Size: 1 << 30}}),
		"module":  Key(b[1:], Options{}),
	} {
		if other, ok := keys[key]; ok {
			t.Errorf("%s and %s have one key", name, other)
		}
		keys[key] = name
	}
	if Key(b, Options{}) != Key(b, Options{MemoryPages: 65_535, Depth: 100_000}) {
		t.Error("defaults spelled out have another key")
	}
	if Key(b, Options{Keep: []string{"b", "a"}}) != Key(b, Options{Keep: []string{"a", "b"}}) {
		t.Error("the order of kept sections makes another key")
	}
}
