package host

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// Why a tool is hidden from the model.
const (
	reasonPlanMode     = "plan-mode-hidden"
	reasonSource       = "source-policy"
	reasonRuntimeDeny  = "runtime-deny"
	reasonRuntimeAllow = "runtime-allow-list"
)

// planned is one tool with the way it is shown.
type planned struct {
	e      *entry
	mode   abi.ExposureMode
	reason string
}

// plan decides for each tool, in catalog order, how it is shown.
func (s *Session) plan() []planned {
	list := s.reg.Load().sorted
	out := make([]planned, len(list))
	mode := s.Mode()
	for i, e := range list {
		out[i] = s.planOne(e, mode)
	}
	return out
}

func (s *Session) planOne(e *entry, mode policy.Mode) planned {
	p := planned{e: e, mode: abi.ExposureHidden}
	pol := s.runtime.policy()
	switch {
	case mode == policy.ModePlan && !planReadOnly(e):
		p.reason = reasonPlanMode
	case !s.sourceAllowed(e.source):
		p.reason = reasonSource
	case pol != nil && selects(pol.Deny, e.spec.Name):
		p.reason = reasonRuntimeDeny
	case pol != nil && pol.Allow != nil && !selects(pol.Allow, e.spec.Name):
		p.reason = reasonRuntimeAllow
	default:
		p.mode = s.exposed(e)
	}
	return p
}

// planReadOnly is the planning-time word of a tool: what it says without an
// input, which for tools like WebFetch is read-only. A guest that was lent
// something to write with is not believed.
func planReadOnly(e *entry) bool {
	if w, ok := e.tool.(tool.LentWriter); ok && w.LentCanWrite() {
		return false
	}
	if e.static.ReadOnly {
		return true
	}
	b, _ := tool.Resolve(e.tool, nil)
	return b.ReadOnly
}

func (s *Session) exposed(e *entry) abi.ExposureMode {
	x := e.spec.Exposure
	if x == nil || x.AlwaysLoad || x.Mode == "" || s.runtime.discovered(e.spec.Name) {
		return abi.ExposureEager
	}
	return x.Mode
}

func (s *Session) sourceAllowed(src tool.Source) bool {
	p := s.opt.SourcePolicy
	return (p.AllowedSources == nil || slices.Contains(p.AllowedSources, src.Kind)) &&
		(p.AllowedTrustLevels == nil || slices.Contains(p.AllowedTrustLevels, src.Trust))
}

// selects reports whether a selector names the tool, as Name or Name(anything).
func selects(list []string, name string) bool {
	return slices.ContainsFunc(list, func(sel string) bool {
		return sel == name || (strings.HasPrefix(sel, name+"(") && strings.HasSuffix(sel, ")"))
	})
}

// Discoverable is a tool that can be made visible.
type Discoverable struct {
	Name         string           `json:"name"`
	Title        string           `json:"title"`
	Description  string           `json:"description"`
	ExposureMode abi.ExposureMode `json:"exposureMode"`
	Hint         string           `json:"discoveryHint,omitempty"`
}

// Discoverable lists the tools that match a query and are not visible yet, best
// first. An empty query matches all. Only tools that the session would accept
// are found.
func (s *Session) Discoverable(query string, mode policy.Mode) []Discoverable {
	if mode == "" {
		mode = s.Mode()
	}
	type scored struct {
		d     Discoverable
		score int
	}
	var found []scored
	for _, e := range s.reg.Load().sorted {
		p := s.planOne(e, mode)
		if p.mode != abi.ExposureDeferred && p.mode != abi.ExposureDiscoverable {
			continue
		}
		score := rank(e.spec, query)
		if score == 0 {
			continue
		}
		found = append(found, scored{Discoverable{Name: e.spec.Name, Title: e.spec.Title(), Description: e.spec.Description.Short, ExposureMode: p.mode, Hint: e.spec.Exposure.DiscoveryHint}, score})
	}
	sort.SliceStable(found, func(i, j int) bool {
		if found[i].score != found[j].score {
			return found[i].score > found[j].score
		}
		return found[i].d.Name < found[j].d.Name
	})
	out := make([]Discoverable, len(found))
	for i, f := range found {
		out[i] = f.d
	}
	return out
}

// rank scores a tool for a query: per field a base and a bonus for how well it
// matches; the best field counts. 0 means no match.
func rank(s *abi.ToolSpec, query string) int {
	q := squash(query)
	if q == "" {
		return 1
	}
	best := 0
	try := func(text string, base int) {
		text = squash(text)
		bonus := 0
		switch {
		case text == "":
			return
		case text == q:
			bonus = 100
		case strings.HasPrefix(text, q):
			bonus = 60
		case strings.Contains(text, q):
			bonus = 30
		case allWords(text, q):
			bonus = 20
		default:
			return
		}
		best = max(best, base+bonus)
	}
	try(s.Name, 120)
	for _, a := range s.Aliases {
		try(a, 110)
	}
	try(s.Title(), 90)
	if s.Exposure != nil {
		try(s.Exposure.DiscoveryHint, 45)
	}
	try(s.Description.Short, 30)
	return best
}

func squash(s string) string { return strings.Join(strings.Fields(strings.ToLower(s)), " ") }

func allWords(text, query string) bool {
	for _, w := range strings.Fields(query) {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// catalog is the service discoverableCatalog: a read-only view.
func (s *Session) catalog() tool.Service {
	type in struct {
		Query string      `json:"query"`
		Mode  policy.Mode `json:"permissionMode"`
	}
	type out struct {
		Tools []Discoverable `json:"tools"`
	}
	return tool.Methods{"listDiscoverable": tool.Method(func(_ context.Context, q in) (out, error) {
		mode, err := policy.ParseMode(string(q.Mode))
		if err != nil {
			return out{}, err
		}
		if q.Mode == "" {
			mode = s.Mode()
		}
		list := s.Discoverable(q.Query, mode)
		if list == nil {
			list = []Discoverable{}
		}
		return out{list}, nil
	})}
}

// announced bounds the tools named in Announcement.
const announced = 12

// Announcement is the text for a system message that names the deferred tools,
// or "" where there are none.
func (s *Session) Announcement() string {
	var b strings.Builder
	n := 0
	for _, p := range s.plan() {
		if p.mode != abi.ExposureDeferred {
			continue
		}
		if n++; n > announced {
			continue
		}
		fmt.Fprintf(&b, "\n- %s: %s", p.e.spec.Name, p.e.spec.Description.Short)
		if h := p.e.spec.Exposure.DiscoveryHint; h != "" {
			b.WriteString(" (" + h + ")")
		}
	}
	if n == 0 {
		return ""
	}
	head := "More tools can be loaded with DiscoverTools:"
	if n > announced {
		fmt.Fprintf(&b, "\n- and %d more", n-announced)
	}
	return head + b.String()
}
