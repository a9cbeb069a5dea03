package host

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/guesttest"
	"github.com/bladehost/bladehost/host/tool"
)

// REG-01 REG-02 REG-03 REG-04 REG-07 SFX-02 SFX-04 SRV-04: what cannot be
// registered, with the code of each.
func TestRegistrationRefuses(t *testing.T) {
	alias := func(a ...string) func(*fake) { return func(f *fake) { f.spec.Aliases = a } }
	for _, c := range []struct {
		name  string
		tools []*fake
		want  abi.Code
	}{
		{"reserved name", []*fake{fakeTool("mcp__x__y")}, abi.CodeNameReserved},
		{"same name twice", []*fake{fakeTool("A"), fakeTool("A")}, abi.CodeNameTaken},
		{"alias is the own name", []*fake{fakeTool("A", alias("A"))}, abi.CodeDefinition},
		{"alias twice", []*fake{fakeTool("A", alias("B", "B"))}, abi.CodeDefinition},
		{"alias is another's name", []*fake{fakeTool("A"), fakeTool("B", alias("A"))}, abi.CodeAliasTaken},
		{"alias is another's alias", []*fake{fakeTool("A", alias("X")), fakeTool("B", alias("X"))}, abi.CodeAliasTaken},
		{"name is an earlier alias", []*fake{fakeTool("A", alias("B")), fakeTool("B")}, abi.CodeAliasTaken},
		{"empty name", []*fake{fakeTool("")}, abi.CodeDefinition},
		{"name with a slash", []*fake{fakeTool("a/b.c")}, abi.CodeDefinition},
		{"name of 65 letters", []*fake{fakeTool(strings.Repeat("a", 65))}, abi.CodeDefinition},
		{"name in other letters", []*fake{fakeTool("naïve")}, abi.CodeDefinition},
		{"no description", []*fake{fakeTool("A", func(f *fake) { f.spec.Description.Short = " " })}, abi.CodeDefinition},
		{"unknown kind", []*fake{fakeTool("A", func(f *fake) { f.spec.Kind = "ReadOnly" })}, abi.CodeDefinition},
		{"unknown side effect", []*fake{fakeTool("A", func(f *fake) { f.spec.SideEffect = "none" })}, abi.CodeDefinition},
		{"unknown interrupt behaviour", []*fake{fakeTool("A", func(f *fake) { f.spec.Interrupt = "stop" })}, abi.CodeDefinition},
		{"unknown group", []*fake{fakeTool("A", func(f *fake) { f.spec.Group = "misc" })}, abi.CodeDefinition},
		{"unknown exposure", []*fake{fakeTool("A", func(f *fake) { f.spec.Exposure = &abi.Exposure{Mode: "hidden"} })}, abi.CodeDefinition},
		{"unknown service", []*fake{fakeTool("A", func(f *fake) { f.spec.Services = []string{"memory"} })}, abi.CodeDefinition},
		{"no schema", []*fake{fakeTool("A", func(f *fake) { f.spec.Parameters = nil })}, abi.CodeDefinition},
		{"schema of an array", []*fake{fakeTool("A", func(f *fake) { f.spec.Parameters = in(`{"type":"array"}`) })}, abi.CodeDefinition},
		{"schema that does not compile", []*fake{fakeTool("A", func(f *fake) { f.spec.Parameters = in(`{"type":"object","properties":{"a":{"pattern":"("}}}`) })}, abi.CodeSchema},
		{"schema with a file reference", []*fake{fakeTool("A", func(f *fake) { f.spec.Parameters = in(`{"type":"object","$ref":"file:///etc/passwd"}`) })}, abi.CodeSchema},
		{"negative timeout", []*fake{fakeTool("A", func(f *fake) { f.spec.TimeoutMs = -1 })}, abi.CodeDefinition},
	} {
		t.Run(c.name, func(t *testing.T) {
			var list []tool.Tool
			for _, f := range c.tools {
				list = append(list, f)
			}
			_, err := New(Options{Tools: list})
			if abi.CodeOf(err) != c.want {
				t.Errorf("got %v (%s), want %s", err, abi.CodeOf(err), c.want)
			}
		})
	}
	if _, err := New(Options{Tools: []tool.Tool{nil}}); abi.CodeOf(err) != abi.CodeDefinition {
		t.Errorf("a nil tool: %v", err)
	}
}

