// Command bench measures Extism's Go SDK for the benchmark of bladehost. It is a
// module of its own, so that the SDK stays out of bladehost's. The benchmark copies
// it to a temporary folder, with the package work beside it, and builds it there.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	extism "github.com/extism/go-sdk"
)

type ask struct {
	Row, Module string
	Input       json.RawMessage
	N           int
}

type told struct {
	Ns    float64
	Error string
}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<16)
	made := map[string]func([]byte) error{}
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var a ask
		var t told
		if err = json.Unmarshal(line, &a); err == nil {
			t.Ns, err = measure(made, a)
		}
		if err != nil {
			t.Error = err.Error()
		}
		b, _ := json.Marshal(t)
		fmt.Printf("%s\n", b)
	}
}

func measure(made map[string]func([]byte) error, a ask) (float64, error) {
	call := made[a.Row]
	if call == nil {
		var err error
		if call, err = maker(a); err != nil {
			return 0, err
		}
		made[a.Row] = call
		for range 3 {
			if err := call(a.Input); err != nil {
				return 0, err
			}
		}
	}
	from := time.Now()
	for range a.N {
		if err := call(a.Input); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(from)), nil
}

// maker makes one way of calling: "extism" uses one instance for all calls,
// "extism fresh" makes one for each call, with the manifest's timeout.
func maker(a ask) (func([]byte) error, error) {
	ctx := context.Background()
	b, err := os.ReadFile(a.Module)
	if err != nil {
		return nil, err
	}
	manifest := extism.Manifest{Wasm: []extism.Wasm{extism.WasmData{Data: b}}}
	if a.Row == "extism fresh" {
		manifest.Timeout = 3_600_000
	}
	compiled, err := extism.NewCompiledPlugin(ctx, manifest, extism.PluginConfig{EnableWasi: true}, nil)
	if err != nil {
		return nil, err
	}
	call := func(p *extism.Plugin, input []byte) error {
		code, out, err := p.Call("greet", input)
		if err == nil && (code != 0 || len(out) == 0) {
			err = fmt.Errorf("code %d, %d bytes", code, len(out))
		}
		return err
	}
	if a.Row == "extism fresh" {
		return func(input []byte) error {
			p, err := compiled.Instance(ctx, extism.PluginInstanceConfig{})
			if err != nil {
				return err
			}
			defer p.Close(ctx)
			return call(p, input)
		}, nil
	}
	p, err := compiled.Instance(ctx, extism.PluginInstanceConfig{})
	if err != nil {
		return nil, err
	}
	return func(input []byte) error { return call(p, input) }, nil
}
