package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/engine/wasi"
	"github.com/bladehost/bladehost/host/internal/strictjson"
	"github.com/bladehost/bladehost/host/internal/wasm"
	"github.com/bladehost/bladehost/host/tool"
)

// Module is what a module's bytes say, without running any of them.
type Module struct {
	// Info has no custom sections where it comes from the cache.
	Info *wasm.Info
	// Digest is the SHA-256 of the file, in hex.
	Digest string
	// Manifest and Raw are nil for a module without a manifest section.
	Manifest *abi.Manifest
	Raw      json.RawMessage
}

// Read scans a module and reads its manifest section. Only a module that cannot
// be read at all is an error; Check says whether it is a plugin.
func Read(b []byte) (*Module, error) {
	info, err := wasm.Scan(b, wasm.Limits{})
	if err != nil {
		return nil, moduleError(err)
	}
	return describe(b, sha256.Sum256(b), info)
}

// describe is what a scanned module says.
func describe(b []byte, sum [sha256.Size]byte, info *wasm.Info) (*Module, error) {
	m := &Module{Info: info, Digest: hex.EncodeToString(sum[:])}
	raw, n, err := wasm.FindCustom(b, abi.ManifestSection)
	switch {
	case err != nil:
		return nil, moduleError(err)
	case n == 0:
		return m, nil
	case n > 1:
		return nil, abi.NewError(abi.CodeManifest, "the module has %d %s sections; one is allowed", n, abi.ManifestSection)
	}
	m.Raw = slices.Clone(raw)
	if m.Manifest, err = ParseManifest(m.Raw); err != nil {
		return nil, err
	}
	return m, nil
}

var moduleCodes = map[wasm.Reason]abi.Code{
	wasm.NotWasm: abi.CodeNotWasm, wasm.BadVersion: abi.CodeNotWasm, wasm.Component: abi.CodeComponent,
	wasm.Truncated: abi.CodeModuleTruncated, wasm.Malformed: abi.CodeModuleMalformed, wasm.OverLimit: abi.CodeModuleLimit,
	wasm.Unsupported: abi.CodeModuleFeature, wasm.Reserved: abi.CodeModuleFeature,
}

func moduleError(err error) *abi.Error {
	code, ok := moduleCodes[wasm.ReasonOf(err)]
	if !ok {
		code = abi.CodeModuleMalformed
	}
	return abi.NewError(code, "%v", err).Because(err)
}

// ParseManifest reads a manifest and refuses one that is not valid. Members that
// this version does not know are ignored.
func ParseManifest(raw json.RawMessage) (*abi.Manifest, error) {
	if len(raw) > abi.MaxManifest {
		return nil, abi.NewError(abi.CodeManifest, "the manifest has %d bytes, at most %d are allowed", len(raw), abi.MaxManifest)
	}
	var head struct {
		ABI json.RawMessage `json:"abi"`
	}
	if err := strictjson.Decode(raw, &head); err != nil {
		return nil, abi.NewError(abi.CodeManifest, "the manifest: %v", err)
	}
	if v := string(head.ABI); v != fmt.Sprint(abi.Version) {
		if v == "" {
			v = "no version"
		}
		return nil, abi.NewError(abi.CodeABIVersion, "the plugin was written for ABI %s; this host knows version %d", clipText(v), abi.Version)
	}
	var m abi.Manifest
	if err := strictjson.Decode(raw, &m); err != nil {
		return nil, abi.NewError(abi.CodeManifest, "the manifest: %v", err)
	}
	for _, f := range m.Requires {
		if !slices.Contains(abi.Features(), f) {
			return nil, abi.NewError(abi.CodeFeature, "the plugin %s requires the host feature %q, which this host (ABI %d) does not have; use a newer host", clipText(m.Name), clipText(f), abi.Version)
		}
	}
	if issues := m.Validate(); len(issues) > 0 {
		return nil, tool.InvalidIssues(abi.CodeManifest, fmt.Sprintf("the manifest of %q is not valid", clipText(m.Name)), issues)
	}
	return &m, nil
}

