package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// checked runs check on a guest and returns its report.
func checked(t *testing.T, g guest) (checkReport, int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plugin.wasm")
	if err := os.WriteFile(file, g.module(t), 0o600); err != nil {
		t.Fatal(err)
	}
	r := runCLI(t.Context(), nil, "", "check", "--json", file)
	if r.out == "" {
		t.Fatalf("no report: %s", r.err)
	}
	return unmarshal[checkReport](t, r.out), r.code
}

// PKG-16: the report is data, each finding has a rule, and errors set the exit
// code. A sound plugin has no findings.
func TestCheckSound(t *testing.T) {
	rep, code := checked(t, guest{manifest: marshal(t, goodManifest(t))})
	if code != 0 || len(rep.Findings) != 0 || rep.Errors != 0 || rep.Warnings != 0 {
		t.Errorf("exit code %d, %+v", code, rep)
	}
}

// set changes one member of a manifest, by its path; nil takes it away.
func set(m map[string]any, path string, v any) {
	parts := strings.Split(path, "/")
	var at any = m
	for _, p := range parts[:len(parts)-1] {
		switch x := at.(type) {
		case map[string]any:
			at = x[p]
		case []any:
			at = x[p[0]-'0']
		}
	}
	obj, last := at.(map[string]any), parts[len(parts)-1]
	if v == nil {
		delete(obj, last)
		return
	}
	obj[last] = v
}

func js(text string) any {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		panic(err)
	}
	return v
}

