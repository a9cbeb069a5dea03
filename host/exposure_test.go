package host

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	capfs "github.com/bladehost/bladehost/host/caps/fs"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

func exposed(mode abi.ExposureMode, hint ...string) func(*fake) {
	return func(f *fake) {
		f.spec.Exposure = &abi.Exposure{Mode: mode}
		if len(hint) > 0 {
			f.spec.Exposure.DiscoveryHint = hint[0]
		}
	}
}

// EXP-01: what a model is told of, and what becomes of it once it was discovered.
func TestExposure(t *testing.T) {
	always := func(f *fake) { f.spec.Exposure = &abi.Exposure{Mode: abi.ExposureDiscoverable, AlwaysLoad: true} }
	s := session(t, SessionOptions{}, fakeTool("Plain", readOnly), fakeTool("Eager", readOnly, exposed(abi.ExposureEager)), fakeTool("Always", readOnly, always), fakeTool("Empty", readOnly, exposed("")),
		fakeTool("Deferred", readOnly, exposed(abi.ExposureDeferred, "find me")), fakeTool("Only", readOnly, exposed(abi.ExposureDiscoverable)), effecter("Eff"))
	if got := fmt.Sprint(declared(s)); got != "[Always Eager Eff Empty Plain]" {
		t.Errorf("declared %s", got)
	}
	modes := map[string]abi.ExposureMode{}
	for _, i := range s.Tools() {
		modes[i.Name] = i.Exposure
	}
	if modes["Deferred"] != abi.ExposureDeferred || modes["Only"] != abi.ExposureDiscoverable || modes["Plain"] != abi.ExposureEager || modes["Always"] != abi.ExposureEager {
		t.Errorf("%v", modes)
	}
	for _, name := range []string{"Deferred", "Only"} {
		wantCode(t, do(t, s, Call{Tool: name}), abi.CodeNotDiscovered, abi.TypeExecution)
	}
	if got := s.Announcement(); !strings.Contains(got, "Deferred") || !strings.Contains(got, "find me") || strings.Contains(got, "Only") || strings.Contains(got, "Plain") {
		t.Errorf("announced: %s", got)
	}
	discover := func(scope, names string) {
		t.Helper()
		wantOK(t, do(t, s, Call{Tool: "Eff", Input: effectInput(false, runtimePatch(`{"source":"tool","scope":"`+scope+`","toolDiscovery":{"discover":[`+names+`]}}`))}))
	}
	discover("session", `"Deferred"`)
	discover("turn", `"Only","Nothing"`)
	wantOK(t, do(t, s, Call{Tool: "Deferred"}))
	wantOK(t, do(t, s, Call{Tool: "Only"}))
	if s.Announcement() != "" {
		t.Errorf("announced: %s", s.Announcement())
	}
	s.EndTurn()
	wantOK(t, do(t, s, Call{Tool: "Deferred"}))
	wantCode(t, do(t, s, Call{Tool: "Only"}), abi.CodeNotDiscovered, abi.TypeExecution)
	wantOK(t, do(t, s, Call{Tool: "Eff", Input: effectInput(false, runtimePatch(`{"source":"tool","scope":"session","toolDiscovery":{"reset":true,"discover":["Only"]}}`))}))
	if got := fmt.Sprint(declared(s)); got != "[Always Eager Eff Empty Only Plain]" {
		t.Errorf("after a reset: %s", got)
	}
	s = session(t, SessionOptions{AllowUndiscovered: true}, fakeTool("Deferred", readOnly, exposed(abi.ExposureDeferred)))
	wantOK(t, do(t, s, Call{Tool: "Deferred"}))
	var many []tool.Tool
	for i := range 15 {
		many = append(many, fakeTool(fmt.Sprintf("T%02d", i), exposed(abi.ExposureDeferred)))
	}
	if got := session(t, SessionOptions{}, many...).Announcement(); strings.Count(got, "\n- ") != announced+1 || !strings.Contains(got, "3 more") || strings.Contains(got, "T12") {
		t.Errorf("announced: %s", got)
	}
}

