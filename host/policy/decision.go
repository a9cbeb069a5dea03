package policy

import (
	"strings"

	"github.com/bladehost/bladehost/host/tool"
)

// Layer is one of the judges of a call, in the order of their words.
type Layer string

// Layers, in the order in which reasons to ask are told.
const (
	LayerTool    Layer = "tool"
	LayerRule    Layer = "rule"
	LayerPath    Layer = "path"
	LayerHook    Layer = "hook"
	LayerHandler Layer = "handler"
	LayerMode    Layer = "mode"
	LayerMemory  Layer = "approval"
	LayerUser    Layer = "user"
)

// Step is one word on the way to a decision.
type Step struct {
	Layer    Layer                   `json:"layer"`
	Says     tool.PermissionBehavior `json:"says"`
	Rule     string                  `json:"rule,omitempty"`
	Source   string                  `json:"source,omitempty"`
	Reason   string                  `json:"reason,omitempty"`
	Decisive bool                    `json:"decisive,omitempty"`
}

// Decision is what was decided about a call, and the way to it. Reasons to ask
// that came from a tool, rule, path, hook or handler survive a later allow.
type Decision struct {
	Behavior tool.PermissionBehavior `json:"behavior"`
	Steps    []Step                  `json:"steps"`
}

// Add notes a step.
func (d *Decision) Add(s Step) { d.Steps = append(d.Steps, s) }

// Asks reports whether a layer other than the mode asked.
func (d *Decision) Asks() bool {
	for _, s := range d.Steps {
		if s.Says == tool.PermissionAsk && s.Layer != LayerMode {
			return true
		}
	}
	return false
}

// Conclude marks the last step as the one that decided.
func (d *Decision) Conclude(b tool.PermissionBehavior) {
	d.Behavior = b
	for i := len(d.Steps) - 1; i >= 0; i-- {
		if d.Steps[i].Says == b {
			d.Steps[i].Decisive = true
			return
		}
	}
}

// AskReasons are the unique reasons to ask: tool, rule, path, hook, handler, mode.
func (d *Decision) AskReasons() []string {
	var out []string
	seen := map[string]bool{}
	for _, l := range []Layer{LayerTool, LayerRule, LayerPath, LayerHook, LayerHandler, LayerMode} {
		for _, s := range d.Steps {
			if s.Layer == l && s.Says == tool.PermissionAsk && s.Reason != "" && !seen[s.Reason] {
				seen[s.Reason] = true
				out = append(out, s.Reason)
			}
		}
	}
	return out
}

// Explain tells a person how the decision came about, a line a step.
func (d *Decision) Explain() string {
	var b strings.Builder
	for _, s := range d.Steps {
		mark := "  "
		if s.Decisive {
			mark = "→ "
		}
		b.WriteString(mark + string(s.Layer) + " says " + string(s.Says))
		if s.Rule != "" {
			b.WriteString(" by the rule " + s.Rule)
		}
		if s.Source != "" {
			b.WriteString(" (" + s.Source + ")")
		}
		if s.Reason != "" {
			b.WriteString(": " + s.Reason)
		}
		b.WriteByte('\n')
	}
	b.WriteString("decision: " + string(d.Behavior) + "\n")
	return b.String()
}
