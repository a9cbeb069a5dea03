//go:build wasip1

package pdk

import "unsafe"

// The seven imports. unsafe.Pointer parameters become i32 offsets into the
// module's memory; the host copies before it returns, so nothing has to stay
// pinned afterwards.

//go:wasmimport blade_v1 take
func bladeTake(slot uint32, ptr unsafe.Pointer, capacity uint32) uint32

//go:wasmimport blade_v1 call
func bladeCall(name unsafe.Pointer, nameLen uint32, ptr unsafe.Pointer, n uint32) uint64

//go:wasmimport blade_v1 yield
func bladeYield(ptr unsafe.Pointer, n uint32) int32

//go:wasmimport blade_v1 ret
func bladeRet(status int32, ptr unsafe.Pointer, n uint32)

//go:wasmimport blade_v1 log
func bladeLog(level int32, ptr unsafe.Pointer, n uint32)

//go:wasmimport blade_v1 cancelled
func bladeCancelled() int32

//go:wasmimport blade_v1 deadline
func bladeDeadline() int64

// imports is the host a module was loaded by.
type imports struct{}

var _ Host = imports{}

func at(b []byte) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.SliceData(b)), uint32(len(b))
}

func textAt(s string) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.StringData(s)), uint32(len(s))
}

func (imports) Take(slot uint32, buf []byte) int {
	p, n := at(buf)
	return int(bladeTake(slot, p, n))
}

func (imports) Call(name string, frame []byte) uint64 {
	np, nn := textAt(name)
	p, n := at(frame)
	return bladeCall(np, nn, p, n)
}

func (imports) Yield(b []byte) int32 {
	p, n := at(b)
	return bladeYield(p, n)
}

func (imports) Ret(status int32, b []byte) {
	p, n := at(b)
	bladeRet(status, p, n)
}

func (imports) Log(level int32, text string) {
	p, n := textAt(text)
	bladeLog(level, p, n)
}

func (imports) Cancelled() int32 { return bladeCancelled() }

func (imports) Deadline() int64 { return bladeDeadline() }

// The entry points. They exist once the package is linked in; Serve says for
// which plugin.

//go:wasmexport blade_describe
//lint:ignore U1000 the host calls it
func bladeDescribe() {
	if g := guest(); g != nil {
		g.Describe()
	}
}

//go:wasmexport blade_execute
//lint:ignore U1000 the host calls it
func bladeExecute(tool, length int32) {
	if g := guest(); g != nil {
		g.Execute(int(tool), int(length))
	}
}

//go:wasmexport blade_warm
//lint:ignore U1000 the host calls it
func bladeWarm() {
	if g := guest(); g != nil {
		g.Warm()
	}
}

// current is the one plugin of the module.
var current *Guest

func serve(p Plugin) {
	if current != nil {
		panic("pdk: Serve was called twice: a module is one plugin")
	}
	current = NewGuest(p, imports{})
}

// guest is the plugin, or nil after telling the host that there is none.
func guest() *Guest {
	if current == nil {
		b := []byte(`{"message":"the module has no plugin: call pdk.Serve in an init function","code":"no_plugin"}`)
		imports{}.Ret(2, b)
	}
	return current
}
