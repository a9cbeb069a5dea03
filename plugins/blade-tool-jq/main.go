// Command blade-tool-jq is a bladehost plugin that runs jq queries over JSON.
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -trimpath -ldflags='-s -w' -o blade-tool-jq.wasm .
package main

import (
	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/pdk"
)

func plugin() pdk.Plugin {
	return pdk.Plugin{
		Name: "blade-tool-jq", Version: "0.1.0", License: "Apache-2.0",
		Description:  "Runs jq queries over JSON texts and files.",
		Capabilities: abi.Capabilities{FS: &abi.FSRequest{Read: true, Why: "To read the JSON files that are asked for."}},
		Warm:         warm,
		Tools: []pdk.Tool{pdk.DefineStream(pdk.Spec{
			Name:        "Jq",
			Description: "Runs a jq query over JSON and returns its results.",
			UsageNotes: []string{
				"Give json or path, or nullInput alone.",
				"json as a string is read as JSON text, which may hold several documents; any other JSON is the input itself. A file may hold several documents, too (JSON lines).",
				"The query runs once for each document. slurp makes one array of all of them; nullInput runs it once with null, and input and inputs read the documents.",
				"The dialect is gojq's: whole numbers are exact at any size; env, $ENV, input_filename, import and include are not there.",
			},
			Examples: []abi.Example{{
				Description: "Names of the grown-ups in a file",
				Params:      []byte(`{"path":"people.json","query":".[] | select(.age >= $least) | .name","variables":{"least":18},"raw":true}`),
			}},
			Kind: pdk.ReadOnly, SideEffect: pdk.Pure, Interrupt: pdk.Cancel,
			PathParams: []string{"/path"},
			Yields:     []abi.YieldKind{abi.YieldProgress},
		}, jqTool)},
	}
}

// warm compiles a query, so that the tables of gojq are ready.
func warm() {
	code, err := compile(`[.[]? | tostring | ascii_downcase] | sort | map(select(test("a"))) | length`, nil)
	if err == nil {
		code.Run([]any{"A", 1}).Next()
	}
}

func init() { pdk.Serve(plugin()) }

func main() {}
