package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/guesttest"
	"github.com/bladehost/bladehost/host/tool"
)

// loadTiny loads a module under a manifest.
func loadTiny(h *Host, m tiny, manifest []byte) (*Plugin, error) {
	b, err := WithManifest(m.build(), manifest)
	if err != nil {
		return nil, err
	}
	return h.LoadPlugin(b, PluginOptions{})
}

// PKG-01 PKG-02: which package names a host takes.
func TestPackageNames(t *testing.T) {
	h := newHost(t, Options{})
	for name, ok := range map[string]bool{
		"blade-tool-github": true, "@acme/blade-tool-jira": true, "blade-tool-a1-b2": true, "@a-b/blade-tool-x": true,
		"blade-tool-GitHub": false, "Blade-tool-x": false, "blade-tool-a_b": false, "tool-x": false, "blade-tool-": false, "blade-tool--x": false, "blade-tool-x-": false,
		"blade_tool_x": false, "@/blade-tool-x": false, "@a/b/blade-tool-x": false, "@A/blade-tool-x": false, "a/blade-tool-x": false, "": false, "../blade-tool-x": false, "blade-tool-x ": false, "blade-tool-ü": false,
		"blade-tool-tool": false, "blade-tool-utils": false, "@acme/blade-tool-helper": false, "blade-tool-my": false, "blade-tool-common": false, "blade-tool-plugin": false, "blade-tool-toolbox": true,
		"blade-tool-" + strings.Repeat("x", 300): false,
	} {
		_, err := loadTiny(h, returns(0, []byte("1")), tinyManifest(func(m *abi.Manifest) { m.Name = name }))
		if (err == nil) != ok || (!ok && abi.CodeOf(err) != abi.CodeManifest) {
			t.Errorf("%.40q: %v", name, err)
		}
	}
}

// PKG-03: a manifest is the same over two loads, and the section says what blade_describe
// does, byte for byte.
func TestManifestIsTheSame(t *testing.T) {
	h := newHost(t, Options{CacheDir: guestCache(t)})
	for _, module := range [][]byte{guesttest.Go(t, "..", "./pdk/conformance")} {
		b := signed(t, h, module)
		a, err := Inspect(b)
		if err != nil || a.Problem != nil {
			t.Fatalf("%v %v", err, a.Problem)
		}
		for range 2 {
			told, err := h.Describe(t.Context(), b)
			if err != nil || !bytes.Equal(told, a.RawManifest) {
				t.Errorf("%v: the module describes itself as %.100s, its section is %.100s", err, told, a.RawManifest)
			}
			again, err := Inspect(b)
			if err != nil || !bytes.Equal(again.RawManifest, a.RawManifest) || again.Digest != a.Digest {
				t.Errorf("%v: another manifest the second time", err)
			}
			p, err := h.LoadPlugin(b, PluginOptions{})
			if err != nil || p.Digest() != a.Digest || !equalJSON(t, mustJSON(p.Manifest()), mustJSON(a.Manifest)) {
				t.Errorf("%v: loaded, it is another", err)
			}
		}
	}
}

// PKG-04 WSM-02: imports that the ABI does not have, or with another signature, are refused at
// load, all of them named at once.
func TestImports(t *testing.T) {
	h := newHost(t, Options{})
	load := func(imports ...tinyImport) error {
		m := returns(0, []byte("1"))
		m.imports = append(m.imports, imports...)
		_, err := loadTiny(h, m, tinyManifest())
		return err
	}
	if err := load(tinyImport{abi.ImportModule, abi.FuncYield, "ii", "i"}, tinyImport{abi.ImportModule, abi.FuncCall, "iiii", "I"}, tinyImport{"wasi_snapshot_preview1", "fd_write", "iiii", "i"}); err != nil {
		t.Errorf("imports of the ABI: %v", err)
	}
	err := load(tinyImport{"env", "memcpy", "iii", "i"}, tinyImport{abi.ImportModule, "exec", "", ""}, tinyImport{"wasi_snapshot_preview1", "sock_shutdown2", "ii", "i"}, tinyImport{"wasi_unstable", "fd_write", "iiii", "i"}, tinyImport{"extism:host/env", "http_request", "II", "I"})
	if abi.CodeOf(err) != abi.CodeImportUnknown {
		t.Fatalf("%v", err)
	}
	for _, name := range []string{"env.memcpy", "blade_v1.exec", "wasi_snapshot_preview1.sock_shutdown2", "wasi_unstable.fd_write", "extism:host/env.http_request"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named: %v", name, err)
		}
	}
	err = load(tinyImport{abi.ImportModule, abi.FuncYield, "i", "i"}, tinyImport{abi.ImportModule, abi.FuncLog, "iii", "i"}, tinyImport{"wasi_snapshot_preview1", "random_get", "ii", ""})
	if abi.CodeOf(err) != abi.CodeImportType {
		t.Fatalf("%v", err)
	}
	for _, name := range []string{"blade_v1.yield", "blade_v1.log", "random_get"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named: %v", name, err)
		}
	}
}

