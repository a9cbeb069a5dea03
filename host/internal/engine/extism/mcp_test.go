package extism

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/engine"
	"github.com/bladehost/bladehost/host/internal/guesttest"
)

// Plugins for other hosts, in both styles.
func TestMCP(t *testing.T) {
	for file1, request := range map[string]string{
		"mcp1.wasm": `{'params':{'name':'time','arguments':{'name':'x'}}}`,
		"mcp2.wasm": `{'context':{'_meta':{},'id':1},'request':{'name':'time','arguments':{'name':'x'}}}`,
	} {
		b := load(t, Options{}, file(t, file1), "blade-tool-time", "1.2.3")
		m := b.p.Manifest()
		if m.Name != "blade-tool-time" || m.Version != "1.2.3" || len(m.Tools) != 1 {
			t.Fatalf("%+v", m)
		}
		s := m.Tools[0]
		if s.Name != "time" || s.Kind != abi.KindExecute || s.SideEffect != abi.SideEffectNonIdempotent || s.Yields == nil || len(*s.Yields) > 0 ||
			string(s.Parameters) != `{"properties":{"name":{"type":"string"}},"type":"object"}` {
			t.Errorf("%+v %s", s, s.Parameters)
		}
		r := b.do(t, "time", `{"name":"x"}`)
		var text string
		if err := json.Unmarshal(r.Model, &text); err != nil || text != request || string(r.Data) != `{"content":[{"type":"text","text":"`+request+`"}]}` {
			t.Errorf("%s %s %+v", r.Model, r.Data, r.Error)
		}
		if r := b.do(t, "time", `{"name":"!f"}`); r.Error == nil || r.Error.Message != "no such zone" || r.Error.Type != abi.TypeExecution {
			t.Errorf("%+v", r.Error)
		}
		if r := b.do(t, "time", `{"name":"!w"}`); r.Error == nil || !strings.Contains(r.Error.Message, "!w") {
			t.Errorf("%+v", r.Error)
		}
		if again, err := b.p.Describe(t.Context(), "", ""); err != nil || !strings.Contains(string(again), `"version":"1.2.3"`) {
			t.Errorf("%s %v", again, err)
		}
		if _, err := b.p.Describe(t.Context(), "time", "1"); abi.CodeOf(err) != abi.CodeManifest {
			t.Error(err)
		}
	}
}

