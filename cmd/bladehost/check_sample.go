package main

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
)

// sampleInput makes a small input that fits a schema, or nil where it finds none:
// it does not solve patterns.
func sampleInput(raw json.RawMessage) json.RawMessage {
	var root any
	if json.Unmarshal(raw, &root) != nil {
		return nil
	}
	v, err := abi.Marshal((&sampler{root: root}).of(root, 0))
	if err != nil {
		return nil
	}
	s, err := host.CompileSchema(raw)
	if err != nil {
		return nil
	}
	if issues, err := s.Validate(v); err != nil || len(issues) > 0 {
		return nil
	}
	return v
}

type sampler struct{ root any }

func (s *sampler) of(schema any, deep int) any {
	m, ok := schema.(map[string]any)
	if !ok || deep > 16 {
		return map[string]any{}
	}
	for _, k := range []string{"const", "default"} {
		if v, ok := m[k]; ok {
			return v
		}
	}
	for _, k := range []string{"enum", "examples"} {
		if list, ok := m[k].([]any); ok && len(list) > 0 {
			return list[0]
		}
	}
	if ref, ok := m["$ref"].(string); ok {
		return s.of(s.resolve(ref), deep+1)
	}
	switch kind := typeOf(m); kind {
	case "object":
		return s.object(m, deep)
	case "array":
		list := []any{}
		for range int(min(number(m, "minItems", 0), 16)) {
			list = append(list, s.of(m["items"], deep+1))
		}
		return list
	case "string":
		return sampleText(m)
	case "integer", "number":
		return sampleNumber(m, kind == "integer")
	case "boolean":
		return false
	case "null":
		return nil
	}
	for _, k := range []string{"anyOf", "oneOf"} {
		if list, ok := m[k].([]any); ok && len(list) > 0 {
			return s.of(list[0], deep+1)
		}
	}
	return map[string]any{}
}

// typeOf is the first type of a schema, guessed from its keywords where it names
// none.
func typeOf(m map[string]any) string {
	switch t := m["type"].(type) {
	case string:
		return t
	case []any:
		if len(t) > 0 {
			s, _ := t[0].(string)
			return s
		}
	}
	for _, k := range []string{"properties", "allOf", "required"} {
		if _, ok := m[k]; ok {
			return "object"
		}
	}
	return ""
}

// object has the required members only.
func (s *sampler) object(m map[string]any, deep int) any {
	out := map[string]any{}
	s.fill(out, m, deep)
	return out
}

func (s *sampler) fill(out, m map[string]any, deep int) {
	if deep > 16 {
		return
	}
	if ref, ok := m["$ref"].(string); ok {
		if r, ok := s.resolve(ref).(map[string]any); ok {
			s.fill(out, r, deep+1)
		}
	}
	if list, ok := m["allOf"].([]any); ok {
		for _, x := range list {
			if part, ok := x.(map[string]any); ok {
				s.fill(out, part, deep+1)
			}
		}
	}
	props, _ := m["properties"].(map[string]any)
	required, _ := m["required"].([]any)
	for _, r := range required {
		if name, ok := r.(string); ok {
			if _, ok := out[name]; !ok {
				out[name] = s.of(props[name], deep+1)
			}
		}
	}
	for _, k := range []string{"anyOf", "oneOf"} {
		if list, ok := m[k].([]any); ok && len(list) > 0 {
			if part, ok := list[0].(map[string]any); ok {
				merged := map[string]any{"properties": props}
				for k, v := range part {
					merged[k] = v
				}
				s.fill(out, merged, deep+1)
			}
		}
	}
}

// resolve follows a reference within the document.
func (s *sampler) resolve(ref string) any {
	at := s.root
	for part := range strings.SplitSeq(strings.TrimPrefix(strings.TrimPrefix(ref, "#"), "/"), "/") {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		if part != "" {
			at = m[strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")]
		}
	}
	return at
}

func number(m map[string]any, key string, or float64) float64 {
	if n, ok := m[key].(float64); ok {
		return n
	}
	return or
}

func sampleNumber(m map[string]any, whole bool) any {
	n := number(m, "minimum", math.Min(0, number(m, "maximum", 0)))
	if x, ok := m["exclusiveMinimum"].(float64); ok && n <= x {
		n = x + 1
	}
	if step, ok := m["multipleOf"].(float64); ok && step > 0 {
		n = math.Ceil(n/step) * step
	}
	if whole {
		n = math.Ceil(n)
	}
	return n
}

func sampleText(m map[string]any) string {
	formats := map[string]string{
		"date-time": "2026-01-02T03:04:05Z", "date": "2026-01-02", "time": "03:04:05Z", "duration": "PT1S", "email": "a@example.com", "hostname": "example.com",
		"ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "uri": "https://example.com/", "uri-reference": "/", "uuid": "00000000-0000-4000-8000-000000000000",
		"json-pointer": "", "regex": "a",
	}
	format, _ := m["format"].(string)
	text, ok := formats[format]
	if !ok {
		text = "a"
	}
	if n := int(min(number(m, "minLength", 0), 1000)); len(text) < n {
		text += strings.Repeat("a", n-len(text))
	}
	if n := number(m, "maxLength", 1000); float64(len(text)) > n {
		text = text[:int(max(n, 0))]
	}
	return text
}
