package system

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
	"github.com/bladehost/bladehost/host/tool/tooltest"
)

// mail is one of the tools to be found.
func mail(name, description string, kind abi.Kind) tool.Tool {
	return tool.Must(tool.Define(name, description, func(context.Context, struct{}) (string, error) { return name, nil }, tool.Options{
		Kind: kind, SideEffect: abi.SideEffectPure, Exposure: &abi.Exposure{Mode: abi.ExposureDeferred},
	}))
}

func session(t *testing.T, opt host.SessionOptions, tools ...tool.Tool) *host.Session {
	t.Helper()
	h, err := host.New(host.Options{Builtins: Tools(), Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s, err := h.NewSession(opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func run(t *testing.T, s *host.Session, name, input string) *abi.Result {
	t.Helper()
	r, err := s.Run(t.Context(), host.Call{Tool: name, Input: json.RawMessage(input)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func declared(s *host.Session) string {
	var out []string
	for _, d := range s.Declarations() {
		out = append(out, d.Name)
	}
	return strings.Join(out, " ")
}

func twelve() (list []tool.Tool) {
	for i := range 12 {
		list = append(list, mail(fmt.Sprintf("Mail%02d", i), fmt.Sprintf("Sends mail in way %d.", i), abi.KindReadOnly))
	}
	return list
}

// EXP-03: what was found is there for the later turns of the session; max_results is 5 where
// it is not said, and from 1 to 10.
func TestDiscoverTools(t *testing.T) {
	for _, c := range []struct {
		input string
		want  int
	}{{`{"query":"mail"}`, 5}, {`{"query":"mail","max_results":1}`, 1}, {`{"query":"mail","max_results":10}`, 10}, {`{"query":"way 3"}`, 1}} {
		s := session(t, host.SessionOptions{}, twelve()...)
		if declared(s) != "DiscoverTools" {
			t.Fatalf("declared before: %s", declared(s))
		}
		r := run(t, s, "DiscoverTools", c.input)
		if r.IsError() {
			t.Fatalf("%s: %+v", c.input, r.Error)
		}
		list, _ := r.Metadata["discoveredTools"].([]string)
		if len(list) != c.want || len(strings.Fields(declared(s))) != c.want+1 {
			t.Errorf("%s: found %v, declared %s", c.input, list, declared(s))
		}
		for _, name := range list {
			if !strings.Contains(r.ModelText(), name+": Sends mail") {
				t.Errorf("%s is not in %s", name, r.ModelText())
			}
		}
		s.EndTurn()
		if r := run(t, s, list[0], `{}`); r.IsError() {
			t.Errorf("%s in a later turn: %+v", list[0], r.Error)
		}
		var data struct{ Tools []found }
		if err := json.Unmarshal(r.Data, &data); err != nil || len(data.Tools) != c.want || data.Tools[0].Exposure != abi.ExposureDeferred {
			t.Errorf("%s %v", r.Data, err)
		}
	}
	s := session(t, host.SessionOptions{}, twelve()...)
	for _, bad := range []string{`{}`, `{"query":""}`, `{"query":1}`, `{"query":"mail","max_results":0}`, `{"query":"mail","max_results":11}`, `{"query":"mail","max_results":1.5}`, `{"query":"mail","max_results":"5"}`, `{"query":"mail","more":1}`} {
		if r := run(t, s, "DiscoverTools", bad); r.Error == nil || r.Error.Code != abi.CodeValidation {
			t.Errorf("%s: %+v", bad, r)
		}
	}
	r := run(t, s, "DiscoverTools", `{"query":"fax"}`)
	if r.IsError() || !strings.Contains(r.ModelText(), "fax") || len(r.Metadata["discoveredTools"].([]string)) != 0 || declared(s) != "DiscoverTools" {
		t.Errorf("%+v, declared %s", r, declared(s))
	}
}

// BLT-01 BLT-02: its contract, and that a session leaves it out where it is not allowed.
func TestDiscoverToolsContract(t *testing.T) {
	s := session(t, host.SessionOptions{})
	i := s.Tools()[0]
	if i.Name != "DiscoverTools" || i.Behavior.Kind != abi.KindReadOnly || i.Behavior.SideEffect != abi.SideEffectIdempotent || i.Behavior.Interrupt != abi.InterruptBlock || i.Source.Kind != tool.SourceBuiltin || i.Source.Trust != tool.TrustTrusted || i.Group != abi.GroupSystem {
		t.Errorf("%+v", i)
	}
	if s := session(t, host.SessionOptions{AllowedTools: []string{}}); len(s.Tools()) != 0 {
		t.Error("an empty list allows it")
	}
}

// Only tools that the session would take are found: mode, source policy and selection count.
func TestDiscoverToolsFindsOnlyWhatCounts(t *testing.T) {
	list := []tool.Tool{mail("MailRead", "Reads mail.", abi.KindReadOnly), mail("MailSend", "Sends mail.", abi.KindExecute)}
	for name, c := range map[string]struct {
		opt  host.SessionOptions
		want string
	}{
		"all":       {host.SessionOptions{}, "[MailRead MailSend]"},
		"plan":      {host.SessionOptions{Mode: policy.ModePlan}, "[MailRead]"},
		"selection": {host.SessionOptions{DisallowedTools: []string{"MailRead"}}, "[MailSend]"},
		"source":    {host.SessionOptions{SourcePolicy: host.SourcePolicy{AllowedSources: []tool.SourceKind{tool.SourceBuiltin}}}, "[]"},
	} {
		r := run(t, session(t, c.opt, list...), "DiscoverTools", `{"query":"mail"}`)
		if got := fmt.Sprint(r.Metadata["discoveredTools"]); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// It tells the session by one effect for the session, and by none where nothing was found.
func TestDiscoverToolsEffect(t *testing.T) {
	s := session(t, host.SessionOptions{}, twelve()...)
	for query, want := range map[string]string{"mail01": `{"scope":"session","source":"tool","toolDiscovery":{"discover":["Mail01"]}}`, "fax": ""} {
		x := s.Start(t.Context(), host.Call{Tool: "DiscoverTools", Input: json.RawMessage(`{"query":"` + query + `"}`)})
		got := ""
		for y := range x.Yields() {
			got += string(y.Effect.Patch)
		}
		if _, err := x.Result(); err != nil || got != want {
			t.Errorf("%s: %s %v", query, got, err)
		}
	}
}

func TestDiscoverToolsSuite(t *testing.T) {
	answer := `{"tools":[{"name":"A","title":"A","description":"d","exposureMode":"deferred"}]}`
	tooltest.Run(t, tooltest.Case{
		New:   func(testing.TB) tool.Tool { return DiscoverTools() },
		Input: json.RawMessage(`{"query":"a","max_results":5}`), Bad: []json.RawMessage{json.RawMessage(`{}`), json.RawMessage(`{"query":""}`), json.RawMessage(`{"query":"a","max_results":-1}`)},
		Config: func(c *tool.Config) {
			c.Services = map[string]tool.Service{abi.ServiceDiscoverable: tool.Methods{"listDiscoverable": func(context.Context, tool.Request) (tool.Answer, error) {
				return tool.Answer{Head: json.RawMessage(answer)}, nil
			}}}
		},
	})
	// Without the service, and with one that fails, it ends in an error of its own.
	if _, err := DiscoverTools().Execute(t.Context(), tool.NewCall(tool.Config{Input: json.RawMessage(`{"query":"a"}`)})); abi.CodeOf(err) != abi.CodeContextRequired {
		t.Errorf("%v", err)
	}
}