// Each rule about the manifest finds what it is for, and nothing else does.
func TestCheckManifestRules(t *testing.T) {
	const tool0 = "tools/0/"
	for _, c := range []struct {
		name  string
		path  string
		value any
		// want is the rule with its severity and where.
		want string
	}{
		{"PKG-01 upper case", "name", "blade-tool-Sample", "V01 error /name"},
		{"PKG-01 an underscore", "name", "blade-tool-a_b", "V01 error /name"},
		{"PKG-01 a wrong prefix", "name", "tool-sample", "V01 error /name"},
		{"PKG-01 a scope", "name", "@acme/blade-tool-jira", ""},
		{"PKG-02 a generic name", "name", "blade-tool-utils", "V02 error /name"},
		{"the version", "version", "1.0", "V03 error /version"},
		{"PKG-05 the abi", "abi", 2, "V03 error /abi"},
		{"PKG-05 a feature", "requires", js(`["teleport"]`), "V03 error /requires/0"},
		{"a description", "description", " ???????? ", ""},
		{"no description", "description", "", "V00 error /description"},
		{"a wrong type", "version", 3, "V00 error "},
		{"PKG-06 no side effect", tool0 + "sideEffect", nil, "V06 error /tools/0"},
		{"PKG-06 a null side effect", tool0 + "sideEffect", json.RawMessage("null"), "V06 error /tools/0"},
		{"an unknown side effect", tool0 + "sideEffect", "none", "V06 error /tools/0/sideEffect"},
		{"no kind", tool0 + "kind", nil, "V06 warn /tools/0"},
		{"PKG-06 no interrupt behaviour", tool0 + "interruptBehavior", nil, "V07 error /tools/0"},
		{"an unknown interrupt behaviour", tool0 + "interruptBehavior", "maybe", "V07 error /tools/0/interruptBehavior"},
		{"a schema that does not compile", tool0 + "parameters", js(`{"type":"object","properties":{"a":{"description":"A.","type":"strnig"}}}`), "V08 error /tools/0/parameters"},
		{"a remote reference", tool0 + "parameters", js(`{"type":"object","properties":{"a":{"$ref":"https://example.com/a"}}}`), "V08 error /tools/0/parameters"},
		{"no object", tool0 + "parameters", js(`{"type":"string"}`), "V08 error /tools/0/parameters/type"},
		{"no description of a property", tool0 + "parameters", js(`{"type":"object","properties":{"a":{"type":"string"}}}`), "V08 warn /tools/0/parameters/properties/a"},
		{"none deep down", tool0 + "parameters", js(`{"type":"object","properties":{"a":{"description":"A.","type":"array","items":{"type":"object","properties":{"b":{}}}}}}`), "V08 warn /tools/0/parameters/properties/a/items/properties/b"},
		{"an unknown keyword", tool0 + "parameters", js(`{"type":"object","propertis":{"a":{}}}`), "V08 warn /tools/0/parameters/propertis"},
		{"an extension", tool0 + "parameters", js(`{"type":"object","x-hint":1}`), ""},
		{"a property called like a keyword", tool0 + "parameters", js(`{"type":"object","properties":{"foo":{"description":"F."},"properties":{"description":"P."}}}`), ""},
		{"required, but no property", tool0 + "parameters", js(`{"type":"object","properties":{"text":{"description":"T."}},"required":["txet"]}`), "V08 warn /tools/0/parameters/required/0"},
		{"an example that does not fit", tool0 + "description", js(`{"short":"S.","examples":[{"description":"E","params":{"text":1}}]}`), "V09 error /tools/0/description/examples/0/params/text"},
		{"an example that fits", tool0 + "description", js(`{"short":"S.","examples":[{"description":"E","params":{"text":"a"}}]}`), ""},
		{"a variable", "capabilities", js(`{"env":[{"name":"HOME DIR","why":"W."}]}`), "V10 error /capabilities/env/0/name"},
		{"any host", "capabilities", js(`{"http":{"hosts":["*"],"why":"W."}}`), "V11 error /capabilities/http/hosts/0"},
		{"no host", "capabilities", js(`{"http":{"hosts":[],"why":"W."}}`), "V11 error /capabilities/http/hosts"},
		{"a private host", "capabilities", js(`{"http":{"hosts":["192.168.1.1"],"why":"W."}}`), "V11 error /capabilities/http/hosts/0"},
		{"a local name for a secret", "capabilities", js(`{"secrets":[{"name":"T","hosts":["vault.internal"],"why":"W."}]}`), "V11 error /capabilities/secrets/0/hosts/0"},
		{"an alias twice", tool0 + "aliases", js(`["Other","Other"]`), "V18 error /tools/0/aliases/1"},
		{"a reserved name", tool0 + "name", "mcp__a__b", "V18 error /tools/0/name"},
		{"an unknown service", tool0 + "services", js(`["memory"]`), "V19 error /tools/0/services/0"},
		{"a known service", tool0 + "services", js(`["memoryManager"]`), ""},
		{"a service of the embedder", tool0 + "services", js(`["x-audit"]`), ""},
		{"the runtime for nothing", tool0 + "requiresRuntime", true, "V19 warn /tools/0"},
		{"readonly and not idempotent", tool0 + "sideEffect", "non_idempotent", "V20 warn /tools/0"},
		{"readonly that asks to write", "capabilities", js(`{"fs":{"write":true,"why":"W."}}`), "V20 warn /capabilities/fs/write"},
		{"readonly that asks to post", "capabilities", js(`{"http":{"hosts":["a.example.com"],"methods":["GET","POST"],"why":"W."}}`), "V20 warn /capabilities/http/methods/1"},
		{"no licence", "license", nil, "V22 warn /license"},
		{"an unknown member", "licence", "MIT", "V23 warn /licence"},
		{"an unknown member of a tool", tool0 + "sideeffect", "pure", "V23 warn /tools/0/sideeffect"},
		{"an unknown member of a request", "capabilities", js(`{"fs":{"read":true,"why":"W.","paths":["/"]}}`), "V23 warn /capabilities/fs/paths"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := goodManifest(t)
			set(m, c.path, c.value)
			rep, code := checked(t, guest{manifest: marshal(t, m)})
			var got []string
			for _, f := range rep.Findings {
				got = append(got, fmt.Sprintf("%s %s %s", f.Rule, f.Severity, f.Where))
				if f.Message == "" || f.Fix == "" {
					t.Errorf("a finding that says nothing: %+v", f)
				}
			}
			if want := []string{c.want}; c.want == "" && len(got) != 0 || c.want != "" && !slices.Equal(got, want) {
				t.Errorf("found %q, want %q: %+v", got, c.want, rep.Findings)
			}
			if want := min(rep.Errors, 1); code != want {
				t.Errorf("exit code %d with %d errors", code, rep.Errors)
			}
		})
	}
}

