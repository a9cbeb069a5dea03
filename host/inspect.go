package host

import (
	"encoding/json"
	"sort"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/engine"
	"github.com/bladehost/bladehost/host/internal/strictjson"
	"github.com/bladehost/bladehost/host/internal/wasm"
)

// ModuleInfo is what a module's bytes say about it. Nothing of the module is run
// to learn it.
type ModuleInfo struct {
	// Digest is the SHA-256 of the file, in hex, and Size its length in bytes.
	Digest string `json:"sha256"`
	Size   int    `json:"size"`
	// Imports are the functions the module may call, as module.name.
	Imports   []string `json:"imports"`
	Exports   []string `json:"exports"`
	Functions int      `json:"functions"`
	// MemoryPages is the memory the module starts with, in pages of 64 KiB, and
	// MemoryMaxPages its own limit, 0 where it has none.
	MemoryPages    uint32 `json:"memoryPages"`
	MemoryMaxPages uint32 `json:"memoryMaxPages,omitempty"`
	// Manifest and RawManifest are nil where there is no manifest section.
	Manifest    *abi.Manifest   `json:"manifest,omitempty"`
	RawManifest json.RawMessage `json:"-"`
	// Problem is why the module cannot be run as a plugin, or nil.
	Problem *abi.Error `json:"problem,omitempty"`
}

// Inspect reads a module. An error means that it cannot be read at all; Problem
// says whether it can be run.
func Inspect(module []byte) (*ModuleInfo, error) {
	m, err := engine.Read(module)
	if err != nil {
		return nil, err
	}
	i := &ModuleInfo{
		Digest: m.Digest, Size: m.Info.Size, Functions: m.Info.Functions, Manifest: m.Manifest, RawManifest: m.Raw,
		Imports: []string{}, Exports: []string{},
	}
	for _, im := range m.Info.Imports {
		i.Imports = append(i.Imports, im.Module+"."+im.Name)
	}
	for _, ex := range m.Info.Exports {
		i.Exports = append(i.Exports, ex.Name)
	}
	sort.Strings(i.Imports)
	sort.Strings(i.Exports)
	if mem := m.Info.Memory; mem != nil {
		i.MemoryPages, i.MemoryMaxPages = mem.Min, mem.Max
	}
	if err := checkModule(m); err != nil {
		i.Problem = abi.AsError(err)
	}
	return i, nil
}

// WithManifest is the module with a manifest section of these bytes. The
// manifest must be valid; any earlier section of the name is replaced and all
// other bytes stay.
func WithManifest(module []byte, manifest json.RawMessage) ([]byte, error) {
	if _, err := engine.ParseManifest(manifest); err != nil {
		return nil, err
	}
	if _, err := engine.Read(module); err != nil && abi.CodeOf(err) != abi.CodeManifest && abi.CodeOf(err) != abi.CodeABIVersion && abi.CodeOf(err) != abi.CodeFeature {
		return nil, err
	}
	return wasm.SetCustom(module, abi.ManifestSection, manifest)
}

// ParseManifest reads a manifest and refuses one that is not valid.
func ParseManifest(raw json.RawMessage) (*abi.Manifest, error) { return engine.ParseManifest(raw) }

// StrictObject reads the members of a JSON object that came from outside: no
// duplicate keys, no invalid UTF-8, nothing behind it.
func StrictObject(b []byte) (map[string]json.RawMessage, error) {
	if err := strictjson.CheckObject(b); err != nil {
		return nil, err
	}
	var m map[string]json.RawMessage
	return m, json.Unmarshal(b, &m)
}
