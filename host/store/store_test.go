package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/wasm"
)

func candidate(name, version, code string, change func(*abi.Manifest)) Candidate {
	m := &abi.Manifest{ABI: 1, Name: name, Version: version, Description: "d", Tools: []abi.ToolSpec{{
		Name: "Probe", Description: abi.Description{Short: "Probes."}, Parameters: json.RawMessage(`{"type":"object"}`), Kind: abi.KindReadOnly}}}
	if change != nil {
		change(m)
	}
	raw, err := abi.Marshal(m)
	if err != nil {
		panic(err)
	}
	module, err := wasm.SetCustom([]byte("\x00asm\x01\x00\x00\x00"), "code", []byte(code))
	if err != nil {
		panic(err)
	}
	if module, err = wasm.SetCustom(module, abi.ManifestSection, raw); err != nil {
		panic(err)
	}
	return Candidate{Module: module, Manifest: m, RawManifest: raw, Imports: []string{"blade_v1.ret"}, Source: "file:x"}
}

func TestInstallAndRead(t *testing.T) {
	s := Open(filepath.Join(t.TempDir(), "data"))
	if list, err := s.List(); err != nil || len(list) != 0 {
		t.Fatal(list, err)
	}
	if _, err := s.Get("blade-tool-a"); abi.CodeOf(err) != abi.CodeNotInstalled {
		t.Fatal(err)
	}
	c := candidate("blade-tool-a", "1.0.0", "code", nil)
	now, was, err := s.Install(t.Context(), c, false)
	if err != nil || was != nil || now.Version != "1.0.0" {
		t.Fatal(now, was, err)
	}
	e, err := s.Get("blade-tool-a")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := s.Module(e); err != nil || string(b) != string(c.Module) {
		t.Fatal(err)
	}
	fi, err := os.Stat(s.path(e.SHA256))
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("the module has mode %v, %v", fi.Mode(), err)
	}
	if _, was, err := s.Install(t.Context(), c, false); err != nil || was == nil {
		t.Errorf("the same plugin again: %v", err)
	}
	if _, err := s.Remove(t.Context(), "blade-tool-a"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.path(e.SHA256)); !errors.Is(err, os.ErrNotExist) {
		t.Error("the module is still there")
	}
	if _, err := s.Remove(t.Context(), "blade-tool-a"); abi.CodeOf(err) != abi.CodeNotInstalled {
		t.Error(err)
	}
}

// A plugin that changes under its name is not taken silently.
func TestChangedPluginIsRefused(t *testing.T) {
	for _, c := range []struct {
		name    string
		version string
		code    string
		change  func(*abi.Manifest)
		want    string
	}{
		{"other code, same version", "1.0.0", "other", nil, "but other code"},
		{"new version", "1.1.0", "other", nil, "version: 1.1.0, was 1.0.0"},
		{"other description", "1.0.0", "code", func(m *abi.Manifest) { m.Tools[0].Description.Short = "Sends mail." }, `description is "Sends mail.", was "Probes."`},
		{"wider schema", "1.0.0", "code", func(m *abi.Manifest) {
			m.Tools[0].Parameters = json.RawMessage(`{"type":"object","properties":{"x":{}}}`)
		}, "parameters is"},
		{"other kind", "1.0.0", "code", func(m *abi.Manifest) { m.Tools[0].Kind = abi.KindExecute }, "kind is"},
		{"new host", "1.0.0", "code", func(m *abi.Manifest) {
			m.Capabilities = &abi.Capabilities{HTTP: &abi.HTTPRequest{Hosts: []string{"evil.example"}, Why: "w"}}
		}, "new request: GET evil.example"},
		{"new tool", "1.0.0", "code", func(m *abi.Manifest) {
			m.Tools = append(m.Tools, abi.ToolSpec{Name: "More", Parameters: json.RawMessage(`{}`)})
		}, "new tool: More"},
		{"renamed tool, same body", "1.0.0", "code", func(m *abi.Manifest) { m.Tools[0].Name = "Probes" }, "no more tool: Probe"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Open(t.TempDir())
			if _, _, err := s.Install(t.Context(), candidate("blade-tool-a", "1.0.0", "code", nil), false); err != nil {
				t.Fatal(err)
			}
			next := candidate("blade-tool-a", c.version, c.code, c.change)
			_, _, err := s.Install(t.Context(), next, false)
			if abi.CodeOf(err) != abi.CodeChanged || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want it to say %q", err, c.want)
			}
			if e, _ := s.Get("blade-tool-a"); e.Version != "1.0.0" {
				t.Error("it was taken all the same")
			}
			if _, was, err := s.Install(t.Context(), next, true); err != nil || was == nil {
				t.Errorf("accepted: %v", err)
			}
			if e, _ := s.Get("blade-tool-a"); e.Version != c.version {
				t.Error("it was not taken")
			}
		})
	}
}

func TestDamage(t *testing.T) {
	s := Open(t.TempDir())
	now, _, err := s.Install(t.Context(), candidate("blade-tool-a", "1.0.0", "code", nil), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.path(now.SHA256), []byte("evil"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Module(now); abi.CodeOf(err) != abi.CodeCorrupt {
		t.Errorf("a changed module was given: %v", err)
	}
	if _, _, err := s.Install(t.Context(), candidate("blade-tool-a", "1.0.0", "code", nil), false); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Module(now); err != nil {
		t.Errorf("installing again does not mend it: %v", err)
	}
	for name, text := range map[string]string{
		"cut": `{"version":1,"plug`, "newer": `{"version":2,"plugins":{}}`, "empty": ``,
		"path in a digest": `{"version":1,"plugins":{"blade-tool-a":{"name":"blade-tool-a","version":"1","sha256":"../../x"}}}`,
		"other name":       `{"version":1,"plugins":{"blade-tool-a":{"name":"blade-tool-b","version":"1","sha256":"` + now.SHA256 + `"}}}`,
		"null map":         `{"version":1,"plugins":null}`, "no map": `{"version":1}`, "null": `null`, "no version": `{"plugins":{}}`, "a list": `[]`,
		"null entry": `{"version":1,"plugins":{"blade-tool-a":null}}`,
	} {
		if err := os.WriteFile(s.lockPath(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.List(); abi.CodeOf(err) != abi.CodeIO {
			t.Errorf("%s: %v", name, err)
		} else if old := name != "newer"; strings.Contains(err.Error(), s.lockPath()+" is damaged: ") != old || strings.Contains(err.Error(), "restore it, or remove it") != old {
			t.Errorf("%s: the advice is wrong: %v", name, err)
		}
		if _, _, err := s.Install(t.Context(), candidate("blade-tool-b", "1.0.0", "code", nil), false); err == nil {
			t.Errorf("%s: a damaged lock file was replaced", name)
		}
	}
}

func TestTwoInstallersAtOnce(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if _, _, err := Open(dir).Install(t.Context(), candidate(fmt.Sprintf("blade-tool-p%d", i), "1.0.0", "code", nil), false); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	list, err := Open(dir).List()
	if err != nil || len(list) != 20 {
		t.Fatal(len(list), err)
	}
	for _, e := range list {
		if _, err := Open(dir).Module(e); err != nil {
			t.Error(err)
		}
	}
}
