package schema

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
)

func TestCompileRefuses(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "s.json")
	if err := os.WriteFile(secret, []byte(`{"type":"string"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	deep := strings.Repeat(`{"properties":{"a":`, 40) + `{}` + strings.Repeat(`}}`, 40)
	ladder := func(n int) string {
		var b strings.Builder
		b.WriteString(`{"type":"object","$ref":"#/$defs/a0","$defs":{`)
		for i := range n {
			fmt.Fprintf(&b, `"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, i+1, i+1)
		}
		fmt.Fprintf(&b, `"a%d":{}}}`, n)
		return b.String()
	}
	var enum []string
	for i := range maxEnum + 1 {
		enum = append(enum, fmt.Sprint(i))
	}
	var patterns []string
	for i := range maxPatterns + 1 {
		patterns = append(patterns, fmt.Sprintf(`"a%d":{}`, i))
	}
	for _, c := range []struct{ name, schema, want string }{
		{"no JSON", `{`, "ends too early"},
		{"duplicate key", `{"type":"object","type":"string"}`, "twice"},
		{"file reference", `{"type":"object","$ref":"file://` + secret + `"}`, "leaves the schema"},
		{"file reference by $id", `{"$id":"file://` + dir + `/x.json","type":"object","$ref":"s.json"}`, "leaves the schema"},
		{"http reference", `{"type":"object","$ref":"http://127.0.0.1:1/x"}`, "leaves the schema"},
		{"unknown dialect", `{"$schema":"http://127.0.0.1:1/d","type":"object"}`, "draft 2020-12"},
		{"too deep", deep, "levels deep"},
		{"too large", `{"type":"object","description":"` + strings.Repeat("x", abi.MaxSchema) + `"}`, "bytes"},
		{"allOf ladder", ladder(14), "too long"},
		{"giant ladder", ladder(60), "too long"},
		{"enum", `{"type":"object","properties":{"a":{"enum":[` + strings.Join(enum, ",") + `]}}}`, "1001 values"},
		{"patterns", `{"type":"object","patternProperties":{` + strings.Join(patterns, ",") + `}}`, "101 patterns"},
		{"huge number", `{"type":"object","properties":{"a":{"maximum":1e9999999}}}`, "out of range"},
		{"look-ahead", `{"type":"object","properties":{"a":{"pattern":"(?=x)"}}}`, ""},
		{"wrong keyword type", `{"type":5}`, ""},
		{"root is a string", `{"type":"string"}`, "describe an object"},
		{"root is true", `true`, "describe an object"},
		{"root says nothing", `{}`, "describe an object"},
		{"root may be null", `{"type":["object","null"]}`, "describe an object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := CompileObject(json.RawMessage(c.schema))
			if err == nil || abi.CodeOf(err) != abi.CodeSchema || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s saying %q", err, abi.CodeSchema, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "mem:") {
				t.Errorf("our own address shows: %v", err)
			}
		})
	}
}

// SD2-06: the dialect is draft 2020-12.
func TestDialect(t *testing.T) {
	for _, c := range []struct{ name, schema, good, bad string }{
		{"prefixItems", `{"type":"object","properties":{"p":{"prefixItems":[{"type":"string"},{"type":"integer"}],"items":false}}}`, `{"p":["a",1]}`, `{"p":["a",1,2]}`},
		{"$defs", `{"type":"object","$defs":{"n":{"type":"integer"}},"properties":{"a":{"$ref":"#/$defs/n"}}}`, `{"a":1}`, `{"a":"1"}`},
		{"unevaluatedProperties", `{"type":"object","allOf":[{"properties":{"a":true}}],"unevaluatedProperties":false}`, `{"a":1}`, `{"b":1}`},
		{"dependentRequired", `{"type":"object","dependentRequired":{"a":["b"]}}`, `{"a":1,"b":2}`, `{"a":1}`},
		{"draft-07 items", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"p":{"items":[{"type":"string"}],"additionalItems":false}}}`, `{"p":["a"]}`, `{"p":["a","b"]}`},
		{"format", `{"type":"object","properties":{"d":{"type":"string","format":"date"}}}`, `{"d":"2026-11-30"}`, `{"d":"yesterday"}`},
		{"recursive tree", `{"type":"object","properties":{"l":{"$ref":"#"},"r":{"$ref":"#"},"v":{"type":"integer"}}}`, `{"l":{"r":{"v":1}}}`, `{"l":{"r":{"v":"x"}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := CompileObject(json.RawMessage(c.schema))
			if err != nil {
				t.Fatal(err)
			}
			if _, issues, err := v.Prepare(json.RawMessage(c.good)); err != nil || len(issues) > 0 {
				t.Errorf("good: %v, %v", issues, err)
			}
			if _, issues, err := v.Prepare(json.RawMessage(c.bad)); err != nil || len(issues) == 0 {
				t.Errorf("bad: %v, %v", issues, err)
			}
		})
	}
}

