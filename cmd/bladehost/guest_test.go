package main

import (
	"encoding/binary"
	"encoding/json"
	"testing"

	"github.com/bladehost/bladehost/host"
)

// guest is a plugin made by hand, byte for byte, to be wrong in one way.
type guest struct {
	manifest json.RawMessage
	// body is what blade_execute does: ok, trap, silent, loop, twice, or deaf, which asks for cancellation and does not mind.
	body string
	// unsteady describes itself differently each time.
	unsteady bool
	// imports are more functions of the type () -> (), as module.name.
	imports []string
	// text lies somewhere in the module's memory.
	text string
	// pages of memory at the start; 0 means 2.
	pages uint32
	// noSection leaves the manifest section out.
	noSection bool
}

const guestResult = `{"ok":true}`

// module encodes the guest.
func (g guest) module(t testing.TB) []byte {
	t.Helper()
	const at, resultAt, randomAt = 1024, 16, 64
	pages := g.pages
	if pages == 0 {
		pages = 2
	}
	imports := [][]byte{importFunc("blade_v1", "ret", 0)}
	if g.unsteady {
		imports = append(imports, importFunc("wasi_snapshot_preview1", "random_get", 3))
	}
	if g.body == "deaf" {
		imports = append(imports, importFunc("blade_v1", "cancelled", 4))
	}
	for _, im := range g.imports {
		imports = append(imports, importFunc("env", im, 1))
	}
	first := uint32(len(imports))
	var b []byte
	b = append(b, "\x00asm\x01\x00\x00\x00"...)
	b = sec(b, 1, vec([]byte{0x60, 3, 0x7f, 0x7f, 0x7f, 0}, []byte{0x60, 0, 0}, []byte{0x60, 2, 0x7f, 0x7f, 0}, []byte{0x60, 2, 0x7f, 0x7f, 1, 0x7f}, []byte{0x60, 0, 1, 0x7f}))
	b = sec(b, 2, vec(imports...))
	b = sec(b, 3, vec([]byte{1}, []byte{2}))
	b = sec(b, 5, vec(append([]byte{0}, uleb(pages)...)))
	b = sec(b, 7, vec(
		append(str("memory"), 2, 0),
		append(append(str("blade_describe"), 0), uleb(first)...),
		append(append(str("blade_execute"), 0), uleb(first+1)...)))
	describe := []byte{}
	if g.unsteady { // eight random letters, into the description
		describe = append(describe, cat(i32(randomAt), i32(8), []byte{0x10, 1, 0x1a}, i32(at+uint32(unsteadyAt(t, g.manifest))), i32(randomAt), []byte{0x29, 0, 0},
			[]byte{0x42}, sleb(0x0f0f0f0f0f0f0f0f), []byte{0x83, 0x42}, sleb(0x6161616161616161), []byte{0x7c, 0x37, 0, 0})...)
	}
	describe = append(describe, call(0, at, uint32(len(g.manifest)))...)
	b = sec(b, 10, vec(code(describe), code(g.execute(resultAt))))
	b = sec(b, 11, vec(data(resultAt, guestResult), data(at, string(g.manifest)), data(at+uint32(len(g.manifest))+64, g.text)))
	if g.noSection {
		return b
	}
	return sec(b, 0, append(str("blade.manifest"), g.manifest...))
}

// unsteadyAt is where the manifest has room for eight letters.
func unsteadyAt(t testing.TB, manifest []byte) int {
	t.Helper()
	for i := range manifest {
		if i+8 <= len(manifest) && string(manifest[i:i+8]) == "????????" {
			return i
		}
	}
	t.Fatal("the manifest has no ????????")
	return 0
}

func (g guest) execute(resultAt uint32) []byte {
	ret := call(0, resultAt, uint32(len(guestResult)))
	switch g.body {
	case "trap":
		return []byte{0x00}
	case "silent":
		return nil
	case "loop":
		return []byte{0x03, 0x40, 0x0c, 0, 0x0b}
	case "deaf":
		return []byte{0x03, 0x40, 0x10, 1, 0x1a, 0x0c, 0, 0x0b}
	case "twice":
		return append(ret, ret...)
	}
	return ret
}

func call(status, at, size uint32) []byte {
	return cat(i32(status), i32(at), i32(size), []byte{0x10, 0})
}

func i32(v uint32) []byte { return append([]byte{0x41}, sleb(int64(int32(v)))...) }

func code(body []byte) []byte {
	f := cat([]byte{0}, body, []byte{0x0b})
	return append(uleb(uint32(len(f))), f...)
}

func data(at uint32, text string) []byte {
	return cat([]byte{0}, i32(at), []byte{0x0b}, str(text))
}

func importFunc(module, name string, typ byte) []byte {
	return cat(str(module), str(name), []byte{0, typ})
}

func cat(parts ...[]byte) []byte {
	var out []byte
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func vec(items ...[]byte) []byte { return append(uleb(uint32(len(items))), cat(items...)...) }

func str(s string) []byte { return append(uleb(uint32(len(s))), s...) }

func uleb(v uint32) []byte { return binary.AppendUvarint(nil, uint64(v)) }

func sleb(v int64) []byte {
	var out []byte
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if (v == 0 && c&0x40 == 0) || (v == -1 && c&0x40 != 0) {
			return append(out, c)
		}
		out = append(out, c|0x80)
	}
}

func sec(b []byte, id byte, payload []byte) []byte {
	return append(append(append(b, id), uleb(uint32(len(payload)))...), payload...)
}

// goodManifest is a manifest in which check finds nothing.
func goodManifest(t testing.TB) map[string]any {
	t.Helper()
	return unmarshal[map[string]any](t, `{"abi":1,"name":"blade-tool-sample","version":"1.2.3","description":"Says ???????? that it is well.","license":"Apache-2.0",
		"tools":[{"name":"Sample","description":"Says that it is well.",
			"parameters":{"type":"object","properties":{"text":{"type":"string","description":"Any text."}},"required":["text"],"additionalProperties":false},
			"kind":"readonly","sideEffect":"pure","interruptBehavior":"block"}]}`)
}

func unmarshal[T any](t testing.TB, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

func marshal(t testing.TB, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The encoder makes modules that a host takes.
func TestGuestModule(t *testing.T) {
	for _, g := range []guest{{}, {body: "loop"}, {body: "twice", text: "x"}, {unsteady: true}} {
		g.manifest = marshal(t, goodManifest(t))
		i, err := host.Inspect(g.module(t))
		if err != nil || i.Problem != nil {
			t.Errorf("%+v: %v, %v", g, err, i)
		}
	}
}