// REG-02: built-in and application names are protected from session tools.
func TestNoShadowing(t *testing.T) {
	h := newHost(t, Options{Builtins: []tool.Tool{fakeTool("Read")}, Tools: []tool.Tool{fakeTool("Mine")}})
	for _, name := range []string{"Read", "Mine"} {
		if _, err := h.NewSession(SessionOptions{Tools: []tool.Tool{fakeTool(name)}}); abi.CodeOf(err) != abi.CodeNameTaken {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// REG-06: a batch registers what is valid and reports all that is not.
func TestBatchRegistration(t *testing.T) {
	s := session(t, SessionOptions{}, fakeTool("Old"))
	err := s.Register(tool.Source{Kind: tool.SourceSession, Trust: tool.TrustWorkspace, ID: "late"},
		fakeTool("Good"), fakeTool("Old"), fakeTool("mcp__a__b"), fakeTool("Fine"))
	if err == nil || !strings.Contains(err.Error(), "Old") || !strings.Contains(err.Error(), "mcp__a__b") {
		t.Errorf("the failures are not all told: %v", err)
	}
	var names []string
	for _, i := range s.Tools() {
		names = append(names, i.Name)
	}
	if fmt.Sprint(names) != "[Fine Good Old]" {
		t.Errorf("registered: %v", names)
	}
}

// REG-05 REG-08 SEL-05: lookup by alias; unregistering takes the aliases along.
func TestAliases(t *testing.T) {
	f := fakeTool("Search", readOnly, func(f *fake) { f.spec.Aliases = []string{"Find"} })
	s := session(t, SessionOptions{}, f)
	r := do(t, s, Call{Tool: "Find"})
	wantOK(t, r)
	if r.Metadata["toolName"] != "Search" {
		t.Errorf("toolName is %v", r.Metadata["toolName"])
	}
	if !s.Unregister("Find") || s.Unregister("Search") {
		t.Error("unregistering by alias")
	}
	wantCode(t, do(t, s, Call{Tool: "Find"}), abi.CodeToolNotFound, abi.TypeExecution)
	src := tool.Source{Kind: tool.SourceSession, Trust: tool.TrustWorkspace, ID: "again"}
	if err := s.Register(src, fakeTool("Find"), fakeTool("Search")); err != nil {
		t.Errorf("names are still taken: %v", err)
	}
}

func mcpSource(server string) tool.Source {
	return tool.Source{Kind: tool.SourceMCP, Trust: tool.TrustRemote, ID: "mcp:" + server, Server: server}
}

// REG-09 MCP-02: non-MCP first, then by name; an MCP server refreshes only its own.
func TestCatalogOrderAndRefresh(t *testing.T) {
	s := session(t, SessionOptions{}, fakeTool("Zed"), fakeTool("Abc"))
	if err := s.Register(mcpSource("one"), fakeTool("mcp__one__a", func(f *fake) { f.spec.Aliases = []string{"Aka"} })); err != nil {
		t.Fatal(err)
	}
	if err := s.Register(mcpSource("one"), fakeTool("mcp__one__a")); err != nil {
		t.Errorf("a refresh: %v", err)
	}
	if err := s.Register(mcpSource("two"), fakeTool("mcp__one__a")); abi.CodeOf(err) != abi.CodeNameTaken {
		t.Errorf("another server took the name: %v", err)
	}
	if err := s.Register(mcpSource("one"), fakeTool("Plain")); abi.CodeOf(err) != abi.CodeNameReserved {
		t.Errorf("an MCP tool without the prefix: %v", err)
	}
	wantCode(t, do(t, s, Call{Tool: "Aka"}), abi.CodeToolNotFound, abi.TypeExecution)
	names := func() string {
		var out []string
		for _, i := range s.Tools() {
			out = append(out, i.Name)
		}
		return strings.Join(out, " ")
	}
	if names() != "Abc Zed mcp__one__a" {
		t.Errorf("order: %s", names())
	}
	s.UnregisterServer("one")
	if names() != "Abc Zed" {
		t.Errorf("after the server left: %s", names())
	}
}

// BEH-06: a dynamic MCP tool that says nothing is non_idempotent.
func TestMCPToolsAreNonIdempotent(t *testing.T) {
	s := session(t, SessionOptions{})
	if err := s.Register(mcpSource("a"), fakeTool("mcp__a__b")); err != nil {
		t.Fatal(err)
	}
	if b := s.Tools()[0].Behavior; b.SideEffect != abi.SideEffectNonIdempotent || b.Kind != abi.KindExecute {
		t.Errorf("%+v", b)
	}
}

// REG-10: what callers get is theirs.
func TestToolListIsACopy(t *testing.T) {
	s := session(t, SessionOptions{}, fakeTool("A", func(f *fake) { f.spec.Aliases = []string{"B"} }))
	l := s.Tools()
	l[0].Name, l[0].Aliases[0], l[0].Parameters[0] = "X", "X", 'X'
	again := s.Tools()[0]
	if again.Name != "A" || again.Aliases[0] != "B" || again.Parameters[0] == 'X' {
		t.Errorf("the registry was changed: %+v", again)
	}
	d := s.Declarations()
	d[0].Parameters[0] = 'X'
	if s.Declarations()[0].Parameters[0] == 'X' {
		t.Error("the schema was changed")
	}
}

// SEL-01 SEL-02 SEL-03 SEL-04 SEL-05: which tools a session has.
func TestSelection(t *testing.T) {
	h := newHost(t, Options{Builtins: []tool.Tool{fakeTool("B", readOnly)}, Tools: []tool.Tool{fakeTool("C", readOnly, func(f *fake) { f.spec.Aliases = []string{"See"} })}})
	for _, c := range []struct {
		name       string
		allow, dis []string
		want       string
	}{
		{"nothing said", nil, nil, "B C S"},
		{"empty list", []string{}, nil, ""},
		{"one", []string{"C"}, nil, "C"},
		{"by alias", []string{"See"}, nil, "C"},
		{"disallow wins", []string{"B", "C"}, []string{"B"}, "C"},
		{"disallow by alias", nil, []string{"See"}, "B S"},
		{"no wildcard", []string{"*"}, nil, ""},
		{"unknown", []string{"Nope", "S"}, nil, "S"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sessionOn(t, h, SessionOptions{Tools: []tool.Tool{fakeTool("S", readOnly)}, AllowedTools: c.allow, DisallowedTools: c.dis})
			var names []string
			for _, i := range s.Tools() {
				names = append(names, i.Name)
			}
			if got := strings.Join(names, " "); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if !strings.Contains(c.want, "C") {
				wantCode(t, do(t, s, Call{Tool: "See"}), abi.CodeToolNotFound, abi.TypeExecution)
			}
			if c.name == "unknown" && !strings.Contains(strings.Join(s.Diagnostics(), " "), "Nope") {
				t.Errorf("diagnostics: %v", s.Diagnostics())
			}
		})
	}
}

// SRP-01 SRP-02 SRP-03 SRP-05: sources and trust, at declaration and dispatch.
func TestSourcePolicy(t *testing.T) {
	h := newHost(t, Options{Builtins: []tool.Tool{fakeTool("B", readOnly)}, Tools: []tool.Tool{fakeTool("C", readOnly)}})
	for _, c := range []struct {
		name string
		pol  SourcePolicy
		want string
	}{
		{"absent", SourcePolicy{}, "B C S"},
		{"no source", SourcePolicy{AllowedSources: []tool.SourceKind{}}, ""},
		{"no trust", SourcePolicy{AllowedTrustLevels: []tool.Trust{}}, ""},
		{"built in", SourcePolicy{AllowedSources: []tool.SourceKind{tool.SourceBuiltin}}, "B"},
		{"workspace", SourcePolicy{AllowedTrustLevels: []tool.Trust{tool.TrustWorkspace}}, "C S"},
		{"both must match", SourcePolicy{AllowedSources: []tool.SourceKind{tool.SourceBuiltin}, AllowedTrustLevels: []tool.Trust{tool.TrustWorkspace}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sessionOn(t, h, SessionOptions{Tools: []tool.Tool{fakeTool("S", readOnly)}, SourcePolicy: c.pol})
			var names []string
			for _, d := range s.Declarations() {
				names = append(names, d.Name)
			}
			if got := strings.Join(names, " "); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			for _, name := range []string{"B", "C", "S"} {
				r := do(t, s, Call{Tool: name})
				if strings.Contains(c.want, name) {
					wantOK(t, r)
				} else {
					wantCode(t, r, abi.CodeDeniedSource, abi.TypePermission)
				}
			}
		})
	}
	s := sessionOn(t, h, SessionOptions{Tools: []tool.Tool{fakeTool("S")}})
	want := map[string]tool.Source{"B": {Kind: tool.SourceBuiltin, Trust: tool.TrustTrusted, ID: "builtin"}, "C": {Kind: tool.SourceCustom, Trust: tool.TrustWorkspace, ID: "custom"}, "S": {Kind: tool.SourceSession, Trust: tool.TrustWorkspace, ID: "session"}}
	for _, i := range s.Tools() {
		if i.Source != want[i.Name] {
			t.Errorf("%s has source %+v", i.Name, i.Source)
		}
	}
}

// SRP-04: a plugin is never trusted.
func TestPluginTrust(t *testing.T) {
	h := newHost(t, Options{})
	p := conformance(t, h)
	if s := sessionOn(t, h, SessionOptions{Plugins: []Attachment{{Plugin: p}}, Services: map[string]tool.Service{"x-echo": echoService()}}); s.Tools()[0].Source.Trust != tool.TrustWorkspace {
		t.Error("trust of a plugin")
	}
	if _, err := h.LoadPlugin(signed(t, h, guesttest.Go(t, "..", "./pdk/conformance")), PluginOptions{Trust: tool.TrustTrusted}); abi.CodeOf(err) != abi.CodeOptions {
		t.Errorf("a trusted plugin: %v", err)
	}
}

// SRV-01 SRV-02 SRV-03 RTM-01 RTM-02 RTM-04 RTM-07: what a tool is lent.
func TestServices(t *testing.T) {
	svc := func(name string) tool.Service {
		return tool.Methods{"who": tool.Method(func(context.Context, struct{}) (string, error) { return name, nil })}
	}
	for _, name := range abi.SessionServices() {
		t.Run(name, func(t *testing.T) {
			var got string
			var others []string
			var runtime bool
			f := fakeTool("T", readOnly, func(f *fake) { f.spec.Services = []string{name} }, runs(func(ctx context.Context, c *tool.Call) (*abi.Result, error) {
				s, ok := c.Service(name)
				if !ok {
					return nil, fmt.Errorf("the service is absent")
				}
				if err := tool.Ask(ctx, s, "who", nil, &got); err != nil {
					return nil, err
				}
				for _, o := range append(abi.SessionServices(), "registry", "lifecycle") {
					if _, ok := c.Service(o); ok && o != name {
						others = append(others, o)
					}
				}
				_, runtime = c.Runtime()
				return abi.Text("ok"), nil
			}))
			all := map[string]tool.Service{}
			for _, n := range abi.SessionServices() {
				all[n] = svc(n)
			}
			s := session(t, SessionOptions{Services: all}, f)
			wantOK(t, do(t, s, Call{Tool: "T"}))
			if got != name || others != nil || runtime {
				t.Errorf("got %q, others %v, runtime %v", got, others, runtime)
			}
			if name == abi.ServiceDiscoverable {
				return // every session has it
			}
			delete(all, name)
			s = session(t, SessionOptions{Services: all}, f)
			if len(s.Tools()) != 0 {
				t.Error("a tool without its service is registered")
			}
		})
	}
	if _, err := newHost(t, Options{}).NewSession(SessionOptions{Services: map[string]tool.Service{"memory": svc("x")}}); abi.CodeOf(err) != abi.CodeServiceName {
		t.Errorf("an unknown service: %v", err)
	}
	f := fakeTool("T", readOnly, func(f *fake) { f.spec.RequiresRuntime = true }, runs(func(ctx context.Context, c *tool.Call) (*abi.Result, error) {
		rt, ok := c.Runtime()
		if !ok {
			return nil, fmt.Errorf("no runtime")
		}
		if _, fenced := rt.Fence(); fenced {
			return nil, fmt.Errorf("a fence without a lease")
		}
		ran := false
		if err := rt.RunWithLease(ctx, func(context.Context) error { ran = true; return nil }); err != nil || !ran {
			return nil, fmt.Errorf("the operation did not run: %v", err)
		}
		return abi.Text("ok"), rt.AssertLease(ctx)
	}))
	wantOK(t, do(t, session(t, SessionOptions{}, f), Call{Tool: "T"}))
}

// SRV-06: a guest reaches only what it declared.
func TestGuestServices(t *testing.T) {
	h := newHost(t, Options{})
	p := conformance(t, h)
	var asked int
	spy := tool.Methods{"read": func(context.Context, tool.Request) (tool.Answer, error) { asked++; return tool.Answer{}, nil }}
	s := sessionOn(t, h, SessionOptions{Plugins: []Attachment{{Plugin: p}}, AutoApprove: true, Services: map[string]tool.Service{"x-echo": echoService(), abi.ServiceMemory: spy}})
	r := do(t, s, Call{Tool: "Service", Input: in(`{"name":"memoryManager.read"}`)})
	if r.Error == nil || r.Error.Code != "not_declared" || asked != 0 {
		t.Errorf("%+v, asked %d", r.Error, asked)
	}
	r = do(t, s, Call{Tool: "Service", Input: in(`{"name":"http.request","head":{"url":"http://x"}}`)})
	if r.Error == nil || r.Error.Code != "not_declared" {
		t.Errorf("%+v", r.Error)
	}
}

func BenchmarkRegistry1000(b *testing.B) {
	var list []tool.Tool
	for i := range 1000 {
		list = append(list, fakeTool(fmt.Sprintf("Tool%d", i), func(f *fake) { f.spec.Exposure = &abi.Exposure{Mode: abi.ExposureDeferred} }))
	}
	h := newHost(b, Options{Tools: list})
	s := sessionOn(b, h, SessionOptions{})
	b.Run("declare", func(b *testing.B) {
		for b.Loop() {
			_ = s.Declarations()
		}
	})
	b.Run("discover", func(b *testing.B) {
		for b.Loop() {
			_ = s.Discoverable("tool 77", "")
		}
	})
	b.Run("session", func(b *testing.B) {
		for b.Loop() {
			s, err := h.NewSession(SessionOptions{})
			if err != nil {
				b.Fatal(err)
			}
			_ = s.Close(context.Background())
		}
	})
}
