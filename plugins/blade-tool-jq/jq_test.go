package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/pdk/pdktest"
)

func TestJq(t *testing.T) {
	type in = map[string]any
	for _, c := range []struct {
		name string
		in   in
		want string // results
		more bool
	}{
		{"a member", in{"query": ".a", "json": in{"a": 1}}, `[1]`, false},
		{"several results", in{"query": ".[]", "json": []int{1, 2, 3}}, `[1,2,3]`, false},
		{"no result", in{"query": "empty", "json": nil}, `[]`, false},
		{"json as text", in{"query": ".a", "json": `{"a":[true,null]}`}, `[[true,null]]`, false},
		{"json as text with several documents", in{"query": ". * 2", "json": "1 2\n[] 3 | 4"[:4]}, `[2,4]`, false},
		{"json null", in{"query": ".", "json": json.RawMessage("null")}, `[null]`, false},
		{"a string inside the text", in{"query": "length", "json": `"é😀"`}, `[2]`, false},
		{"slurp", in{"query": "add", "json": "1 2 3", "slurp": true}, `[6]`, false},
		{"slurp of nothing", in{"query": ".", "json": "", "slurp": true}, `[[]]`, false},
		{"null input", in{"query": "[., input]", "json": "1 2", "nullInput": true}, `[[null,1]]`, false},
		{"null input alone", in{"query": "1 + 1", "nullInput": true}, `[2]`, false},
		{"null input with slurp", in{"query": "[inputs]", "json": "1 2", "nullInput": true, "slurp": true}, `[[[1,2]]]`, false},
		{"inputs", in{"query": "[., inputs]", "json": "1 2 3"}, `[[1,2,3]]`, false},
		{"variables", in{"query": "$a + $b.c + $n", "json": nil, "variables": in{"a": 1, "b": in{"c": 2}, "n": json.RawMessage("12345678901234567890")}}, `[12345678901234567893]`, false},
		{"large whole numbers are exact", in{"query": "., . + 1", "json": "9007199254740993"}, `[9007199254740993,9007199254740994]`, false},
		{"larger than 64 bits", in{"query": ". + 1", "json": "123456789012345678901234567890"}, `[123456789012345678901234567891]`, false},
		{"digits are kept", in{"query": ".[]", "json": "[1.10, 1e2, 100000000000000000000, -0, 0.1]"}, `[1.10,1e2,100000000000000000000,-0,0.1]`, false},
		{"too many digits are rounded", in{"query": ".", "json": strings.Repeat("9", 50)}, `[1e+50]`, false},
		{"infinite and not a number", in{"query": "infinite, nan", "nullInput": true}, `[1.7976931348623157e+308,null]`, false},
		{"out of the range of numbers", in{"query": ".[]", "json": "[1e999, 1e-999, 5e-324]"}, `[1.7976931348623157e+308,0,0]`, false},
		{"the limit is reached", in{"query": "range(10)", "nullInput": true, "limit": 3}, `[0,1,2]`, true},
		{"as many as the limit", in{"query": "range(3)", "nullInput": true, "limit": 3}, `[0,1,2]`, false},
		{"the limit by default", in{"query": "range(101) | select(. < 2 or . > 98)", "nullInput": true}, `[0,1,99,100]`, false},
		{"the limit over documents", in{"query": ".", "json": "1 2 3", "limit": 2}, `[1,2]`, true},
		{"an endless search for one more", in{"query": "1, (range(infinite) | select(. < 0))", "nullInput": true, "limit": 1}, `[1]`, true},
		{"an error after the limit is not seen", in{"query": "1, error", "nullInput": true, "limit": 1}, `[1]`, true},
		{"halt", in{"query": ".[] | if . == 2 then halt else . end", "json": "[1,2,3] [4]"}, `[1]`, false},
		{"no environment", in{"query": "env, $ENV", "nullInput": true}, `[{},{}]`, false},
		{"keys are sorted", in{"query": ".", "json": `{"b":1,"a":2}`}, `[{"a":2,"b":1}]`, false},
		{"the last of equal keys", in{"query": ".", "json": `{"a":1,"a":2}`}, `[{"a":2}]`, false},
		{"odd strings", in{"query": ".", "json": `"\u0000\ud83d\ude00\ud800<>&\u2028"`}, "[\"\\u0000😀\ufffd<>&\u2028\"]", false},
		{"regular expressions", in{"query": `gsub("(?<x>[a-z])"; "\(.x)\(.x)")`, "json": `"a1b"`}, `["aa1bb"]`, false},
		{"dates", in{"query": `"2015-03-05T23:51:47Z" | fromdate`, "nullInput": true}, `[1425599507]`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := pdktest.New(t, plugin()).Run("Jq", c.in)
			var got jqOut
			out.Data(&got)
			text, _ := abi.Marshal(got.Results)
			if string(text) != c.want {
				t.Errorf("results %s, want %s", text, c.want)
			}
			if got.Count != len(got.Results) || got.Truncated != c.more {
				t.Errorf("count %d, truncated %v", got.Count, got.Truncated)
			}
		})
	}
}

func TestJqRaw(t *testing.T) {
	h := pdktest.New(t, plugin())
	out := h.Run("Jq", map[string]any{"query": ".[]", "json": `["a\nb", {"x":"y"}, 1, ""]`, "raw": true, "limit": 3})
	var model string
	if err := json.Unmarshal(out.Result.Model, &model); err != nil {
		t.Fatal(err)
	}
	if want := "a\nb\n{\"x\":\"y\"}\n1\n[more results follow; these are the first 3]"; model != want {
		t.Errorf("model %q, want %q", model, want)
	}
}

