package policy

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/bladehost/bladehost/abi"
)

// Memory is what a session remembers about permissions: approvals, rules that
// were added on the way, and denials. The zero value is empty. Safe for
// concurrent use.
type Memory struct {
	mu       sync.Mutex
	approved map[string]bool
	allow    []Rule
	deny     []Rule
	denials  map[string]*Denial
	order    []string
}

// Denial is a signature that was denied, and how often.
type Denial struct {
	Signature string    `json:"signature"`
	Tool      string    `json:"toolName"`
	Reason    string    `json:"reason"`
	Count     int       `json:"count"`
	First     time.Time `json:"firstDeniedAt"`
	Last      time.Time `json:"lastDeniedAt"`
}

// maxDenials bounds the list; the oldest goes first.
const maxDenials = 1000

// Approve remembers a signature for the rest of the session.
func (m *Memory) Approve(s Signature) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.approved == nil {
		m.approved = map[string]bool{}
	}
	m.approved[s.String()] = true
}

// Approved reports whether exactly this signature, or a session rule that covers
// it, was approved.
func (m *Memory) Approved(s Signature) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.approved[s.String()] || slices.ContainsFunc(m.allow, func(r Rule) bool { return r.Matches(s) })
}

// Empty reports whether nothing was approved.
func (m *Memory) Empty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.approved) == 0 && len(m.allow) == 0
}

// DenyRules are the deny rules that were added in the session.
func (m *Memory) DenyRules() []Rule {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.deny)
}

// Apply takes updates that a permission decision returned. What is not well
// formed changes nothing and is an error.
func (m *Memory) Apply(updates []abi.PermissionUpdate) error {
	var lists [][]string
	for _, u := range updates {
		patterns, err := UpdateRules(u)
		if err != nil {
			return err
		}
		lists = append(lists, patterns)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, u := range updates {
		m.applyOne(u, lists[i])
	}
	return nil
}

func (m *Memory) applyOne(u abi.PermissionUpdate, patterns []string) {
	for _, p := range patterns {
		rule := Rule{Pattern: p, Source: "session"}
		same := func(r Rule) bool { return r.Pattern == p }
		switch {
		case u.Type == "removeRules":
			m.allow = slices.DeleteFunc(m.allow, same)
			m.deny = slices.DeleteFunc(m.deny, same)
			delete(m.approved, p)
		case u.Behavior == "allow" && !slices.ContainsFunc(m.allow, same):
			m.allow = append(m.allow, rule)
		case u.Behavior == "deny" && !slices.ContainsFunc(m.deny, same):
			m.deny = append(m.deny, rule)
		}
	}
}

// Deny records a denial.
func (m *Memory) Deny(s Signature, reason string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.denials == nil {
		m.denials = map[string]*Denial{}
	}
	key := s.String()
	if d, ok := m.denials[key]; ok {
		d.Count++
		d.Reason, d.Last = reason, now
		return
	}
	m.denials[key] = &Denial{Signature: key, Tool: s.Tool, Reason: reason, Count: 1, First: now, Last: now}
	m.order = append(m.order, key)
	if len(m.order) > maxDenials {
		delete(m.denials, m.order[0])
		m.order = m.order[1:]
	}
}

// Denials lists the denials in the order of their first occurrence.
func (m *Memory) Denials() []Denial {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]Denial, 0, len(m.order))
	for _, key := range m.order {
		out = append(out, *m.denials[key])
	}
	return out
}

// Denied reports the denial of a signature.
func (m *Memory) Denied(s Signature) (Denial, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d, ok := m.denials[s.String()]; ok {
		return *d, true
	}
	return Denial{}, false
}

// Forget removes the denial of a signature, or all of them for the zero value.
func (m *Memory) Forget(s Signature) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s == (Signature{}) {
		m.denials, m.order = nil, nil
		return
	}
	delete(m.denials, s.String())
	m.order = slices.DeleteFunc(m.order, func(k string) bool { return k == s.String() })
}

// summaryLines bounds Summary: it goes into the model's context.
const summaryLines = 20

// Summary tells a model what was denied, a line each, at most 20.
func (m *Memory) Summary() string {
	list := m.Denials()
	var b strings.Builder
	for i, d := range list {
		if i == summaryLines-1 && len(list) > summaryLines {
			fmt.Fprintf(&b, "… and %d more\n", len(list)-i)
			break
		}
		fmt.Fprintf(&b, "%s was denied %d times: %s\n", oneLine(d.Signature), d.Count, oneLine(d.Reason))
	}
	return b.String()
}

// oneLine is a text that others wrote, on one line and not too long for a list.
func oneLine(s string) string {
	const most = 200
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
