package schema

import (
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// children calls same for each schema that applies to the same value as s, and
// below for each that applies to a value inside it.
func children(s *jsonschema.Schema, same, below func(*jsonschema.Schema)) {
	visit := func(f func(*jsonschema.Schema), list ...*jsonschema.Schema) {
		for _, x := range list {
			if x != nil {
				f(x)
			}
		}
	}
	visit(same, s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else)
	if s.DynamicRef != nil {
		visit(same, s.DynamicRef.Ref)
	}
	visit(same, s.AllOf...)
	visit(same, s.AnyOf...)
	visit(same, s.OneOf...)
	for _, x := range s.DependentSchemas {
		visit(same, x)
	}
	for _, x := range s.Dependencies {
		if x, ok := x.(*jsonschema.Schema); ok {
			visit(same, x)
		}
	}
	visit(below, s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema)
	visit(below, s.PrefixItems...)
	for _, x := range s.Properties {
		visit(below, x)
	}
	for _, x := range s.PatternProperties {
		visit(below, x)
	}
	for _, x := range []any{s.AdditionalProperties, s.AdditionalItems, s.Items} {
		switch x := x.(type) {
		case *jsonschema.Schema:
			visit(below, x)
		case []*jsonschema.Schema:
			visit(below, x...)
		}
	}
}

// measure counts the nodes of a schema with its references put in place, and
// notes what else matters about it.
type measure struct {
	size      map[*jsonschema.Schema]int
	open      map[*jsonschema.Schema]bool
	recursive bool
	defaults  bool
	problem   string
}

func newMeasure() *measure {
	return &measure{size: map[*jsonschema.Schema]int{}, open: map[*jsonschema.Schema]bool{}}
}

// unfold is the number of nodes below s, cut off a little over maxUnfolded. A
// node on its own way down counts once: affordable judges recursion.
func (m *measure) unfold(s *jsonschema.Schema) int {
	if m.open[s] {
		m.recursive = true
		return 1
	}
	if n, ok := m.size[s]; ok {
		return n
	}
	m.open[s] = true
	defer delete(m.open, s)
	m.note(s)
	n := 1
	add := func(x *jsonschema.Schema) {
		if n <= maxUnfolded {
			n += m.unfold(x)
		}
	}
	children(s, add, add)
	m.size[s] = n
	return n
}

func (m *measure) note(s *jsonschema.Schema) {
	if s.Default != nil {
		m.defaults = true
	}
	if s.Enum != nil && len(s.Enum.Values) > maxEnum {
		m.problem = fmt.Sprintf("an enum has %d values, at most %d are allowed", len(s.Enum.Values), maxEnum)
	}
	if n := len(s.PatternProperties); n > maxPatterns {
		m.problem = fmt.Sprintf("patternProperties has %d patterns, at most %d are allowed", n, maxPatterns)
	}
}

// maxSteps bounds the schema evaluations of one validation, about a second.
const maxSteps = 2_000_000

// affordable reports whether validating v against a recursive schema stays
// within maxSteps. The library evaluates a schema anew each time it is reached,
// so a schema that reaches itself twice for one value doubles with each level of
// the value; counting those evaluations takes only schemas times values.
func affordable(s *jsonschema.Schema, v any) bool {
	c := &cost{memo: map[costKey]int{}}
	return c.of(s, c.index(v)) < maxSteps
}

type costKey struct {
	s    *jsonschema.Schema
	node int
}

type cost struct {
	memo  map[costKey]int
	below [][]int // the nodes inside each node
}

func (c *cost) index(v any) int {
	id := len(c.below)
	c.below = append(c.below, nil)
	var kids []int
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			kids = append(kids, c.index(x))
		}
	case []any:
		for _, x := range v {
			kids = append(kids, c.index(x))
		}
	}
	c.below[id] = kids
	return id
}

// of counts as if every schema for inner values were tried on every inner value:
// an upper bound that is exact for arrays and close for objects.
func (c *cost) of(s *jsonschema.Schema, node int) int {
	key := costKey{s, node}
	if n, ok := c.memo[key]; ok {
		return n
	}
	c.memo[key] = 1 // a cycle on one value ends at once
	n := 1
	children(s, func(x *jsonschema.Schema) {
		if n < maxSteps {
			n += c.of(x, node)
		}
	}, func(x *jsonschema.Schema) {
		for _, kid := range c.below[node] {
			if n < maxSteps {
				n += c.of(x, kid)
			}
		}
	})
	c.memo[key] = min(n, maxSteps)
	return c.memo[key]
}

// fill puts in the defaults of the properties that v lacks, in place, and
// reports whether there were any. Defaults never make a value an object.
func fill(s *jsonschema.Schema, v any, deep int) (any, bool) {
	if s == nil || deep > maxFill {
		return v, false
	}
	changed := false
	into := func(x *jsonschema.Schema, v any) {
		if _, did := fill(x, v, deep+1); did {
			changed = true
		}
	}
	into(s.Ref, v)
	for _, x := range s.AllOf {
		into(x, v)
	}
	switch v := v.(type) {
	case map[string]any:
		for name, x := range s.Properties {
			if have, ok := v[name]; ok {
				into(x, have)
			} else if d := defaultOf(x, deep); d != nil {
				v[name] = clone(*d)
				into(x, v[name])
				changed = true
			}
		}
	case []any:
		for i, x := range v {
			if i < len(s.PrefixItems) {
				into(s.PrefixItems[i], x)
			} else {
				into(s.Items2020, x)
			}
		}
		if items, ok := s.Items.(*jsonschema.Schema); ok {
			for _, x := range v {
				into(items, x)
			}
		}
	}
	return v, changed
}

// maxFill bounds the way of fill through a recursive schema; a document is at
// most abi.MaxDepth deep, and each level takes a few references.
const maxFill = 512

func defaultOf(s *jsonschema.Schema, deep int) *any {
	for ; s != nil && deep <= maxFill; deep++ {
		if s.Default != nil {
			return s.Default
		}
		s = s.Ref
	}
	return nil
}

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = clone(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = clone(x)
		}
		return out
	}
	return v
}
