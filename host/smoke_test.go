package host

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

type addIn struct {
	A int `json:"a"`
	B int `json:"b,omitempty"`
}

func adder(t testing.TB) tool.Tool {
	t.Helper()
	tl, err := tool.Define("Add", "Adds two numbers.", func(_ context.Context, in addIn) (map[string]int, error) {
		return map[string]int{"sum": in.A + in.B}, nil
	}, tool.Options{Kind: "readonly", SideEffect: "pure"})
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

func newHost(t testing.TB, opt Options) *Host {
	t.Helper()
	if opt.CacheDir == "" && !opt.Interpreter {
		opt.CacheDir = guestCache(t) // each test would compile the same guests anew
	}
	h, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h
}

func TestSmoke(t *testing.T) {
	h := newHost(t, Options{Tools: []tool.Tool{adder(t)}})
	s, err := h.NewSession(SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(t.Context(), Call{Tool: "Add", Input: json.RawMessage(`{"a":1,"b":2}`)})
	if err != nil || string(r.Model) != `{"sum":3}` || string(r.Data) != `{"sum":3}` {
		t.Fatalf("%+v %v", r, err)
	}
	r, err = s.Run(t.Context(), Call{Tool: "Add", Input: json.RawMessage(`{"a":"x"}`)})
	t.Log(r.Error, err)
	r, err = s.Run(t.Context(), Call{Tool: "Ad", Input: json.RawMessage(`{"a":"x"}`)})
	t.Log(r.Error, err)
}

func BenchmarkPipeline(b *testing.B) {
	h := newHost(b, Options{Tools: []tool.Tool{tool.Must(tool.DefineStream("Noop", "Does nothing.", func(context.Context, struct{}, *tool.Call) (*abiResult, error) { return okResult, nil }, tool.Options{Kind: "readonly"}))}})
	s, err := h.NewSession(SessionOptions{})
	if err != nil {
		b.Fatal(err)
	}
	in := json.RawMessage(`{}`)
	b.ReportAllocs()
	for b.Loop() {
		if r, err := s.Run(context.Background(), Call{Tool: "Noop", Input: in}); err != nil || r.IsError() {
			b.Fatal(r, err)
		}
	}
}

type abiResult = abi.Result

var okResult = abi.Success(json.RawMessage(`{"ok":true}`))
