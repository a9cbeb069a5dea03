package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// PRM-01: the three forms of a pattern, and nothing else.
func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, tool, content string
		want                   bool
	}{
		{"*", "T", "x", true}, {"*", "", "", true}, {"T", "T", "x", true}, {"T", "T", "", true}, {"T:x", "T", "x", true}, {"T:x", "T", "xy", false}, {"T:x", "T", "", false},
		{"T:x*", "T", "xy", true}, {"T:x*", "T", "x", true}, {"T*", "T", "x", true}, {"T*", "Tee", "x", true}, {"T:*", "T", "x", true}, {"T:*", "T", "", false}, {"T:*", "Tee", "x", false},
		{"t", "T", "x", false}, {"T:X", "T", "x", false}, {"T:*x", "T", "ax", false}, {"T:a*b", "T", "axb", false}, {"T:a*b", "T", "a*b", true}, {"*T", "T", "", false}, {"*T", "XT", "", false}, {"", "T", "x", false},
		{"T:.*", "T", "x", false}, {"T:.*", "T", ".x", true}, {"T:[x]", "T", "x", false}, {"T:a:b", "T", "a:b", true}, {"T ", "T", "", false},
	} {
		if got := (Rule{Pattern: c.pattern}).Matches(Signature{Tool: c.tool, Content: c.content}); got != c.want {
			t.Errorf("%q over %s:%s is %v", c.pattern, c.tool, c.content, got)
		}
	}
}

// PRM-01 PRM-02: deny beats allow beats ask; no rule says nothing, and the rule that decided is
// told.
func TestRulesJudge(t *testing.T) {
	s := Signature{Tool: "T", Content: "x"}
	for _, c := range []struct {
		allow, ask, deny []string
		want             tool.PermissionBehavior
		rule             string
	}{
		{nil, nil, nil, "", ""}, {[]string{"U"}, []string{"U"}, []string{"U"}, "", ""}, {[]string{"T"}, []string{"*"}, nil, "allow", "T"}, {nil, []string{"U", "T:x"}, nil, "ask", "T:x"},
		{[]string{"*"}, []string{"*"}, []string{"U", "T*"}, "deny", "T*"}, {[]string{"T:x"}, nil, []string{"*"}, "deny", "*"},
	} {
		r := RulesFrom("src", c.allow, c.ask, c.deny)
		says, rule := r.Judge(s)
		if says != c.want || rule.Pattern != c.rule || (c.rule != "" && rule.Source != "src") {
			t.Errorf("%+v: %s by %+v", c, says, rule)
		}
		if r.Explicit(s) != (len(c.allow) > 0 && c.allow[0] != "U") {
			t.Errorf("%+v: explicit %v", c, r.Explicit(s))
		}
	}
	both := RulesFrom("a", []string{"A"}, nil, []string{"D"}).And(RulesFrom("b", []string{"B"}, []string{"Q"}, nil))
	if fmt.Sprint(both) != "{[{A a} {B b}] [{Q b}] [{D a}]}" {
		t.Errorf("%v", both)
	}
	if !(Rules{}).Empty() || both.Empty() {
		t.Error("Empty")
	}
	aliases := map[string]string{"Find": "S", "S": "S"}
	resolved := RulesFrom("x", []string{"Find", "Find:a*", "Find*", "S", "S*", "Nope", "Findme", "*"}, []string{"Find:b"}, nil).Resolve(func(n string) (string, bool) { c, ok := aliases[n]; return c, ok })
	var got []string
	for _, r := range append(resolved.Allow, resolved.Ask...) {
		got = append(got, r.Pattern)
	}
	if fmt.Sprint(got) != "[S S:a* S Find* S S* Nope Findme * S:b]" {
		t.Errorf("%v", got)
	}
}

