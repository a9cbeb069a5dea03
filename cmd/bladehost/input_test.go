package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
)

// The first argument of run names a plugin, or a tool.
func TestSplitRun(t *testing.T) {
	for _, c := range []struct{ args, plugin, tool, input, fails string }{
		{"Hash", "", "Hash", "", ""},
		{"Hash {}", "", "Hash", "{}", ""},
		{". Hash", ".", "Hash", "", ""},
		{".. Hash {}", "..", "Hash", "{}", ""},
		{"./x Hash {}", "./x", "Hash", "{}", ""},
		{"x/y Hash", "x/y", "Hash", "", ""},
		{"x.wasm Hash", "x.wasm", "Hash", "", ""},
		{"blade-tool-hash Hash", "blade-tool-hash", "Hash", "", ""},
		{"@acme/blade-tool-hash Hash", "@acme/blade-tool-hash", "Hash", "", ""},
		{"blade-tool- {}", "", "blade-tool-", "{}", ""},
		{"Blade-tool-hash {}", "", "Blade-tool-hash", "{}", ""},
		{".", "", "", "", "name one of its tools too"},
		{"x.wasm", "", "", "", "name one of its tools too"},
		{"Hash {} more", "", "", "", "takes one INPUT"},
	} {
		plugin, tool, rest, err := splitRun(strings.Fields(c.args))
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) || abi.CodeOf(err) != abi.CodeUsage {
				t.Errorf("%s: the error is %v, want one with %q", c.args, err, c.fails)
			}
			continue
		}
		if err != nil || plugin != c.plugin || tool != c.tool || strings.Join(rest, " ") != c.input {
			t.Errorf("%s: %q, %q, %q, %v", c.args, plugin, tool, rest, err)
		}
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"": 0, "1": 1, "1048576": 1 << 20, "64MiB": 64 << 20, "64mb": 64 << 20, "64M": 64 << 20, "1 GiB": 1 << 30, "1g": 1 << 30, "10kib": 10 << 10, " 5k ": 5 << 10,
		"4503599627370496k": 1 << 62,
	} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"x", "0", "-1", "-1k", "1.5G", "1TiB", "k", "MiB", "9223372036854775807k", "4503599627370497k", "99999999999999999999", "1e3", "0x10", "1 000"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"64MiB", "1G", "9223372036854775807k", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := parseSize(s); err == nil && (n < 0 || n > math.MaxInt64/2 || (n == 0) != (s == "")) {
			t.Errorf("%q is %d", s, n)
		}
	})
}

// readLines reads all lines, through a small buffer.
func readLines(t *testing.T, in string) (lines []string, long int) {
	t.Helper()
	r := bufio.NewReaderSize(strings.NewReader(in), 16)
	for {
		b, err := readLine(r)
		switch {
		case err == io.EOF:
			return lines, long
		case errors.Is(err, errLongLine):
			long++
		case err != nil:
			t.Fatal(err)
		default:
			lines = append(lines, string(b))
		}
	}
}

func TestReadLine(t *testing.T) {
	most := strings.Repeat("m", maxLine)
	for _, c := range []struct {
		name, in string
		want     []string
		long     int
	}{
		{"nothing", "", nil, 0},
		{"lines", "a\nbb\n\nc\n", []string{"a", "bb", "", "c"}, 0},
		{"no end at the end", "a\nb", []string{"a", "b"}, 0},
		{"ends of another system", "a\r\nb\r\n", []string{"a", "b"}, 0},
		{"the longest", most + "\nb\n", []string{most, "b"}, 0},
		{"one too long", most + "x\nb\n", []string{"b"}, 1},
		{"far too long, at the end", most + most, nil, 1},
		{"two of them", most + "xx\n" + most + "xx\nb", []string{"b"}, 2},
	} {
		lines, long := readLines(t, c.in)
		if len(lines) != len(c.want) || long != c.long {
			t.Errorf("%s: %d lines and %d long ones, want %d and %d", c.name, len(lines), long, len(c.want), c.long)
			continue
		}
		for i := range lines {
			if lines[i] != c.want[i] {
				t.Errorf("%s: line %d is %.40q, want %.40q", c.name, i, lines[i], c.want[i])
			}
		}
	}
}

