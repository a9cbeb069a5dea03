package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/schema"
	"github.com/bladehost/bladehost/host/tool"
)

// entry is one tool with everything that is computed once about it.
type entry struct {
	tool   tool.Tool
	spec   *abi.ToolSpec
	source tool.Source
	params *schema.Validator
	output *schema.Validator
	static tool.Behavior
	guest  *guestInfo
}

// newEntry checks a definition and compiles its schemas.
func newEntry(t tool.Tool, src tool.Source) (*entry, error) {
	if t == nil || t.Spec() == nil {
		return nil, abi.NewError(abi.CodeDefinition, "a tool of %s is nil or has no definition", src.ID)
	}
	s := t.Spec()
	fail := func(err error) error { return fmt.Errorf("%s: %w", src.ID, err) }
	if err := tool.CheckSpec(s); err != nil {
		return nil, fail(err)
	}
	if mcp := strings.HasPrefix(s.Name, abi.MCPPrefix); mcp != (src.Kind == tool.SourceMCP) {
		if mcp {
			return nil, fail(abi.NewError(abi.CodeNameReserved, "tool %q: names that start with %s are for tools of MCP servers", s.Name, abi.MCPPrefix))
		}
		return nil, fail(abi.NewError(abi.CodeNameReserved, "tool %q comes from an MCP server, so its name must start with %s", s.Name, abi.MCPPrefix))
	}
	e := &entry{tool: t, spec: s, source: src, static: tool.Static(s)}
	var err error
	if e.params, err = schema.CompileObject(s.Parameters); err != nil {
		return nil, fail(named(err, s.Name, "parameters"))
	}
	if s.OutputSchema != nil {
		if e.output, err = schema.Compile(s.OutputSchema); err != nil {
			return nil, fail(named(err, s.Name, "outputSchema"))
		}
	}
	return e, nil
}

func named(err error, name, field string) error {
	e := abi.AsError(err)
	return abi.NewError(e.Code, "tool %q, %s: %s", name, field, e.Message)
}

// registry is an immutable set of tools; changes make a new one.
type registry struct {
	byName map[string]*entry
	alias  map[string]string
	// sorted is non-MCP first, then by name.
	sorted []*entry
}

func newRegistry() *registry {
	return &registry{byName: map[string]*entry{}, alias: map[string]string{}}
}

// lookup finds a tool by alias or name.
func (r *registry) lookup(name string) (*entry, bool) {
	if c, ok := r.alias[name]; ok {
		name = c
	}
	e, ok := r.byName[name]
	return e, ok
}

// canonical is the name behind an alias.
func (r *registry) canonical(name string) (string, bool) {
	e, ok := r.lookup(name)
	if !ok {
		return "", false
	}
	return e.spec.Name, true
}

// with is r with more tools. What cannot be added is left out and reported in
// one error; the registry is usable all the same.
func (r *registry) with(list []*entry) (*registry, error) {
	out := &registry{byName: maps.Clone(r.byName), alias: maps.Clone(r.alias)}
	var errs []error
	for _, e := range list {
		if err := out.add(e); err != nil {
			errs = append(errs, err)
		}
	}
	out.sort()
	return out, errors.Join(errs...)
}

func (r *registry) add(e *entry) error {
	name := e.spec.Name
	if old, ok := r.byName[name]; ok {
		if old.source.Kind != tool.SourceMCP || e.source.Kind != tool.SourceMCP || old.source.Server != e.source.Server {
			return abi.NewError(abi.CodeNameTaken, "two tools are called %q: %s", name, bothSources(old.source, e.source))
		}
		r.remove(name)
	}
	if other, ok := r.alias[name]; ok {
		return abi.NewError(abi.CodeAliasTaken, "tool %q of %s: the name is an alias of %q of %s", name, e.source.ID, other, r.byName[other].source.ID)
	}
	for _, a := range e.spec.Aliases {
		if other, ok := r.alias[a]; ok {
			return abi.NewError(abi.CodeAliasTaken, "tool %q of %s: its alias %q is an alias of %q already", name, e.source.ID, a, other)
		}
		if other, ok := r.byName[a]; ok {
			return abi.NewError(abi.CodeAliasTaken, "tool %q of %s: its alias %q is the name of a tool of %s", name, e.source.ID, a, other.source.ID)
		}
	}
	r.byName[name] = e
	for _, a := range e.spec.Aliases {
		r.alias[a] = name
	}
	return nil
}

