package wasm

import (
	"bytes"
	"slices"
)

// The tests spell modules out: mod joins sections behind a header, sec frames a
// section, vec counts its entries.

func mod(sections ...[]byte) []byte {
	return append([]byte(magic+version), bytes.Join(sections, nil)...)
}

func sec(id byte, parts ...[]byte) []byte {
	return appendSection(nil, id, bytes.Join(parts, nil))
}

func vec(entries ...[]byte) []byte {
	return append(appendU32(nil, uint32(len(entries))), bytes.Join(entries, nil)...)
}

func raw(b ...byte) []byte { return b }

func num(v uint32) []byte { return appendU32(nil, v) }

func str(s string) []byte { return appendName(nil, s) }

func custom(name, payload string) []byte { return sec(secCustom, str(name), []byte(payload)) }

// fn is a body without locals; the final end is added.
func fn(code ...byte) []byte { return fnWith(raw(0), code...) }

// fnWith is a body with the given declarations of locals.
func fnWith(locals []byte, code ...byte) []byte {
	b := append(append(slices.Clone(locals), code...), opEnd)
	return append(num(uint32(len(b))), b...)
}

// types has () -> (), then (i32, i32) -> (i64).
func types() []byte {
	return sec(secType, vec(raw(0x60, 0, 0), raw(0x60, 2, 0x7f, 0x7f, 1, 0x7e)))
}

// program is a module with one function of type () -> (), with a memory, a
// table, a mutable global, and the code.
func program(code ...byte) []byte {
	return mod(types(), sec(secFunction, vec(raw(0))), sec(secTable, vec(raw(0x70, 0, 1))),
		sec(secMemory, vec(raw(0, 1))), sec(secGlobal, vec(raw(0x7f, 1, opI32Const, 5, opEnd))),
		sec(secExport, vec(cat(str("f"), raw(0, 0)))), sec(secCode, vec(fn(code...))))
}

func cat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// full has one of everything.
func full() []byte {
	return mod(
		custom("first", "1"),
		types(),
		sec(secImport, vec(
			cat(str("env"), str("f"), raw(0, 1)),
			cat(str("env"), str("g"), raw(3, 0x7f, 0)))),
		sec(secFunction, vec(raw(0), raw(1))),
		sec(secTable, vec(raw(0x70, 1, 2, 9))),
		sec(secMemory, vec(raw(1, 1, 4))),
		sec(secGlobal, vec(
			raw(0x7f, 1, opGlobalGet, 0, opEnd),
			raw(0x7e, 0, opI64Const, 0x7f, opEnd))),
		sec(secExport, vec(
			cat(str("run"), raw(0, 2)),
			cat(str("memory"), raw(2, 0)))),
		sec(secStart, raw(1)),
		sec(secElement, vec(cat(raw(0, opI32Const, 0, opEnd), vec(raw(1), raw(2))))),
		sec(secDataCount, num(2)),
		custom("middle", "22"),
		sec(secCode, vec(
			fn(opI32Const, 1, opMemoryGrow, 0, opDrop),
			fnWith(cat(vec(cat(num(3), raw(0x7e)))), opLocalGet, 4))),
		sec(secData, vec(
			cat(raw(0, opI32Const, 8, opEnd), str("hello")),
			cat(raw(1), str("passive")))),
		custom("last", "333"),
		custom("first", "again"),
	)
}
