package main

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/abi/abitest"
	"github.com/bladehost/bladehost/pdk/pdktest"
)

var update = flag.Bool("update", false, "write testdata/abi/conformance.json")

// The Go kit does what testdata/abi/calls.json says, on the fake host.
func TestCalls(t *testing.T) {
	for _, v := range abitest.Calls(t) {
		t.Run(v.Name, func(t *testing.T) {
			h := pdktest.New(t, plugin())
			h.Service("x-echo.echo", func(_ context.Context, head json.RawMessage, body []byte) (any, []byte, error) {
				return head, body, nil
			})
			h.Timeout = time.Duration(v.Given.TimeoutMs) * time.Millisecond
			if c := v.Given.Cancel; c != nil {
				left := c.After
				h.OnYield = func(abi.Yield) abi.Cancel {
					if left--; left == 0 {
						return c.Reason
					}
					return abi.CancelNone
				}
			}
			out := h.Run(v.Tool, v.Input)
			done := abitest.Done{Yields: out.Yields, Status: out.Status, Returned: out.Returned, Result: out.Result}
			for _, l := range out.Logs {
				done.Logs = append(done.Logs, abitest.Line(l))
			}
			v.Check(t, done)
		})
	}
}

// Every kit's conformance guest describes itself as testdata/abi/conformance.json.
func TestManifest(t *testing.T) {
	got, err := json.MarshalIndent(pdktest.New(t, plugin()).Manifest(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(abitest.Dir(t), "conformance.json")
	if *update {
		if err := os.WriteFile(file, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !abitest.Equal(t, want, got) {
		t.Errorf("the manifest is\n%s\nwant\n%s", got, want)
	}
}