func TestJqRefuses(t *testing.T) {
	type in = map[string]any
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	for _, c := range []struct {
		name    string
		in      in
		code    string
		says    string
		details string
	}{
		{"a query that is cut off", in{"query": ".a[", "json": 1}, "bad_query", "line 1, column 4", `{"column":4,"line":1,"offset":3,"token":""}`},
		{"a bad token on the second line", in{"query": ".a |\n  .é )", "json": 1}, "bad_query", "line 2, column 4", ""},
		{"an unknown function", in{"query": "nope(1)", "json": 1}, "bad_query", "nope/1", ""},
		{"an unknown variable", in{"query": "$x", "json": 1}, "bad_query", "$x", ""},
		{"a module", in{"query": `import "a" as a; 1`, "json": 1}, "bad_query", "", ""},
		{"a file's name", in{"query": "input_filename", "json": 1}, "bad_query", "input_filename", ""},
		{"the name of a variable", in{"query": "1", "json": 1, "variables": in{"a-b": 1}}, "bad_variable", "a-b", ""},
		{"the environment as a variable", in{"query": "1", "json": 1, "variables": in{"ENV": 1}}, "bad_variable", "ENV", ""},
		{"no input", in{"query": "."}, "json_or_path", "nullInput", ""},
		{"two inputs", in{"query": ".", "json": 1, "path": "a"}, "json_or_path", "not both", ""},
		{"json that is none", in{"query": ".", "json": "{\n \"a\": x}"}, "bad_json", "line 2, column 7", `{"line":2,"column":7,"offset":8}`},
		{"json that is cut off", in{"query": ".", "json": "[1,"}, "bad_json", "ends inside", ""},
		{"an error of the query", in{"query": ".[0].a, .[1].a", "json": []any{in{"a": 1}, 2}}, "query_failed", "after 1 results", `{"results":1}`},
		{"an error with a value", in{"query": "error({a:1})", "json": 1}, "query_failed", "", `{"results":0,"value":{"a":1}}`},
		{"an error in a later document", in{"query": "[., input]", "json": "1 x"}, "bad_json", "column 3", ""},
		{"halt with an error", in{"query": `"bad" | halt_error`, "json": 1}, "halt_error", "bad", `{"results":0,"value":"bad"}`},
		{"a result that is too deep", in{"query": ".", "json": deep}, "result_too_deep", "125", ""},
		{"a result that is too large", in{"query": `[range(300000)|"0123456789012345678901234567890"]`, "nullInput": true}, "result_too_large", "8 MiB", ""},
		{"no such file", in{"query": ".", "path": "nope.json"}, "not_found", "nope.json", ""},
		{"a folder", in{"query": ".", "path": "."}, "is_directory", "folder", ""},
		{"a file that is not granted", in{"query": ".", "path": "/nowhere/a.json"}, "not_granted", "--allow-read /nowhere", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := pdktest.New(t, plugin())
			h.TempDir()
			out := h.Run("Jq", c.in)
			out.WantCode(c.code)
			if !strings.Contains(out.Err().Message, c.says) {
				t.Errorf("the message %q does not say %q", out.Err().Message, c.says)
			}
			var got, want any
			_ = json.Unmarshal(out.Err().Details, &got)
			_ = json.Unmarshal([]byte(c.details), &want)
			if c.details != "" && fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("details %s, want %s", out.Err().Details, c.details)
			}
		})
	}
}

// Several results that are too large together end before the one that does not fit.
func TestJqOutputIsBounded(t *testing.T) {
	out := pdktest.New(t, plugin()).Run("Jq", map[string]any{"query": `range(100) | "x" * 1000000`, "nullInput": true})
	var got jqOut
	out.Data(&got)
	if got.Count != 8 || !got.Truncated {
		t.Errorf("%d results, truncated %v", got.Count, got.Truncated)
	}
}

func TestJqFile(t *testing.T) {
	h := pdktest.New(t, plugin())
	dir := h.TempDir()
	var b bytes.Buffer
	for i := range 200_000 {
		fmt.Fprintf(&b, "{\"id\":%d,\"name\":\"user %d\",\"score\":%d.5}\n", i, i, i)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.jsonl"), b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	in := map[string]any{"path": "a.jsonl", "query": "map(.score) | add, length", "slurp": true}
	out := h.Run("Jq", in)
	var got jqOut
	out.Data(&got)
	if text, _ := abi.Marshal(got.Results); string(text) != "[20000000000,200000]" {
		t.Errorf("results %s", text)
	}
	if n := len(out.Yields); n < 2 || *out.Yields[n-1].Completed != float64(b.Len()) {
		t.Errorf("%d yields: %+v", n, out.Yields)
	}
	t.Run("cancelled while it reads", func(t *testing.T) {
		h.OnYield = func(abi.Yield) abi.Cancel { return abi.CancelRequest }
		defer func() { h.OnYield = nil }()
		h.Run("Jq", in).WantCode("cancelled")
	})
	t.Run("cancelled while the query runs", func(t *testing.T) {
		h.Timeout = 50 * time.Millisecond
		defer func() { h.Timeout = 0 }()
		h.Run("Jq", map[string]any{"query": "last(range(infinite))", "nullInput": true}).WantCode("cancelled")
	})
}
