package abitest

import (
	"bytes"
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
)

// Done is what a call of the conformance guest left behind. A host that does
// not show what the guest handed to ret leaves Returned nil.
type Done struct {
	Yields   []abi.Yield
	Logs     []Line
	Status   int32
	Returned []byte
	Result   *abi.Result
}

// Check compares what a call did with its vector.
func (c *Call) Check(t testing.TB, d Done) {
	t.Helper()
	c.checkYields(t, d.Yields)
	for rest := d.Logs; ; {
		if len(c.Logs) == 0 {
			break
		}
		i := slices.Index(rest, c.Logs[0])
		if i < 0 {
			t.Errorf("the line %+v is not in the log, or not in its place: %+v", c.Logs[0], d.Logs)
			break
		}
		rest, c.Logs = rest[i+1:], c.Logs[1:]
	}
	if d.Returned != nil {
		if d.Status != c.Ret.Status {
			t.Errorf("ret got the status %d, want %d: %s", d.Status, c.Ret.Status, clip(d.Returned))
		} else if !equal(t, c.Ret.Value, d.Returned, d.Status == abi.RetError) {
			t.Errorf("ret got %s, want %s", clip(d.Returned), clip(c.Ret.Value))
		}
	}
	if d.Result == nil {
		return
	}
	if c.Result != nil {
		CheckResult(t, c.Result, d.Result)
	} else if want := c.Ret.Status == abi.RetError; d.Result.IsError() != want {
		t.Errorf("the result is an error: %v, want %v: %s", d.Result.IsError(), want, clip(d.Result.Model))
	}
}

// checkYields lets a host leave out progress, but not the last one before
// another kind.
func (c *Call) checkYields(t testing.TB, got []abi.Yield) {
	t.Helper()
	for i, want := range c.Yields {
		var y abi.Yield
		if err := json.Unmarshal(want, &y); err != nil {
			t.Fatal(err)
		}
		if len(got) > 0 {
			raw, err := abi.Marshal(got[0])
			if err != nil {
				t.Fatal(err)
			}
			if equal(t, want, raw, false) {
				got = got[1:]
				continue
			}
		}
		last := i == len(c.Yields)-1 || !strings.Contains(string(c.Yields[i+1]), `"progress"`)
		if y.Kind != abi.YieldProgress || last {
			t.Errorf("yield %d is missing or out of order: %s; what is left: %+v", i, want, got)
			return
		}
	}
	if len(got) > 0 {
		t.Errorf("%d yields too many: %+v", len(got), got)
	}
}

// CheckResult compares a published result with a vector's. Of an error the
// message is compared only where the vector has it.
func CheckResult(t testing.TB, want json.RawMessage, got *abi.Result) {
	t.Helper()
	raw, err := abi.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var w, g map[string]json.RawMessage
	if err := json.Unmarshal(want, &w); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &g); err != nil {
		t.Fatal(err)
	}
	for key, v := range w {
		switch {
		case g[key] == nil:
			t.Errorf("%s is missing, want %s", key, clip(v))
		case !equal(t, v, g[key], key == "error"):
			t.Errorf("%s is %s, want %s", key, clip(g[key]), clip(v))
		}
	}
	for _, key := range []string{"data", "error", "display", "metadata"} {
		if w[key] == nil && g[key] != nil && key != "metadata" {
			t.Errorf("there is a %s that should not be: %s", key, clip(g[key]))
		}
	}
	if why := got.Valid(); why != "" {
		t.Error(why)
	}
}

// Equal reports whether two JSON texts mean the same.
func Equal(t testing.TB, want, got []byte) bool {
	t.Helper()
	return equal(t, want, got, false)
}

// equal may ignore what an error has beyond what is wanted: its message and
// its details.
func equal(t testing.TB, want, got []byte, isError bool) bool {
	t.Helper()
	w, g := read(t, Expand(t, want)), read(t, got)
	if isError {
		wm, _ := w.(map[string]any)
		gm, ok := g.(map[string]any)
		if !ok {
			return false
		}
		for _, key := range []string{"message", "details"} {
			if _, given := wm[key]; !given {
				delete(gm, key)
			}
		}
	}
	return same(w, g)
}

func read(t testing.TB, b []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, clip(b))
	}
	return v
}

func same(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		n, ok := b.(json.Number)
		if !ok {
			return false
		}
		x, ok1 := new(big.Rat).SetString(a.String())
		y, ok2 := new(big.Rat).SetString(n.String())
		return ok1 && ok2 && x.Cmp(y) == 0
	case []any:
		list, ok := b.([]any)
		return ok && slices.EqualFunc(a, list, same)
	case map[string]any:
		m, ok := b.(map[string]any)
		if !ok || len(a) != len(m) {
			return false
		}
		for k, v := range a {
			if other, ok := m[k]; !ok || !same(v, other) {
				return false
			}
		}
		return true
	}
	return a == b
}

// Expand writes the repetitions of a vector's value out.
func Expand(t testing.TB, value []byte) json.RawMessage {
	t.Helper()
	if !bytes.Contains(value, []byte(`"$repeat"`)) {
		return value
	}
	raw, err := abi.Marshal(expand(read(t, value)))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func expand(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = expand(v[i])
		}
	case map[string]any:
		if text, ok := v["$repeat"].(string); ok {
			n, _ := strconv.Atoi(v["count"].(json.Number).String())
			return strings.Repeat(text, n)
		}
		for k := range v {
			v[k] = expand(v[k])
		}
	}
	return v
}

// edit writes and removes members of a JSON document.
func edit(t testing.TB, base json.RawMessage, set map[string]json.RawMessage, remove []string) []byte {
	t.Helper()
	doc := read(t, base)
	for p, raw := range set {
		parent, key := find(t, doc, p)
		put(t, parent, key, expand(read(t, raw)))
	}
	for _, p := range remove {
		parent, key := find(t, doc, p)
		if m, ok := parent.(map[string]any); ok {
			delete(m, key)
			continue
		}
		i, _ := strconv.Atoi(key)
		grand, at := find(t, doc, p[:strings.LastIndexByte(p, '/')])
		put(t, grand, at, slices.Delete(parent.([]any), i, i+1))
	}
	raw, err := abi.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// find is the value that holds the member at the pointer, and the member's key.
func find(t testing.TB, doc any, pointer string) (parent any, key string) {
	t.Helper()
	parts := strings.Split(pointer, "/")[1:]
	for _, p := range parts[:len(parts)-1] {
		switch v := doc.(type) {
		case map[string]any:
			doc = v[p]
		case []any:
			i, err := strconv.Atoi(p)
			if err != nil || i >= len(v) {
				t.Fatalf("no %s", pointer)
			}
			doc = v[i]
		}
	}
	return doc, parts[len(parts)-1]
}

func put(t testing.TB, parent any, key string, v any) {
	t.Helper()
	switch p := parent.(type) {
	case map[string]any:
		p[key] = v
	case []any:
		i, err := strconv.Atoi(key)
		if err != nil || i >= len(p) {
			t.Fatalf("no element %s", key)
		}
		p[i] = v
	default:
		t.Fatalf("nothing at %s", key)
	}
}

func clip(b []byte) string {
	const most = 300
	if len(b) > most {
		return string(b[:most]) + "…"
	}
	return string(b)
}
