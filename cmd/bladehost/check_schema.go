package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
)

// What a keyword of JSON Schema holds: schemas by name, a list of them, one, or
// something that is no schema.
const (
	holdsOther  = 'o'
	holdsOne    = '1'
	holdsList   = 'l'
	holdsByName = 'n'
	holdsItems  = 'i' // one or a list
)

// schemaKeywords are those of draft 2020-12, and of draft-07 where it differs.
func schemaKeywords() map[string]byte {
	out := map[string]byte{}
	for kind, words := range map[byte]string{
		holdsOne:    "additionalProperties unevaluatedProperties propertyNames contains unevaluatedItems additionalItems not if then else contentSchema",
		holdsList:   "allOf anyOf oneOf prefixItems",
		holdsByName: "properties patternProperties dependentSchemas $defs definitions dependencies",
		holdsItems:  "items",
		holdsOther: "$schema $id $ref $anchor $dynamicRef $dynamicAnchor $vocabulary $comment type enum const multipleOf maximum exclusiveMaximum minimum exclusiveMinimum " +
			"maxLength minLength pattern maxItems minItems uniqueItems maxContains minContains maxProperties minProperties required dependentRequired " +
			"title description default deprecated readOnly writeOnly examples format contentEncoding contentMediaType",
	} {
		for w := range strings.FieldsSeq(words) {
			out[w] = kind
		}
	}
	return out
}

// schemas checks the schemas and the examples: V08, V09 and V12.
func (c *checker) schemas() {
	words := schemaKeywords()
	for i := range c.manifest.Tools {
		t := &c.manifest.Tools[i]
		at := fmt.Sprintf("/tools/%d", i)
		if s := c.compiled(at+"/parameters", t.Parameters); s != nil {
			c.examples(t, s, at)
		}
		c.lint(words, at+"/parameters", t.Parameters, true)
		if t.OutputSchema != nil {
			c.usable(at+"/outputSchema", t.OutputSchema)
			c.lint(words, at+"/outputSchema", t.OutputSchema, false)
		}
		c.paths(t, at)
	}
	if c.manifest.Config != nil {
		c.usable("/config", c.manifest.Config)
		c.lint(words, "/config", c.manifest.Config, true)
	}
}

const schemaFix = "write a JSON Schema of draft 2020-12 with references only within it"

func (c *checker) compiled(at string, raw json.RawMessage) *host.Schema {
	s, err := host.CompileSchema(raw)
	if err != nil && !c.found(at) {
		c.valid = false // a session would refuse the tool
		c.add("V08", sevError, at, schemaFix, "%v", err)
	}
	return s
}

func (c *checker) usable(at string, raw json.RawMessage) {
	if err := host.CheckSchema(raw); err != nil && !c.found(at) {
		c.valid = false
		c.add("V08", sevError, at, schemaFix, "%v", err)
	}
}

// found reports whether there is an error at a place, or inside it, already.
func (c *checker) found(at string) bool {
	return slices.ContainsFunc(c.report.Findings, func(f finding) bool {
		return f.Severity == sevError && (f.Where == at || strings.HasPrefix(f.Where, at+"/"))
	})
}

// examples checks that the examples of the description are inputs.
func (c *checker) examples(t *abi.ToolSpec, s *host.Schema, at string) {
	for i, e := range t.Description.Examples {
		where := fmt.Sprintf("%s/description/examples/%d/params", at, i)
		issues, err := s.Validate(e.Params)
		if err != nil {
			c.add("V09", sevError, where, "write an input of the tool", "the example cannot be judged: %v", err)
		}
		for _, x := range issues {
			c.add("V09", sevError, where+x.Pointer, "write an input that fits the parameters", "the example does not fit: %s", x.Message)
		}
	}
}

// lint reports keywords that are none and properties without a description.
func (c *checker) lint(words map[string]byte, at string, raw json.RawMessage, describe bool) {
	var s map[string]json.RawMessage
	if json.Unmarshal(raw, &s) != nil {
		return // true and false are schemas too
	}
	for _, k := range sortedKeys(s) {
		here := at + "/" + pointerPart(k)
		kind, known := words[k]
		if !known {
			if !strings.HasPrefix(k, "x-") {
				c.add("V08", sevWarn, here, "take it out"+orMeant(k, sortedKeys(words)), "%q is no keyword of JSON Schema, so it has no effect", clip(k))
			}
			continue
		}
		for _, sub := range subschemas(kind, here, s[k]) {
			if describe && k == "properties" && !described(sub.raw) {
				c.add("V08", sevWarn, sub.at, `say in a sentence what it is for: "description"`, "the property has no description; a model has only the name to go by")
			}
			c.lint(words, sub.at, sub.raw, describe)
		}
	}
	c.required(at, s)
}