// PKG-05: a module for another version of the ABI, or one that needs a feature this host
// does not have, is refused, and told what it needs.
func TestManifestVersions(t *testing.T) {
	h := newHost(t, Options{})
	for _, c := range []struct {
		change func(*abi.Manifest)
		code   abi.Code
		says   string
	}{
		{func(m *abi.Manifest) { m.ABI = 2 }, abi.CodeABIVersion, "2"}, {func(m *abi.Manifest) { m.ABI = 0 }, abi.CodeABIVersion, "0"},
		{func(m *abi.Manifest) { m.Requires = []string{"threads"} }, abi.CodeFeature, "threads"},
	} {
		_, err := loadTiny(h, returns(0, []byte("1")), tinyManifest(c.change))
		if abi.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "host") {
			t.Errorf("%v, want %s", err, c.code)
		}
	}
	// What it does not know and is not required to know does not matter.
	raw := bytes.Replace(tinyManifest(), []byte(`{`), []byte(`{"futureField":{"a":1},`), 1)
	if _, err := loadTiny(h, returns(0, []byte("1")), raw); err != nil {
		t.Errorf("an unknown member: %v", err)
	}
	if _, err := h.LoadPlugin(returns(0, []byte("1")).build(), PluginOptions{}); abi.CodeOf(err) != abi.CodeManifestMissing {
		t.Errorf("no manifest: %v", err)
	}
}

// B29: two plugins with the same tool are refused with both named, in whatever order; other
// names are as they are, or refused.
func TestToolNamesOfPlugins(t *testing.T) {
	h := newHost(t, Options{})
	plugin := func(pkg, name string) *Plugin {
		p, err := loadTiny(h, returns(0, []byte("1")), tinyManifest(func(m *abi.Manifest) { m.Name, m.Tools[0].Name = pkg, name }))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	a, b, c := Attachment{Plugin: plugin("blade-tool-a", "Same")}, Attachment{Plugin: plugin("blade-tool-b", "Same")}, Attachment{Plugin: plugin("blade-tool-c", strings.Repeat("x", 64))}
	for _, order := range [][]Attachment{{a, b, c}, {c, b, a}} {
		_, err := h.NewSession(SessionOptions{Plugins: order})
		if abi.CodeOf(err) != abi.CodeNameTaken || !strings.Contains(err.Error(), "blade-tool-a") || !strings.Contains(err.Error(), "blade-tool-b") {
			t.Errorf("%v", err)
		}
	}
	var seen []string
	for _, order := range [][]Attachment{{a, c}, {c, a}} {
		s := sessionOn(t, h, SessionOptions{Plugins: order})
		seen = append(seen, fmt.Sprint(declared(s)))
		wantOK(t, do(t, s, Call{Tool: strings.Repeat("x", 64)}))
		if i := s.Tools()[0]; i.Plugin == nil || i.Plugin.Name != "blade-tool-a" || i.Plugin.Digest != a.Plugin.Digest() || i.Source.ID != "plugin:blade-tool-a" {
			t.Errorf("%+v", i)
		}
	}
	if seen[0] != seen[1] {
		t.Errorf("the order of loading matters: %v", seen)
	}
	for _, name := range []string{"a/b.c", "ünïcode", strings.Repeat("x", 90), "", "mcp__a__b", "1st"} {
		_, err := loadTiny(h, returns(0, []byte("1")), tinyManifest(func(m *abi.Manifest) { m.Tools[0].Name = name }))
		if abi.CodeOf(err) != abi.CodeManifest {
			t.Errorf("%.20q: %v", name, err)
		}
	}
	// A plugin cannot take the name of a built-in tool.
	h2 := newHost(t, Options{Builtins: []tool.Tool{fakeTool("Same")}})
	p, err := loadTiny(h2, returns(0, []byte("1")), tinyManifest(func(m *abi.Manifest) { m.Tools[0].Name = "Same" }))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h2.NewSession(SessionOptions{Plugins: []Attachment{{Plugin: p}}}); abi.CodeOf(err) != abi.CodeNameTaken {
		t.Errorf("%v", err)
	}
}

// modules are sound modules to start fuzzing from.
func modules(t testing.TB) [][]byte {
	t.Helper()
	out := [][]byte{returns(0, []byte("1")).build(), returns(2, []byte(`{"message":"m"}`)).build()}
	files, err := filepath.Glob("../testdata/wasm/*.wasm")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) < 64<<10 {
			out = append(out, b)
		}
	}
	return out
}

