// Command blade is the tool of the benchmark as a plugin in Go, on the bare
// functions of the ABI: no kit, so that it does what the other Go rows do.
package main

import (
	"runtime"
	"unsafe"

	"github.com/bladehost/bladehost/testdata/bench/work"
)

//go:wasmimport blade_v1 take
func take(slot uint32, ptr unsafe.Pointer, n uint32) uint32

//go:wasmimport blade_v1 ret
func ret(status uint32, ptr unsafe.Pointer, n uint32)

const manifest = `{"abi":1,"name":"blade-tool-bench-go","version":"1.0.0","description":"The tool of the benchmarks, in Go.","tools":[` +
	`{"name":"Greet","description":"Greets.","parameters":{"type":"object"},"kind":"readonly","sideEffect":"pure"}]}`

func answer(status uint32, b []byte) {
	ret(status, unsafe.Pointer(unsafe.SliceData(b)), uint32(len(b)))
}

//go:wasmexport blade_describe
func describe() { answer(0, []byte(manifest)) }

var buffer = make([]byte, 64<<10)

// warm fills the caches of encoding/json and leaves a heap that was just
// collected: a call that starts on it writes to half as many pages.
//
//go:wasmexport blade_warm
func warm() {
	for range 20 {
		run()
	}
	runtime.GC()
	runtime.GC()
	for range 3 {
		run()
	}
}

func run() {
	if _, err := work.Run(work.Input(1 << 10)); err != nil {
		panic(err)
	}
}

//go:wasmexport blade_execute
func execute(_, n uint32) {
	if int(n) > len(buffer) {
		buffer = make([]byte, n)
	}
	in := buffer[:n]
	in = in[:take(0, unsafe.Pointer(unsafe.SliceData(in)), n)]
	out, err := work.Run(in)
	if err != nil {
		panic(err)
	}
	answer(0, out)
}

func main() {}