func clipText(s string) string {
	const most = 100
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// Check is nil if the module can be run as a plugin: it has the exports and only
// imports of the ABI, each with the right signature. A module of the Extism kind
// is judged by its own rules.
func (m *Module) Check() error {
	if _, ok := m.Info.Export(abi.ExportStart); ok {
		return abi.NewError(abi.CodeCommandModule, "the module is a command: it exports %s. Build a reactor (Go: -buildmode=c-shared; clang: -mexec-model=reactor; Rust: a cdylib)", abi.ExportStart)
	}
	if err := m.checkImports(); err != nil {
		return err
	}
	if err := m.checkExports(); err != nil {
		return err
	}
	if m.Manifest == nil {
		return abi.NewError(abi.CodeManifestMissing, "the module has no %s section; add it with: bladehost build FILE.wasm -o OUT.wasm", abi.ManifestSection)
	}
	return nil
}

func (m *Module) checkExports() error {
	mem, ok := m.Info.Export(abi.ExportMemory)
	if !ok || mem.Kind != wasm.Memory {
		return abi.NewError(abi.CodeExportMissing, "the module does not export its memory under the name %q", abi.ExportMemory)
	}
	names := abi.Exports()
	for _, name := range []string{abi.ExportDescribe, abi.ExportExecute, abi.ExportInitialize, abi.ExportWarm} {
		want := names[name]
		have, ok := m.Info.Export(name)
		if !ok {
			if want.Required {
				return abi.NewError(abi.CodeExportMissing, "the module does not export the function %s %s", name, funcType(want.Signature))
			}
			continue
		}
		if have.Kind != wasm.Func || !have.Type.Equal(funcType(want.Signature)) {
			return abi.NewError(abi.CodeExportType, "the export %s is %s; the ABI asks for a function %s", name, describeExport(have), funcType(want.Signature))
		}
	}
	return nil
}

func describeExport(e wasm.Export) string {
	if e.Kind == wasm.Func {
		return "a function " + e.Type.String()
	}
	return "a " + e.Kind.String()
}

// checkImports names every import that is not the ABI's, all at once.
func (m *Module) checkImports() error {
	own := abi.Imports()
	lent := wasi.Signatures()
	var unknown, wrong []string
	for _, im := range m.Info.Imports {
		name := im.Module + "." + im.Name
		var want wasm.FuncType
		known := false
		switch im.Module {
		case abi.ImportModule:
			var s abi.Signature
			s, known = own[im.Name]
			want = funcType(s)
		case abi.WASIModule:
			var s wasi.Signature
			s, known = lent[im.Name]
			want = wasm.FuncType{Params: valTypes(s.Params), Results: valTypes(s.Results)}
		}
		switch {
		case !known || im.Kind != wasm.Func:
			unknown = append(unknown, fmt.Sprintf("%s (%s)", clipText(name), im.Kind))
		case !im.Type.Equal(want):
			wrong = append(wrong, fmt.Sprintf("%s is imported as %s, but is %s", name, im.Type, want))
		}
	}
	if len(unknown) > 0 {
		sort.Strings(unknown)
		return abi.NewError(abi.CodeImportUnknown, "the module imports what a plugin cannot have: %s. Only %s and %s are lent", strings.Join(unknown, ", "), abi.ImportModule, abi.WASIModule)
	}
	if len(wrong) > 0 {
		sort.Strings(wrong)
		return abi.NewError(abi.CodeImportType, "imports with a wrong signature: %s", strings.Join(wrong, "; "))
	}
	return nil
}

func funcType(s abi.Signature) wasm.FuncType {
	return wasm.FuncType{Params: valTypes(s.Params), Results: valTypes(s.Results)}
}

func valTypes[T ~byte](list []T) []wasm.ValType {
	out := make([]wasm.ValType, len(list))
	for i, t := range list {
		out[i] = wasm.ValType(t)
	}
	return out
}
