package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
)

// rawManifest is the manifest to judge: what users have, else what the module
// says.
func (c *checker) rawManifest() json.RawMessage {
	if c.section != nil {
		return c.section
	}
	return c.told
}

// readManifest checks the manifest as a whole: PKG-01, PKG-02, PKG-05.
func (c *checker) readManifest() {
	raw := c.rawManifest()
	if raw == nil {
		return // V04 or V05 says why
	}
	if len(raw) > abi.MaxManifest {
		c.add("V00", sevError, "", "shorten descriptions and schemas", "the manifest has %d bytes, at most %d are allowed", len(raw), abi.MaxManifest)
		return
	}
	if _, err := host.StrictObject(raw); err != nil {
		c.add("V00", sevError, "", "write JSON as abi/SPEC.md, section 2, says", "the manifest: %v", err)
		return
	}
	m := new(abi.Manifest)
	if err := json.Unmarshal(raw, m); err != nil {
		c.add("V00", sevError, "", "see the table of members in abi/SPEC.md, section 10", "the manifest: %v", err)
		return
	}
	c.manifest, c.valid = m, true
	for _, i := range m.Validate() {
		c.valid = false
		rule := ruleOf(i.Pointer)
		if rule == "V01" && abi.ValidPackageName(m.Name) {
			rule = "V02"
		}
		c.add(rule, sevError, i.Pointer, manifestFix(rule), "%s", i.Message)
	}
	c.unknownMembers(raw, reflect.TypeFor[abi.Manifest](), "")
}

// ruleOf is the rule that a part of the manifest is judged by.
func ruleOf(pointer string) string {
	for _, r := range []struct{ rule, at string }{
		{"V01", `^/name`}, {"V03", `^/(abi|version|requires)`}, {"V10", `^/capabilities/env`}, {"V11", `^/capabilities/(http|secrets)`},
		{"V06", `^/tools/\d+/(sideEffect|kind|narrow)`}, {"V07", `^/tools/\d+/interruptBehavior`}, {"V08", `^/tools/\d+/(parameters|outputSchema)|^/config`},
		{"V12", `^/tools/\d+/(pathParams|lockPaths)`}, {"V18", `^/tools/\d+/(name|aliases)`}, {"V19", `^/tools/\d+/services`},
	} {
		if regexp.MustCompile(r.at).MatchString(pointer) {
			return r.rule
		}
	}
	return "V00"
}

func manifestFix(rule string) string {
	switch rule {
	case "V01":
		return "call it blade-tool-x or @scope/blade-tool-x: lower-case letters, digits and single hyphens"
	case "V02":
		return "name the capability or the system: blade-tool-github, not blade-tool-utils"
	case "V03":
		return fmt.Sprintf("write \"abi\": %d and a version such as 1.2.3; require only features of abi/SPEC.md, section 12", abi.Version)
	case "V11":
		return "name exact hosts (api.example.com) or all below one (*.example.com)"
	case "V19":
		return "declare only " + strings.Join(abi.SessionServices(), ", ") + " and x-… services of the embedder"
	}
	return "see the table of members in abi/SPEC.md, section 10"
}

// unknownMembers reports members that the manifest's types do not have: V23.
func (c *checker) unknownMembers(raw json.RawMessage, t reflect.Type, at string) {
	if t == reflect.TypeFor[json.RawMessage]() {
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		c.unknownMembers(raw, t.Elem(), at)
	case reflect.Slice:
		var list []json.RawMessage
		_ = json.Unmarshal(raw, &list) // not a list: V00 said so
		for i, x := range list {
			c.unknownMembers(x, t.Elem(), fmt.Sprintf("%s/%d", at, i))
		}
	case reflect.Struct:
		var obj map[string]json.RawMessage
		_ = json.Unmarshal(raw, &obj) // a description may be a text
		known := map[string]reflect.Type{}
		for i := range t.NumField() {
			if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
				known[name] = t.Field(i).Type
			}
		}
		for _, k := range sortedKeys(obj) {
			if ft, ok := known[k]; ok {
				c.unknownMembers(obj[k], ft, at+"/"+pointerPart(k))
				continue
			}
			c.add("V23", sevWarn, at+"/"+pointerPart(k), "take it out"+orMeant(k, sortedKeys(known)), "no host reads the member %q", clip(k))
		}
	}
}