// FuzzRules: whatever the patterns and the signature are, a deny is final, more rules never
// soften a decision against their kind, and the empty set says nothing.
func FuzzRules(f *testing.F) {
	for _, s := range []string{"*", "T", "T*", "T:x", "T:*", ":", "", "T:a*b", "**", "T:\x00"} {
		f.Add(s, "T:x", "U*", "T", "x")
	}
	f.Fuzz(func(t *testing.T, a, b, c, toolName, content string) {
		s := Signature{Tool: toolName, Content: content}
		r := RulesFrom("f", []string{a}, []string{b}, []string{c})
		says, rule := r.Judge(s)
		if (Rule{Pattern: c}).Matches(s) != (says == tool.PermissionDeny) {
			t.Errorf("a deny rule that matches decides, and only then: %s", says)
		}
		if says != "" && !rule.Matches(s) {
			t.Errorf("the rule %q does not cover %v", rule.Pattern, s)
		}
		if says == tool.PermissionAllow != (!(Rule{Pattern: c}).Matches(s) && (Rule{Pattern: a}).Matches(s)) {
			t.Errorf("allow: %s", says)
		}
		if more, _ := r.And(RulesFrom("g", nil, nil, []string{"*"})).Judge(s); more != tool.PermissionDeny {
			t.Errorf("deny all: %s", more)
		}
		if more, _ := r.And(RulesFrom("g", []string{"*"}, nil, nil)).Judge(s); says == tool.PermissionDeny && more != says {
			t.Errorf("an allow rule lifted a deny: %s", more)
		}
		if exact, _ := RulesFrom("e", nil, nil, []string{s.String()}).Judge(s); exact != tool.PermissionDeny {
			t.Errorf("its own signature does not cover %v", s)
		}
		same := r.Resolve(func(n string) (string, bool) { return n, true })
		if again, _ := same.Judge(s); again != says {
			t.Errorf("resolving names to themselves changed %s to %s", says, again)
		}
		none := r.Resolve(func(string) (string, bool) { return "", false })
		if again, _ := none.Judge(s); again != says {
			t.Errorf("resolving nothing changed %s to %s", says, again)
		}
	})
}

// keyed is a tool with pointers for a permissionKey.
type keyed struct{ keys []string }

func (k keyed) Spec() *abi.ToolSpec { return &abi.ToolSpec{Name: "K", PermissionKey: k.keys} }
func (k keyed) Execute(context.Context, *tool.Call) (*abi.Result, error) {
	return nil, nil
}

// matcher is a tool that names what an approval covers itself.
type matcher struct {
	keyed
	match func(json.RawMessage) string
}

func (m matcher) PermissionSignature(in json.RawMessage) (string, string) { return m.match(in), "" }

// PRM-07: what an approval covers: by the tool's matcher, by its keys, or exactly one input.
func TestSignatures(t *testing.T) {
	of := func(tl tool.Tool, input string) string { return SignatureOf(tl, json.RawMessage(input)).String() }
	same := func(tl tool.Tool, a, b string, want bool) {
		t.Helper()
		if x, y := of(tl, a), of(tl, b); (x == y) != want {
			t.Errorf("%s and %s: %s and %s", a, b, x, y)
		}
	}
	plain := keyed{}
	if s := of(plain, `{"a":1}`); !strings.HasPrefix(s, "K:sha256:") || len(s) != len("K:sha256:")+16 {
		t.Errorf("%s", s)
	}
	same(plain, `{"a":1,"b":2}`, `{ "b":2.0, "a":1e0 }`, true)
	same(plain, `{"a":1}`, `{"a":"1"}`, false)
	same(plain, `{"a":1}`, `{"a":1,"b":null}`, false)
	same(plain, `{"a":[1,2]}`, `{"a":[2,1]}`, false)
	one := keyed{[]string{"/host"}}
	if s := of(one, `{"host":"a.org","path":"/x"}`); s != "K:a.org" {
		t.Errorf("%s", s)
	}
	same(one, `{"host":"a","x":1}`, `{"host":"a","x":2}`, true)
	same(one, `{"host":"a"}`, `{"host":"b"}`, false)
	same(one, `{"x":1}`, `{"x":2}`, false) // no key, so exactly one input
	two := keyed{[]string{"/a", "/b"}}
	same(two, `{"a":"x","b":"y"}`, `{"a":"x","b":"y","c":1}`, true)
	for _, pair := range [][2]string{
		{`{"a":"x|y","b":"z"}`, `{"a":"x","b":"y|z"}`}, {`{"a":"x\\","b":"y|z"}`, `{"a":"x|y\\","b":"z"}`}, {`{"a":"x","b":"y"}`, `{"a":"y","b":"x"}`}, {`{"a":"|","b":""}`, `{"a":"","b":"|"}`}, {`{"a":"\\","b":"|"}`, `{"a":"\\|","b":""}`},
	} {
		same(two, pair[0], pair[1], false)
	}
	mine := matcher{match: func(in json.RawMessage) string { return "len " + fmt.Sprint(len(in)) }}
	if s := of(mine, `{}`); s != "K:len 2" {
		t.Errorf("%s", s)
	}
	bad := matcher{match: func(json.RawMessage) string { panic("no") }}
	same(bad, `{"a":1}`, `{"a":2}`, false)
	same(bad, `{"a":1}`, `{"a":1}`, true)
}

