package abi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Validate returns what is wrong with a manifest, by JSON Pointer into it, in
// the order of reading. Whether schemas compile is not judged here. A kind, side
// effect or interrupt behaviour may be missing.
func (m *Manifest) Validate() []Issue {
	v := validator{}
	if m.ABI != Version {
		v.add("/abi", "%d is not a version this host knows; it knows %d", m.ABI, Version)
	}
	if !ValidPackageName(m.Name) {
		v.add("/name", "%q must be blade-tool-x or @scope/blade-tool-x in lower-case kebab-case", clip(m.Name))
	} else if GenericPackageName(m.Name) {
		v.add("/name", "%q says nothing about what the tool is for; name the capability or the system", m.Name)
	}
	if !ValidVersion(m.Version) {
		v.add("/version", "%q must be a semantic version such as 1.2.3", clip(m.Version))
	}
	if strings.TrimSpace(m.Description) == "" {
		v.add("/description", "is empty; say in a sentence what the plugin is for")
	}
	for i, f := range m.Requires {
		if !slices.Contains(Features(), f) {
			v.add(fmt.Sprintf("/requires/%d", i), "%q is a feature this host does not have; it needs a newer version of bladehost", clip(f))
		}
	}
	v.tools(m.Tools)
	if m.Config != nil && !isObject(m.Config) {
		v.add("/config", "must be a JSON Schema object")
	}
	if m.Capabilities != nil {
		v.capabilities(m.Capabilities)
	}
	return v.issues
}

func (v *validator) tools(tools []ToolSpec) {
	switch n := len(tools); {
	case n == 0:
		v.add("/tools", "is empty; a plugin has at least one tool")
	case n > MaxTools:
		v.add("/tools", "has %d tools, at most %d are allowed", n, MaxTools)
	}
	taken := map[string]string{}
	for i := range tools {
		t := &tools[i]
		at := fmt.Sprintf("/tools/%d", i)
		issues := t.Validate()
		slices.SortStableFunc(issues, func(a, b Issue) int { return cmp.Compare(a.Pointer, b.Pointer) })
		for _, issue := range issues {
			issue.Pointer = at + issue.Pointer
			v.issues = append(v.issues, issue)
		}
		v.schemaSize(at+"/parameters", t.Parameters)
		v.schemaSize(at+"/outputSchema", t.OutputSchema)
		if strings.HasPrefix(t.Name, MCPPrefix) {
			v.add(at+"/name", "%q starts with %s, which is reserved", clip(t.Name), MCPPrefix)
		}
		v.taken(taken, at+"/name", t.Name)
		for j, a := range t.Aliases {
			if a != t.Name && !slices.Contains(t.Aliases[:j], a) { // those are reported already
				v.taken(taken, fmt.Sprintf("%s/aliases/%d", at, j), a)
			}
		}
	}
}

func (v *validator) taken(taken map[string]string, at, name string) {
	if where, ok := taken[name]; ok {
		v.add(at, "%q is taken by %s", clip(name), where)
		return
	}
	taken[name] = at
}

func (v *validator) schemaSize(at string, schema json.RawMessage) {
	if len(schema) > MaxSchema {
		v.add(at, "has %d bytes, at most %d are allowed", len(schema), MaxSchema)
	}
}

func (v *validator) capabilities(c *Capabilities) {
	const at = "/capabilities"
	if c.FS != nil {
		if !c.FS.Read && !c.FS.Write {
			v.add(at+"/fs", "asks for neither read nor write")
		}
		v.why(at+"/fs", c.FS.Why)
	}
	if c.HTTP != nil {
		v.hosts(at+"/http/hosts", c.HTTP.Hosts)
		for i, m := range c.HTTP.Methods {
			if !method(m) {
				v.add(fmt.Sprintf("%s/http/methods/%d", at, i), "%q must be an upper-case method such as POST", clip(m))
			}
		}
		v.why(at+"/http", c.HTTP.Why)
	}
	seen := map[string]bool{}
	for i, s := range c.Secrets {
		p := fmt.Sprintf("%s/secrets/%d", at, i)
		v.envName(p, s.Name, seen)
		v.hosts(p+"/hosts", s.Hosts)
		v.why(p, s.Why)
	}
	seen = map[string]bool{}
	for i, e := range c.Env {
		p := fmt.Sprintf("%s/env/%d", at, i)
		v.envName(p, e.Name, seen)
		v.why(p, e.Why)
	}
	if c.KV != nil {
		v.why(at+"/kv", c.KV.Why)
	}
	if c.Clock != "" && c.Clock != ClockFine {
		v.add(at+"/clock", "%q must be %q or left out", clip(c.Clock), ClockFine)
	}
}

func (v *validator) why(at, why string) {
	if strings.TrimSpace(why) == "" {
		v.add(at+"/why", "is empty; tell the user in a sentence what it is needed for")
	}
}

func (v *validator) envName(at, name string, seen map[string]bool) {
	switch {
	case !ValidEnvName(name):
		v.add(at+"/name", "%q must be a letter or _, then letters, digits or _", clip(name))
	case seen[name]:
		v.add(at+"/name", "%q stands twice", name)
	}
	seen[name] = true
}

func (v *validator) hosts(at string, hosts []string) {
	if len(hosts) == 0 {
		v.add(at, "is empty; name the hosts")
	}
	for i, h := range hosts {
		if !ValidHostPattern(h) {
			v.add(fmt.Sprintf("%s/%d", at, i), "%q must be a host name such as api.example.com, or *.example.com for all below it", clip(h))
		}
	}
}

// ValidHostPattern reports whether h may stand in a list of hosts: a host name
// of at least two labels in lower case, without port, or *. before one. IP
// addresses are exact dotted quads; a bare * is not allowed.
func ValidHostPattern(h string) bool {
	name, below := strings.CutPrefix(h, "*.")
	if len(name) > 253 {
		return false
	}
	labels := strings.Split(name, ".")
	if len(labels) < 2 {
		return false
	}
	for _, l := range labels {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' || !all(l, kebab) {
			return false
		}
	}
	if all(labels[len(labels)-1], digit) {
		return !below && quad(labels)
	}
	return true
}

func quad(labels []string) bool {
	if len(labels) != 4 {
		return false
	}
	for _, l := range labels {
		if len(l) > 3 || !all(l, digit) || leadingZero(l) || (len(l) == 3 && l > "255") {
			return false
		}
	}
	return true
}

// method reports whether m is an upper-case HTTP method.
func method(m string) bool {
	return m != "" && len(m) <= 32 && all(m, func(c byte) bool { return c >= 'A' && c <= 'Z' || c == '-' }) && m[0] != '-'
}

// Check is nil for a valid manifest. Its error has the issues as details and the
// code of the first thing to mend: another version of the ABI, a feature that is
// not there, anything else.
func (m *Manifest) Check() error {
	issues := m.Validate()
	if len(issues) == 0 {
		return nil
	}
	code, first := CodeManifest, issues[0]
	switch {
	case first.Pointer == "/abi":
		code = CodeABIVersion
	default:
		for _, i := range issues {
			if strings.HasPrefix(i.Pointer, "/requires/") {
				code, first = CodeFeature, i
				break
			}
		}
	}
	return NewError(code, "the manifest is not valid: %s %s%s", first.Pointer, first.Message, more(len(issues)-1)).
		With(IssueDetails{issues})
}

func more(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return " (and one more)"
	}
	return fmt.Sprintf(" (and %d more)", n)
}
