package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/strictjson"
)

// JSON Pointers lead to what RFC 6901 says, and nowhere else.
func TestPointer(t *testing.T) {
	doc, err := strictjson.Value([]byte(`{"a":{"b":[10,{"c":null}]},"":1,"x/y":2,"m~n":3,"~1":4,"0":5,"k":"text"}`))
	if err != nil {
		t.Fatal(err)
	}
	for ptr, want := range map[string]string{
		"/a/b/0": "10", "/a/b/1/c": "<nil>", "/": "1", "/x~1y": "2", "/m~0n": "3", "/~01": "4", "/0": "5", "/k": "text", "/a/b": "[10 map[c:<nil>]]",
		"/a/b/2": "-", "/a/b/-": "-", "/a/b/-1": "-", "/a/b/+1": "-", "/a/b/-0": "-", "/a/b/01": "-", "/a/b/1e0": "-", "/a/b/ 1": "-", "/a/b/": "-", "/a/b/99999999999999999999": "-", "/k/0": "-", "/a/b/0/c": "-", "/nope": "-", "a": "-", "/A": "-", "//": "-",
	} {
		got := "-"
		if v, ok := Pointer(doc, ptr); ok {
			got = fmt.Sprint(v)
		}
		if got != want {
			t.Errorf("%q leads to %s, want %s", ptr, got, want)
		}
	}
	if v, ok := Pointer(doc, ""); !ok || fmt.Sprint(v) != fmt.Sprint(doc) {
		t.Error("the empty pointer is the document")
	}
	if _, ok := Pointer(nil, "/a"); ok {
		t.Error("nothing has members")
	}
}

type node struct {
	Name     string  `json:"name"`
	Children []*node `json:"children,omitempty"`
}