func orMeant(typed string, known []string) string {
	if near := host.Suggest(typed, known); len(near) > 0 {
		return ", or write " + strings.Join(near, " or ")
	}
	return ""
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// pointerPart is a name as a part of a JSON Pointer.
func pointerPart(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}

// definitions checks what each tool declares: PKG-06, V06, V07, V18, V20.
func (c *checker) definitions() {
	var raw struct {
		Tools []map[string]json.RawMessage `json:"tools"`
	}
	_ = json.Unmarshal(c.rawManifest(), &raw) // readManifest read it already
	stated := func(i int, member string) bool {
		v, ok := raw.Tools[i][member]
		return ok && string(v) != "null"
	}
	builtin := map[string]bool{}
	for _, t := range builtins() {
		for _, n := range append([]string{t.Spec().Name}, t.Spec().Aliases...) {
			builtin[n] = true
		}
	}
	for i := range c.manifest.Tools {
		t := &c.manifest.Tools[i]
		at := fmt.Sprintf("/tools/%d", i)
		if !stated(i, "sideEffect") {
			c.add("V06", sevError, at, "state pure (changes nothing outside), idempotent (again is the same as once) or non_idempotent", "%s does not state its sideEffect", clip(t.Name))
		}
		if !stated(i, "kind") {
			c.add("V06", sevWarn, at, "state readonly, write or execute", "%s does not state its kind, so it counts as execute", clip(t.Name))
		}
		if !stated(i, "interruptBehavior") {
			c.add("V07", sevError, at, "state block (a new input waits for the call's end) or cancel (the tool watches for cancellation and cleans up)", "%s does not state its interruptBehavior", clip(t.Name))
		}
		for _, n := range append([]string{t.Name}, t.Aliases...) {
			if builtin[n] {
				c.add("V18", sevError, at, "choose a name that says whose tool it is", "%s is the name of a built-in tool", clip(n))
			}
		}
		c.behaviour(t, at)
	}
}

// behaviour reports what a declaration says against itself.
func (c *checker) behaviour(t *abi.ToolSpec, at string) {
	if t.Kind == abi.KindReadOnly && t.SideEffect == abi.SideEffectNonIdempotent {
		c.add("V20", sevWarn, at, "state pure, or a kind that writes", "%s is readonly and non_idempotent", t.Name)
	}
	if t.Kind == abi.KindWrite && t.SideEffect == abi.SideEffectPure {
		c.add("V20", sevWarn, at, "state idempotent or non_idempotent, or the kind readonly", "%s is of the kind write and pure", t.Name)
	}
	if t.Destructive && (t.Kind == abi.KindReadOnly || t.SideEffect == abi.SideEffectPure) {
		c.add("V20", sevWarn, at, "take out destructive, or state what it does", "%s is destructive, but readonly or pure", t.Name)
	}
	if t.RequiresRuntime && !strings.Contains(string(c.code), "runtime.fence") && !strings.Contains(string(c.code), "runtime.assert") {
		c.add("V19", sevWarn, at, "call runtime.fence or runtime.assert, or take out requiresRuntime", "%s requires the runtime, but the module calls neither runtime.fence nor runtime.assert", t.Name)
	}
}

// requests checks what the plugin asks for: V11, V20 and V22.
func (c *checker) requests() {
	m := c.manifest
	caps := m.Requested()
	if strings.TrimSpace(m.License) == "" {
		c.add("V22", sevWarn, "/license", "name it by its SPDX id, such as Apache-2.0", "the manifest names no licence")
	}
	if caps.HTTP != nil {
		c.privateHosts("/capabilities/http/hosts", caps.HTTP.Hosts)
	}
	for i, s := range caps.Secrets {
		c.privateHosts(fmt.Sprintf("/capabilities/secrets/%d/hosts", i), s.Hosts)
	}
	only := slices.ContainsFunc(m.Tools, func(t abi.ToolSpec) bool { return t.Kind != abi.KindReadOnly })
	if only {
		return
	}
	if caps.FS != nil && caps.FS.Write {
		c.add("V20", sevWarn, "/capabilities/fs/write", "take it out, or state which tool writes", "the plugin asks to write folders, but all its tools are readonly")
	}
	if caps.HTTP != nil {
		for i, method := range caps.HTTP.Methods {
			if method != "GET" && method != "HEAD" && method != "OPTIONS" {
				c.add("V20", sevWarn, fmt.Sprintf("/capabilities/http/methods/%d", i), "take it out, or state which tool writes", "the plugin asks for %s, but all its tools are readonly", clip(method))
			}
		}
	}
}

func (c *checker) privateHosts(at string, hosts []string) {
	for i, h := range hosts {
		ip, err := netip.ParseAddr(h)
		private := err == nil && (ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsUnspecified() || ip.IsMulticast())
		for _, end := range []string{".local", ".localhost", ".internal", ".lan", ".home.arpa"} {
			private = private || strings.HasSuffix(h, end)
		}
		if private {
			c.add("V11", sevError, fmt.Sprintf("%s/%d", at, i), "make it a setting of the user: config", "%s is a private address", clip(h))
		}
	}
}
