// Command guest is a plugin of bladehost's contract on Extism's memory model,
// built with Extism's own kit. Its tools are good, bad and hostile.
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o guest.wasm ./guest
package main

import (
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/extism/go-pdk"
)

//go:wasmimport extism:host/user blade_yield
func bladeYield(offset uint64) uint64

//go:wasmimport extism:host/user blade_call
func bladeCall(name, frame uint64) uint64

//go:embed manifest.json
var manifest string

var tools = map[string]func(in map[string]any) (any, error){
	"Echo":    func(in map[string]any) (any, error) { return in, nil },
	"Yield":   yields,
	"Service": service,
	"Fail":    func(map[string]any) (any, error) { return nil, fmt.Errorf("it did not work: é") },
	"Spin":    spin,
	"Tree":    func(map[string]any) (any, error) { return fib(60), nil },
	"Polite":  polite,
	"Sleep":   func(map[string]any) (any, error) { time.Sleep(time.Minute); return nil, nil },
	"Panic":   func(map[string]any) (any, error) { panic("boom") },
	"Exit":    func(in map[string]any) (any, error) { os.Exit(int(in["code"].(float64))); return nil, nil },
	"Grow":    grow,
	"Log":     logs,
	"Large":   func(in map[string]any) (any, error) { return strings.Repeat("x", int(in["n"].(float64))), nil },
	"Text":    func(in map[string]any) (any, error) { return raw(in["text"].(string)), nil },
	"HTTP": func(map[string]any) (any, error) {
		return pdk.NewHTTPRequest(pdk.MethodGet, "http://127.0.0.1/").Send().Status(), nil
	},
	"Settings": settings,
	"State":    func(map[string]any) (any, error) { count++; return count, nil },
	"World":    world,
}

var count int

type raw string

//go:wasmexport blade_describe
func describe() int32 {
	pdk.OutputString(manifest)
	return 0
}

//go:wasmexport blade_execute
func execute() int32 {
	var call struct {
		Tool  string
		Input map[string]any
	}
	if err := pdk.InputJSON(&call); err != nil {
		pdk.SetError(err)
		return 1
	}
	f, ok := tools[call.Tool]
	if !ok {
		return 7
	}
	out, err := f(call.Input)
	if err == nil {
		if s, ok := out.(raw); ok {
			pdk.OutputString(string(s))
			return 0
		}
		err = pdk.OutputJSON(out)
	}
	if err != nil {
		pdk.SetError(err)
		return 1
	}
	return 0
}

func yield(v any) uint64 {
	m, err := pdk.AllocateJSON(v)
	if err != nil {
		panic(err)
	}
	defer m.Free()
	return bladeYield(m.Offset())
}

// yields sends what it is told, and answers with the codes.
func yields(in map[string]any) (any, error) {
	list, ok := in["yields"].([]any)
	if !ok {
		return nil, fmt.Errorf("yields is missing")
	}
	codes := []uint64{}
	for _, y := range list {
		codes = append(codes, yield(y))
	}
	return codes, nil
}

// call asks a service.
func call(name string, head, body []byte) (status uint64, answerHead json.RawMessage, answerBody string) {
	frame := binary.LittleEndian.AppendUint32(nil, uint32(len(head)))
	n, f := pdk.AllocateString(name), pdk.AllocateBytes(append(append(frame, head...), body...))
	answer := bladeCall(n.Offset(), f.Offset())
	m := pdk.FindMemory(answer & (1<<48 - 1))
	b := m.ReadBytes()
	m.Free()
	k := binary.LittleEndian.Uint32(b)
	return answer >> 48, b[4 : 4+k], string(b[4+k:])
}

func service(in map[string]any) (any, error) {
	head, err := json.Marshal(in["head"])
	if err != nil {
		return nil, err
	}
	body, _ := in["body"].(string)
	status, h, b := call(in["name"].(string), head, []byte(body))
	return map[string]any{"status": status, "head": h, "body": b}, nil
}

func spin(map[string]any) (any, error) {
	for i := 0; ; i++ {
		count += i
	}
}

//go:noinline
func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

// polite yields until it is told to stop.
func polite(map[string]any) (any, error) {
	for i := 0; ; i++ {
		if code := yield(map[string]any{"kind": "progress", "completed": i}); code != 0 {
			return nil, fmt.Errorf("stopped with code %d", code)
		}
	}
}

func grow(map[string]any) (any, error) {
	var kept [][]byte
	for {
		kept = append(kept, make([]byte, 16<<20))
		count += len(kept)
	}
}

func logs(map[string]any) (any, error) {
	pdk.Log(pdk.LogInfo, "logged é")
	pdk.Log(pdk.LogError, "in trouble")
	fmt.Println("to standard output")
	fmt.Fprintln(os.Stderr, "to standard error")
	return nil, nil
}

// settings uses what Extism offers and this host does not lend, and variables.
func settings(map[string]any) (any, error) {
	_, found := pdk.GetConfig("key")
	pdk.SetVar("v", []byte("kept"))
	v := string(pdk.GetVar("v"))
	pdk.RemoveVar("v")
	return []any{found, v, pdk.GetVar("v") == nil}, nil
}

func world(map[string]any) (any, error) {
	_, err := os.ReadDir("/")
	return map[string]any{"env": os.Environ(), "files": err == nil, "args": len(os.Args)}, nil
}

func main() {}
