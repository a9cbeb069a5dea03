package policy

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

func update(typ, behavior string, rules ...abi.PermissionRule) abi.PermissionUpdate {
	return abi.PermissionUpdate{Type: typ, Behavior: behavior, Rules: rules}
}

// PRM-07 EFF-09: what a session remembers, and how updates change it.
func TestMemory(t *testing.T) {
	var m Memory
	a, b := Signature{Tool: "T", Content: "a"}, Signature{Tool: "T", Content: "b"}
	if m.Approved(a) || len(m.DenyRules()) != 0 || len(m.Denials()) != 0 || m.Summary() != "" {
		t.Error("the zero value is not empty")
	}
	m.Approve(a)
	if !m.Approved(a) || m.Approved(b) || m.Approved(Signature{Tool: "T"}) || m.Approved(Signature{Tool: "T", Content: "ab"}) {
		t.Error("an approval covers its own signature only")
	}
	// A star in an approved signature is only a star.
	m.Approve(Signature{Tool: "T", Content: "x*"})
	if m.Approved(Signature{Tool: "T", Content: "xy"}) {
		t.Error("an approval became a pattern")
	}
	if err := m.Apply([]abi.PermissionUpdate{update("addRules", "allow", abi.PermissionRule{ToolName: "U", RuleContent: "p*"}), update("addRules", "deny", abi.PermissionRule{ToolName: "V"}), update("addRules", "deny", abi.PermissionRule{ToolName: "V"})}); err != nil {
		t.Fatal(err)
	}
	if !m.Approved(Signature{Tool: "U", Content: "pq"}) || m.Approved(Signature{Tool: "U", Content: "q"}) || fmt.Sprint(m.DenyRules()) != "[{V session}]" {
		t.Errorf("%v", m.DenyRules())
	}
	if err := m.Apply([]abi.PermissionUpdate{update("removeRules", "", abi.PermissionRule{ToolName: "U", RuleContent: "p*"}, abi.PermissionRule{ToolName: "V"}, abi.PermissionRule{ToolName: "T", RuleContent: "a"})}); err != nil {
		t.Fatal(err)
	}
	if m.Approved(a) || m.Approved(Signature{Tool: "U", Content: "pq"}) || len(m.DenyRules()) != 0 {
		t.Error("not all were removed")
	}
	good := update("addRules", "allow", abi.PermissionRule{ToolName: "W"})
	for _, bad := range []abi.PermissionUpdate{update("replaceRules", "allow"), update("addRules", "ask"), update("addRules", ""), update("addRules", "allow", abi.PermissionRule{}), {}} {
		if err := m.Apply([]abi.PermissionUpdate{good, bad}); err == nil || m.Approved(Signature{Tool: "W"}) {
			t.Errorf("%+v: %v, approved %v", bad, err, m.Approved(Signature{Tool: "W"}))
		}
	}
}

// PRM-11: denials by signature, in the order of their first time, the oldest go first.
func TestDenials(t *testing.T) {
	var m Memory
	begin := time.Unix(1000, 0)
	for i := range maxDenials + 5 {
		m.Deny(Signature{Tool: "T", Content: fmt.Sprint(i)}, "no", begin.Add(time.Duration(i)*time.Second))
	}
	list := m.Denials()
	if len(list) != maxDenials || list[0].Signature != "T:5" || list[maxDenials-1].Signature != fmt.Sprintf("T:%d", maxDenials+4) {
		t.Errorf("%d denials, from %s", len(list), list[0].Signature)
	}
	if _, ok := m.Denied(Signature{Tool: "T", Content: "0"}); ok {
		t.Error("the oldest is still there")
	}
	s := Signature{Tool: "T", Content: "5"}
	m.Deny(s, "again", begin.Add(time.Hour))
	if d, ok := m.Denied(s); !ok || d.Count != 2 || d.Reason != "again" || !d.First.Equal(begin.Add(5*time.Second)) || !d.Last.Equal(begin.Add(time.Hour)) || d.Tool != "T" {
		t.Errorf("%+v", d)
	}
	list[0].Reason = "changed"
	if d, _ := m.Denied(s); d.Reason != "again" {
		t.Error("the list is not a copy")
	}
	m.Forget(s)
	m.Forget(s)
	if len(m.Denials()) != maxDenials-1 {
		t.Errorf("%d are left", len(m.Denials()))
	}
	m.Deny(s, "once more", begin)
	if l := m.Denials(); l[len(l)-1].Signature != "T:5" || l[len(l)-1].Count != 1 {
		t.Errorf("%+v", l[len(l)-1])
	}
}

// What a model reads of denials is at most 20 lines, a line each, whatever others wrote into
// the reasons.
func TestSummary(t *testing.T) {
	for _, n := range []int{1, 19, 20, 21, 500} {
		var m Memory
		for i := range n {
			m.Deny(Signature{Tool: "T", Content: fmt.Sprintf("a\nb%d", i)}, "one\ntwo\u2028three\r\n\x00"+strings.Repeat("x", 10_000), time.Now())
		}
		text := m.Summary()
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if want := min(n, 20); len(lines) != want || strings.ContainsAny(text, "\r\u2028\x00") || len(text) > 20*600 {
			t.Errorf("%d denials: %d lines, %d bytes", n, len(lines), len(text))
		}
		if n > 20 && lines[19] != fmt.Sprintf("… and %d more", n-19) {
			t.Errorf("%q", lines[19])
		}
	}
}

