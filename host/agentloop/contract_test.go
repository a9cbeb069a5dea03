package agentloop

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
	"github.com/bladehost/bladehost/host/tool/tooltest"
)

// Every kind of this contract is a tool of the first one too.
func TestToolContract(t *testing.T) {
	for _, kind := range []Kind{KindRead, KindWrite, KindRun, KindVerify} {
		t.Run(string(kind), func(t *testing.T) {
			tooltest.Run(t, tooltest.Case{
				New: func(t testing.TB) tool.Tool {
					tl, err := DefineTool(Definition{
						Name: "Counts", Description: "Counts.", Kind: kind, SideEffect: abi.SideEffectIdempotent,
						InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`),
						Handler: func(ctx context.Context, input json.RawMessage, _ ToolContext) (any, error) {
							var in struct{ N int }
							if err := json.Unmarshal(input, &in); err != nil {
								return nil, err
							}
							switch {
							case in.N == 0:
								return nil, errors.New("nothing to count")
							case in.N < 0:
								<-ctx.Done()
								return nil, context.Cause(ctx)
							}
							return map[string]any{"n": in.N, "ok": true}, nil
						},
					})
					if err != nil {
						t.Fatal(err)
					}
					return tl.Blade()
				},
				Input: json.RawMessage(`{"n":1}`), Slow: json.RawMessage(`{"n":-1}`),
				Bad: []json.RawMessage{json.RawMessage(`{}`), json.RawMessage(`{"n":"1"}`), json.RawMessage(`{"n":0}`)},
			})
		})
	}
}

// A verification that fails is an error result in the shape of the contract.
func TestFailedVerificationContract(t *testing.T) {
	tooltest.Run(t, tooltest.Case{
		New: func(t testing.TB) tool.Tool {
			tl, err := DefineTool(Definition{
				Name: "Tests", Description: "Tests.", Kind: KindVerify, SideEffect: abi.SideEffectPure, InputSchema: json.RawMessage(`{"type":"object"}`),
				Handler: func(context.Context, json.RawMessage, ToolContext) (any, error) {
					return map[string]any{"ok": false}, nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			return tl.Blade()
		},
		Input: json.RawMessage(`{}`), Fails: true,
	})
}
