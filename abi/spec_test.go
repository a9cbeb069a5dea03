package abi_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/abi/abitest"
)

var update = flag.Bool("update", false, "write the generated parts of SPEC.md and testdata/wasm/spec-example.wasm")

// The tables of SPEC.md are those of the Go source. -update writes them.
func TestSpecTables(t *testing.T) {
	file, err := os.ReadFile("SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	spec := string(file)
	for name, body := range map[string]string{
		"codes": codesTable(), "limits": limitsTable(),
		"host services": hostServicesTable(), "session services": sessionServicesTable(),
	} {
		spec = between(t, spec, "<!-- generated: "+name+" -->\n", "<!-- end -->", body)
	}
	wat, err := os.ReadFile(filepath.Join(abitest.Root(t), "testdata/wasm/spec-example.wat"))
	if err != nil {
		t.Fatal(err)
	}
	spec = between(t, spec, "```wat\n", "```", string(wat))
	if spec == string(file) {
		return
	}
	if !*update {
		t.Fatal("SPEC.md is not what the source says; run: go test ./abi -run TestSpec -update")
	}
	if err := os.WriteFile("SPEC.md", []byte(spec), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Every function of the ABI stands in SPEC.md with its type.
func TestSpecSignatures(t *testing.T) {
	file, err := os.ReadFile("SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string, sig abi.Signature) {
		_, row, ok := strings.Cut(string(file), "\n| `"+name+"` | `(")
		if !ok {
			t.Errorf("%s is not in a table", name)
			return
		}
		row, _, _ = strings.Cut(row, "`")
		params, results, _ := strings.Cut(row, ") -> ")
		if got, want := types(params), wasmTypes(sig.Params); got != want {
			t.Errorf("%s takes %s in SPEC.md, %s in the source", name, got, want)
		}
		if got, want := types(strings.Trim(results, "()")), wasmTypes(sig.Results); got != want {
			t.Errorf("%s returns %s in SPEC.md, %s in the source", name, got, want)
		}
	}
	for name, sig := range abi.Imports() {
		check(name, sig)
	}
	for name, e := range abi.Exports() {
		check(name, e.Signature)
	}
}

// types are the i32 and i64 in a text.
func types(s string) string {
	var out []string
	for _, f := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(" ,:()", r) }) {
		if f == "i32" || f == "i64" {
			out = append(out, f)
		}
	}
	return strings.Join(out, " ")
}

func wasmTypes(list []abi.ValueType) string {
	var out []string
	for _, v := range list {
		out = append(out, map[abi.ValueType]string{abi.I32: "i32", abi.I64: "i64"}[v])
	}
	return strings.Join(out, " ")
}

// Every limit and code that the prose names exists.
func TestSpecNames(t *testing.T) {
	file, err := os.ReadFile("SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, c := range abi.Codes() {
		if known[string(c.Code)] {
			t.Errorf("the code %s stands twice", c.Code)
		}
		if !c.Type.Valid() || c.Meaning == "" || c.Fix == "" {
			t.Errorf("the row of %s is not complete", c.Code)
		}
		known[string(c.Code)] = true
	}
	for _, word := range strings.Split(string(file), "`") {
		if len(word) > 3 && strings.Contains(word, "_") && strings.ToUpper(word) == word && strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == "" &&
			!known[word] && word != strings.TrimSuffix(abi.LeaseErrorPrefix, "_") && word != abi.LeaseErrorPrefix {
			t.Errorf("SPEC.md names the code %s, which does not exist", word)
		}
	}
}

// between replaces what stands between two marks.
func between(t *testing.T, s, from, to, body string) string {
	t.Helper()
	before, rest, ok := strings.Cut(s, from)
	_, after, ok2 := strings.Cut(rest, to)
	if !ok || !ok2 {
		t.Fatalf("SPEC.md has no %q … %q", from, to)
	}
	return before + from + body + to + after
}

func table(head string, rows [][]string) string {
	var b strings.Builder
	b.WriteString(head + "\n|" + strings.Repeat("---|", strings.Count(head, "|")-1) + "\n")
	for _, r := range rows {
		for i := range r {
			r[i] = strings.ReplaceAll(r[i], "|", `\|`)
		}
		b.WriteString("| " + strings.Join(r, " | ") + " |\n")
	}
	return b.String()
}

func codesTable() string {
	var rows [][]string
	for _, c := range abi.Codes() {
		rows = append(rows, []string{"`" + string(c.Code) + "`", "`" + string(c.Type) + "`", c.Meaning, c.Fix})
	}
	return table("| code | type | what happened | who can mend it |", rows)
}

func hostServicesTable() string {
	var rows [][]string
	for _, s := range abi.HostServices() {
		rows = append(rows, []string{"`" + s.Name + "`", s.Declare, "`" + s.Request + "`", "`" + s.Answer + "`", writes(s.Writes)})
	}
	return table("| service | lent by | request | answer | writes |", rows)
}

func sessionServicesTable() string {
	var rows [][]string
	for _, m := range abi.ServiceMethods() {
		rows = append(rows, []string{"`" + m.Service + "." + m.Method + "`", "`" + m.Request + "`", "`" + m.Answer + "`", writes(m.Writes)})
	}
	return table("| method | request | answer | writes |", rows)
}

func writes(w bool) string {
	if w {
		return "yes"
	}
	return ""
}

func limitsTable() string {
	size := func(n int) string {
		switch {
		case n >= 1<<20 && n%(1<<20) == 0:
			return fmt.Sprintf("%d MiB", n>>20)
		case n >= 1<<10 && n%(1<<10) == 0:
			return fmt.Sprintf("%d KiB", n>>10)
		}
		return strconv.Itoa(n)
	}
	return table("| what | limit | beyond it |", [][]string{
		{"input of a call", size(abi.MaxInput), "the call is refused"},
		{"bytes handed to `ret`", size(abi.MaxResult), "`RESULT_TOO_LARGE`"},
		{"one yield", size(abi.MaxYield), "`yield` returns 3"},
		{"messages and effects of a call", fmt.Sprintf("%d, together %s", abi.MaxYields, size(abi.MaxYieldBytes)), "`yield` returns 3"},
		{"head and bytes of a frame", size(abi.MaxFrameHead) + " and " + size(abi.MaxFrameBody), "status 5 or 6"},
		{"name of a service", size(abi.MaxServiceName), "status 5"},
		{"answers not taken", size(abi.MaxAnswers), "status 6, slot 0"},
		{"open streams of a call, bytes of one `stream.read`", fmt.Sprintf("%d, %s", abi.MaxStreams, size(abi.MaxChunk)), "status 6; the rest comes next time"},
		{"log of a call", size(abi.MaxLog), "the rest is dropped; a rejected yield counts 256 bytes, an empty line 64"},
		{"stdout, stderr of a call", size(abi.MaxOutput) + " each", "the rest is dropped"},
		{"manifest", size(abi.MaxManifest), "`MANIFEST_INVALID`"},
		{"tools of a plugin", size(abi.MaxTools), "`MANIFEST_INVALID`"},
		{"JSON Schema, its nesting", fmt.Sprintf("%s, %d levels", size(abi.MaxSchema), abi.MaxSchemaDepth), "`MANIFEST_INVALID`, `SCHEMA_INVALID`"},
		{"nesting of JSON", fmt.Sprintf("%d levels", abi.MaxDepth), "it is not JSON"},
		{"number in JSON", fmt.Sprintf("%d characters, exponent ±%d", abi.MaxNumber, abi.MaxExponent), "it is not JSON"},
		{"step of a call", fmt.Sprintf("%d UTF-16 code units", abi.MaxStep), "it is cut by the host"},
		{"each of `_initialize`, `blade_describe`, `blade_warm`", abi.InitTime.String(), "`MODULE_INIT_FAILED`"},
		{"time to return after a cancel or the deadline", abi.CleanupTime.String(), "the guest is stopped"},
		{"time to return after `ret`", abi.AfterRet.String(), "the instance is dropped"},
	})
}

// The example of SPEC.md is a sound plugin: the committed module is what
// wat2wasm makes of the text, with the manifest section that its data holds.
func TestSpecExample(t *testing.T) {
	dir := filepath.Join(abitest.Root(t), "testdata", "wasm")
	wat, err := os.ReadFile(filepath.Join(dir, "spec-example.wat"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(wat), `(data (i32.const 0x0000) "`)
	text, _, _ = strings.Cut(text, "\")\n")
	manifest := []byte(strings.ReplaceAll(text, `\"`, `"`))
	var m abi.Manifest
	if err := json.Unmarshal(manifest, &m); err != nil {
		t.Fatal(err)
	}
	if err := m.Check(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(string(wat), fmt.Sprintf("(call $ret (i32.const 0) (i32.const 0x0000) (i32.const %d))", len(manifest))) {
		t.Errorf("blade_describe does not answer the %d bytes of the manifest", len(manifest))
	}
	file := filepath.Join(dir, "spec-example.wasm")
	if built := assemble(t, string(wat), manifest); built != nil {
		if *update {
			if err := os.WriteFile(file, built, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if have, err := os.ReadFile(file); err != nil || !bytes.Equal(have, built) {
			t.Errorf("spec-example.wasm is not what wat2wasm makes of spec-example.wat (%v); run: go test ./abi -run TestSpec -update", err)
		}
	}
	module, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := customSection(t, module, abi.ManifestSection); !bytes.Equal(got, manifest) {
		t.Errorf("the manifest section is %q", got)
	}
}

// assemble is the module with its manifest section, or nil without wat2wasm.
func assemble(t *testing.T, wat string, manifest []byte) []byte {
	t.Helper()
	tool, err := exec.LookPath("wat2wasm")
	if err != nil {
		t.Log("wat2wasm is not installed; the committed module is checked alone")
		return nil
	}
	cmd := exec.Command(tool, "-", "--output=-")
	cmd.Stdin = strings.NewReader(wat)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	name := abi.ManifestSection
	body := append(append([]byte{byte(len(name))}, name...), manifest...)
	return append(append(append(out, 0), leb(len(body))...), body...)
}

func leb(n int) (out []byte) {
	for ; n >= 0x80; n >>= 7 {
		out = append(out, byte(n)|0x80)
	}
	return append(out, byte(n))
}

// customSection walks the sections of a module and returns the named one.
func customSection(t *testing.T, b []byte, name string) []byte {
	t.Helper()
	if !bytes.HasPrefix(b, []byte("\x00asm\x01\x00\x00\x00")) {
		t.Fatal("not a module")
	}
	uleb := func() (n int) {
		for shift := 0; ; shift += 7 {
			if len(b) == 0 {
				t.Fatal("the module ends too early")
			}
			c := b[0]
			b = b[1:]
			if n |= int(c&0x7f) << shift; c < 0x80 {
				return n
			}
		}
	}
	for b = b[8:]; len(b) > 0; {
		id := b[0]
		b = b[1:]
		n := uleb()
		if n > len(b) {
			t.Fatal("a section is longer than the module")
		}
		rest := b[n:]
		if id == 0 {
			b = b[:n]
			if k := uleb(); string(b[:k]) == name {
				return b[k:]
			}
		}
		b = rest
	}
	t.Fatalf("no section %s", name)
	return nil
}