// required reports names that are required but are no property.
func (c *checker) required(at string, s map[string]json.RawMessage) {
	var names []string
	var props map[string]json.RawMessage
	if json.Unmarshal(s["required"], &names) != nil || json.Unmarshal(s["properties"], &props) != nil || props == nil {
		return
	}
	for i, n := range names {
		if _, ok := props[n]; !ok {
			c.add("V08", sevWarn, fmt.Sprintf("%s/required/%d", at, i), "add the property"+orMeant(n, sortedKeys(props)), "%q is required, but is no property", clip(n))
		}
	}
}

type subschema struct {
	at  string
	raw json.RawMessage
}

// subschemas are the schemas that a keyword holds.
func subschemas(kind byte, at string, raw json.RawMessage) []subschema {
	var out []subschema
	if kind == holdsItems {
		kind = holdsOne
		if strings.HasPrefix(strings.TrimSpace(string(raw)), "[") {
			kind = holdsList
		}
	}
	switch kind {
	case holdsOne:
		out = append(out, subschema{at, raw})
	case holdsList:
		var list []json.RawMessage
		_ = json.Unmarshal(raw, &list) // the compiler reports what is no list
		for i, x := range list {
			out = append(out, subschema{fmt.Sprintf("%s/%d", at, i), x})
		}
	case holdsByName:
		var m map[string]json.RawMessage
		_ = json.Unmarshal(raw, &m)
		for _, k := range sortedKeys(m) {
			out = append(out, subschema{at + "/" + pointerPart(k), m[k]})
		}
	}
	return out
}

// described reports whether a property says what it is for: itself, or by a
// reference to a schema that may.
func described(raw json.RawMessage) bool {
	var s struct {
		Description string          `json:"description"`
		Title       string          `json:"title"`
		Ref         string          `json:"$ref"`
		Const       json.RawMessage `json:"const"`
	}
	return json.Unmarshal(raw, &s) != nil || strings.TrimSpace(s.Description+s.Title+s.Ref) != "" || s.Const != nil
}

// paths reports parameters that are paths but are not named as such: V12.
func (c *checker) paths(t *abi.ToolSpec, at string) {
	var s struct {
		Properties map[string]struct {
			Type  any `json:"type"`
			Items struct {
				Type any `json:"type"`
			} `json:"items"`
		} `json:"properties"`
	}
	if json.Unmarshal(t.Parameters, &s) != nil {
		return
	}
	for i, p := range t.PathParams {
		name, _, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
		name = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
		if _, ok := s.Properties[name]; !ok && s.Properties != nil {
			c.add("V12", sevWarn, fmt.Sprintf("%s/pathParams/%d", at, i), "name a parameter"+orMeant(name, sortedKeys(s.Properties)), "%s has no parameter %q", t.Name, clip(name))
		}
	}
	if c.manifest.Requested().FS == nil {
		return
	}
	for _, name := range sortedKeys(s.Properties) {
		p := s.Properties[name]
		text := p.Type == "string" || p.Items.Type == "string"
		pointer := "/" + pointerPart(name)
		named := slices.ContainsFunc(t.PathParams, func(q string) bool { return q == pointer || strings.HasPrefix(q, pointer+"/") })
		if text && !named && pathLike(name) {
			c.add("V12", sevWarn, at+"/parameters/properties"+pointer, fmt.Sprintf("add %q to pathParams, so that rules and workspace roots judge it", pointer), "%s of %s looks like a path", clip(name), t.Name)
		}
	}
}

func pathLike(name string) bool {
	return regexp.MustCompile(`^(?:path|file|filename|dir|directory|folder)s?$|(?:[_-]|[a-z])(?:Path|File|Filename|Dir|Directory|Folder)s?$|[_-](?:path|file|filename|dir|directory|folder)s?$`).MatchString(name)
}
