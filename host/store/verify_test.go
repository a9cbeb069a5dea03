package store

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
)

// editLock changes lock.json as somebody with an editor would.
func editLock(t *testing.T, s *Store, change func(plugins map[string]map[string]any)) {
	t.Helper()
	b, err := os.ReadFile(s.lockPath())
	if err != nil {
		t.Fatal(err)
	}
	var l struct {
		Version int                       `json:"version"`
		Plugins map[string]map[string]any `json:"plugins"`
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&l); err != nil {
		t.Fatal(err)
	}
	change(l.Plugins)
	if b, err = json.Marshal(l); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.lockPath(), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// An entry whose module says something else is not used, and installing the same
// file again mends it.
func TestEntryBelongsToModule(t *testing.T) {
	type plugins = map[string]map[string]any
	set := func(member string, v any) func(plugins) {
		return func(p plugins) { p["blade-tool-a"][member] = v }
	}
	for _, c := range []struct {
		name   string
		change func(plugins)
		want   string // "" means that nothing is wrong
	}{
		{"only indented anew", func(plugins) {}, ""},
		{"swapped modules", func(p plugins) {
			p["blade-tool-a"]["sha256"], p["blade-tool-b"]["sha256"] = p["blade-tool-b"]["sha256"], p["blade-tool-a"]["sha256"]
		}, "the module is blade-tool-b"},
		{"version", set("version", "2.0.0"), "version is"},
		{"size", set("size", 1), "size is"},
		{"manifest digest", set("manifestSha256", strings.Repeat("0", 64)), "manifestSha256"},
		{"null manifest digest", set("manifestSha256", nil), "manifestSha256"},
		{"tools", set("tools", map[string]string{"Probe": "00"}), "tools"},
		{"null tools", set("tools", nil), "tools"},
		{"definitions", func(p plugins) {
			p["blade-tool-a"]["definitions"].([]any)[0].(map[string]any)["kind"] = "execute"
		}, "definitions"},
		{"null definitions", set("definitions", nil), "definitions"},
		{"no definitions", func(p plugins) { delete(p["blade-tool-a"], "definitions") }, "definitions"},
		{"capabilities", set("capabilities", map[string]any{"clock": "fine"}), "capabilities"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Open(t.TempDir())
			special := func(m *abi.Manifest) {
				m.Tools[0].Parameters = json.RawMessage(`{ "type":"object", "description":"<b> & more", "maxProperties":12345678901234567890 }`)
			}
			a := candidate("blade-tool-a", "1.0.0", "code", special)
			for _, x := range []Candidate{a, candidate("blade-tool-b", "1.0.0", "code", nil)} {
				if _, _, err := s.Install(t.Context(), x, false); err != nil {
					t.Fatal(err)
				}
			}
			editLock(t, s, c.change)
			e, err := s.Get("blade-tool-a")
			if err != nil {
				t.Fatal(err)
			}
			switch _, err := s.Module(e); {
			case c.want == "":
				if err != nil {
					t.Fatal(err)
				}
			case abi.CodeOf(err) != abi.CodeCorrupt || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), s.lockPath()):
				t.Fatalf("got %v, want it to say %q", err, c.want)
			}
			if _, _, err := s.Install(t.Context(), a, true); err != nil {
				t.Fatal(err)
			}
			if e, err = s.Get("blade-tool-a"); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Module(e); err != nil {
				t.Errorf("installing again does not mend it: %v", err)
			}
		})
	}
}

// The difference tells of nothing that is the same: lock.json has it indented.
func TestDiffIsWithoutFalseAlarm(t *testing.T) {
	s := Open(t.TempDir())
	special := func(m *abi.Manifest) {
		m.Tools[0].Parameters = json.RawMessage(`{"type":"object","properties":{"x":{"description":"<b> & more","enum":[1,2.50]}}}`)
	}
	if _, _, err := s.Install(t.Context(), candidate("blade-tool-a", "1.0.0", "code", special), false); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.Install(t.Context(), candidate("blade-tool-a", "1.1.0", "other", special), false)
	if abi.CodeOf(err) != abi.CodeChanged || strings.Contains(err.Error(), "tool Probe") || strings.Contains(err.Error(), "…\n") {
		t.Errorf("got %v", err)
	}
	_, _, err = s.Install(t.Context(), candidate("blade-tool-a", "1.1.0", "other", nil), false)
	if want := `tool Probe: parameters is {"type":"object"}, was {"type":"object","properties":{"x":{"description":"<b> & more","enum":[1,2.50]}}}`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want it to say %s", err, want)
	}
}

// What is no regular file, or too large, is refused instead of read.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	large := func(t *testing.T, path string) {
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(maxLock + 1); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	kinds := map[string]func(*testing.T, string){
		"a folder": func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		},
		"large": large,
		"a device": func(t *testing.T, path string) {
			if err := os.Symlink("/dev/zero", path); err != nil {
				t.Skip(err)
			}
		},
	}
	if makeFifo != nil {
		kinds["a pipe"] = makeFifo
	}
	for name, put := range kinds {
		t.Run(name, func(t *testing.T) {
			s := Open(filepath.Join(t.TempDir(), "data"))
			c := candidate("blade-tool-a", "1.0.0", "code", nil)
			e, _, err := s.Install(t.Context(), c, false)
			if err != nil {
				t.Fatal(err)
			}
			why := " is not a regular file"
			if name == "large" {
				why = " has 67108865 bytes, at most 67108864 are allowed"
			}
			module := s.path(e.SHA256)
			if err := os.Remove(module); err != nil {
				t.Fatal(err)
			}
			put(t, module)
			if _, err := s.Module(e); abi.CodeOf(err) != abi.CodeCorrupt || !strings.Contains(err.Error(), module+why) || !strings.Contains(err.Error(), "install the plugin again with: bladehost install x") {
				t.Errorf("module: %v", err)
			}
			if name != "a folder" {
				if _, _, err := s.Install(t.Context(), c, false); err != nil {
					t.Fatal(err)
				}
				if _, err := s.Module(e); err != nil {
					t.Errorf("installing again does not mend it: %v", err)
				}
			}
			if err := os.Remove(s.lockPath()); err != nil {
				t.Fatal(err)
			}
			put(t, s.lockPath())
			if _, err := s.List(); abi.CodeOf(err) != abi.CodeIO || !strings.Contains(err.Error(), s.lockPath()+why) {
				t.Errorf("lock file: %v", err)
			}
			if _, _, err := s.Install(t.Context(), c, false); abi.CodeOf(err) != abi.CodeIO {
				t.Errorf("lock file, install: %v", err)
			}
		})
	}
}
