package host

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/guesttest"
	"github.com/bladehost/bladehost/host/tool"
)

// conformance is the conformance guest of the Go kit, loaded into h.
func conformance(t testing.TB, h *Host) *Plugin {
	t.Helper()
	return loadGuest(t, h, guesttest.Go(t, "..", "./pdk/conformance"), PluginOptions{Trust: tool.TrustWorkspace})
}

func loadGuest(t testing.TB, h *Host, module []byte, opt PluginOptions) *Plugin {
	t.Helper()
	p, err := h.LoadPlugin(signed(t, h, module), opt)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// signed is a module with the manifest section of its own description.
func signed(t testing.TB, h *Host, module []byte) []byte {
	t.Helper()
	raw, err := h.Describe(t.Context(), module)
	if err != nil {
		t.Fatal(err)
	}
	module, err = WithManifest(module, raw)
	if err != nil {
		t.Fatal(err)
	}
	return module
}

// echoService is the service x-echo of the vectors.
func echoService() tool.Service {
	return tool.Methods{"echo": func(_ context.Context, r tool.Request) (tool.Answer, error) {
		return tool.Answer{Head: r.Head, Body: r.Body}, nil
	}}
}

type vector struct {
	Name  string
	Tool  string
	Input json.RawMessage
	Given struct {
		TimeoutMs   int64
		Unvalidated bool
		Cancel      *struct {
			After  int
			Reason abi.Cancel
		}
	}
	Yields []json.RawMessage
	Ret    struct {
		Status int
		Value  json.RawMessage
	}
	Result json.RawMessage
}

// The golden calls of the ABI, through a whole session.
func TestVectors(t *testing.T) {
	raw, err := os.ReadFile("../testdata/abi/calls.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []vector
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	h := newHost(t, Options{CacheDir: filepath.Join(t.TempDir(), "cache")})
	p := conformance(t, h)
	for _, v := range list {
		t.Run(v.Name, func(t *testing.T) {
			s, err := h.NewSession(SessionOptions{Plugins: []Attachment{{Plugin: p}}, Services: map[string]tool.Service{"x-echo": echoService()}, AutoApprove: true})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Close(context.Background()); err != nil {
					t.Error(err)
				}
			}()
			replay(t, s, v)
		})
	}
}

func replay(t *testing.T, s *Session, v vector) {
	t.Helper()
	input, err := json.Marshal(expand(decoded(t, v.Input)))
	if err != nil {
		t.Fatal(err)
	}
	c := Call{Tool: v.Tool, Input: input, Timeout: time.Duration(v.Given.TimeoutMs) * time.Millisecond}
	x := s.Start(t.Context(), c)
	var got []abi.Yield
	for y := range x.Yields() {
		got = append(got, y)
		if k := v.Given.Cancel; k != nil && len(got) == k.After {
			s.cancelActive(all, &tool.CancelError{Reason: k.Reason})
		}
	}
	r, err := x.Result()
	if err != nil {
		t.Fatal(err)
	}
	compareYields(t, got, v.Yields)
	switch {
	case v.Given.Unvalidated:
		if r.Error == nil || r.Error.Code != abi.CodeValidation {
			t.Errorf("an input that does not fit reached the tool: %+v", r)
		}
	case v.Given.Cancel != nil:
		if r.Error == nil || r.Error.Code != cancelCodes[v.Given.Cancel.Reason] {
			t.Errorf("cancelled: %+v", r.Error)
		}
	case v.Tool == "Cancelled":
		if r.Error == nil || r.Error.Type != abi.TypeTimeout {
			t.Errorf("expired: %+v", r.Error)
		}
	default:
		compareResult(t, r, v)
	}
}

func compareYields(t *testing.T, got []abi.Yield, want []json.RawMessage) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d yields, want %d", len(got), len(want))
	}
	for i, y := range got {
		b, err := abi.Marshal(y)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(decoded(t, b), decoded(t, want[i])) {
			t.Errorf("yield %d is %s, want %s", i, b, want[i])
		}
	}
}

// compareResult holds a published result to what the guest handed over.
func compareResult(t *testing.T, r *abi.Result, v vector) {
	t.Helper()
	want := expand(decoded(t, v.Ret.Value))
	switch v.Ret.Status {
	case abi.RetData:
		if r.IsError() || !reflect.DeepEqual(decoded(t, r.Data), want) {
			t.Errorf("data %.200s, error %v, want %.200v", r.Data, r.Error, want)
		}
		if len(r.Model) < abi.DefaultMaxResultSize && want != nil && !reflect.DeepEqual(decoded(t, r.Model), want) && r.Metadata["resultExternalized"] == nil {
			t.Errorf("model %.200s", r.Model)
		}
	case abi.RetResult:
		exp := want.(map[string]any)
		if r.IsError() || !reflect.DeepEqual(decoded(t, r.Model), exp["model"]) {
			t.Errorf("model %s, want %v", r.Model, exp["model"])
		}
		if _, ok := r.Metadata["x-k"]; ok != strings.Contains(string(v.Ret.Value), "x-k") || r.Metadata["executionId"] == "mine" {
			t.Errorf("metadata %v", r.Metadata)
		}
	case abi.RetError:
		compareError(t, r, want.(map[string]any))
	}
}

func compareError(t *testing.T, r *abi.Result, want map[string]any) {
	t.Helper()
	if r.Error == nil {
		t.Fatalf("no error: %s", r.Model)
	}
	b, err := abi.Marshal(r.Error)
	if err != nil {
		t.Fatal(err)
	}
	got := decoded(t, b).(map[string]any)
	for k, w := range want {
		if k == "type" && !abi.ErrorType(w.(string)).GuestMayUse() {
			w = string(abi.TypeExecution)
		}
		if k == "code" && !abi.ValidToolCode(w.(string)) {
			w = nil
		}
		if !reflect.DeepEqual(got[k], w) {
			t.Errorf("%s is %v, want %v", k, got[k], w)
		}
	}
}

func decoded(t *testing.T, b []byte) any {
	t.Helper()
	var v any
	if len(b) == 0 {
		return nil
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%v in %.100s", err, b)
	}
	return v
}

// expand puts the long strings of the vectors in place.
func expand(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if s, ok := v["$repeat"].(string); ok {
			return strings.Repeat(s, int(v["count"].(float64)))
		}
		for k, x := range v {
			v[k] = expand(x)
		}
	case []any:
		for i, x := range v {
			v[i] = expand(x)
		}
	}
	return v
}
