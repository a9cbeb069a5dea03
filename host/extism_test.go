package host

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/guesttest"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

func extismFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../testdata/extism", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A plugin of bladehost's contract that is built with Extism's own kit goes
// through the same session as any other.
func TestExtismSession(t *testing.T) {
	h := newHost(t, Options{CacheDir: filepath.Join(t.TempDir(), "cache")})
	module, err := WithManifest(guesttest.Go(t, "../testdata/extism", "./guest"), extismFile(t, "guest/manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := h.LoadPlugin(module, PluginOptions{Trust: tool.TrustWorkspace})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := Inspect(extismFile(t, "hostile.wasm")); err != nil || info.Problem == nil || info.Problem.Code != abi.CodeManifestMissing {
		t.Errorf("%+v %v", info, err)
	}
	s := sessionOn(t, h, SessionOptions{Plugins: []Attachment{{Plugin: p}}, Services: map[string]tool.Service{"x-echo": echoService()}, AutoApprove: true})
	r := do(t, s, Call{Tool: "Echo", Input: in(`{"a":"é"}`)})
	if r.IsError() || string(r.Data) != `{"a":"é"}` || string(r.Model) != `{"a":"é"}` {
		t.Errorf("%s %+v", r.Data, r.Error)
	}
	r = do(t, s, Call{Tool: "Service", Input: in(`{"name":"x-echo.echo","head":{"a":1},"body":"b"}`)})
	if string(r.Data) != `{"body":"b","head":{"a":1},"status":0}` {
		t.Errorf("%s %+v", r.Data, r.Error)
	}
	// The same checks as everywhere: not declared, and what the call says of itself.
	r = do(t, s, Call{Tool: "Service", Input: in(`{"name":"kv.get","head":{"key":"k"}}`)})
	if !strings.Contains(string(r.Data), `"code":"NOT_DECLARED"`) || !strings.Contains(string(r.Data), `"status":3`) {
		t.Errorf("%s", r.Data)
	}
	r = do(t, s, Call{Tool: "Service", Input: in(`{"name":"call.context","head":{}}`)})
	if !strings.Contains(string(r.Data), `"tool":"Service"`) {
		t.Errorf("%s", r.Data)
	}
	x := s.Start(t.Context(), Call{Tool: "Yield", Input: in(`{"yields":[{"kind":"progress","completed":1},{"kind":"message","content":{"summary":"s"}},{"kind":"effect","effect":{"type":"contextPatch","patch":{"metadata":{"k":1}}}}]}`)})
	var kinds []abi.YieldKind
	for y := range x.Yields() {
		kinds = append(kinds, y.Kind)
	}
	if r, err := x.Result(); err != nil || string(r.Data) != `[0,0,0]` || !slices.Equal(kinds, []abi.YieldKind{abi.YieldProgress, abi.YieldMessage, abi.YieldEffect}) {
		t.Errorf("%v %+v %v", kinds, r, err)
	}
	r = do(t, s, Call{Tool: "Spin", Input: in(`{}`), Timeout: 100 * time.Millisecond})
	wantCode(t, r, abi.CodeTimeoutRan, abi.TypeTimeout)
	r = do(t, s, Call{Tool: "Exit", Input: in(`{"code":0}`)})
	wantCode(t, r, abi.CodeGuestExit, abi.TypeExecution)
	wantOK(t, do(t, s, Call{Tool: "Echo", Input: in(`{}`)}))
}

// A plugin made for another host: its manifest is made of what it lists, and it
// is treated as able to do anything.
func TestExtismThirdParty(t *testing.T) {
	h := newHost(t, Options{})
	for _, file := range []string{"mcp1.wasm", "mcp2.wasm"} {
		module := extismFile(t, file)
		if _, err := h.Describe(t.Context(), module); abi.CodeOf(err) != abi.CodeOptions || !strings.Contains(err.Error(), "--name") {
			t.Errorf("%s: %v", file, err)
		}
		raw, err := h.DescribeExtism(t.Context(), module, "blade-tool-time", "1.0.0")
		if err != nil {
			t.Fatal(err)
		}
		signed, err := WithManifest(module, raw)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := h.Describe(t.Context(), signed); err != nil || string(again) != string(raw) {
			t.Errorf("it describes itself anew as %s, %v", again, err)
		}
		info, err := Inspect(signed)
		if err != nil || info.Problem != nil || info.Manifest.Name != "blade-tool-time" {
			t.Errorf("%+v %v", info, err)
		}
		p, err := h.LoadPlugin(signed, PluginOptions{})
		if err != nil {
			t.Fatal(err)
		}
		asked := 0
		s := sessionOn(t, h, SessionOptions{Plugins: []Attachment{{Plugin: p}}, Mode: policy.ModeDefault, Confirm: tool.ConfirmFunc(func(context.Context, tool.Confirmation) (tool.ConfirmationAnswer, error) {
			asked++
			return tool.ConfirmationAnswer{Approved: true}, nil
		})})
		r := do(t, s, Call{Tool: "time", Input: in(`{"name":"get"}`)})
		if r.IsError() || !strings.Contains(r.ModelText(), `'arguments':{'name':'get'}`) || asked != 1 {
			t.Errorf("%s %+v, asked %d times", r.Model, r.Error, asked)
		}
		if r := do(t, s, Call{Tool: "time", Input: in(`{"name":5}`)}); r.Error == nil || r.Error.Code != abi.CodeValidation {
			t.Errorf("the plugin's schema was not looked at: %+v", r)
		}
	}
	if _, err := h.DescribeExtism(t.Context(), extismFile(t, "hostile.wasm"), "blade-tool-x", "1.0.0"); abi.CodeOf(err) != abi.CodeOptions {
		t.Error(err)
	}
	own, err := os.ReadFile("../testdata/wasm/noop.wasm")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.DescribeExtism(t.Context(), own, "blade-tool-x", "1.0.0"); abi.CodeOf(err) != abi.CodeOptions {
		t.Error(err)
	}
	if err := schemasOf(json.RawMessage(`{"abi":1,"name":"blade-tool-x","version":"1.0.0","description":"d","tools":[{"name":"bad","description":"d","parameters":{"type":"object","properties":{"a":{"type":"nope"}}}}]}`)); abi.CodeOf(err) != abi.CodeSchema || !strings.Contains(err.Error(), `"bad"`) {
		t.Error(err)
	}
}