func TestMemoryIsSafe(t *testing.T) {
	var m Memory
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			s := Signature{Tool: "T", Content: fmt.Sprint(i % 2)}
			for range 100 {
				m.Approve(s)
				m.Deny(s, "x", time.Now())
				_ = m.Apply([]abi.PermissionUpdate{update("addRules", "deny", abi.PermissionRule{ToolName: "X"}), update("removeRules", "", abi.PermissionRule{ToolName: "X"})})
				_, _, _, _ = m.Approved(s), m.DenyRules(), m.Denials(), m.Summary()
				m.Forget(s)
			}
		})
	}
	wg.Wait()
}

// A decision tells the way to it: who asked in the fixed order, each reason once, and which
// step decided.
func TestDecision(t *testing.T) {
	var d Decision
	if d.Asks() || d.AskReasons() != nil {
		t.Error("an empty decision asks")
	}
	for _, s := range []Step{
		{Layer: LayerMode, Says: tool.PermissionAsk, Reason: "mode"}, {Layer: LayerHandler, Says: tool.PermissionAsk, Reason: "handler"}, {Layer: LayerHook, Says: tool.PermissionAsk, Reason: "same"},
		{Layer: LayerPath, Says: tool.PermissionAsk, Reason: "path"}, {Layer: LayerRule, Says: tool.PermissionAsk, Rule: "T*", Source: "blade.yaml", Reason: "rule"}, {Layer: LayerTool, Says: tool.PermissionAsk, Reason: "same"},
		{Layer: LayerTool, Says: tool.PermissionAllow, Reason: "not asked"}, {Layer: LayerRule, Says: tool.PermissionAsk},
	} {
		d.Add(s)
	}
	if got := fmt.Sprint(d.AskReasons()); got != "[same rule path handler mode]" || !d.Asks() {
		t.Errorf("%s", got)
	}
	d.Add(Step{Layer: LayerUser, Says: tool.PermissionAllow, Reason: "yes"})
	d.Conclude(tool.PermissionAllow)
	text := d.Explain()
	for _, want := range []string{"  rule says ask by the rule T* (blade.yaml): rule\n", "→ user says allow: yes\n", "decision: allow\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Count(text, "→") != 1 {
		t.Errorf("%s", text)
	}
	only := Decision{Steps: []Step{{Layer: LayerMode, Says: tool.PermissionAsk, Reason: "m"}}}
	if only.Asks() {
		t.Error("the mode's own question is not one that survives")
	}
}

// PRM-03: the modes, and their names.
func TestModes(t *testing.T) {
	for name, want := range map[string]Mode{"": ModeDefault, "default": ModeDefault, "autoEdit": ModeAutoEdit, "accept-edits": ModeAutoEdit, "yolo": ModeYolo, "bypass-permissions": ModeYolo, "plan": ModePlan} {
		if m, err := ParseMode(name); err != nil || m != want {
			t.Errorf("%q: %s %v", name, m, err)
		}
	}
	for _, bad := range []string{"Plan", "auto", "yolo ", "default\x00", strings.Repeat("x", 1000)} {
		if m, err := ParseMode(bad); abi.CodeOf(err) != abi.CodeOptions || m != "" {
			t.Errorf("%.20q: %s %v", bad, m, err)
		}
	}
	type b = tool.Behavior
	for _, c := range []struct {
		mode     Mode
		b        tool.Behavior
		approved bool
		want     tool.PermissionBehavior
	}{
		{"", b{Kind: abi.KindReadOnly}, false, "ask"}, {"", b{ReadOnly: true}, false, "allow"}, {ModeDefault, b{Kind: abi.KindWrite}, true, "allow"}, {ModeAutoEdit, b{Kind: abi.KindWrite}, false, "allow"},
		{ModeAutoEdit, b{Kind: abi.KindWrite, Destructive: true}, false, "allow"}, {ModeAutoEdit, b{Kind: abi.KindExecute}, false, "ask"}, {ModeYolo, b{Destructive: true}, false, "ask"}, {ModeYolo, b{Destructive: true}, true, "allow"}, {ModeYolo, b{}, false, "allow"},
		{ModePlan, b{}, true, "deny"}, {ModePlan, b{Kind: abi.KindReadOnly}, true, "deny"}, {ModePlan, b{ReadOnly: true}, false, "allow"}, {ModePlan, b{ReadOnly: true, Destructive: true}, false, "allow"},
	} {
		if got, why := c.mode.Judge(c.b, c.approved); got != c.want || why == "" {
			t.Errorf("%q %+v %v: %s (%s)", c.mode, c.b, c.approved, got, why)
		}
	}
}
