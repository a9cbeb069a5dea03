package host

import (
	"encoding/binary"
	"testing"

	"github.com/bladehost/bladehost/abi"
)

// tiny is a module that is put together by hand: a memory with some bytes, imports,
// and a blade_execute with a body.
type tiny struct {
	imports []tinyImport
	// execute is the code of blade_execute; the imports are functions 0, 1, …
	execute []byte
	data    []byte
	// pages is the size of the memory; 0 means one page.
	pages int
}

type tinyImport struct {
	module, name    string
	params, results string // i for i32, I for i64
}

var tinyRet = tinyImport{abi.ImportModule, abi.FuncRet, "iii", ""}

// build is the module's bytes, without a manifest section.
func (m tiny) build() []byte {
	types := [][]byte{tinyType("", ""), tinyType("ii", "")}
	var imports []byte
	for _, im := range m.imports {
		imports = append(append(imports, tinyName(im.module)...), tinyName(im.name)...)
		imports = append(imports, 0)
		imports = append(imports, leb(len(types))...)
		types = append(types, tinyType(im.params, im.results))
	}
	n := len(m.imports)
	var exports []byte
	exports = append(append(exports, tinyName("memory")...), 2, 0)
	exports = append(append(append(exports, tinyName(abi.ExportDescribe)...), 0), leb(n)...)
	exports = append(append(append(exports, tinyName(abi.ExportExecute)...), 0), leb(n+1)...)
	body := append(append([]byte{0}, m.execute...), 0x0b)
	code := append(leb(2), append([]byte{2, 0, 0x0b}, append(leb(len(body)), body...)...)...)
	data := append(append([]byte{1, 0, 0x41, 0, 0x0b}, leb(len(m.data))...), m.data...)
	out := []byte("\x00asm\x01\x00\x00\x00")
	section := func(id byte, b []byte) { out = append(append(append(out, id), leb(len(b))...), b...) }
	var flat []byte
	for _, t := range types {
		flat = append(flat, t...)
	}
	section(1, append(leb(len(types)), flat...))
	if n > 0 {
		section(2, append(leb(n), imports...))
	}
	section(3, []byte{2, 0, 1})
	section(5, append([]byte{1, 0}, leb(max(1, m.pages))...))
	section(7, append(leb(3), exports...))
	section(10, code)
	section(11, data)
	return out
}

func tinyType(params, results string) []byte {
	list := func(s string) []byte {
		b := leb(len(s))
		for _, c := range s {
			b = append(b, map[rune]byte{'i': 0x7f, 'I': 0x7e}[c])
		}
		return b
	}
	return append(append([]byte{0x60}, list(params)...), list(results)...)
}

func tinyName(s string) []byte { return append(leb(len(s)), s...) }

func leb(n int) []byte { return binary.AppendUvarint(nil, uint64(n)) }

// i32 is the instruction i32.const n.
func i32(n int32) []byte {
	out := []byte{0x41}
	for {
		b := byte(n & 0x7f)
		n >>= 7
		if (n == 0 && b&0x40 == 0) || (n == -1 && b&0x40 != 0) {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

// returns is a module whose tool hands over these bytes with a status.
func returns(status int32, b []byte) tiny {
	var code []byte
	for _, n := range []int32{status, 0, int32(len(b))} {
		code = append(code, i32(n)...)
	}
	return tiny{imports: []tinyImport{tinyRet}, execute: append(code, 0x10, 0), data: b}
}

// tinyManifest describes the one tool of a tiny module.
func tinyManifest(change ...func(*abi.Manifest)) []byte {
	m := &abi.Manifest{ABI: abi.Version, Name: "blade-tool-tiny", Version: "1.0.0", Description: "Is put together by hand.",
		Tools: []abi.ToolSpec{{Name: "Tiny", Description: abi.Description{Short: "Does what its bytes say."}, Parameters: in(anyObject), Kind: abi.KindReadOnly}}}
	for _, c := range change {
		c(m)
	}
	b, err := abi.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

// tinyPlugin loads a tiny module.
func tinyPlugin(t testing.TB, h *Host, m tiny) *Plugin {
	t.Helper()
	b, err := WithManifest(m.build(), tinyManifest())
	if err != nil {
		t.Fatal(err)
	}
	p, err := h.LoadPlugin(b, PluginOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
