package pdk

import (
	"bytes"
	"fmt"
	"runtime/debug"

	"github.com/bladehost/bladehost/abi"
)

// keepBuffer is the size up to which buffers are kept from one call to the next.
const keepBuffer = 1 << 20

// Guest is a plugin on a host: what the entry points of the module run. It runs
// one call at a time. Tools do not use it.
type Guest struct {
	plugin Plugin
	host   Host
	input  []byte
	output bytes.Buffer
}

// NewGuest puts a plugin on a host.
func NewGuest(p Plugin, h Host) *Guest { return &Guest{plugin: p, host: h} }

// Describe is blade_describe: it returns the manifest.
func (g *Guest) Describe() {
	defer g.recovered()
	m, err := g.plugin.Manifest()
	if err != nil {
		g.ret(abi.RetError, toWire(err))
		return
	}
	g.ret(abi.RetData, m)
}

// Warm is blade_warm: it runs the JSON code of every tool, and of the services that
// the plugin asks for, once and makes the
// buffers of a call, so that the image a host takes afterwards has both.
func (g *Guest) Warm() {
	for i := range g.plugin.Tools {
		g.plugin.Tools[i].warm()
	}
	warmType[wireError]()
	warmServices(&g.plugin.Capabilities)
	warmMemory(g)
	if g.plugin.Warm != nil {
		g.plugin.Warm()
	}
}

// Execute is blade_execute.
func (g *Guest) Execute(tool, length int) {
	input := g.take(length)
	if tool < 0 || tool >= len(g.plugin.Tools) {
		g.ret(abi.RetError, toWire(Invalid("no_such_tool", "the plugin has %d tools, number %d is not one of them", len(g.plugin.Tools), tool)))
		return
	}
	call := newCall(g.host)
	status, v := g.run(call, &g.plugin.Tools[tool], input)
	call.end()
	g.ret(status, v)
}

// run calls the tool and turns whatever happens into what ret gets.
func (g *Guest) run(s *callState, t *Tool, input []byte) (status int32, v any) {
	defer func() {
		if p := recover(); p != nil {
			g.host.Log(int32(abi.LogError), fmt.Sprintf("panic: %v\n%s", p, debug.Stack()))
			status, v = abi.RetError, wireError{Message: fmt.Sprintf("the tool panicked: %v", p), Type: abi.TypeExecution, Code: "panic"}
		}
	}()
	res, err := t.run(s.ctx, input, &Call{state: s})
	if err != nil {
		return abi.RetError, toWire(err)
	}
	return res.wire()
}

// recovered turns a panic outside a tool into an error.
func (g *Guest) recovered() {
	if p := recover(); p != nil {
		g.ret(abi.RetError, wireError{Message: fmt.Sprintf("the plugin panicked: %v", p), Code: "panic"})
	}
}

// take pulls the input into a buffer that lives until the next call.
func (g *Guest) take(length int) []byte {
	if cap(g.input) < length || cap(g.input) > keepBuffer {
		g.input = make([]byte, length)
	}
	buf := g.input[:length]
	got := 0
	for got < length {
		n := g.host.Take(0, buf[got:])
		if n == 0 {
			break
		}
		got += n
	}
	return buf[:got]
}

// ret encodes v and hands it over. A value without a JSON form becomes an error.
func (g *Guest) ret(status int32, v any) {
	if g.output.Cap() > keepBuffer {
		g.output = bytes.Buffer{}
	}
	b, err := encode(&g.output, v)
	if err != nil {
		status = abi.RetError
		b, _ = encode(&g.output, wireError{Message: "the tool's result has no JSON form: " + err.Error(), Type: abi.TypeExecution, Code: "bad_result"})
	}
	if len(b) > abi.MaxResult {
		status = abi.RetError
		b, _ = encode(&g.output, wireError{
			Message: fmt.Sprintf("the tool's result has %d bytes, at most %d are allowed: return less, or put the bytes into an artifact", len(b), abi.MaxResult),
			Type:    abi.TypeExecution, Code: "result_too_large",
		})
	}
	g.host.Ret(status, b)
}
