package host

import (
	"context"
	"encoding/json"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/engine"
	"github.com/bladehost/bladehost/host/internal/engine/extism"
	"github.com/bladehost/bladehost/host/internal/schema"
	"github.com/bladehost/bladehost/host/tool"
)

// runner runs a plugin: the engine, or its part for modules on Extism's memory
// model.
type runner interface {
	Manifest() *abi.Manifest
	Module() *engine.Module
	Compile(ctx context.Context) (hit bool, err error)
	Close(ctx context.Context) error
	Tool(i int, w *engine.World, lent engine.Lent) tool.Tool
}

// ownRunner is a plugin of the engine.
type ownRunner struct{ *engine.Plugin }

// Tool is one of the plugin's tools for a world.
func (p ownRunner) Tool(i int, w *engine.World, lent engine.Lent) tool.Tool {
	return p.Plugin.Tool(i, w, lent)
}

// load gives a module to whoever runs its kind.
func (h *Host) load(module []byte) (runner, error) {
	p, err := h.engine.Load(module)
	switch {
	case err == nil:
		return ownRunner{p}, nil
	case !isExtism(module, err):
		return nil, err
	}
	e, err := h.extism.Load(module)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// isExtism reports whether the engine refused a module because it is Extism's.
func isExtism(module []byte, why error) bool {
	if c := abi.CodeOf(why); c != abi.CodeImportUnknown && c != abi.CodeCommandModule {
		return false
	}
	m, err := engine.Read(module)
	return err == nil && extism.Is(m.Info)
}

// checkModule is why a module cannot be run as a plugin, or nil.
func checkModule(m *engine.Module) error {
	if extism.Is(m.Info) {
		return extism.Check(m)
	}
	return m.Check()
}

// DescribeExtism runs the description of a module on Extism's memory model and
// returns the manifest. It is for building and checking plugins, as Describe is.
// A plugin made for another host lists its tools in the style of MCP and does not
// know a name or version of its own: they are given here. They must be empty for
// one of bladehost's contract; and for one that has a manifest section already,
// empty means what stands there.
func (h *Host) DescribeExtism(ctx context.Context, module []byte, name, version string) (json.RawMessage, error) {
	if err := h.made(); err != nil {
		return nil, err
	}
	m, err := engine.Read(module)
	if err != nil {
		return nil, err
	}
	if !extism.Is(m.Info) {
		return nil, abi.NewError(abi.CodeOptions, "the module is not made for Extism: it says itself what its name and version are; leave them out")
	}
	p, err := h.extism.LoadUnsigned(module)
	if err != nil {
		return nil, err
	}
	raw, err := p.Describe(ctx, name, version)
	if e := p.Close(ctx); err == nil && e != nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	return raw, schemasOf(raw)
}

// schemasOf is why a schema of the manifest cannot be used, or nil. The author of
// an Extism plugin never saw our checks.
func schemasOf(raw json.RawMessage) error {
	m, err := engine.ParseManifest(raw)
	if err != nil {
		return err
	}
	for _, t := range m.Tools {
		if _, err := schema.CompileObject(t.Parameters); err != nil {
			return named(err, t.Name, "parameters")
		}
		if t.OutputSchema == nil {
			continue
		}
		if _, err := schema.Compile(t.OutputSchema); err != nil {
			return named(err, t.Name, "outputSchema")
		}
	}
	return nil
}
