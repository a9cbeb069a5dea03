package abi

import (
	"encoding/json"
	"strings"
)

// ToolSpec is what a tool says about itself. Only Name, Description and
// Parameters are required; the zero value of every other field is the
// conservative default named beside it.
type ToolSpec struct {
	Name        string      `json:"name"`
	Aliases     []string    `json:"aliases,omitempty"`
	DisplayName string      `json:"displayName,omitempty"` // Name
	Description Description `json:"description"`
	// Parameters is a JSON Schema (draft 2020-12) whose root is an object. The
	// model sees it and the host validates against it.
	Parameters   json.RawMessage   `json:"parameters"`
	OutputSchema json.RawMessage   `json:"outputSchema,omitempty"` // none
	Kind         Kind              `json:"kind,omitempty"`         // execute
	SideEffect   SideEffect        `json:"sideEffect,omitempty"`   // non_idempotent
	Interrupt    InterruptBehavior `json:"interruptBehavior,omitempty"`
	Destructive  bool              `json:"destructive,omitempty"`
	// Narrow makes the behaviour of particular inputs safer, never less safe.
	Narrow          []Narrowing `json:"narrow,omitempty"`
	Services        []string    `json:"services,omitempty"`
	RequiresRuntime bool        `json:"requiresRuntime,omitempty"`
	Exposure        *Exposure   `json:"exposure,omitempty"`
	// PermissionKey lists JSON Pointers into the input whose values name what a
	// remembered approval covers. Without it an approval covers one input.
	PermissionKey []string `json:"permissionKey,omitempty"`
	// PathParams lists JSON Pointers to paths that permission rules judge.
	PathParams []string `json:"pathParams,omitempty"`
	// LockPaths lists JSON Pointers to files the call holds a lock on.
	LockPaths []string `json:"lockPaths,omitempty"`
	// MaxResultSize is in UTF-16 code units; 0 means the host's default.
	MaxResultSize int `json:"maxResultSizeChars,omitempty"`
	// TimeoutMs may lower the session's timeout, never raise it; 0 means the session's.
	TimeoutMs int64 `json:"timeoutMs,omitempty"`
	// Yields lists the yield kinds the tool uses. Nil means progress and
	// message; empty means none.
	Yields *[]YieldKind `json:"yields,omitempty"`
	// Effects lists the effect types the tool uses. Empty means none.
	Effects []EffectType `json:"effects,omitempty"`
	// Verify marks a tool that checks work; it is kept for the agent-loop layer.
	Verify bool `json:"verify,omitempty"`

	// The rest is for native tools; a manifest does not carry it.

	Group Group `json:"-"`
	// ReadOnly and ConcurrencySafe follow from Kind when nil.
	ReadOnly        *bool `json:"-"`
	ConcurrencySafe *bool `json:"-"`
	// Strict asks providers with structured outputs to hold to the schema.
	Strict bool `json:"-"`
	// Cascade makes an error of this tool cancel its siblings of the same batch.
	Cascade bool `json:"-"`
}

// Title is DisplayName, or Name where that is empty.
func (s *ToolSpec) Title() string {
	if s.DisplayName != "" {
		return s.DisplayName
	}
	return s.Name
}

// MayYield reports whether the tool declared this kind of yield.
func (s *ToolSpec) MayYield(kind YieldKind) bool {
	if s.Yields == nil {
		return kind == YieldProgress || kind == YieldMessage || (kind == YieldEffect && len(s.Effects) > 0)
	}
	for _, k := range *s.Yields {
		if k == kind {
			return true
		}
	}
	return false
}

// MayEffect reports whether the tool declared this type of effect.
func (s *ToolSpec) MayEffect(t EffectType) bool {
	for _, e := range s.Effects {
		if e == t {
			return true
		}
	}
	return false
}

// Narrowing makes a call safer when each pointer's value is one of its literals.
// The first entry of a list that matches counts.
type Narrowing struct {
	When       map[string][]json.RawMessage `json:"when"`
	Kind       Kind                         `json:"kind,omitempty"`
	SideEffect SideEffect                   `json:"sideEffect,omitempty"`
}

// Description is what a tool is for. In JSON it is a string, which is Short, or
// an object.
type Description struct {
	Short      string    `json:"short"`
	Long       string    `json:"long,omitempty"`
	UsageNotes []string  `json:"usageNotes,omitempty"`
	Examples   []Example `json:"examples,omitempty"`
	Important  []string  `json:"important,omitempty"`
}

// Example is one worked input.
type Example struct {
	Description string          `json:"description"`
	Params      json.RawMessage `json:"params"`
}

// UnmarshalJSON accepts a string or an object.
func (d *Description) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*d = Description{}
		return json.Unmarshal(b, &d.Short)
	}
	type plain Description
	return json.Unmarshal(b, (*plain)(d))
}

// MarshalJSON writes a string where only Short is set.
func (d Description) MarshalJSON() ([]byte, error) {
	if d.Long == "" && d.UsageNotes == nil && d.Examples == nil && d.Important == nil {
		return marshal(d.Short)
	}
	type plain Description
	return marshal(plain(d))
}

// Text is the description as a model reads it: short, long, usage notes,
// important notes, in this order, parted by blank lines. Examples are for people.
func (d Description) Text() string {
	parts := []string{d.Short}
	if d.Long != "" {
		parts = append(parts, d.Long)
	}
	if len(d.UsageNotes) > 0 {
		parts = append(parts, bullets("Usage notes:", d.UsageNotes))
	}
	if len(d.Important) > 0 {
		parts = append(parts, bullets("Important:", d.Important))
	}
	return strings.Join(parts, "\n\n")
}

func bullets(heading string, items []string) string {
	return heading + "\n- " + strings.Join(items, "\n- ")
}