func TestManifestOf(t *testing.T) {
	for _, c := range []struct {
		list, want string
		code       abi.Code
	}{
		{`{"tools":[{"name":"a"},{"name":"b","title":"B","description":" d ","inputSchema":{"type":"object","$schema":"http://json-schema.org/draft-07/schema#"},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`,
			`"tools":[{"name":"a","description":"a","parameters":{"type":"object"},"kind":"execute","sideEffect":"non_idempotent","interruptBehavior":"block","yields":[]},{"name":"b","displayName":"B","description":"d","parameters":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"},"outputSchema":{"type":"object"},"kind":"execute"`, ""},
		{`{"tools":[]}`, "", abi.CodeManifest},
		{`{}`, "", abi.CodeManifest},
		{`{"tools":[{"name":"no name"}]}`, `/tools/0/name`, abi.CodeManifest},
		{`{"tools":[{"name":"a"},{"name":"a"}]}`, "", abi.CodeManifest},
		{`{"tools":[{"name":5}]}`, "", abi.CodeInit},
		{`{"tools":[{"name":"a"}],"nextCursor":"x"}`, "pages", abi.CodeInit},
		{`tools`, "", abi.CodeInit},
		{`{"tools":[],"tools":[]}`, "", abi.CodeInit},
	} {
		raw, err := manifestOf([]byte(c.list), "blade-tool-x", "1.0.0")
		if abi.CodeOf(err) != c.code {
			t.Errorf("%s: %v", c.list, err)
			continue
		}
		said := string(raw)
		if err != nil {
			b, _ := json.Marshal(err)
			said = err.Error() + string(b)
		}
		if !strings.Contains(said, c.want) {
			t.Errorf("%s: %s", c.list, said)
		}
		if err == nil {
			if _, err := engine.ParseManifest(raw); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestResultOf(t *testing.T) {
	const image = `{"type":"image","data":"eA==","mimeType":"image/png"}`
	for _, c := range []struct{ out, model, data, fail string }{
		{`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, `"a\nb"`, `{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, ""},
		{`{"content":[]}`, `{"content":[]}`, `{"content":[]}`, ""},
		{`{"content":[` + image + `]}`, `[` + image + `]`, `{"content":[` + image + `]}`, ""},
		{`{"content":[{"type":"text","text":"a"}],"structuredContent":{"n":1},"isError":false}`, `"a"`, `{"n":1}`, ""},
		{`{"structuredContent":{"n":1}}`, `{"n":1}`, `{"n":1}`, ""},
		{`{"content":[],"structuredContent":null}`, `{"content":[]}`, `{"content":[]}`, ""},
		{`{"content":[{"type":"text","text":"bad"}],"isError":true}`, "", "", "bad"},
		{`{"content":[],"isError":true}`, "", "", "the tool failed without a message"},
		{`{"content":[` + image + `],"isError":true}`, "", "", "the tool failed without a message"},
		{`{}`, "", "", "not a result of MCP"},
		{`{"content":null}`, "", "", "not a result of MCP"},
		{`{"content":"text"}`, "", "", "not a result of MCP"},
		{`[]`, "", "", "not a result of MCP"},
		{`{"content":[{"text":"a"}]}`, `[{"text":"a"}]`, `{"content":[{"text":"a"}]}`, ""},
	} {
		r := resultOf([]byte(c.out))
		if why := r.Valid(); why != "" {
			t.Errorf("%s: %s", c.out, why)
		}
		if c.fail != "" {
			if r.Error == nil || !strings.Contains(r.Error.Message, c.fail) {
				t.Errorf("%s: %+v", c.out, r.Error)
			}
			continue
		}
		if r.IsError() || string(r.Model) != c.model || string(r.Data) != c.data {
			t.Errorf("%s: %s %s %+v", c.out, r.Model, r.Data, r.Error)
		}
	}
}

// A plugin as people write them for other hosts, with Extism's Go kit.
func TestMCPInGo(t *testing.T) {
	b := load(t, Options{Interpreter: true}, guesttest.Go(t, top, "./mcp"), "blade-tool-letters", "1.0.0")
	if s := b.tools["upper"].Spec(); s.DisplayName != "Upper case" || string(s.Parameters) != `{"properties":{"text":{"type":"string"}},"required":["text"],"type":"object"}` {
		t.Errorf("%+v %s", s, s.Parameters)
	}
	if s := b.tools["image"].Spec(); string(s.Parameters) != `{"type":"object"}` {
		t.Errorf("%s", s.Parameters)
	}
	for _, c := range []struct{ tool, input, model, data, fail string }{
		{"upper", `{"text":"é"}`, `"É"`, `{"content":[{"type":"text","text":"É"}]}`, ""},
		{"count", `{"text":"abc"}`, `"3 letters"`, `{"letters":3}`, ""},
		{"image", `{}`, `[{"type":"image","data":"eA==","mimeType":"image/png"}]`, `{"content":[{"type":"image","data":"eA==","mimeType":"image/png"}]}`, ""},
		{"refuse", `{}`, "", "", "that cannot be done"},
		{"break", `{}`, "", "", "there is no tool break"},
	} {
		r := b.do(t, c.tool, c.input)
		if c.fail != "" {
			if r.Error == nil || r.Error.Message != c.fail || r.Error.Type != abi.TypeExecution {
				t.Errorf("%s: %+v", c.tool, r.Error)
			}
			continue
		}
		if r.IsError() || string(r.Model) != c.model || string(r.Data) != c.data {
			t.Errorf("%s: %s %s %+v", c.tool, r.Model, r.Data, r.Error)
		}
	}
}

// Without machine code it is slower and the same.
func TestInterpreter(t *testing.T) {
	b := load(t, Options{Interpreter: true}, file(t, "mcp2.wasm"), "blade-tool-time", "1.0.0")
	if r := b.do(t, "time", `{"name":"x"}`); r.IsError() {
		t.Errorf("%+v", r.Error)
	}
	hostile := load(t, Options{Interpreter: true}, file(t, "hostile.wasm"), "", "")
	wantCode(t, hostile.do(t, "B", `{}`), abi.CodeGuestStack)
}