// WSM-12: no bytes, as a module or as its manifest, crash the host; each failure is a typed
// error.
func FuzzModule(f *testing.F) {
	for _, m := range modules(f) {
		f.Add(m, tinyManifest())
		f.Add(m[:len(m)/2], []byte(`{}`))
	}
	for _, text := range []string{``, `null`, `[]`, `{"abi":1}`, `{"abi":1e400}`, `{"abi":1,"name":"blade-tool-x","version":"1.0.0","description":"d","tools":[{"name":"T","description":"d","parameters":{"type":"object","$ref":"#"}}]}`,
		`{"abi":1,"name":"blade-tool-x","version":"1.0.0","description":"d","tools":[null]}`, `{"abi":1,"abi":1}`, "\xff", strings.Repeat("[", 1000)} {
		f.Add([]byte("\x00asm\x01\x00\x00\x00"), []byte(text))
	}
	h := newHost(f, Options{Interpreter: true})
	f.Fuzz(func(t *testing.T, module, manifest []byte) {
		if i, err := Inspect(module); err != nil {
			typed(t, err)
		} else if i.Problem != nil && i.Problem.Code == "" {
			t.Errorf("a problem without a code: %v", i.Problem)
		}
		if _, _, err := SplitManifest(module); err != nil {
			typed(t, err)
		}
		for _, b := range [][]byte{module, returns(0, []byte("1")).build()} {
			with, err := WithManifest(b, manifest)
			if err != nil {
				typed(t, err)
				continue
			}
			p, err := h.LoadPlugin(with, PluginOptions{})
			if err != nil {
				typed(t, err)
				continue
			}
			if s, err := h.NewSession(SessionOptions{Plugins: []Attachment{{Plugin: p}}}); err == nil {
				_, _ = s.Tools(), s.Declarations()
				_ = s.Close(t.Context())
			}
			if err := p.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

func typed(t *testing.T, err error) {
	t.Helper()
	if abi.CodeOf(err) == "" {
		t.Errorf("an error without a code: %v", err)
	}
}

// The members of a manifest that is taken are read as they stand.
func TestManifestIsReadAsItStands(t *testing.T) {
	raw := tinyManifest(func(m *abi.Manifest) {
		m.Tools[0].Description = abi.Description{Short: "s", Long: "l"}
		m.Tools[0].Narrow = []abi.Narrowing{{When: map[string][]json.RawMessage{"/m": {in(`"GET"`)}}, Kind: abi.KindReadOnly}}
	})
	m, err := ParseManifest(raw)
	if err != nil || !equalJSON(t, mustJSON(m), raw) {
		t.Errorf("%v %s", err, mustJSON(m))
	}
	if !slices.Equal(m.Requires, nil) {
		t.Errorf("%v", m.Requires)
	}
}
