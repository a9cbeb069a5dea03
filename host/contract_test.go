package host

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
	"github.com/bladehost/bladehost/host/tool/tooltest"
)

// guestTool is one tool of a plugin, as the pipeline executes it.
func guestTool(t testing.TB, a Attachment, name string) tool.Tool {
	t.Helper()
	list, err := a.entries("")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.spec.Name == name {
			return e.tool
		}
	}
	t.Fatalf("the plugin has no tool %s", name)
	return nil
}

// The conformance guest passes the suite that native tools pass.
func TestGuestContract(t *testing.T) {
	h := newHost(t, Options{CacheDir: guestCache(t)})
	p := conformance(t, h)
	echo := func(c *tool.Config) {
		c.Invoke = func(_ context.Context, name string, r tool.Request) (tool.Answer, error) {
			switch name {
			case "x-echo.echo":
				return tool.Answer{Head: r.Head, Body: r.Body}, nil
			case abi.CallContext:
				return headOf(abi.CallInfo{SessionID: "s", CallID: "c", Tool: "Context", Mode: "default", Roots: []string{}})
			}
			return tool.Answer{}, abi.NewError(abi.CodeUnknownService, "no %s", name)
		}
	}
	for name, c := range map[string]tooltest.Case{
		"Echo":     {Input: in(`{"value":{"a":[1,2.5,null,"ü"]}}`), Bad: raws(`{}`, `{"other":1}`)},
		"Explicit": {Input: in(`{"model":"m","summary":"s","detail":{"a":1},"data":[1],"metadata":{"x-k":1}}`), Bad: raws(`{}`)},
		"Fail":     {Input: in(`{"message":"no","code":"mine","details":{"a":1}}`), Fails: true, Bad: raws(`{"message":1}`)},
		"Stream":   {Input: in(`{"steps":20}`), Bad: raws(`{"steps":-1}`, `{"steps":"x"}`)},
		"Service":  {Input: in(`{"name":"x-echo.echo","head":{"a":1},"body":"b"}`), Bad: raws(`{"name":"x-echo.nope"}`)},
		"Parallel": {Input: in(`{"calls":20,"size":100}`), Bad: raws(`{"calls":0,"size":0}`)},
		"Context":  {Input: in(`{}`), Bad: raws(`{"a":1}`)},
		"Deadline": {Input: in(`{}`)},
		"Log":      {Input: in(`{"lines":[{"level":1,"text":"t"}]}`), Bad: raws(`{"lines":1}`)},
		"Large":    {Input: in(`{"text":"x","count":100000}`), Bad: raws(`{"text":"x","count":-1}`)},
	} {
		t.Run(name, func(t *testing.T) {
			c.New = func(t testing.TB) tool.Tool { return guestTool(t, Attachment{Plugin: p}, name) }
			c.Config = echo
			tooltest.Run(t, c)
		})
	}
}

func raws(list ...string) []json.RawMessage {
	out := make([]json.RawMessage, len(list))
	for i, s := range list {
		out[i] = in(s)
	}
	return out
}
