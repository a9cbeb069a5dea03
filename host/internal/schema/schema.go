// Package schema compiles JSON Schemas and validates against them. Schemas come
// from plugins and are hostile: references leave the document never, size,
// depth and the work a validation can cause are bounded, and a panic of the
// library becomes an error. It is the one owner of santhosh-tekuri/jsonschema,
// whose types stay inside. A Validator is immutable and safe for concurrent use.
//
// The dialect is draft 2020-12, or draft-07 where $schema says so. "format" is
// asserted. "pattern" is RE2, which has no look-around and no back-references.
package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/strictjson"
)

const (
	// maxUnfolded bounds the nodes of a schema with all references put in place:
	// a ladder of allOf doubles with each step, and 2^20 takes 3 s to validate.
	maxUnfolded = 10_000
	// maxEnum and maxPatterns bound what one keyword makes the library do for
	// every value (1,000 patterns on 2,000 keys took 1 s).
	maxEnum     = 1_000
	maxPatterns = 100
	// location is the address of every schema inside its own compiler.
	location = "mem:///schema.json"
)

// Validator is a compiled schema.
type Validator struct {
	raw       json.RawMessage
	root      *jsonschema.Schema
	recursive bool
	defaults  bool
}

// Compile makes a Validator. Its errors have code abi.CodeSchema.
func Compile(raw json.RawMessage) (*Validator, error) {
	if len(raw) > abi.MaxSchema {
		return nil, fail("it has %d bytes, at most %d are allowed", len(raw), abi.MaxSchema)
	}
	doc, err := strictjson.Value(raw)
	if err != nil {
		return nil, fail("%v", err)
	}
	if d := depth(doc); d > abi.MaxSchemaDepth {
		return nil, fail("it is nested %d levels deep, at most %d are allowed", d, abi.MaxSchemaDepth)
	}
	if err := dialect(doc); err != nil {
		return nil, err
	}
	root, err := compile(doc)
	if err != nil {
		return nil, err
	}
	v := &Validator{raw: bytes.Clone(raw), root: root}
	m := newMeasure()
	if n := m.unfold(root); n > maxUnfolded {
		return nil, fail("with its references put in place it has more than %d nodes; validating against it would take too long", maxUnfolded)
	}
	if m.problem != "" {
		return nil, fail("%s", m.problem)
	}
	v.recursive, v.defaults = m.recursive, m.defaults
	return v, nil
}

// CompileObject is Compile for the parameters of a tool: the root must describe
// an object.
func CompileObject(raw json.RawMessage) (*Validator, error) {
	v, err := Compile(raw)
	if err != nil {
		return nil, err
	}
	if !describesObject(v.root, 0) {
		return nil, fail(`its root does not describe an object; write {"type":"object",…}`)
	}
	return v, nil
}

func fail(format string, args ...any) *abi.Error {
	return abi.NewError(abi.CodeSchema, "the JSON Schema cannot be used: %s", fmt.Sprintf(format, args...))
}

func dialect(doc any) error {
	obj, ok := doc.(map[string]any)
	if !ok {
		return nil
	}
	id, ok := obj["$schema"]
	if !ok {
		return nil
	}
	s, _ := id.(string)
	switch strings.TrimSuffix(s, "#") {
	case "https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema", "https://json-schema.org/draft-07/schema":
		return nil
	}
	return fail("$schema names %.100q; draft 2020-12 and draft-07 are known", s)
}

func compile(doc any) (root *jsonschema.Schema, err error) {
	defer func() {
		if p := recover(); p != nil {
			root, err = nil, fail("the validator failed on it: %v", p)
		}
	}()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.AssertFormat()
	if err := c.AddResource(location, doc); err != nil {
		return nil, fail("%s", tidy(err))
	}
	root, err = c.Compile(location)
	if err != nil {
		return nil, fail("%s", tidy(err))
	}
	return root, nil
}

// noLoader refuses every reference that leaves the document.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("the reference to %.200q leaves the schema; only references inside it (#/…) are allowed", strings.TrimPrefix(url, "mem:///"))
}

func tidy(err error) string {
	s := strings.ReplaceAll(err.Error(), location, "")
	s = strings.Join(strings.Fields(s), " ")
	return clip(s, 2048)
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func depth(v any) int {
	d := 0
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			d = max(d, depth(x))
		}
	case []any:
		for _, x := range v {
			d = max(d, depth(x))
		}
	default:
		return 0
	}
	return d + 1
}

func describesObject(s *jsonschema.Schema, deep int) bool {
	if s == nil || s.Bool != nil || deep > abi.MaxSchemaDepth {
		return false
	}
	if s.Types != nil && !s.Types.IsEmpty() {
		types := s.Types.ToStrings()
		return len(types) == 1 && types[0] == "object"
	}
	if s.Properties != nil || describesObject(s.Ref, deep+1) {
		return true
	}
	for _, sub := range s.AllOf {
		if describesObject(sub, deep+1) {
			return true
		}
	}
	return false
}

// Raw is the schema as it was given. The caller must not change it.
func (v *Validator) Raw() json.RawMessage { return v.raw }

// Prepare checks the strict JSON of input, puts in the defaults of the declared
// properties and validates the result. It returns the bytes to use: input itself
// where no default was put in. Issues name every place that does not fit. An
// error means that the input is no strict JSON or that validating it would take
// too long.
func (v *Validator) Prepare(input json.RawMessage) (json.RawMessage, []abi.Issue, error) {
	out, _, issues, err := v.Prepared(input)
	return out, issues, err
}

// Prepared is Prepare with the decoded value of the bytes it returns, for
// callers that read it too: maps, slices, strings, bools, nil and json.Number.
func (v *Validator) Prepared(input json.RawMessage) (out json.RawMessage, doc any, issues []abi.Issue, err error) {
	if doc, err = strictjson.Value(input); err != nil {
		return nil, nil, nil, err
	}
	out = input
	if v.defaults {
		if _, changed := fill(v.root, doc, 0); changed {
			if out, err = abi.Marshal(doc); err != nil {
				return nil, nil, nil, err
			}
		}
	}
	issues, err = v.validate(doc)
	return out, doc, issues, err
}

// Validate is Prepare without defaults, for a tool's output.
func (v *Validator) Validate(data json.RawMessage) ([]abi.Issue, error) {
	doc, err := strictjson.Value(data)
	if err != nil {
		return nil, err
	}
	return v.validate(doc)
}

func (v *Validator) validate(doc any) (issues []abi.Issue, err error) {
	if v.recursive && !affordable(v.root, doc) {
		return nil, fail("validating this value would take too long")
	}
	defer func() {
		if p := recover(); p != nil {
			issues, err = nil, fail("the validator failed on this value: %v", p)
		}
	}()
	bad := v.root.Validate(doc)
	if bad == nil {
		return nil, nil
	}
	return describe(bad, doc)
}