// V12: only where folders are asked for.
func TestCheckPathParams(t *testing.T) {
	m := goodManifest(t)
	set(m, "tools/0/parameters", js(`{"type":"object","properties":{
		"path":{"type":"string","description":"P."},"sourceFile":{"type":"string","description":"S."},"out_dirs":{"type":"array","items":{"type":"string"},"description":"O."},
		"profile":{"type":"string","description":"No path."},"file":{"type":"integer","description":"No path."}}}`))
	if rep, _ := checked(t, guest{manifest: marshal(t, m)}); len(rep.Findings) != 0 {
		t.Errorf("without folders: %+v", rep.Findings)
	}
	set(m, "capabilities", js(`{"fs":{"read":true,"why":"W."}}`))
	set(m, "tools/0/pathParams", js(`["/path","/nothing"]`))
	rep, _ := checked(t, guest{manifest: marshal(t, m)})
	var got []string
	for _, f := range rep.Findings {
		got = append(got, f.Rule+" "+f.Where)
	}
	want := []string{"V12 /tools/0/pathParams/1", "V12 /tools/0/parameters/properties/out_dirs", "V12 /tools/0/parameters/properties/sourceFile"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// Rules about the module itself.
func TestCheckModuleRules(t *testing.T) {
	manifest := marshal(t, goodManifest(t))
	other := goodManifest(t)
	set(other, "version", "9.9.9")
	for _, c := range []struct {
		name  string
		guest guest
		want  []string
		says  string
	}{
		{"PKG-03 the manifest changes", guest{manifest: manifest, unsteady: true}, []string{"V04 error", "V04 error"}, "answers differently"},
		{"PKG-03 no section", guest{manifest: manifest, noSection: true}, []string{"V04 error"}, "blade.manifest"},
		{"PKG-04 unknown imports, all of them", guest{manifest: manifest, imports: []string{"evil", "worse"}}, []string{"V05 error"}, "env.evil (func), env.worse (func)"},
		{"V09 a trap", guest{manifest: manifest, body: "trap"}, []string{"V09 error", "V09 warn", "V09 warn"}, "GUEST_TRAP"},
		{"V09 no result", guest{manifest: manifest, body: "silent"}, []string{"V09 error", "V09 warn", "V09 warn"}, "GUEST_NO_RESULT"},
		{"V09 two results", guest{manifest: manifest, body: "twice"}, []string{"V09 error", "V09 warn", "V09 warn"}, "GUEST_RESULT_TWICE"},
		{"V09 no end", guest{manifest: manifest, body: "loop"}, []string{"V09 error"}, "did not end within 5s"},
		{"PKG-08 an AWS key", guest{manifest: manifest, text: "xxAKIAIOSFODNN7EXAMPLExx"}, []string{"V10 error"}, "an AWS access key: AKIAIOSF…"},
		{"PKG-08 a GitHub token", guest{manifest: manifest, text: "ghp_" + strings.Repeat("a1B2", 9)}, []string{"V10 error"}, "a GitHub token"},
		{"PKG-08 an API key", guest{manifest: manifest, text: "sk-" + strings.Repeat("a1B2", 9)}, []string{"V10 error"}, "an API key"},
		{"PKG-08 a private key", guest{manifest: manifest, text: "-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat("MIIE", 20)}, []string{"V10 error"}, "a private key"},
		{"PKG-08 words, no keys", guest{manifest: manifest, text: "task-management-for-everybody-who-wants-it -----BEGIN PRIVATE KEY----- AKIA"}, nil, ""},
		{"PKG-08 a variable of another world", guest{manifest: manifest, text: "token = process.env.TOKEN"}, []string{"V10 warn"}, "process.env"},
		{"V21 much memory", guest{manifest: manifest, pages: 2000}, []string{"V21 warn"}, "125 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rep, _ := checked(t, c.guest)
			var got []string
			all := ""
			for _, f := range rep.Findings {
				got = append(got, f.Rule+" "+string(f.Severity))
				all += f.Message + "\n"
			}
			if !slices.Equal(got, c.want) || !strings.Contains(all, c.says) {
				t.Errorf("found %q, want %q that say %q: %+v", got, c.want, c.says, rep.Findings)
			}
		})
	}
	t.Run("PKG-03 the section says something else", func(t *testing.T) {
		g := guest{manifest: manifest, noSection: true}
		file := filepath.Join(t.TempDir(), "plugin.wasm")
		if err := os.WriteFile(file, sec(g.module(t), 0, append(str("blade.manifest"), marshal(t, other)...)), 0o600); err != nil {
			t.Fatal(err)
		}
		r := runCLI(t.Context(), nil, "", "check", file)
		if r.code != exitFailed || !strings.Contains(r.out, "error V04 module") || !strings.Contains(r.out, "writes the section anew") {
			t.Errorf("exit code %d: %s%s", r.code, r.out, r.err)
		}
	})
}

// PKG-14: the sections of the README.
func TestCheckReadme(t *testing.T) {
	const good = "# blade-tool-sample\n\n## Tools\n`Sample` is one.\n\n## Permissions\nNone.\n\n## Environment variables\n`HOME_DIR`\n\n## Side effects\nNone.\n\n## Example\n```\nx\n# no heading\n```\nLittle memory.\n"
	manifest := goodManifest(t)
	set(manifest, "capabilities", js(`{"env":[{"name":"HOME_DIR","why":"W."}],"secrets":[{"name":"TOKEN","hosts":["a.example.com"],"why":"W."}]}`))
	for _, c := range []struct {
		name, old, new string
		want           []string
	}{
		{"all there", "", "", []string{"the secret TOKEN is not in it"}},
		{"the secret", "None.\n\n## Env", "`TOKEN`\n\n## Env", nil},
		{"underlined headings", "## Permissions", "TOKEN Permissions\n---", nil},
		{"no permissions", "## Permissions", "## TOKEN", []string{"no section about permissions"}},
		{"an empty section", "## Side effects\nNone.", "## Side effects TOKEN\n", []string{"the section about side effects says nothing"}},
		{"no code in the example", "```\nx\n# no heading\n```", "TOKEN", []string{"the section about a usage example says nothing"}},
		{"a tool that is not there", "`Sample`", "TOKEN Samples", []string{"the tool Sample is not in it"}},
		{"a variable that is not there", "`HOME_DIR`", "TOKEN", []string{"the variable HOME_DIR is not in it"}},
		{"no memory", "Little memory", "TOKEN", []string{"it does not say how much memory the plugin takes"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte(strings.Replace(good, c.old, c.new, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "plugin.wasm")
			if err := os.WriteFile(file, guest{manifest: marshal(t, manifest)}.module(t), 0o600); err != nil {
				t.Fatal(err)
			}
			rep := unmarshal[checkReport](t, runCLI(t.Context(), nil, "", "check", "--json", file).out)
			var got []string
			for _, f := range rep.Findings {
				got = append(got, f.Message)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
	t.Run("a README about something else", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte("# my project\nIt has blade-tool-sample.\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "plugin.wasm")
		if err := os.WriteFile(file, guest{manifest: marshal(t, goodManifest(t))}.module(t), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := runCLI(t.Context(), nil, "", "check", file); r.code != 0 || !strings.HasPrefix(r.out, "blade-tool-sample 1.2.3: 0 errors, 0 warnings") {
			t.Errorf("exit code %d: %s", r.code, r.out)
		}
	})
}

// The plugins of this repository keep their own convention.
func TestCheckPlugins(t *testing.T) {
	for name, path := range plugins(t) {
		if name == "conformance" {
			continue // it panics and hangs by design
		}
		if r := runCLI(t.Context(), nil, "", "check", path); r.code != 0 {
			t.Errorf("%s: exit code %d\n%s%s", name, r.code, r.out, r.err)
		}
	}
}

// Sample inputs fit their schemas, or there are none.
func TestSampleInput(t *testing.T) {
	for _, c := range []struct{ schema, want string }{
		{`{"type":"object"}`, `{}`},
		{`{"type":"object","properties":{"a":{"type":"string","minLength":3},"b":{"type":"integer","minimum":5},"c":{}},"required":["a","b"]}`, `{"a":"aaa","b":5}`},
		{`{"type":"object","properties":{"a":{"enum":["x","y"]}},"required":["a"]}`, `{"a":"x"}`},
		{`{"type":"object","properties":{"a":{"type":"array","minItems":2,"items":{"type":"number","exclusiveMinimum":0}}},"required":["a"]}`, `{"a":[1,1]}`},
		{`{"type":"object","properties":{"a":{"$ref":"#/$defs/p"}},"required":["a"],"$defs":{"p":{"type":"object","properties":{"q":{"type":"string","format":"date"}},"required":["q"]}}}`, `{"a":{"q":"2026-01-02"}}`},
		{`{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}],"properties":{"a":{"type":"boolean"},"b":{"type":"null"}}}`, `{"a":false}`},
		{`{"type":"object","properties":{"a":{"type":"string","pattern":"^[0-9]{7}$"}},"required":["a"]}`, ``},
	} {
		if got := string(sampleInput(json.RawMessage(c.schema))); got != c.want {
			t.Errorf("%s: %s, want %s", c.schema, got, c.want)
		}
	}
}
