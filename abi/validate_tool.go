package abi

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Validate returns what is wrong with a definition, by JSON Pointer into it.
// Whether the schemas compile is not judged here. Aliases are checked against
// the definition's own name only: other tools are the registry's business.
func (s *ToolSpec) Validate() []Issue {
	v := validator{}
	v.toolNames(s)
	v.toolEnums(s)
	v.toolPointers(s)
	if strings.TrimSpace(s.Description.Short) == "" {
		v.add("/description", "is empty; say in a sentence what the tool does")
	}
	if !isObject(s.Parameters) {
		v.add("/parameters", "must be a JSON Schema object")
	} else if !rootIsObject(s.Parameters) {
		v.add("/parameters/type", `must be "object": the input of a tool is one JSON object`)
	}
	if s.OutputSchema != nil && !isObject(s.OutputSchema) {
		v.add("/outputSchema", "must be a JSON Schema object")
	}
	if s.TimeoutMs < 0 {
		v.add("/timeoutMs", "must not be negative")
	}
	if s.MaxResultSize < 0 {
		v.add("/maxResultSizeChars", "must not be negative")
	}
	return v.issues
}

type validator struct{ issues []Issue }

func (v *validator) add(pointer, format string, args ...any) {
	v.issues = append(v.issues, Issue{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
}

func (v *validator) toolNames(s *ToolSpec) {
	const rule = "must be a letter, then at most 63 letters, digits, _ or -"
	if !ValidToolName(s.Name) {
		v.add("/name", "%q %s", clip(s.Name), rule)
	}
	seen := map[string]bool{}
	for i, a := range s.Aliases {
		p := fmt.Sprintf("/aliases/%d", i)
		switch {
		case !ValidToolName(a):
			v.add(p, "%q %s", clip(a), rule)
		case a == s.Name:
			v.add(p, "%q is the tool's own name", a)
		case seen[a]:
			v.add(p, "%q stands twice", a)
		}
		seen[a] = true
	}
	seen = map[string]bool{}
	for i, name := range s.Services {
		p := fmt.Sprintf("/services/%d", i)
		switch {
		case !KnownService(name):
			v.add(p, "%q is no service; known are %s, and x-… names of the embedder", clip(name), strings.Join(SessionServices(), ", "))
		case seen[name]:
			v.add(p, "%q stands twice", name)
		}
		seen[name] = true
	}
}

func (v *validator) toolEnums(s *ToolSpec) {
	if s.Kind != "" && !s.Kind.Valid() {
		v.add("/kind", "%q must be readonly, write or execute", clip(string(s.Kind)))
	}
	if s.SideEffect != "" && !s.SideEffect.Valid() {
		v.add("/sideEffect", "%q must be pure, idempotent or non_idempotent", clip(string(s.SideEffect)))
	}
	if s.Interrupt != "" && !s.Interrupt.Valid() {
		v.add("/interruptBehavior", "%q must be block or cancel", clip(string(s.Interrupt)))
	}
	if !s.Group.Valid() {
		v.add("/group", "%q is no group", clip(string(s.Group)))
	}
	if s.Exposure != nil && !s.Exposure.Mode.Declarable() {
		v.add("/exposure/mode", "%q must be eager, deferred or discoverable-only", clip(string(s.Exposure.Mode)))
	}
	if s.Yields != nil {
		for i, k := range *s.Yields {
			if !k.Valid() {
				v.add(fmt.Sprintf("/yields/%d", i), "%q must be progress, message or effect", clip(string(k)))
			}
		}
	}
	for i, e := range s.Effects {
		if !e.Valid() {
			v.add(fmt.Sprintf("/effects/%d", i), "%q must be contextPatch, runtimePatch, newMessages or permissionUpdates", clip(string(e)))
		}
	}
}

func (v *validator) toolPointers(s *ToolSpec) {
	for _, l := range []struct {
		name string
		list []string
	}{{"permissionKey", s.PermissionKey}, {"pathParams", s.PathParams}, {"lockPaths", s.LockPaths}} {
		for i, p := range l.list {
			if !ValidPointer(p) {
				v.add(fmt.Sprintf("/%s/%d", l.name, i), "%q is no JSON Pointer; write /field", clip(p))
			}
		}
	}
	for i, n := range s.Narrow {
		at := fmt.Sprintf("/narrow/%d", i)
		if len(n.When) == 0 {
			v.add(at+"/when", "is empty; a narrowing needs a condition")
		}
		for p, literals := range n.When {
			if !ValidPointer(p) {
				v.add(at+"/when", "%q is no JSON Pointer; write /field", clip(p))
			}
			if len(literals) == 0 {
				v.add(at+"/when", "%q lists no value", clip(p))
			}
		}
		if n.Kind != "" && !n.Kind.Valid() {
			v.add(at+"/kind", "%q must be readonly, write or execute", clip(string(n.Kind)))
		}
		if n.SideEffect != "" && !n.SideEffect.Valid() {
			v.add(at+"/sideEffect", "%q must be pure, idempotent or non_idempotent", clip(string(n.SideEffect)))
		}
	}
}

// ValidPointer reports whether p is a JSON Pointer (RFC 6901).
func ValidPointer(p string) bool {
	if p == "" {
		return true
	}
	if p[0] != '/' {
		return false
	}
	for i := range len(p) {
		if p[i] == '~' && (i+1 == len(p) || (p[i+1] != '0' && p[i+1] != '1')) {
			return false
		}
	}
	return true
}

func isObject(raw json.RawMessage) bool {
	var m map[string]json.RawMessage
	return json.Unmarshal(raw, &m) == nil && m != nil
}

// rootIsObject reports whether a schema's root says type object, or says no type
// but has properties or a reference.
func rootIsObject(raw json.RawMessage) bool {
	var s struct {
		Type       json.RawMessage `json:"type"`
		Properties json.RawMessage `json:"properties"`
		Ref        json.RawMessage `json:"$ref"`
		AllOf      json.RawMessage `json:"allOf"`
	}
	if json.Unmarshal(raw, &s) != nil {
		return false
	}
	if s.Type != nil {
		t := strings.TrimSpace(string(s.Type))
		return t == `"object"` || t == `["object"]`
	}
	return s.Properties != nil || s.Ref != nil || s.AllOf != nil
}

// clip shortens text that a stranger wrote, for a message.
func clip(s string) string {
	const most = 100
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
