package extism

import (
	"encoding/binary"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/wasm"
)

// imports are imported functions: module, name, parameters and results as
// signature takes them.
type imports [][4]string

// module makes a module with these imports, a memory and exported functions
// () -> i32 that trap.
func module(list imports, pages uint32, exports ...string) []byte {
	vec := func(items ...[]byte) []byte {
		o := binary.AppendUvarint(nil, uint64(len(items)))
		for _, i := range items {
			o = append(o, i...)
		}
		return o
	}
	section := func(id byte, body []byte) []byte {
		return append(binary.AppendUvarint([]byte{id}, uint64(len(body))), body...)
	}
	types, ims := [][]byte{{0x60, 0, 1, byte(wasm.I32)}}, [][]byte{}
	for _, im := range list {
		t := signature(im[2], im[3])
		o := []byte{0x60}
		for _, vs := range [][]wasm.ValType{t.Params, t.Results} {
			o = binary.AppendUvarint(o, uint64(len(vs)))
			for _, v := range vs {
				o = append(o, byte(v))
			}
		}
		types = append(types, o)
		ims = append(ims, binary.AppendUvarint(append(appendName(appendName(nil, im[0]), im[1]), 0), uint64(len(types)-1)))
	}
	funcs, bodies := [][]byte{}, [][]byte{}
	exps := [][]byte{append(appendName(nil, "memory"), 2, 0)}
	for i, name := range exports {
		if name == "" {
			continue
		}
		funcs, bodies = append(funcs, []byte{0}), append(bodies, []byte{3, 0, 0, 0x0b})
		exps = append(exps, binary.AppendUvarint(append(appendName(nil, name), 0), uint64(len(list)+i)))
	}
	b := []byte("\x00asm\x01\x00\x00\x00")
	b = append(b, section(1, vec(types...))...)
	b = append(b, section(2, vec(ims...))...)
	b = append(b, section(3, vec(funcs...))...)
	b = append(b, section(5, vec(binary.AppendUvarint([]byte{0}, uint64(pages))))...)
	b = append(b, section(7, vec(exps...))...)
	return append(b, section(10, vec(bodies...))...)
}

// A redirected module is sound, and has nothing left that the SDK must not answer.
func TestRewrite(t *testing.T) {
	for _, b := range [][]byte{file(t, "hostile.wasm"), file(t, "mcp1.wasm"), file(t, "mcp2.wasm"), file(t, "phase.wasm")} {
		info, err := wasm.Scan(b, wasm.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if !Is(info) {
			t.Error("it is no Extism plugin")
		}
		got, err := wasm.Scan(redirect(b), wasm.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Imports) != len(info.Imports) || len(got.Exports) != len(info.Exports) || got.Functions != info.Functions {
			t.Errorf("%+v became %+v", info, got)
		}
		own := answered()
		for i, im := range got.Imports {
			if f, ok := own[im.Name]; (ok && f.from == info.Imports[i].Module) != (im.Module == ownModule) || im.Name != info.Imports[i].Name {
				t.Errorf("%s.%s became %s.%s", info.Imports[i].Module, info.Imports[i].Name, im.Module, im.Name)
			}
		}
		if _, err := rewrite(b); err != nil {
			t.Error(err)
		}
	}
}

// FuzzRedirect: what passes the scan and the check is redirected to what passes
// the scan.
func FuzzRedirect(f *testing.F) {
	for _, name := range []string{"hostile.wasm", "mcp1.wasm", "phase.wasm"} {
		f.Add(mustRead(f, name))
	}
	f.Add(module(imports{{envModule, "alloc", "I", "I"}}, 1, "describe", "call"))
	f.Fuzz(func(t *testing.T, b []byte) {
		info, err := wasm.Scan(b, wasm.Limits{})
		if err != nil || checkImports(info) != nil {
			return
		}
		if _, err := wasm.Scan(redirect(b), wasm.Limits{}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestBlocks(t *testing.T) {
	var b blocks
	for _, x := range []block{{100, 10}, {50, 8}, {200, 1}, {100, 20}} {
		b.add(x)
	}
	for _, c := range []struct {
		offset, n uint64
		holds     bool
		size      uint64
	}{{100, 20, true, 20}, {100, 21, false, 20}, {119, 1, true, 0}, {120, 1, false, 0}, {99, 1, false, 0}, {50, 8, true, 8}, {51, 8, false, 0}, {0, 1, false, 0}, {200, 1, true, 1}, {201, 1, false, 0}, {1 << 63, 1, false, 0}, {100, 1 << 63, false, 20}} {
		if b.holds(c.offset, c.n) != c.holds || b.size(c.offset) != c.size {
			t.Errorf("%+v: %v %d", c, b.holds(c.offset, c.n), b.size(c.offset))
		}
	}
	if b.remove(51) || !b.remove(100) || b.holds(100, 1) || len(b) != 2 {
		t.Errorf("%v", b)
	}
}

func TestIs(t *testing.T) {
	for _, c := range []struct {
		list imports
		want bool
	}{
		{imports{{envModule, "alloc", "I", "I"}}, true},
		{imports{{envModule, "alloc", "I", "I"}, {abi.ImportModule, "ret", "iii", ""}}, false},
		{imports{{userModule, "blade_yield", "I", "I"}}, false},
		{nil, false},
	} {
		info, err := wasm.Scan(module(c.list, 1, "describe", "call"), wasm.Limits{})
		if err != nil || Is(info) != c.want {
			t.Errorf("%v: %v", c.list, err)
		}
	}
}

func TestKernelImports(t *testing.T) {
	for name := range kernel() {
		if _, ok := answered()[name]; ok {
			t.Errorf("%s is answered twice", name)
		}
	}
	if _, ok := lentImports()[abi.WASIModule]["proc_exit"]; !ok {
		t.Error("proc_exit is not lent")
	}
}
