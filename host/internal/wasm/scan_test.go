package wasm

import (
	"bytes"
	"errors"
	"math/rand"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

func TestScanReportsEverything(t *testing.T) {
	b := full()
	info, err := Scan(b, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	void, pair := FuncType{}, FuncType{Params: []ValType{I32, I32}, Results: []ValType{I64}}
	want := &Info{
		Size:    len(b),
		Types:   []FuncType{void, pair},
		Imports: []Import{{Module: "env", Name: "f", Kind: Func, Type: pair}, {Module: "env", Name: "g", Kind: Global}},
		Exports: []Export{{Name: "run", Kind: Func, Index: 2, Type: pair}, {Name: "memory", Kind: Memory}},

		Functions: 2,
		Memory:    &MemoryType{Min: 1, Max: 4, HasMax: true},
		Tables:    []TableType{{Elem: FuncRef, Min: 2, Max: 9, HasMax: true}},
		Globals:   []GlobalType{{Type: I32}, {Type: I32, Mutable: true}, {Type: I64}},

		DataSegments: 2, ElementSegments: 1,
		HasStart: true, Start: 1,
		Customs: []Custom{{"first", []byte("1")}, {"middle", []byte("22")}, {"last", []byte("333")}, {"first", []byte("again")}},
		Features: Features{
			PassiveData: true, MemoryGrow: true,
		},
	}
	if !reflect.DeepEqual(info, want) {
		t.Errorf("got  %+v\nwant %+v", info, want)
	}
	if p, n := info.Custom("first"); string(p) != "1" || n != 2 {
		t.Errorf("Custom(first) = %q, %d", p, n)
	}
	if p, n := info.Custom("none"); p != nil || n != 0 {
		t.Errorf("Custom(none) = %q, %d", p, n)
	}
	if e, ok := info.Export("run"); !ok || !e.Type.Equal(pair) || e.Type.String() != "(i32, i32) -> i64" {
		t.Errorf("Export(run) = %+v, %v", e, ok)
	}
	if _, ok := info.Export("walk"); ok {
		t.Error("found an export that is not there")
	}
}

func TestScanFeatures(t *testing.T) {
	three := []byte{opI32Const, 0, opI32Const, 0, opI32Const, 0}
	tests := []struct {
		name string
		code []byte
		want Features
	}{
		{"table.set", cat(raw(opI32Const, 0, opRefNull, 0x70, opTableSet, 0)), Features{TableMutation: true}},
		{"table.grow", raw(opRefNull, 0x70, opI32Const, 1, opMisc, miscTableGrow, 0, opDrop), Features{TableMutation: true}},
		{"table.fill", raw(opI32Const, 0, opRefNull, 0x70, opI32Const, 0, opMisc, miscTableFill, 0), Features{TableMutation: true}},
		{"table.copy", cat(three, raw(opMisc, miscTableCopy, 0, 0)), Features{TableMutation: true}},
		{"table.size", raw(opMisc, miscTableSize, 0, opDrop), Features{}},
		{"table.get", raw(opI32Const, 0, opTableGet, 0, opDrop), Features{}},
		{"memory.copy", cat(three, raw(opMisc, miscMemoryCopy, 0, 0)), Features{}},
		{"memory.grow", raw(opI32Const, 0, opMemoryGrow, 0, opDrop), Features{MemoryGrow: true}},
		{"vector", raw(opI32Const, 0, opVec, 0x0f, opDrop), Features{SIMD: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			info, err := Scan(program(tt.code...), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if info.Features != tt.want {
				t.Errorf("got %+v, want %+v", info.Features, tt.want)
			}
		})
	}
}

// scanRefuses checks reason and wording of one refusal.
func scanRefuses(t *testing.T, b []byte, lim Limits, reason Reason, text string) {
	t.Helper()
	info, err := Scan(b, lim)
	if err == nil || info != nil {
		t.Fatalf("accepted: %+v", info)
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("no *Error: %v", err)
	}
	if e.Reason != reason || !strings.Contains(e.Text, text) {
		t.Errorf("got %s: %s\nwant %s: …%s…", e.Reason, e.Text, reason, text)
	}
	if e.Offset < 0 || e.Offset > len(b) {
		t.Errorf("offset %d outside the %d bytes", e.Offset, len(b))
	}
	if strings.ContainsAny(e.Text, "\n\x00") || strings.HasSuffix(e.Text, ".") {
		t.Errorf("not one sentence: %q", e.Text)
	}
}

// TestScanAbuse has section A of the abuse corpus, row by row. Rows 12 to 15
// are about compile time; Scan only bounds them.
func TestScanAbuse(t *testing.T) {
	huge := raw(0x80, 0xd0, 0xac, 0xf3, 0x0e) // 4,000,000,000
	name := func(parts ...[]byte) []byte {
		return mod(sec(secCustom, str("name"), cat(parts...)))
	}
	manyLocals := func(n uint32, functions int) []byte {
		body := fnWith(vec(cat(num(n), raw(0x7f))))
		return mod(types(), sec(secFunction, num(uint32(functions)), make([]byte, functions)),
			sec(secCode, num(uint32(functions)), bytes.Repeat(body, functions)))
	}
	tests := []struct {
		name   string
		bytes  []byte
		reason Reason
		text   string
	}{
		{"01 imports claim 4 G", mod(sec(secImport, huge, raw(0, 0, 0))), Malformed, "imports: claims 4000000000 entries in 3 bytes"},
		{"02 code claims 4 G", mod(types(), sec(secFunction, vec(raw(0))), sec(secCode, huge)), Malformed, "code: claims 4000000000 entries in 0 bytes"},
		{"03 data claims 4 G", mod(sec(secData, huge)), Malformed, "data segments: claims 4000000000 entries"},
		{"03 elements claim 4 G", mod(sec(secElement, huge)), Malformed, "element segments: claims 4000000000 entries"},
		{"03 globals claim 4 G", mod(sec(secGlobal, huge)), Malformed, "globals: claims 4000000000 entries"},
		{"03 one data segment claims 4 G", mod(sec(secMemory, vec(raw(0, 1))), sec(secData, vec(cat(raw(0, opI32Const, 0, opEnd), huge)))), Malformed, "data segments: bytes: claims 4000000000 entries"},
		{"03 one element segment claims 4 G", mod(sec(secTable, vec(raw(0x70, 0, 1))), sec(secElement, vec(cat(raw(0, opI32Const, 0, opEnd), huge)))), Malformed, "element segments: entries: claims 4000000000 entries"},
		{"03 one segment of constants claims 4 G", mod(sec(secElement, vec(cat(raw(5, 0x70), huge)))), Malformed, "element segments: entries: claims 4000000000 entries"},
		{"04 exports claim 4 G", mod(sec(secExport, huge)), Malformed, "exports: claims 4000000000 entries"},
		{"05 functions claim 4 G", mod(types(), sec(secFunction, huge)), Malformed, "functions: claims 4000000000 entries"},
		{"05 tables claim 4 G", mod(sec(secTable, huge)), Malformed, "tables: claims 4000000000 entries"},
		{"05 types claim 4 G", mod(sec(secType, huge)), Malformed, "types: claims 4000000000 entries"},
		{"06 function names claim 4 G", name(raw(1), str(string(huge))), Malformed, "names: claims 4000000000 entries"},
		{"06 local names claim 4 G", name(raw(2), str(string(cat(raw(1, 0), huge)))), Malformed, "names: claims 4000000000 entries"},
		{"06 locals of 4 G functions", name(raw(2), str(string(huge))), Malformed, "names: claims 4000000000 entries"},
		{"06 module name of 4 G", name(raw(0), str(string(huge))), Malformed, "names: claims a name of 4000000000 bytes"},
		{"06 part of 4 G", name(raw(9), huge), Malformed, "names: claims a part of 4000000000 bytes"},
		{"07 4 G locals", manyLocals(0xffffffff, 1), OverLimit, "function 0: locals: 4294967295 is over the limit of 50000"},
		{"08 50 M locals", manyLocals(50_000_000, 1), OverLimit, "locals: 50000000 is over"},
		{"09 200 times 1 M locals", manyLocals(1_000_000, 200), OverLimit, "locals: 1000000 is over"},
		{"09 1000 times 50 k locals", manyLocals(50_000, 1000), OverLimit, "locals of all functions so far"},
		{"10 type with 1 M parameters", mod(sec(secType, raw(1, 0x60), num(1_000_000), bytes.Repeat(raw(0x7f), 1_000_000), raw(0))), OverLimit, "types: parameters: 1000000 is over the limit of 1000"},
		{"10 type with 1 M results", mod(sec(secType, raw(1, 0x60, 0), num(1_000_000), bytes.Repeat(raw(0x7f), 1_000_000))), OverLimit, "types: results: 1000000 is over the limit of 1000"},
		{"11 type index out of range, called before", mod(types(), sec(secFunction, vec(raw(0), raw(99))), sec(secCode, vec(fn(opCall, 1), fn()))), Malformed, "functions: names type 99, there are 2"},
		{"12 100 000 nested blocks", program(cat(bytes.Repeat(raw(opBlock, typeVoid), 100_000), bytes.Repeat(raw(opEnd), 100_000))...), OverLimit, "function 0: nested blocks: 5001 is over the limit of 5000"},
		{"14 br_table with 1 M targets", program(cat(raw(opI32Const, 0, opBrTable), num(1_000_000), make([]byte, 1_000_001))...), OverLimit, "function 0: br_table: 1000000 is over the limit of 65520"},
		{"15 1 M functions", mod(types(), sec(secFunction, num(1_000_000), make([]byte, 1_000_000))), OverLimit, "functions: 1000000 is over the limit of 100000"},
		{"17 1 M calls in one body", program(bytes.Repeat(raw(opCall, 0), 1_000_000)...), OverLimit, "bytes of its body"},
		{"18 65 MiB custom section", mod(custom("x", strings.Repeat("y", 65<<20))), OverLimit, "over the limit of 67108864"},
		{"18 65 custom sections", mod(bytes.Repeat(custom("x", ""), 65)), OverLimit, "custom sections: 65 is over the limit of 64"},
		{"19 1 M exports", mod(sec(secExport, num(1_000_000), make([]byte, 3_000_000))), OverLimit, "exports: 1000000 is over"},
		{"19 1 M globals", mod(sec(secGlobal, num(1_000_000), make([]byte, 5_000_000))), OverLimit, "globals: 1000000 is over"},
		{"19 1 M data segments", mod(sec(secData, num(1_000_000), make([]byte, 5_000_000))), OverLimit, "data segments: 1000000 is over"},
		{"21 table of 128 M entries", mod(sec(secTable, vec(cat(raw(0x70, 0), num(134_217_728))))), OverLimit, "entries of all tables: 134217728 is over the limit of 1000000"},
		{"22 100 tables", mod(sec(secTable, num(100), bytes.Repeat(cat(raw(0x70, 0), num(10_000_000)), 100))), OverLimit, "tables: 100 is over the limit of 16"},
		{"22 tables too large together", mod(sec(secTable, num(16), bytes.Repeat(cat(raw(0x70, 0), num(100_000)), 16))), OverLimit, "entries of all tables: 1100000 is over the limit of 1000000"},
		{"23 memory of 65 536 pages", mod(sec(secMemory, vec(cat(raw(0), num(65_536))))), OverLimit, "pages of memory: 65536 is over the limit of 65535"},
		{"23 memory of 4 G pages", mod(sec(secMemory, vec(cat(raw(0), huge)))), Malformed, "memory of 4000000000 pages"},
		{"24 64-bit memory", mod(sec(secMemory, vec(raw(4, 1)))), Unsupported, "64-bit memory is not supported"},
		{"24 64-bit table", mod(sec(secTable, vec(raw(0x70, 4, 1)))), Unsupported, "64-bit tables are not supported"},
		{"25 two memories", mod(sec(secMemory, vec(raw(0, 1), raw(0, 1)))), Unsupported, "more than one memory is not supported"},
		{"25 a second, imported memory", mod(sec(secImport, vec(cat(str("a"), str("b"), raw(2, 0, 1)))), sec(secMemory, vec(raw(0, 1)))), Unsupported, "more than one memory is not supported"},
		{"26 shared memory", mod(sec(secMemory, vec(raw(3, 1, 1)))), Unsupported, "threads are not supported"},
		{"26 atomic wait", program(opI32Const, 0, opI32Const, 0, opI64Const, 0x7f, 0xfe, 1, 2, 0, opDrop), Unsupported, "threads are not supported"},
		{"27 tail call", program(0x12, 0), Unsupported, "tail calls are not supported"},
		{"27 indirect tail call", program(opI32Const, 0, 0x13, 0, 0), Unsupported, "tail calls are not supported"},
		{"28 tags", mod(sec(secTag, vec(raw(0, 0)))), Unsupported, "exception handling is not supported"},
		{"28 try_table", program(0x1f, 0x40, 0), Unsupported, "exception handling is not supported"},
		{"28 legacy try", program(0x06, 0x40), Unsupported, "exception handling is not supported"},
		{"29 component", []byte("\x00asm\x0d\x00\x01\x00"), Component, "this is a WebAssembly component; build a core module"},
		{"30 empty", nil, NotWasm, "the file is empty"},
		{"30 wrong magic", []byte("\x7fELF\x02\x01\x01\x00"), NotWasm, "not a WebAssembly module"},
		{"30 text format", []byte("\n(module (func))"), NotWasm, "WebAssembly text"},
		{"30 version 2", []byte("\x00asm\x02\x00\x00\x00"), BadVersion, "version 2 of the WebAssembly format is not supported"},
		{"30 half a header", []byte("\x00asm\x01"), Truncated, "ends inside the header"},
		{"31 duplicate export", mod(types(), sec(secFunction, vec(raw(0))), sec(secExport, vec(cat(str("a"), raw(0, 0)), cat(str("a"), raw(0, 0)))), sec(secCode, vec(fn()))), Malformed, `exports: has the name "a" twice`},
		{"31 name that is not UTF-8", mod(sec(secExport, vec(cat(str("\xff"), raw(0, 0))))), Malformed, "exports: has a name that is not UTF-8"},
		{"31 custom name that is not UTF-8", mod(custom("\xc3\x28", "")), Malformed, "custom section: has a name that is not UTF-8"},
		{"31 wrong section order", mod(sec(secFunction, vec()), sec(secType, vec())), Malformed, "types: the section is out of order"},
		{"31 data count after code", mod(sec(secCode, vec()), sec(secDataCount, num(0))), Malformed, "data count: the section is out of order"},
		{"31 section twice", mod(sec(secType, vec()), sec(secType, vec())), Malformed, "types: the section is there twice"},
		{"31 over-long LEB128", mod(sec(secType, raw(0x80, 0x80, 0x80, 0x80, 0x80, 0))), Malformed, "longer than five bytes"},
		{"31 LEB128 over 32 bits", mod(sec(secType, raw(0x80, 0x80, 0x80, 0x80, 0x10))), Malformed, "does not fit 32 bits"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { scanRefuses(t, tt.bytes, Limits{}, tt.reason, tt.text) })
	}
}

func TestScanRefusesMalformed(t *testing.T) {
	tests := []struct {
		name   string
		bytes  []byte
		reason Reason
		text   string
	}{
		{"cut in a section", full()[:40], Truncated, "are left in the file"},
		{"cut in a section length", mod(raw(1, 0x80)), Truncated, ""},
		{"unknown section", mod(raw(14, 0)), Malformed, "unknown section 14"},
		{"bytes after the last entry", mod(sec(secType, vec(), raw(0))), Malformed, "has 1 bytes after its last entry"},
		{"bodies without functions", mod(sec(secCode, vec(fn()))), Malformed, "has 1 bodies for 0 functions"},
		{"functions without bodies", mod(types(), sec(secFunction, vec(raw(0)))), Malformed, "declares 1 functions"},
		{"data count too high", mod(sec(secDataCount, num(1))), Malformed, "announces 1 data segments, there are 0"},
		{"data without a memory", mod(sec(secData, vec(cat(raw(0, opI32Const, 0, opEnd), str(""))))), Malformed, "there is none"},
		{"memory maximum below minimum", mod(sec(secMemory, vec(raw(1, 2, 1)))), Malformed, "below its minimum"},
		{"table maximum below minimum", mod(sec(secTable, vec(raw(0x70, 1, 2, 1)))), Malformed, "below its minimum"},
		{"table of numbers", mod(sec(secTable, vec(raw(0x7f, 0, 1)))), Malformed, "where a reference type belongs"},
		{"table with initial value", mod(sec(secTable, vec(raw(0x40, 0, 0x70, 0, 1, opRefNull, 0x70, opEnd)))), Unsupported, "initial value"},
		{"rec group", mod(sec(secType, vec(raw(0x4e, 1, 0x60, 0, 0)))), Unsupported, "garbage-collected"},
		{"typed reference", mod(sec(secType, vec(raw(0x60, 1, 0x63, 0, 0)))), Unsupported, "typed function references"},
		{"start with parameters", mod(types(), sec(secFunction, vec(raw(1))), sec(secStart, raw(0)), sec(secCode, vec(fn(opUnreachable)))), Malformed, "it must have none"},
		{"start out of range", mod(sec(secStart, raw(0))), Malformed, "start: names function 0, there are 0"},
		{"export wraps around", mod(types(), sec(secFunction, vec(raw(0))), sec(secExport, vec(cat(str("f"), raw(0, 0xff, 0xff, 0xff, 0xff, 0x0f)))), sec(secCode, vec(fn()))), Malformed, "names function 4294967295, there are 1"},
		{"exported global out of range", mod(sec(secExport, vec(cat(str("g"), raw(3, 0))))), Malformed, "names global 0, there are 0"},
		{"imported function of unknown type", mod(sec(secImport, vec(cat(str("a"), str("b"), raw(0, 7))))), Malformed, "imports: names type 7, there are 0"},
		{"global from a later global", mod(sec(secGlobal, vec(raw(0x7f, 0, opGlobalGet, 0, opEnd)))), Malformed, "no imported constant"},
		{"global of another type", mod(sec(secGlobal, vec(raw(0x7f, 0, opI64Const, 0, opEnd)))), Malformed, "type i64 where i32 belongs"},
		{"extended constant", mod(sec(secGlobal, vec(raw(0x7f, 0, opI32Const, 0, opI32Const, 0, 0x6a, opEnd)))), Unsupported, "several instructions"},
		{"element names no function", mod(sec(secTable, vec(raw(0x70, 0, 1))), sec(secElement, vec(cat(raw(0, opI32Const, 0, opEnd), vec(raw(3)))))), Malformed, "names function 3, there are 0"},
		{"element names no table", mod(sec(secElement, vec(cat(raw(0, opI32Const, 0, opEnd), vec())))), Malformed, "names table 0, there are 0"},

		{"fuel global by index", program(opI64Const, 0, opGlobalSet, 1), Malformed, "function 0: names global 1, there are 1"},
		{"local by index", program(opLocalGet, 0, opDrop), Malformed, "names local 0, there are 0"},
		{"call of no function", program(opCall, 1), Malformed, "names function 1, there are 1"},
		{"call_indirect of no type", program(opI32Const, 0, opCallIndirect, 2, 0), Malformed, "names type 2, there are 2"},
		{"call_indirect of no table", program(opI32Const, 0, opCallIndirect, 0, 1), Malformed, "names table 1, there are 1"},
		{"block of no type", program(opBlock, 2, opEnd), Malformed, "names type 2, there are 2"},
		{"block type in two bytes", program(opBlock, 0xc0, 0x7f, opEnd), Malformed, "unknown block type"},
		{"branch out of the function", program(opBr, 1), Malformed, "names label 1, there are 1"},
		{"br_table out of the function", program(opI32Const, 0, opBrTable, 1, 0, 1), Malformed, "names label 1, there are 1"},
		{"else without if", program(opBlock, typeVoid, opElse, opEnd), Malformed, "else without an if"},
		{"second else", program(opI32Const, 0, opIf, typeVoid, opElse, opElse, opEnd), Malformed, "else without an if"},
		{"code after the end", program(opEnd, opNop), Malformed, "after its end"},
		{"block not closed", program(opBlock, typeVoid), Malformed, "ends without closing 1 blocks"},
		{"memory.init without data count", program(opMisc, miscMemoryInit, 0, 0), Malformed, "names data segment 0, there are 0"},
		{"elem.drop of nothing", program(opMisc, miscElemDrop, 0), Malformed, "names element segment 0, there are 0"},
		{"hidden block behind a vector opcode", program(opVec, 0x80, 0x02, opMemoryGrow, opEnd), Unsupported, "relaxed SIMD is not supported"},
		{"hidden loop behind a vector opcode", program(opVec, 0x80, 0x03, opMemoryGrow, opEnd), Unsupported, "relaxed SIMD is not supported"},
		{"long vector opcode", program(opVec, 0x8c, 0x00), Malformed, "longer than need be"},
		{"three byte vector opcode", program(opVec, 0x80, 0x81, 0x00), Malformed, "longer than need be"},
		{"unused vector opcode", program(opVec, 0x9a, 0x01), Malformed, "unknown vector opcode 0x9a"},
		{"second memory in a load", program(opI32Const, 0, 0x28, 0x42, 1, 0, opDrop), Unsupported, "more than one memory"},
		{"second memory in memory.size", program(opMemorySize, 1, opDrop), Unsupported, "more than one memory"},
		{"select with two types", program(opSelectT, 2, 0x7f, 0x7f), Malformed, "select with 2 types"},
		{"unknown opcode", program(0xff), Malformed, "unknown opcode 0xff"},
		{"unknown misc opcode", program(opMisc, 18), Malformed, "unknown opcode 0xfc 18"},
		{"i32.const with wrong unused bits", program(opI32Const, 0xff, 0xff, 0xff, 0xff, 0x4f, opDrop), Malformed, "does not fit 32 bits"},
		{"i64.const of eleven bytes", program(opI64Const, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0, opDrop), Malformed, "does not fit 64 bits"},
		{"reference to a hidden function", mod(types(), sec(secFunction, vec(raw(0))), sec(secStart, raw(0)), sec(secCode, vec(fn(opRefFunc, 0, opDrop)))), Malformed, "named nowhere but in code"},
		{"names twice", mod(custom("name", ""), custom("name", "")), Malformed, "names: the section is there twice"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { scanRefuses(t, tt.bytes, Limits{}, tt.reason, tt.text) })
	}
}

func TestScanAccepts(t *testing.T) {
	tests := []struct {
		name  string
		bytes []byte
	}{
		{"nothing but a header", mod()},
		{"everything", full()},
		{"numbers longer than need be", program(opI32Const, 0x85, 0x80, 0x00, opDrop, opI32Const, 0xff, 0xff, 0xff, 0xff, 0x7f, opDrop, opMisc, 0x90, 0x00, 0, opDrop)},
		{"smallest i64", program(opI64Const, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f, opDrop)},
		{"call_indirect with a long table index", program(opI32Const, 0, opCallIndirect, 0, 0x80, 0x80, 0x80, 0x80, 0x00)},
		{"vector opcode in two bytes", program(opI32Const, 0, opVec, 0x0f, opVec, 0x81, 0x01, opDrop)},
		{"100 000 functions", mod(types(), sec(secFunction, num(100_000), make([]byte, 100_000)), sec(secCode, num(100_000), bytes.Repeat(fn(), 100_000)))},
		{"if and else", program(opI32Const, 0, opIf, 0x7f, opI32Const, 1, opElse, opI32Const, 2, opEnd, opDrop)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Scan(tt.bytes, Limits{}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestScanLimitsAreSettable(t *testing.T) {
	b := mod(sec(secMemory, vec(raw(0, 3))))
	scanRefuses(t, b, Limits{MemoryPages: 2}, OverLimit, "pages of memory: 3 is over the limit of 2")
	if _, err := Scan(b, Limits{MemoryPages: 3}); err != nil {
		t.Error(err)
	}
	scanRefuses(t, full(), Limits{Functions: 2}, OverLimit, "functions: 2 is over the limit of 1")
}

// TestScanEveryCut feeds every prefix of a module: only one that ends with a
// section can be a module of its own, and none makes Scan panic.
func TestScanEveryCut(t *testing.T) {
	b := full()
	whole, err := split(b, Limits{}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	ends := map[int]bool{header: true}
	for _, s := range whole {
		ends[s.whole.end] = true
	}
	for n := range b {
		if _, err := Scan(b[:n], Limits{}); (err == nil || ReasonOf(err) != Truncated && n > 3) && !ends[n] {
			t.Errorf("%d of %d bytes: %v", n, len(b), err)
		}
	}
}

// TestScanMemoryIsBounded: whatever a module claims, Scan allocates a small
// multiple of its length.
func TestScanMemoryIsBounded(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	seeds := [][]byte{full(), program(opLoop, typeVoid, opBr, 0, opEnd)}
	for i := 0; i < 3000; i++ {
		b := bytes.Clone(seeds[i%len(seeds)])
		for k := rng.Intn(4); k >= 0; k-- {
			at := header + rng.Intn(len(b)-header)
			copy(b[at:], []byte{0xff, 0xff, 0xff, 0xff, 0x0f}[:1+rng.Intn(5)])
		}
		checkAllocation(t, b)
	}
}

// checkAllocation fails when Scan allocates more than its length justifies.
func checkAllocation(t *testing.T, b []byte) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _ = Scan(b, Limits{})
	runtime.ReadMemStats(&after)
	if got, most := after.TotalAlloc-before.TotalAlloc, uint64(64*len(b)+256<<10); got > most {
		t.Errorf("%d bytes made Scan allocate %d, over %d", len(b), got, most)
	}
}

func TestReasonOf(t *testing.T) {
	_, err := Scan(nil, Limits{})
	if got := ReasonOf(err); got != NotWasm {
		t.Errorf("got %q", got)
	}
	if got := ReasonOf(errors.New("other")); got != "" {
		t.Errorf("got %q", got)
	}
}
