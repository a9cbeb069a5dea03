package host

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/host/tool"
)

// The JSON code of the kits: guests that take a value apart and write it anew
// give back the same value.
func TestKitJSON(t *testing.T) {
	files, err := filepath.Glob("../testdata/wasm/json-*.wasm")
	if err != nil || len(files) == 0 {
		t.Fatalf("no guests: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			module, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			h := newHost(t, Options{})
			p, err := h.LoadPlugin(module, PluginOptions{Trust: tool.TrustWorkspace})
			if err != nil {
				t.Fatal(err)
			}
			s := sessionOn(t, h, SessionOptions{Plugins: []Attachment{{Plugin: p}}})
			r := rand.New(rand.NewSource(1))
			cases := jsonTexts()
			for range 300 {
				cases = append(cases, randomJSON(r, 0))
			}
			for _, c := range cases {
				res := do(t, s, Call{Tool: "Rewrite", Input: in(`{"value":` + c + `}`)})
				if res.IsError() {
					t.Fatalf("%.300s: %+v", c, res.Error)
				}
				if !sameJSON(decoded(t, res.Data), decoded(t, json.RawMessage(c))) {
					t.Fatalf("%.300s became %.300s", c, res.Data)
				}
			}
		})
	}
}

func jsonTexts() []string {
	deep := strings.Repeat(`[`, 100) + strings.Repeat(`]`, 100)
	return []string{
		`null`, `true`, `false`, `0`, `-0`, `1`, `-1`, `1.5`, `0.1`, `-0.001`, `1e2`, `1E+2`, `1e-2`, `5.0`, `123456789.125`, `1e308`, `-1e308`, `1e-300`, `2.2250738585072014e-308`,
		`9223372036854775807`, `-9223372036854775807`, `-9223372036854775808`, `9223372036854775808`, `18446744073709551615`, `123456789012345678901234567890`, `0.000001`, `0.0000001`, `1e20`, `1e21`, `1e22`, `0.30000000000000004`,
		`""`, `"a"`, `"\u0000\u001f\"\\\/\b\f\n\r\t"`, `"\u00e9\u20ac\ud83d\ude00"`, `"é€😀\u007f"`, `"</script>&"`, `"\u2028"`, `"` + strings.Repeat(`\n`, 1000) + `"`,
		`[]`, `{}`, `[[],{}]`, ` [ 1 , 2 ,{ "a" : [ ] , "b" : { } } ] `, `{"":0,"a\"b":{"\u00e9":1}}`, `{"a":{"b":{"c":[1,{"d":null}]}}}`, deep,
		`["{","[","}","]",",",":","\\","\""]`, `{"{":"}","[":"]",",":":"}`,
	}
}

func randomJSON(r *rand.Rand, depth int) string {
	n := r.Intn(8)
	if depth > 5 {
		n = r.Intn(5)
	}
	switch n {
	case 0:
		return []string{"null", "true", "false"}[r.Intn(3)]
	case 1:
		return fmt.Sprint(r.Int63() >> r.Intn(63))
	case 2:
		return fmt.Sprint(math.Ldexp(r.Float64()-0.5, r.Intn(200)-100))
	case 3, 4:
		return randomString(r)
	case 5:
		parts := make([]string, r.Intn(5))
		for i := range parts {
			parts[i] = randomJSON(r, depth+1)
		}
		return "[" + strings.Join(parts, []string{",", " , ", ",\n\t"}[r.Intn(3)]) + "]"
	}
	parts := make([]string, r.Intn(5))
	for i := range parts {
		name := randomString(r)
		parts[i] = fmt.Sprintf(`"%d%s:%s`, i, name[1:], randomJSON(r, depth+1))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func randomString(r *rand.Rand) string {
	alphabet := []rune("ab\"\\/\b\f\n\r\t\u0000\u001fé€😀{}[]:,")
	out := make([]rune, r.Intn(12))
	for i := range out {
		out[i] = alphabet[r.Intn(len(alphabet))]
	}
	b, _ := json.Marshal(string(out)) // a string always has a JSON form
	return string(b)
}

// sameJSON compares values; numbers to 14 digits.
func sameJSON(a, b any) bool {
	switch a := a.(type) {
	case float64:
		b, ok := b.(float64)
		return ok && (a == b || math.Abs(a-b) <= 1e-14*math.Abs(b))
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !sameJSON(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			if w, there := b[k]; !there || !sameJSON(v, w) {
				return false
			}
		}
		return true
	}
	return a == b
}