// PLN-06: every field is named by its JSON Pointer.
func TestIssues(t *testing.T) {
	v, err := CompileObject(json.RawMessage(`{
		"type":"object","required":["q","n"],"additionalProperties":false,
		"properties":{
			"q":{"type":"string","minLength":2},
			"n":{"type":"integer","minimum":1},
			"mode":{"enum":["a","b"]},
			"apiToken":{"type":"integer"},
			"a/b":{"type":"array","items":{"type":"boolean"}},
			"alt":{"anyOf":[{"type":"string"},{"type":"object","required":["x"]}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	_, issues, err := v.Prepare(json.RawMessage(`{"q":"x","mode":"c","extra":1,"apiToken":"hunter2","a/b":[true,"no"],"alt":5}`))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]abi.Issue{}
	for _, i := range issues {
		got[i.Pointer] = i
	}
	for p, want := range map[string]string{
		"/q": "minLength", "/n": "is required", "/mode": `must be one of "a", "b"`, "/extra": "not a known field",
		"/apiToken": "must be integer", "/a~1b/1": "must be boolean, got string", "/alt": "fits none",
	} {
		if !strings.Contains(got[p].Message, want) {
			t.Errorf("%s: %q, want it to say %q", p, got[p].Message, want)
		}
	}
	if len(issues) != 7 {
		t.Errorf("%d issues: %v", len(issues), issues)
	}
	if got["/apiToken"].Value != nil {
		t.Error("the value of a secret-like field is shown")
	}
	if string(got["/mode"].Value) != `"c"` {
		t.Errorf("value of /mode: %s", got["/mode"].Value)
	}
}

// PLN-05: defaults go in before validation, deep ones too; other bytes stay.
func TestDefaults(t *testing.T) {
	v, err := CompileObject(json.RawMessage(`{"type":"object","required":["n"],"properties":{
		"n":{"type":"integer","default":5},
		"o":{"type":"object","properties":{"x":{"default":"y"}}},
		"l":{"type":"array","items":{"$ref":"#/$defs/e"}}},
		"$defs":{"e":{"type":"object","properties":{"z":{"default":[1]}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ in, want string }{
		{`{}`, `{"n":5}`},
		{`{ "n" : 1e2 }`, `{ "n" : 1e2 }`},
		{`{"n":9007199254740993,"o":{}}`, `{"n":9007199254740993,"o":{"x":"y"}}`},
		{`{"n":1,"l":[{},{"z":2}]}`, `{"l":[{"z":[1]},{"z":2}],"n":1}`},
	} {
		out, issues, err := v.Prepare(json.RawMessage(c.in))
		if err != nil || len(issues) > 0 || string(out) != c.want {
			t.Errorf("%s -> %s, %v, %v; want %s", c.in, out, issues, err, c.want)
		}
	}
	if out, _, _ := v.Prepare(json.RawMessage(`{}`)); string(out) != `{"n":5}` {
		t.Errorf("a default was changed by an earlier call: %s", out)
	}
}

// A schema that reaches itself twice for one value doubles with each level.
func TestBranchingRecursionIsRefused(t *testing.T) {
	v, err := CompileObject(json.RawMessage(`{"type":"object","$ref":"#/$defs/n","$defs":{"n":{"properties":{"x":{"allOf":[{"$ref":"#/$defs/n"},{"$ref":"#/$defs/n"}]}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	nest := func(n int) json.RawMessage {
		return json.RawMessage(strings.Repeat(`{"x":`, n) + `{}` + strings.Repeat(`}`, n))
	}
	if _, issues, err := v.Prepare(nest(5)); err != nil || len(issues) > 0 {
		t.Errorf("five levels: %v %v", issues, err)
	}
	if _, _, err := v.Prepare(nest(100)); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a hundred levels: %v", err)
	}
}

func TestHostileValues(t *testing.T) {
	v, err := CompileObject(json.RawMessage(`{"type":"object","properties":{"n":{"maximum":1,"multipleOf":0.1},"s":{"pattern":"^(a+)+$"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{`{"n":1e9999999}`, `{"n":1e-1000000000}`, `{"n":1,"n":2}`, "{\"s\":\"\xff\"}"} {
		if _, _, err := v.Prepare(json.RawMessage(in)); err == nil {
			t.Errorf("%q was taken", in)
		}
	}
	if _, issues, err := v.Prepare(json.RawMessage(`{"s":"` + strings.Repeat("a", 100_000) + `!"}`)); err != nil || len(issues) != 1 || len(issues[0].Value) > 2*maxValue {
		t.Errorf("%v", err)
	}
}

func FuzzCompile(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"type":"string"}}}`, `{"a":1}`)
	f.Add(`{"type":"object","$ref":"#/$defs/a","$defs":{"a":{"$ref":"#"}}}`, `{}`)
	f.Add(`{"type":"object","properties":{"a":{"pattern":"("}}}`, `{}`)
	f.Fuzz(func(t *testing.T, schema, doc string) {
		v, err := Compile(json.RawMessage(schema))
		if err != nil {
			if abi.CodeOf(err) != abi.CodeSchema {
				t.Fatalf("code %q", abi.CodeOf(err))
			}
			return
		}
		out, issues, err := v.Prepare(json.RawMessage(doc))
		if err == nil && len(issues) == 0 {
			if again, _, err := v.Prepare(out); err != nil || string(again) != string(out) {
				t.Fatalf("preparing twice differs: %s, %s, %v", out, again, err)
			}
		}
	})
}

func BenchmarkPrepare(b *testing.B) {
	v, err := CompileObject(json.RawMessage(`{"type":"object","required":["file_path"],"additionalProperties":false,"properties":{
		"file_path":{"type":"string","minLength":1},"offset":{"type":"integer","minimum":0},"limit":{"type":"integer","minimum":1,"maximum":10000,"default":2000},"encoding":{"enum":["utf8","base64"]}}}`))
	if err != nil {
		b.Fatal(err)
	}
	in := json.RawMessage(`{"file_path":"/srv/project/main.go","offset":10,"limit":200}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, issues, err := v.Prepare(in); err != nil || issues != nil {
			b.Fatal(issues, err)
		}
	}
}