// EXP-02: plan mode hides what is not read-only before any input is known, a plugin's claim
// included that what it was lent contradicts.
func TestPlanModeHides(t *testing.T) {
	narrows := func(f *fake) {
		f.resolve = func(in json.RawMessage) (tool.Partial, error) {
			if in == nil {
				return tool.Partial{Kind: abi.KindReadOnly}, nil
			}
			return tool.Partial{}, nil
		}
	}
	s := session(t, SessionOptions{Mode: policy.ModePlan}, fakeTool("R", readOnly), fakeTool("W", writes), fakeTool("X"), fakeTool("N", narrows))
	if got := fmt.Sprint(declared(s)); got != "[N R]" {
		t.Errorf("declared %s", got)
	}
	for _, i := range s.Tools() {
		if (i.Name == "W" || i.Name == "X") != (i.Reason == reasonPlanMode && i.Exposure == abi.ExposureHidden) {
			t.Errorf("%+v", i)
		}
	}
	if err := s.SetMode(policy.ModeDefault); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(declared(s)); got != "[N R W X]" {
		t.Errorf("declared %s", got)
	}
	h := newHost(t, Options{CacheDir: guestCache(t)})
	p := odd(t, h, tool.TrustWorkspace)
	for _, ro := range []bool{true, false} {
		s := sessionOn(t, h, SessionOptions{Mode: policy.ModePlan, Plugins: []Attachment{{Plugin: p, Grants: Grants{Folders: []*capfs.Grant{folder(t, t.TempDir(), ro)}}}}})
		if slices.Contains(declared(s), "Env") != ro {
			t.Errorf("read-only folder %v: declared %v", ro, declared(s))
		}
	}
}

// EXP-04: the scores of a search.
func TestRanking(t *testing.T) {
	spec := &abi.ToolSpec{Name: "WebSearch", Aliases: []string{"Google", "Look Up"}, DisplayName: "Search the Web", Description: abi.Description{Short: "Finds pages on the internet."}, Exposure: &abi.Exposure{DiscoveryHint: "news weather and  stocks"}}
	for query, want := range map[string]int{
		"websearch": 220, "  WEBSEARCH ": 220, "web": 180, "search": 150, "google": 210, "goo": 170, "look up": 210, "oogl": 140,
		"search the web": 190, "search the": 150, "the web": 120, "web the": 110, "news weather and stocks": 145, "news": 105, "weather": 75, "stocks news": 65,
		"finds pages on the internet.": 130, "finds": 90, "pages": 60, "internet. finds": 50, "nothing": 0, "": 1, " ": 1,
	} {
		if got := rank(spec, query); got != want {
			t.Errorf("%q scores %d, want %d", query, got, want)
		}
	}
	f := func(name, desc string) *fake {
		return fakeTool(name, exposed(abi.ExposureDeferred), func(f *fake) { f.spec.Description.Short = desc })
	}
	h := newHost(t, Options{Builtins: []tool.Tool{f("Builtin", "mail")}, Tools: []tool.Tool{f("Mail", "x"), f("SendMail", "x"), f("MailBox", "x"), f("Post", "sends mail"), f("Letter", "sends mail"), fakeTool("MailNow")}})
	names := func(s *Session, query string, mode policy.Mode) (out []string) {
		for _, d := range s.Discoverable(query, mode) {
			out = append(out, d.Name)
		}
		return out
	}
	s := sessionOn(t, h, SessionOptions{})
	// Exact, prefix, within, then by description; ties by name. What is visible is not found.
	if got := fmt.Sprint(names(s, "mail", "")); got != "[Mail MailBox SendMail Builtin Letter Post]" {
		t.Errorf("%s", got)
	}
	if d := s.Discoverable("letter", "")[0]; d.Title != "Letter" || d.Description != "sends mail" || d.ExposureMode != abi.ExposureDeferred {
		t.Errorf("%+v", d)
	}
	if got := names(s, "", ""); len(got) != 6 || !slices.IsSorted(got) {
		t.Errorf("all: %v", got)
	}
	if got := names(s, "mail", policy.ModePlan); len(got) != 0 {
		t.Errorf("in plan mode: %v", got)
	}
	s = sessionOn(t, h, SessionOptions{SourcePolicy: SourcePolicy{AllowedSources: []tool.SourceKind{tool.SourceBuiltin}}})
	if got := fmt.Sprint(names(s, "mail", "")); got != "[Builtin]" {
		t.Errorf("the source policy is not kept: %s", got)
	}
	s = sessionOn(t, h, SessionOptions{DisallowedTools: []string{"Mail"}})
	if got := fmt.Sprint(names(s, "mail", "")); got != "[MailBox SendMail Builtin Letter Post]" {
		t.Errorf("the selection is not kept: %s", got)
	}
}
