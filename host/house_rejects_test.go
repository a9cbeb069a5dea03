package host_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// TestHouseRejects feeds the law wrong trees: a law that lets them through is none.
func TestHouseRejects(t *testing.T) {
	imports := func(path string) string { return "package x\n\nimport _ \"" + path + "\"\n" }
	for _, c := range []struct{ name, file, src, want string }{
		{"abi imports cobra", "abi/x.go", imports("github.com/spf13/cobra"), "belongs to cmd/bladehost"},
		{"abi imports host/tool", "abi/x.go", imports(module + "/host/tool"), "abi may not import host/tool"},
		{"pdk imports host/tool", "pdk/x.go", imports(module + "/host/tool"), "pdk may not import host/tool"},
		{"host imports builtin", "host/x.go", imports(module + "/builtin"), "host may not import builtin"},
		{"host imports install", "host/x.go", imports(module + "/host/install"), "host may not import host/install"},
		{"host imports the agent loop", "host/x.go", imports(module + "/host/agentloop"), "host may not import host/agentloop"},
		{"host imports wazero", "host/x.go", imports("github.com/tetratelabs/wazero"), "belongs to host/internal/engine"},
		{"host imports wazero below", "host/x.go", imports("github.com/tetratelabs/wazero/api"), "belongs to host/internal/engine"},
		{"wasm imports wazero, in a test too", "host/internal/wasm/x_test.go", imports("github.com/tetratelabs/wazero"), "belongs to host/internal/engine"},
		{"engine imports jsonschema", "host/internal/engine/x.go", imports("github.com/santhosh-tekuri/jsonschema/v6"), "belongs to host/internal/schema"},
		{"caps imports host", "host/caps/fs/x.go", imports(module + "/host"), "host/caps/fs may not import host"},
		{"caps imports another cap", "host/caps/fs/x.go", imports(module + "/host/caps/http"), "may not import host/caps/http"},
		{"policy imports engine", "host/policy/x.go", imports(module + "/host/internal/engine"), "may not import host/internal/engine"},
		{"builtin group imports another", "builtin/filesystem/x.go", imports(module + "/builtin/system"), "may not import builtin/system"},
		{"builtin imports host", "builtin/x.go", imports(module + "/host"), "builtin may not import host"},
		{"builtin imports the engine", "builtin/filesystem/x.go", imports(module + "/host/internal/engine"), "may not import host/internal/engine"},
		{"strange module", "host/x.go", imports("example.com/strange"), "nobody owns"},
		{"go-cmp outside of a test", "host/x.go", imports("github.com/google/go-cmp/cmp"), "nobody owns"},
		{"init", "host/x.go", "package x\n\nfunc init() {}\n", "init"},
		{"long file", "host/x.go", "package x\n" + strings.Repeat("// line\n", maxFileLines+1), "lines"},
		{"long function", "host/x.go", "package x\n\nfunc f() {\n" + strings.Repeat("\t_ = 0\n", maxFuncLines) + "}\n", "func f has"},
		{"no Go", "host/x.go", "package", "expected"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := checkHouse(fstest.MapFS{c.file: {Data: []byte(c.src)}})
			if len(found) == 0 || !strings.Contains(fmt.Sprint(found), c.want) {
				t.Errorf("got %v, want it to say %q", found, c.want)
			}
		})
	}
	good := fstest.MapFS{
		"host/install/x.go":       {Data: []byte(imports(module + "/host/store"))},
		"host/x.go":               {Data: []byte(imports(module + "/host/internal/engine"))},
		"builtin/filesystem/x.go": {Data: []byte(imports(module + "/host/caps/fs"))},
		"cmd/bladehost/x.go":      {Data: []byte(imports("github.com/spf13/cobra"))},
		"host/internal/wasm/x.go": {Data: []byte(imports("encoding/binary"))},
	}
	if found := checkHouse(good); len(found) > 0 {
		t.Errorf("what is allowed was refused: %v", found)
	}
}

// TestTopLevel holds the top level of the tree to what it is meant to have.
func TestTopLevel(t *testing.T) {
	allowed := map[string]bool{
		"go.mod": true, "go.sum": true, "tools.mod": true, "tools.sum": true, "host": true, "abi": true, "pdk": true,
		"plugins": true, "builtin": true, "cmd": true, "testdata": true, "docs": true, "README.md": true, "CHANGELOG.md": true,
		"CONTRIBUTING.md": true, "SECURITY.md": true, "LICENSE": true, "Makefile": true,
	}
	list, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		if n := d.Name(); !allowed[n] && !strings.HasPrefix(n, ".") && !strings.HasSuffix(n, "_test.go") {
			t.Errorf("%s does not belong at the top level", n)
		}
	}
}