// FuzzKeys: two inputs have one signature only if the values at the keys are the same.
func FuzzKeys(f *testing.F) {
	for _, s := range []string{"", "|", `\`, `\|`, `a|b\`, `x\\|`} {
		f.Add(s, "b", "a", s)
		f.Add(s, s, s+"|", "c")
	}
	tl := keyed{[]string{"/a", "/b"}}
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		sig := func(x, y string) string {
			raw, err := json.Marshal(map[string]string{"a": x, "b": y})
			if err != nil {
				t.Fatal(err)
			}
			return SignatureOf(tl, raw).String()
		}
		norm := func(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
		a, b, c, d = norm(a), norm(b), norm(c), norm(d)
		if (sig(a, b) == sig(c, d)) != (a == c && b == d) {
			t.Errorf("%q %q and %q %q: %q and %q", a, b, c, d, sig(a, b), sig(c, d))
		}
	})
}

// Updates are merged into an object, whatever else they are is an error.
func TestMergeInput(t *testing.T) {
	got, err := MergeInput(json.RawMessage(`{"a":1,"b":{"c":1}}`), json.RawMessage(`{"b":{"d":2},"e":null}`))
	if err != nil || string(got) != `{"a":1,"b":{"d":2},"e":null}` {
		t.Errorf("%s %v", got, err)
	}
	for _, c := range [][2]string{{`{}`, `[]`}, {`{}`, `null`}, {`null`, `{"a":1}`}, {`[]`, `{}`}, {``, `{}`}, {`{}`, `{"a":1,"a":2}`}, {`{"a":1,"a":2}`, `{}`}} {
		if got, err := MergeInput(json.RawMessage(c[0]), json.RawMessage(c[1])); err == nil {
			t.Errorf("%s and %s: %s", c[0], c[1], got)
		}
	}
}

// Handlers in a chain see each other's changes; a failure or an unknown word ends it.
func TestHandlerChain(t *testing.T) {
	says := func(p tool.Permission, err error) Handler {
		return HandlerFunc(func(context.Context, Request) (tool.Permission, error) { return p, err })
	}
	var seen string
	spy := HandlerFunc(func(_ context.Context, r Request) (tool.Permission, error) {
		seen = string(r.Input)
		return tool.Permission{Behavior: tool.PermissionAllow, Updates: []abi.PermissionUpdate{{Type: "addRules"}}}, nil
	})
	change := says(tool.Permission{Behavior: tool.PermissionAllow, UpdatedInput: json.RawMessage(`{"b":2}`), Updates: []abi.PermissionUpdate{{Type: "removeRules"}}}, nil)
	for name, chain := range map[string]func(...Handler) Handler{"first": FirstWins, "deny": DenyWins} {
		p, err := chain(change, spy).HandlePermission(t.Context(), Request{Input: json.RawMessage(`{"a":1}`)})
		if err != nil || seen != `{"a":1,"b":2}` || string(p.UpdatedInput) != seen || len(p.Updates) != 2 {
			t.Errorf("%s: %+v %v, seen %s", name, p, err, seen)
		}
		if _, err := chain(says(tool.Permission{Behavior: "maybe"}, nil)).HandlePermission(t.Context(), Request{Input: json.RawMessage(`{}`)}); abi.CodeOf(err) != abi.CodeHandlerFailed {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := chain(says(tool.Permission{}, context.Canceled), says(tool.Permission{Behavior: tool.PermissionDeny}, nil)).HandlePermission(t.Context(), Request{}); err != context.Canceled {
			t.Errorf("%s: %v", name, err)
		}
		for _, input := range []string{`null`, ``, `[]`} {
			if _, err := chain(change).HandlePermission(t.Context(), Request{Input: json.RawMessage(input)}); err == nil {
				t.Errorf("%s: an input that is %q was changed", name, input)
			}
		}
	}
}

// A deny or ask rule counts for the other name of what a call is about, an allow rule does not.
func TestJudgeAlias(t *testing.T) {
	s := Signature{Tool: "Read", Content: "/w/x", Alias: "/w/secret"}
	for name, c := range map[string]struct {
		rules Rules
		want  tool.PermissionBehavior
	}{
		"deny":        {RulesFrom("", nil, nil, []string{"Read:/w/secret"}), tool.PermissionDeny},
		"deny prefix": {RulesFrom("", nil, nil, []string{"Read:/w/s*"}), tool.PermissionDeny},
		"deny name":   {RulesFrom("", nil, nil, []string{"Read:/w/x"}), tool.PermissionDeny},
		"ask":         {RulesFrom("", nil, []string{"Read:/w/secret"}, nil), tool.PermissionAsk},
		"allow":       {RulesFrom("", []string{"Read:/w/secret"}, nil, nil), ""},
		"other":       {RulesFrom("", nil, nil, []string{"Read:/w/other"}), ""},
	} {
		if got, _ := c.rules.Judge(s); got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}
