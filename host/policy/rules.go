package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/strictjson"
	"github.com/bladehost/bladehost/host/tool"
)

// Rule is a pattern over signatures: "*" for all, "Prefix*" for a prefix of the
// whole signature, or an exact signature. Case counts; there is nothing else.
// A bare tool name without a star matches every input of that tool.
type Rule struct {
	Pattern string `json:"pattern"`
	// Source says where the rule stands, for explanations.
	Source string `json:"source,omitempty"`
}

// Matches reports whether the rule covers a signature.
func (r Rule) Matches(s Signature) bool {
	switch p := r.Pattern; {
	case p == "*":
		return true
	case strings.HasSuffix(p, "*"):
		return strings.HasPrefix(s.String(), strings.TrimSuffix(p, "*"))
	default:
		return p == s.String() || p == s.Tool
	}
}

// Rules are the permission rules of a configuration. A nil list has no rule.
type Rules struct {
	Allow, Ask, Deny []Rule
}

// RulesFrom makes rules of patterns, all from one source.
func RulesFrom(source string, allow, ask, deny []string) Rules {
	list := func(patterns []string) []Rule {
		var out []Rule
		for _, p := range patterns {
			out = append(out, Rule{Pattern: p, Source: source})
		}
		return out
	}
	return Rules{Allow: list(allow), Ask: list(ask), Deny: list(deny)}
}

// And is both sets of rules.
func (r Rules) And(more Rules) Rules {
	join := func(a, b []Rule) []Rule { return append(a[:len(a):len(a)], b...) }
	return Rules{Allow: join(r.Allow, more.Allow), Ask: join(r.Ask, more.Ask), Deny: join(r.Deny, more.Deny)}
}

// Resolve puts canonical names in the place of aliases: Alias and Alias:content
// become the tool's own, and for Alias* there is also a rule for all inputs of the
// tool. The star itself stays with the alias: it must not become a prefix of other
// tools' names.
func (r Rules) Resolve(canonical func(string) (string, bool)) Rules {
	fix := func(list []Rule) []Rule {
		out := make([]Rule, 0, len(list))
		for _, rule := range list {
			name, rest := rule.Pattern, ""
			if k := strings.IndexAny(rule.Pattern, ":*"); k >= 0 {
				name, rest = rule.Pattern[:k], rule.Pattern[k:]
			}
			switch c, ok := canonical(name); {
			case !ok || c == name:
			case rest == "*":
				out = append(out, Rule{Pattern: c, Source: rule.Source})
			default:
				rule.Pattern = c + rest
			}
			out = append(out, rule)
		}
		return out
	}
	return Rules{Allow: fix(r.Allow), Ask: fix(r.Ask), Deny: fix(r.Deny)}
}

// Judge is what the rules say: deny before allow before ask. Without a matching
// rule they abstain, and the behaviour is "".
func (r Rules) Judge(s Signature) (tool.PermissionBehavior, Rule) {
	for _, set := range []struct {
		list []Rule
		says tool.PermissionBehavior
	}{{r.Deny, tool.PermissionDeny}, {r.Allow, tool.PermissionAllow}, {r.Ask, tool.PermissionAsk}} {
		for _, rule := range set.list {
			if rule.Matches(s) || (s.Alias != "" && set.says != tool.PermissionAllow && rule.Matches(Signature{Tool: s.Tool, Content: s.Alias})) {
				return set.says, rule
			}
		}
	}
	return "", Rule{}
}

// Empty reports whether there is no rule at all.
func (r Rules) Empty() bool { return len(r.Allow) == 0 && len(r.Ask) == 0 && len(r.Deny) == 0 }

// Explicit reports whether an allow rule covers a signature.
func (r Rules) Explicit(s Signature) bool {
	for _, rule := range r.Allow {
		if rule.Matches(s) {
			return true
		}
	}
	return false
}

// Signature is what rules match and what an approval for the session covers.
type Signature struct {
	// Tool is the canonical name.
	Tool string
	// Content narrows it to some inputs; empty covers all.
	Content string
	// Alias is another name for what Content is about, or empty. Deny and ask rules count for
	// it too, so that a link is no way around them; allow rules and approvals do not.
	Alias string
}

// String is Tool or Tool:Content.
func (s Signature) String() string {
	if s.Content == "" {
		return s.Tool
	}
	return s.Tool + ":" + s.Content
}

// SignatureOf is the signature of one input: by the tool's own matcher, else by
// the pointers of its permissionKey, else by the digest of the whole input, so
// that an approval covers no more than was shown.
func SignatureOf(t tool.Tool, input json.RawMessage) Signature {
	s := Signature{Tool: t.Spec().Name}
	if m, ok := t.(tool.PermissionMatcher); ok {
		s.Content = safeMatch(m, input)
		if a, ok := t.(tool.PermissionAliaser); ok {
			s.Alias = safeAlias(a, input)
		}
		return s
	}
	if keys := t.Spec().PermissionKey; len(keys) > 0 {
		if content, ok := byKey(keys, input); ok {
			s.Content = content
			return s
		}
	}
	canonical, err := strictjson.Canonical(input)
	if err != nil {
		canonical = input
	}
	sum := sha256.Sum256(canonical)
	s.Content = "sha256:" + hex.EncodeToString(sum[:8])
	return s
}

func safeMatch(m tool.PermissionMatcher, input json.RawMessage) (content string) {
	defer func() {
		if recover() != nil {
			sum := sha256.Sum256(input)
			content = "sha256:" + hex.EncodeToString(sum[:8])
		}
	}()
	content, _ = m.PermissionSignature(input)
	return content
}

func safeAlias(a tool.PermissionAliaser, input json.RawMessage) (alias string) {
	defer func() {
		if recover() != nil {
			alias = ""
		}
	}()
	return a.PermissionAlias(input)
}

var separator = strings.NewReplacer(`\`, `\\`, `|`, `\|`)

// byKey joins the values at the pointers with "|". A value that is not a string
// is its JSON. It fails where no pointer leads anywhere: an approval must not
// cover all inputs because a field is missing.
func byKey(keys []string, input json.RawMessage) (string, bool) {
	doc, err := strictjson.Value(input)
	if err != nil {
		return "", false
	}
	var parts []string
	found := false
	for _, k := range keys {
		v, ok := tool.Pointer(doc, k)
		if !ok {
			parts = append(parts, "")
			continue
		}
		found = true
		if s, ok := v.(string); ok {
			// A separator inside a value must not look like the end of it.
			parts = append(parts, separator.Replace(s))
			continue
		}
		b, err := abi.Marshal(v)
		if err != nil {
			return "", false
		}
		parts = append(parts, string(b))
	}
	return strings.Join(parts, "|"), found
}

// UpdateRules are the patterns of a permission update.
func UpdateRules(u abi.PermissionUpdate) ([]string, error) {
	if u.Type != "addRules" && u.Type != "removeRules" {
		return nil, fmt.Errorf("a permission update of type %q is not known", u.Type)
	}
	if u.Type == "addRules" && u.Behavior != "allow" && u.Behavior != "deny" {
		return nil, fmt.Errorf("the behavior %q of addRules is not allow or deny", u.Behavior)
	}
	var out []string
	for _, r := range u.Rules {
		if r.ToolName == "" {
			return nil, fmt.Errorf("a rule names no tool")
		}
		out = append(out, Signature{Tool: r.ToolName, Content: r.RuleContent}.String())
	}
	return out, nil
}
