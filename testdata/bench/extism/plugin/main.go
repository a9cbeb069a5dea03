// Command plugin is the tool of the benchmark as an Extism plugin.
package main

import (
	"github.com/extism/go-pdk"

	"bench/work"
)

//go:wasmexport greet
func greet() int32 {
	out, err := work.Run(pdk.Input())
	if err != nil {
		pdk.SetError(err)
		return 1
	}
	pdk.Output(out)
	return 0
}

func main() {}
