package extism

import (
	"encoding/binary"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/wasm"
)

// ownModule is the module that redirected imports lead to.
const ownModule = "bladehost:extism"

// secImport is the id of the import section.
const secImport = 2

// rewrite returns the module as it is compiled: imports that the SDK must not
// answer lead to ownModule, and fuel, call depth, memory and tables are as for
// any other plugin. The module has passed the scan.
func rewrite(b []byte) (*wasm.Module, error) {
	m, err := wasm.Rewrite(redirect(b), wasm.Options{})
	if err != nil {
		return nil, err
	}
	if err := wasm.Verify(m.Bytes, wasm.Options{}); err != nil {
		return nil, abi.NewError(abi.CodeCompile, "the rewritten module is not as it must be: %v", err)
	}
	return m, nil
}

// redirect rewrites the import section. What a scanned module claims about itself
// is true, and only functions are imported.
func redirect(b []byte) []byte {
	out := make([]byte, 0, len(b)+1024)
	out = append(out, b[:8]...)
	for r := (cursor{b: b, at: 8}); r.at < len(b); {
		id := r.byte()
		body := r.take(r.u32())
		if id == secImport {
			body = redirectImports(body)
		}
		out = append(out, id)
		out = binary.AppendUvarint(out, uint64(len(body)))
		out = append(out, body...)
	}
	return out
}

func redirectImports(body []byte) []byte {
	r := cursor{b: body}
	n := r.u32()
	own := answered()
	out := binary.AppendUvarint(nil, uint64(n))
	for range n {
		module, name := r.name(), r.name()
		if f, ok := own[name]; ok && f.from == module {
			module = ownModule
		}
		out = appendName(appendName(out, module), name)
		out = append(out, r.byte())
		out = binary.AppendUvarint(out, uint64(r.u32()))
	}
	return out
}

// cursor reads a module that was scanned.
type cursor struct {
	b  []byte
	at int
}

func (c *cursor) byte() byte {
	c.at++
	return c.b[c.at-1]
}

func (c *cursor) u32() uint32 {
	v, n := binary.Uvarint(c.b[c.at:])
	c.at += n
	return uint32(v)
}

func (c *cursor) take(n uint32) []byte {
	c.at += int(n)
	return c.b[c.at-int(n) : c.at]
}

func (c *cursor) name() string { return string(c.take(c.u32())) }

func appendName(o []byte, s string) []byte {
	return append(binary.AppendUvarint(o, uint64(len(s))), s...)
}
