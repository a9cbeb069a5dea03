// Command gostate is a guest that tells what it finds and then leaves traces
// wherever it can.
package main

import (
	"encoding/json"
	"os"
	"runtime"
	"time"
	"unsafe"
)

//go:wasmimport blade_v1 ret
func ret(status uint32, ptr unsafe.Pointer, n uint32)

func answer(b []byte) { ret(0, unsafe.Pointer(unsafe.SliceData(b)), uint32(len(b))) }

//go:wasmexport blade_describe
func describe() {
	answer([]byte(`{"abi":1,"name":"blade-tool-state-go","version":"1.0.0","description":"Leaves traces.","tools":[{"name":"State","description":"Tells what it finds.","parameters":{"type":"object"}}]}`))
}

type found struct {
	Calls, Kept, Map, Goroutines int
	Fd                           uintptr
	Line, Left, Dir              string
	Later                        bool
	Since                        bool
}

var (
	calls   int
	kept    [][]byte
	table   = map[string]int{}
	born    = time.Now()
	stopped = make(chan struct{})
)

//go:wasmexport blade_execute
func execute(_, _ uint32) {
	f := found{Calls: calls, Kept: len(kept), Map: len(table), Goroutines: runtime.NumGoroutine(), Left: os.Getenv("LEFT")}
	f.Dir, _ = os.Getwd()
	f.Later, f.Since = !time.Now().Before(born), time.Since(born) >= 0
	file, err := os.Open(os.Getenv("DIR") + "/kept")
	if err == nil {
		f.Fd = file.Fd()
		b := make([]byte, 4)
		n, _ := file.Read(b) // leaves the offset behind the start
		f.Line = string(b[:n])
	}
	b, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	answer(b)
	calls++
	table[string(b)] = calls
	os.Setenv("LEFT", "behind")
	os.Chdir("/somewhere")
	for range 3 {
		big := make([]byte, 4<<20)
		for i := range big {
			big[i] = 0x5a
		}
		kept = append(kept, big)
	}
	go func() { <-stopped }()
	runtime.Gosched()
}

func main() {}