// bothSources says where two tools come from.
func bothSources(a, b tool.Source) string {
	if a == b {
		return "both are from " + sourceName(a)
	}
	return "one is from " + sourceName(a) + ", one from " + sourceName(b)
}

// sourceName is a source for a person: its id, and its kind or its server where
// the id does not say it.
func sourceName(s tool.Source) string {
	switch {
	case s.Kind == tool.SourceMCP && s.Server != s.ID:
		return fmt.Sprintf("%q of the MCP server %q", s.ID, s.Server)
	case string(s.Kind) != s.ID:
		return fmt.Sprintf("%q (%s)", s.ID, s.Kind)
	}
	return fmt.Sprintf("%q", s.ID)
}

func (r *registry) remove(name string) {
	maps.DeleteFunc(r.alias, func(_, c string) bool { return c == name })
	delete(r.byName, name)
}

// without is r without one tool, by name or alias.
func (r *registry) without(name string) (*registry, bool) {
	c, ok := r.canonical(name)
	if !ok {
		return r, false
	}
	out := &registry{byName: maps.Clone(r.byName), alias: maps.Clone(r.alias)}
	out.remove(c)
	out.sort()
	return out, true
}

// withoutServer is r without the tools of one MCP server.
func (r *registry) withoutServer(server string) *registry {
	out := &registry{byName: maps.Clone(r.byName), alias: maps.Clone(r.alias)}
	for name, e := range r.byName {
		if e.source.Kind == tool.SourceMCP && e.source.Server == server {
			out.remove(name)
		}
	}
	out.sort()
	return out
}

// replaced is r with other entries of the same names.
func (r *registry) replaced(list map[string]*entry) *registry {
	out := &registry{byName: maps.Clone(r.byName), alias: r.alias}
	maps.Copy(out.byName, list)
	out.sort()
	return out
}

func (r *registry) sort() {
	r.sorted = slices.SortedFunc(maps.Values(r.byName), func(a, b *entry) int {
		if am, bm := a.source.Kind == tool.SourceMCP, b.source.Kind == tool.SourceMCP; am != bm {
			if am {
				return 1
			}
			return -1
		}
		return strings.Compare(a.spec.Name, b.spec.Name)
	})
}

// ToolInfo is what a session says about one of its tools. It is a copy.
type ToolInfo struct {
	Name        string           `json:"name"`
	Aliases     []string         `json:"aliases,omitempty"`
	DisplayName string           `json:"displayName"`
	Description abi.Description  `json:"description"`
	Parameters  json.RawMessage  `json:"parameters"`
	Group       abi.Group        `json:"group,omitempty"`
	Behavior    tool.Behavior    `json:"behavior"`
	Source      tool.Source      `json:"source"`
	Exposure    abi.ExposureMode `json:"exposure"`
	Reason      string           `json:"hiddenReason,omitempty"`
	Plugin      *PluginInfo      `json:"plugin,omitempty"`
	Services    []string         `json:"services,omitempty"`
	Yields      []abi.YieldKind  `json:"yields,omitempty"`
}

// PluginInfo names the plugin of a tool.
type PluginInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Digest  string `json:"digest"`
}

func (e *entry) info() ToolInfo {
	s := e.spec
	i := ToolInfo{
		Name: s.Name, Aliases: slices.Clone(s.Aliases), DisplayName: s.Title(), Description: s.Description,
		Parameters: slices.Clone(s.Parameters), Group: s.Group, Behavior: e.static, Source: e.source,
		Services: slices.Clone(s.Services),
	}
	if g := e.guest; g != nil {
		i.Plugin = &PluginInfo{Name: g.manifest.Name, Version: g.manifest.Version, Digest: g.digest}
	}
	return i
}
