package args

import (
	"encoding/json"
	"testing"
)

// What is lenient becomes what the schema says; what is not stays for the schema to refuse.
func TestNormalize(t *testing.T) {
	s := Shape{Known: []string{"n", "b", "s"}, Numbers: []string{"n"}, Booleans: []string{"b"}}
	for in, want := range map[string]string{
		`{"n":"5"}`: `{"n":5}`, `{"n":" -1.50 "}`: `{"n":-1.5}`, `{"n":"007"}`: `{"n":7}`, `{"n":"1e3"}`: `{"n":"1e3"}`, `{"n":"ten"}`: `{"n":"ten"}`, `{"n":""}`: `{"n":""}`, `{"n":"0x10"}`: `{"n":"0x10"}`, `{"n":null}`: `{"n":null}`,
		`{"b":"Yes"}`: `{"b":true}`, `{"b":" off "}`: `{"b":false}`, `{"b":"maybe"}`: `{"b":"maybe"}`, `{"b":1}`: `{"b":1}`, `{"s":"5"}`: `{"s":"5"}`, `{"x":1,"s":"a"}`: `{"s":"a"}`, `{"S":"a"}`: `{}`, `[]`: `[]`, `null`: `null`, `{`: `{`, `{"n":"9999999999999999999999"}`: `{"n":10000000000000000000000}`,
	} {
		got, err := s.Normalize(json.RawMessage(in))
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, not %s (%v)", in, got, want, err)
		}
	}
}

// An integer is a number without a fraction, however it is written.
func TestInt(t *testing.T) {
	for in, want := range map[string]int64{"2": 2, "2.0": 2, "2e3": 2000, "-0": 0, "9007199254740992": 1 << 53} {
		var i Int
		if err := json.Unmarshal([]byte(in), &i); err != nil || int64(i) != want {
			t.Errorf("%s: %d %v", in, i, err)
		}
	}
	for _, in := range []string{"2.5", `"2"`, "1e300", "true", "{}"} {
		var i Int
		if err := json.Unmarshal([]byte(in), &i); err == nil {
			t.Errorf("%s: %d", in, i)
		}
	}
}

// FuzzNormalize: it never panics, and what comes out is JSON if what went in was.
func FuzzNormalize(f *testing.F) {
	f.Add([]byte(`{"n":"5","x":[1]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := Shape{Known: []string{"n", "b"}, Numbers: []string{"n"}, Booleans: []string{"b"}}.Normalize(b)
		if err == nil && json.Valid(b) && !json.Valid(out) {
			t.Errorf("%q became %q", b, out)
		}
	})
}
