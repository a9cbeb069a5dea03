package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
)

func TestCheck(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, c := range []struct{ name, in, want string }{
		{"object", `{"a":[1,-2.5e3,"x",true,null]}`, ""},
		{"scalar", `"x"`, ""},
		{"space around", " \n{} \t", ""},
		{"big integer kept", `9007199254740993`, ""},
		{"depth at the limit", nested(abi.MaxDepth), ""},
		{"depth over the limit", nested(abi.MaxDepth + 1), "nested deeper"},
		{"very deep", nested(100_000), "nested deeper"},
		{"empty", ``, "ends too early"},
		{"blank", `  `, "ends too early"},
		{"cut", `{"a":`, "ends too early"},
		{"trailing value", `{} {}`, "follow"},
		{"trailing junk", `{}x`, ""},
		{"byte order mark", "\ufeff{}", "byte 0"},
		{"duplicate key", `{"a":1,"a":2}`, "twice"},
		{"duplicate key, escaped", `{"a":1,"\u0061":2}`, "twice"},
		{"invalid UTF-8", "\"\xff\"", "UTF-8"},
		{"lone surrogate", `"\ud800"`, ""},
		{"NaN", `NaN`, ""},
		{"number beyond float64", `1e1000000000`, "out of range"},
		{"exponent at the limit", `1e308`, ""},
		{"exponent over the limit", `1e309`, "out of range"},
		{"long number", strings.Repeat("9", 41), "out of range"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Check([]byte(c.in))
			bad := c.want != "" || c.name == "trailing junk" || c.name == "lone surrogate" || c.name == "NaN"
			if (err != nil) != bad {
				t.Fatalf("Check(%.40q) = %v", c.in, err)
			}
			if err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("Check(%.40q) = %q, want it to say %q", c.in, err, c.want)
			}
		})
	}
}

func TestDecodeMatchesNamesExactly(t *testing.T) {
	var v struct {
		Allow string `json:"allow"`
	}
	if err := Decode([]byte(`{"ALLOW":"yes"}`), &v); err != nil || v.Allow != "" {
		t.Errorf("a member in other letters was taken: %q, %v", v.Allow, err)
	}
	err := DecodeKnown([]byte(`{"allow":"x","other":1}`), &v)
	var e *Error
	if !errors.As(err, &e) || e.Pointer != "/other" || e.Text != "this member is not known" {
		t.Errorf("unknown member: %#v", err)
	}
	if err := DecodeKnown([]byte(`{"allow":5}`), &v); err == nil || !strings.Contains(err.Error(), "/allow") {
		t.Errorf("wrong type: %v", err)
	}
}

func TestCanonical(t *testing.T) {
	a, err := Canonical([]byte(`{"b":1.0, "a":[1e2]}`))
	if err != nil || string(a) != `{"a":[100],"b":1}` {
		t.Errorf("%s, %v", a, err)
	}
}

func TestValueKeepsNumbers(t *testing.T) {
	v, err := Value([]byte(`{"n":9007199254740993}`))
	if err != nil || v.(map[string]any)["n"] != json.Number("9007199254740993") {
		t.Errorf("%v, %v", v, err)
	}
}

// FuzzCheck: what passes is JSON for the standard library too, and canonical
// text is a fixed point.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{`{"a":1}`, `[1,2e3]`, `"\ud83d\ude00"`, `{"a":1,"a":2}`, "\"\xff\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if Check(b) != nil {
			return
		}
		if !json.Valid(b) {
			t.Fatalf("passed, but is no JSON: %q", b)
		}
		c, err := Canonical(b)
		if err != nil {
			t.Fatalf("no canonical form: %q: %v", b, err)
		}
		c2, err := Canonical(c)
		if err != nil || !bytes.Equal(c, c2) {
			t.Fatalf("canonical form moves: %q -> %q, %v", c, c2, err)
		}
	})
}

// DEF-10: what has no JSON form is an error, not something else.
func TestEncode(t *testing.T) {
	type plain struct {
		A string `json:"a"`
		B []int  `json:"b,omitempty"`
	}
	for _, c := range []struct {
		name string
		in   any
		want string
	}{
		{"struct", plain{A: "<x>"}, `{"a":"<x>"}`},
		{"nil", nil, `null`},
		{"raw", json.RawMessage(`{ "a" : 1 }`), `{ "a" : 1 }`},
		{"nil raw", json.RawMessage(nil), `null`},
		{"map sorted", map[string]int{"b": 1, "a": 2}, `{"a":2,"b":1}`},
		{"nested raw", map[string]any{"r": json.RawMessage(`[1]`)}, `{"r":[1]}`},
		{"NaN", math.NaN(), ""},
		{"infinity", []float64{math.Inf(1)}, ""},
		{"bytes", []byte("x"), ""},
		{"nested bytes", map[string]any{"b": []byte("x")}, ""},
		{"invalid UTF-8", "\xff", ""},
		{"raw with a double key", json.RawMessage(`{"a":1,"a":2}`), ""},
		{"channel", make(chan int), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Encode(c.in)
			if c.want == "" {
				if err == nil {
					t.Errorf("encoded as %s", got)
				}
				return
			}
			if err != nil || string(got) != c.want {
				t.Errorf("%s, %v; want %s", got, err, c.want)
			}
		})
	}
}