// What can be inferred is an object; what cannot says so, and all that is wrong with a
// definition is told at once.
func TestDefinitionErrors(t *testing.T) {
	noop := func(context.Context, struct{}) (any, error) { return nil, nil }
	for name, make := range map[string]func() (Tool, error){
		"a number": func() (Tool, error) {
			return Define("T", "d", func(context.Context, int) (any, error) { return nil, nil })
		},
		"a list": func() (Tool, error) {
			return Define("T", "d", func(context.Context, []int) (any, error) { return nil, nil })
		},
		"a function": func() (Tool, error) {
			return Define("T", "d", func(context.Context, struct{ F func() }) (any, error) { return nil, nil })
		},
		"recursive": func() (Tool, error) {
			return Define("T", "d", func(context.Context, node) (any, error) { return nil, nil })
		},
		"two Options": func() (Tool, error) { return Define("T", "d", noop, Options{}, Options{}) },
		"all wrong": func() (Tool, error) {
			return Define("1", " ", noop, Options{Kind: "odd", SideEffect: "odd", TimeoutMs: -1, Services: []string{"odd"}, Aliases: []string{"1"}, PathParams: []string{"x"}, Narrow: []abi.Narrowing{{}}, Parameters: json.RawMessage(`[]`)})
		},
	} {
		tl, err := make()
		if abi.CodeOf(err) != abi.CodeDefinition || tl != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name != "all wrong" {
			continue
		}
		for _, field := range []string{"/name", "/description", "/kind", "/sideEffect", "/timeoutMs", "/services/0", "/aliases/0", "/pathParams/0", "/narrow/0/when", "/parameters"} {
			if !strings.Contains(string(abi.AsError(err).Details), `"`+field+`"`) || !strings.Contains(err.Error(), field) {
				t.Errorf("%s is not named: %v", field, err)
			}
		}
	}
	for _, ok := range []func() (Tool, error){
		func() (Tool, error) {
			return Define("T", "d", func(context.Context, map[string]int) (any, error) { return nil, nil })
		},
		func() (Tool, error) {
			return Define("T", "d", func(context.Context, *searchIn) (any, error) { return nil, nil })
		},
	} {
		if _, err := ok(); err != nil {
			t.Error(err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("Must does not panic")
		}
	}()
	Must(nil, errors.New("x"))
}

type searchIn struct {
	Query string `json:"query"`
}

// A call of nobody's session is usable: it has nothing, and drops what it yields.
func TestZeroCall(t *testing.T) {
	c := NewCall(Config{})
	ctx := t.Context()
	if err := errors.Join(c.Yield(abi.Message("x")), c.Progress("p", 1, 2)); err != nil {
		t.Error(err)
	}
	if _, err := c.Invoke(ctx, "call.context", Request{}); abi.CodeOf(err) != abi.CodeUnknownService {
		t.Errorf("%v", err)
	}
	if _, err := c.Confirm(ctx, Confirmation{}); abi.CodeOf(err) != abi.CodeNoConfirm {
		t.Errorf("%v", err)
	}
	c.Note(HostEffect{Op: "write"})
	if _, ok := c.Runtime(); ok || c.Admission() != nil || c.Lent("x") != nil || c.Snapshot().Roots != nil {
		t.Error("it has something")
	}
	if _, ok := c.Service(abi.ServiceMemory); ok {
		t.Error("it has a service")
	}
	if FromContext(ctx).SessionID() != "" {
		t.Error("a context of no call has a session")
	}
	nested := WithContext(ctx, &NewCall(Config{SessionID: "s", Services: map[string]Service{"x-a": nil}}).Context)
	if FromContext(nested).SessionID() != "s" {
		t.Error("the call's context is lost")
	}
	if _, ok := FromContext(nested).Service("x-a"); ok {
		t.Error("a nil service is there")
	}
}

// Services of functions answer by method, and typed ones read and write JSON strictly.
func TestServicesOfFunctions(t *testing.T) {
	s := Methods{
		"add": Method(func(_ context.Context, in struct{ A, B int }) (map[string]int, error) {
			return map[string]int{"sum": in.A + in.B}, nil
		}),
		"bad": Method(func(context.Context, struct{}) ([]byte, error) { return []byte("x"), nil }),
		"err": Method(func(context.Context, struct{}) (int, error) { return 0, errors.New("mine") }),
	}
	var out struct {
		Sum int `json:"sum"`
	}
	if err := Ask(t.Context(), s, "add", map[string]int{"A": 1, "B": 2}, &out); err != nil || out.Sum != 3 {
		t.Errorf("%+v %v", out, err)
	}
	if err := Ask(t.Context(), s, "add", nil, nil); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]abi.Code{"nope": abi.CodeUnknownService, "bad": abi.CodeServiceFailed} {
		if err := Ask(t.Context(), s, name, nil, &out); abi.CodeOf(err) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Ask(t.Context(), s, "err", nil, nil); err == nil || err.Error() != "mine" {
		t.Errorf("%v", err)
	}
	if err := Ask(t.Context(), s, "add", func() {}, nil); abi.CodeOf(err) != abi.CodeRequest {
		t.Errorf("a request without a JSON form: %v", err)
	}
	if err := Ask(t.Context(), s, "add", map[string]string{"A": "x"}, nil); abi.CodeOf(err) != abi.CodeRequest {
		t.Errorf("a request that does not fit: %v", err)
	}
	if err := Ask(t.Context(), s, "add", nil, new(string)); abi.CodeOf(err) != abi.CodeServiceFailed {
		t.Errorf("an answer that does not fit: %v", err)
	}
	if _, err := s.Invoke(t.Context(), Request{Method: "add", Head: json.RawMessage(`{"A":1,"A":2}`)}); abi.CodeOf(err) != abi.CodeRequest {
		t.Errorf("a key twice: %v", err)
	}
}

// Why a context ended, in the words of a call.
func TestReason(t *testing.T) {
	if r := Reason(t.Context()); r != abi.CancelNone {
		t.Errorf("%v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	past, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer stop()
	steered, steer := context.WithCancelCause(t.Context())
	steer(fmt.Errorf("wrapped: %w", &CancelError{Reason: abi.CancelSteering, Detail: "input"}))
	for want, c := range map[abi.Cancel]context.Context{abi.CancelRequest: ctx, abi.CancelDeadline: past, abi.CancelSteering: steered} {
		if r := Reason(c); r != want {
			t.Errorf("%v, want %v", r, want)
		}
	}
	if e := (&CancelError{Reason: abi.CancelSteering, Detail: "input"}); !strings.Contains(e.Error(), "input") || (&CancelError{Reason: abi.CancelSteering}).Error() == "" {
		t.Errorf("%v", e)
	}
}

// A copied context shares nothing that can be changed.
func TestCloneContext(t *testing.T) {
	a := abi.RuntimeContext{Environment: map[string]string{"k": "v"}, Metadata: map[string]json.RawMessage{"m": json.RawMessage(`1`)}, Capabilities: &abi.ContextCapabilities{
		Filesystem: &abi.FilesystemFacet{Roots: []string{"/r"}, Cwd: "/r"}, Browser: &abi.BrowserFacet{PageID: "p"}, Network: &abi.NetworkFacet{AllowDomains: []string{"d"}}}}
	before, err := abi.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	b := CloneContext(a)
	b.Environment["k"], b.Metadata["m"][0], b.Metadata["n"] = "x", '2', nil
	b.Capabilities.Filesystem.Roots[0], b.Capabilities.Filesystem.Cwd, b.Capabilities.Browser.PageID, b.Capabilities.Network.AllowDomains[0] = "/", "/", "x", "x"
	b.Capabilities.Network = nil
	if after, _ := abi.Marshal(a); string(after) != string(before) {
		t.Errorf("%s became %s", before, after)
	}
	if c := CloneContext(abi.RuntimeContext{}); c.Capabilities != nil || c.Environment != nil {
		t.Errorf("%+v", c)
	}
}