// A reader that fails is not taken for the end.
func TestReadLineFails(t *testing.T) {
	broken := errors.New("broken")
	r := bufio.NewReader(io.MultiReader(strings.NewReader("a\nb"), &failing{broken}))
	if b, err := readLine(r); string(b) != "a" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := readLine(r); !errors.Is(err, broken) {
		t.Errorf("%q, %v", b, err)
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

// The lines are those of the text, whatever the buffer's size.
func FuzzReadLine(f *testing.F) {
	for _, s := range []string{"a\nb", "\n\n", "a\r\n", strings.Repeat("x", 40) + "\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		lines, long := readLines(t, in)
		want := strings.Split(in, "\n")
		if want[len(want)-1] == "" {
			want = want[:len(want)-1]
		}
		if long != 0 || len(lines) != len(want) {
			t.Fatalf("%d lines of %q, want %d", len(lines), in, len(want))
		}
		for i := range want {
			if w := strings.TrimRight(want[i], "\r"); lines[i] != w {
				t.Errorf("line %d is %q, want %q", i, lines[i], w)
			}
		}
	})
}

// A line is taken or refused, never both and never with a panic; what can be told
// of a refused one is told, so that the agent knows which it was.
func FuzzParseLine(f *testing.F) {
	for _, s := range []string{
		`{"type":"call","id":"c1","tool":"T","input":{"a":1},"ref":1}`, `{"type":"calls","calls":[{"id":"a","tool":"T"}],"turnId":"t"}`,
		`{"type":"confirm","requestId":"r","approved":true,"answers":{"a":[1]}}`, `{"type":"service_result","requestId":"r","error":{"code":"c","message":"m"}}`,
		`{"type":"cancel","id":null}`, `{"type":7,"ref":{}}`, `{"ref":"r"}`, `null`, `[]`, `{`, `{"type":"call","id":{"a":1},"tool":"T"}`,
		`{"type":"calls","calls":[null]}`, `{"type":"call","id":"a","tool":"T","step":[],"timeoutMs":1e9}`, "\xff",
	} {
		f.Add([]byte(s))
	}
	schema := readSessionSchema(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		l, bad := parseLine(b)
		if l == nil {
			t.Fatal("no line")
		}
		var plain struct {
			Ref json.RawMessage `json:"ref"`
		}
		object := json.Valid(b) && bytes.HasPrefix(bytes.TrimSpace(b), []byte("{"))
		if object && bad == nil {
			if json.Unmarshal(b, &plain) == nil && !bytes.Equal(bytes.TrimSpace(plain.Ref), bytes.TrimSpace(l.Ref)) {
				t.Errorf("the ref of %s is %s", b, l.Ref)
			}
			if l.Type == "" {
				t.Errorf("%s has no type", b)
			}
		}
		if bad != nil && (bad.Message == "" || bad.Code == "" || len(bad.Message) > 1000) {
			t.Errorf("%s is refused with %q %q", b, bad.Code, bad.Message)
		}
		// What the schema allows, the parser takes.
		if schema.in(string(b)) == nil && bad != nil {
			t.Errorf("the schema allows %s, but: %s", b, bad.Message)
		}
	})
}

// Error lines keep the ref and the id of the line they are about.
func TestParseLineKeepsRef(t *testing.T) {
	for _, line := range []string{
		`{"ref":[1],"id":"x","type":"nothing"}`, `{"ref":[1],"id":"x"}`, `{"ref":[1],"id":"x","type":5}`, `{"ref":[1],"id":"x","type":"call"}`,
		`{"ref":[1],"id":"x","type":"call","tool":7}`, `{"ref":[1],"id":"x","type":"call","tool":"T","more":1}`,
	} {
		l, bad := parseLine([]byte(line))
		if bad == nil || string(l.Ref) != "[1]" || l.ID != "x" {
			t.Errorf("%s: ref %s, id %q, %v", line, l.Ref, l.ID, bad)
		}
	}
}

// The schema of the lines and the parser know the same types and members.
func TestSessionSchemaKnowsLines(t *testing.T) {
	schema := readSessionSchema(t)
	sample := map[string]string{
		"id": `"x"`, "tool": `"T"`, "input": `{}`, "arguments": `"{}"`, "permissionMode": `"plan"`, "messageId": `"m"`, "turnId": `"t"`, "step": `"s"`, "timeoutMs": `5`,
		"calls": `[]`, "reason": `"r"`, "requestId": `"q"`, "approved": `true`, "scope": `"once"`, "targetMode": `"yolo"`, "feedback": `"f"`, "answers": `{}`,
		"inputId": `"i"`, "priority": `"now"`, "mode": `"plan"`, "value": `{}`, "error": `{"code":"c","message":"m"}`,
	}
	for kind, m := range lineMembers {
		var need []string
		for _, k := range m.need {
			need = append(need, `"`+k+`":`+sample[k])
		}
		if kind == "service_result" {
			need = append(need, `"value":{}`)
		}
		line := func(more ...string) string {
			return "{" + strings.Join(append(append([]string{`"type":"` + kind + `"`}, need...), more...), ",") + "}"
		}
		if err := schema.in(line()); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if err := schema.in(line(`"ref":[null]`)); err != nil {
			t.Errorf("%s with a ref: %v", kind, err)
		}
		if schema.in(line(`"other":1`)) == nil {
			t.Errorf("the schema allows a member of %s that the parser refuses", kind)
		}
		for _, k := range m.may {
			if contains(m.need, k) || k == "value" || k == "error" {
				continue
			}
			if err := schema.in(line(`"` + k + `":` + sample[k])); err != nil {
				t.Errorf("%s with %s: %v", kind, k, err)
			}
		}
		for i := range need {
			if kind == "service_result" && i == len(need)-1 {
				continue
			}
			rest := append(append([]string{`"type":"` + kind + `"`}, need[:i]...), need[i+1:]...)
			if schema.in("{"+strings.Join(rest, ",")+"}") == nil {
				t.Errorf("the schema allows %s without %s", kind, need[i])
			}
		}
	}
	for _, kind := range []string{"ready", "ack", "tool_result", "closed"} {
		if schema.in(`{"type":"`+kind+`","sessionId":"s"}`) == nil {
			t.Errorf("the schema takes %s for a line of the agent", kind)
		}
	}
}

func TestIsName(t *testing.T) {
	for s, want := range map[string]bool{
		"": false, "A": true, "_": true, "a1_Z": true, "1A": false, "A-B": false, "A B": false, "A\n": false, "Ä": false, "A\x00": false,
		"@": false, "[": false, "`": false, "{": false, "A@": false, "A[": false,
		strings.Repeat("x", maxName): true, strings.Repeat("x", maxName+1): false,
	} {
		if isName(s) != want {
			t.Errorf("%q: %v", s, !want)
		}
	}
}
