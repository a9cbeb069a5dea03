package extism

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/engine"
	"github.com/bladehost/bladehost/host/internal/engine/wasi"
	"github.com/bladehost/bladehost/host/internal/wasm"
)

// Modules that a plugin imports from.
const (
	envModule  = "extism:host/env"
	userModule = "extism:host/user"
)

// Functions of userModule.
const (
	yieldName    = "blade_yield"
	callName     = "blade_call"
	notifyPrefix = "notify_"
)

// kind is the contract a plugin follows.
type kind struct {
	name           string
	describe, call string
}

// kinds are the contracts, in the order in which they are looked for.
func kinds() []kind {
	return []kind{
		{kindBlade, abi.ExportDescribe, abi.ExportExecute},
		{kindMCP2, "list_tools", "call_tool"},
		{kindMCP1, "describe", "call"},
	}
}

// Names of the contracts: bladehost's own, and the two of MCP-style plugins.
const (
	kindBlade = "blade"
	kindMCP1  = "mcp-1"
	kindMCP2  = "mcp-2"
)

// Is reports whether a module is a plugin of Extism's memory model. One that also
// imports bladehost's functions is not: it is another kind of plugin with imports
// that do not belong there.
func Is(info *wasm.Info) bool {
	from := func(module string) bool {
		return slices.ContainsFunc(info.Imports, func(i wasm.Import) bool { return i.Module == module })
	}
	return from(envModule) && !from(abi.ImportModule)
}

// Check is nil if the module can be run: it has the exports of one contract and
// imports only what is lent.
func Check(m *engine.Module) error {
	if err := checkImports(m.Info); err != nil {
		return err
	}
	k, err := kindOf(m.Info)
	if err != nil {
		return err
	}
	if m.Manifest == nil {
		flags := ""
		if k.name != kindBlade {
			flags = "--name blade-tool-x --version 1.0.0 "
		}
		return abi.NewError(abi.CodeManifestMissing, "the module has no %s section; add it with: bladehost build FILE.wasm %s-o OUT.wasm", abi.ManifestSection, flags)
	}
	if m.Manifest.Requested().FS != nil {
		return abi.NewError(abi.CodeManifest, "the manifest asks for capabilities.fs, but a plugin of Extism's memory model has no files; build it with a kit of bladehost")
	}
	return nil
}

func kindOf(info *wasm.Info) (kind, error) {
	for _, k := range kinds() {
		if !hasFunc(info, k.describe) || !hasFunc(info, k.call) {
			continue
		}
		for _, name := range []string{k.describe, k.call} {
			e, _ := info.Export(name)
			if t := e.Type; len(t.Params) > 0 || len(t.Results) > 1 || (len(t.Results) == 1 && t.Results[0] != wasm.I32) {
				return kind{}, abi.NewError(abi.CodeExportType, "the export %s is a function %s; an Extism plugin has () -> i32", name, t)
			}
		}
		return k, nil
	}
	return kind{}, abi.NewError(abi.CodeExportMissing, "the module is an Extism plugin, but exports none of these pairs of functions: %s and %s, list_tools and call_tool, describe and call", abi.ExportDescribe, abi.ExportExecute)
}

func hasFunc(info *wasm.Info, name string) bool {
	e, ok := info.Export(name)
	return ok && e.Kind == wasm.Func
}

// signature is a function type in short: p and r have a letter for each, i for
// i32 and I for i64.
func signature(p, r string) wasm.FuncType {
	types := func(s string) []wasm.ValType {
		out := make([]wasm.ValType, len(s))
		for i, c := range s {
			out[i] = wasm.I64
			if c == 'i' {
				out[i] = wasm.I32
			}
		}
		return out
	}
	return wasm.FuncType{Params: types(p), Results: types(r)}
}

// kernel are the functions of envModule that Extism's kernel answers.
func kernel() map[string]wasm.FuncType {
	return map[string]wasm.FuncType{
		"input_length": signature("", "I"), "input_offset": signature("", "I"), "input_set": signature("II", ""),
		"output_set": signature("II", ""), "output_length": signature("", "I"), "output_offset": signature("", "I"),
		"error_set": signature("I", ""), "error_get": signature("", "I"), "memory_bytes": signature("", "I"),
	}
}

// checkImports names every import that is not lent, all at once.
func checkImports(info *wasm.Info) error {
	lent := lentImports()
	var unknown, wrong []string
	for _, im := range info.Imports {
		name := im.Module + "." + im.Name
		want, known := lent[im.Module][im.Name]
		if im.Module == userModule && strings.HasPrefix(im.Name, notifyPrefix) && im.Kind == wasm.Func {
			want, known = im.Type, plain(im.Type)
		}
		switch {
		case !known || im.Kind != wasm.Func:
			unknown = append(unknown, fmt.Sprintf("%.200s (%s)", name, im.Kind))
		case !im.Type.Equal(want):
			wrong = append(wrong, fmt.Sprintf("%.200s is imported as %s, but is %s", name, im.Type, want))
		}
	}
	if len(unknown) > 0 {
		sort.Strings(unknown)
		return abi.NewError(abi.CodeImportUnknown, "the Extism plugin imports what a plugin cannot have: %s. Lent are %s, %s and %s of %s, and %s", strings.Join(unknown, ", "), envModule, yieldName, callName, userModule, abi.WASIModule)
	}
	if len(wrong) > 0 {
		sort.Strings(wrong)
		return abi.NewError(abi.CodeImportType, "imports with a wrong signature: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// plain says whether a notification has a type that can be answered: numbers in,
// nothing or one number out.
func plain(t wasm.FuncType) bool {
	numbers := !slices.ContainsFunc(slices.Concat(t.Params, t.Results), func(v wasm.ValType) bool { return v != wasm.I32 && v != wasm.I64 })
	return numbers && len(t.Params) <= 8 && len(t.Results) <= 1
}

// lentImports are all functions that a plugin may import, but the notifications.
func lentImports() map[string]map[string]wasm.FuncType {
	env := kernel()
	for name, f := range answered() {
		if f.from == envModule {
			env[name] = f.typ
		}
	}
	lent := map[string]map[string]wasm.FuncType{
		envModule:      env,
		userModule:     {yieldName: signature("I", "I"), callName: signature("II", "I")},
		abi.WASIModule: {},
	}
	for name, s := range wasi.Signatures() {
		lent[abi.WASIModule][name] = wasm.FuncType{Params: valTypes(s.Params), Results: valTypes(s.Results)}
	}
	return lent
}

func valTypes[T ~byte](list []T) []wasm.ValType {
	out := make([]wasm.ValType, len(list))
	for i, t := range list {
		out[i] = wasm.ValType(t)
	}
	return out
}
