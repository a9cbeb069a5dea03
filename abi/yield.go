package abi

import "encoding/json"

// YieldKind tells the three kinds of yields apart.
type YieldKind string

// Yield kinds.
const (
	YieldProgress YieldKind = "progress"
	YieldMessage  YieldKind = "message"
	YieldEffect   YieldKind = "effect"
)

// Valid reports whether k is one of the three kinds.
func (k YieldKind) Valid() bool { return k == YieldProgress || k == YieldMessage || k == YieldEffect }

// Yield is one ordered event of a running call. Only the fields of its kind are
// set; the others are their zero values and left out of the JSON.
type Yield struct {
	Kind YieldKind `json:"kind"`

	// Of a progress. Completed and Total are in a unit of the tool's choice,
	// finite and not negative; ResumeToken is opaque and only forwarded.
	Message     string          `json:"message,omitempty"`
	Data        json.RawMessage `json:"data,omitempty"`
	Completed   *float64        `json:"completed,omitempty"`
	Total       *float64        `json:"total,omitempty"`
	ResumeToken string          `json:"resumeToken,omitempty"`

	// Content is the content of a message.
	Content *Display `json:"content,omitempty"`
	// Effect is the effect of an effect.
	Effect *Effect `json:"effect,omitempty"`
}

// Progress makes a progress yield. A negative total means it is not known.
func Progress(message string, completed, total float64) Yield {
	y := Yield{Kind: YieldProgress, Message: message, Completed: &completed}
	if total >= 0 {
		y.Total = &total
	}
	return y
}

// Message makes a message yield without detail.
func Message(summary string) Yield {
	return Yield{Kind: YieldMessage, Content: &Display{Summary: summary}}
}

// EffectYield makes an effect yield.
func EffectYield(e Effect) Yield { return Yield{Kind: YieldEffect, Effect: &e} }

// Display is content for a person. It never reaches the model and is never
// parsed back.
type Display struct {
	Summary string          `json:"summary"`
	Detail  json.RawMessage `json:"detail,omitempty"`
}

// EffectType tells the effects apart.
type EffectType string

// Effect types.
const (
	EffectContextPatch      EffectType = "contextPatch"
	EffectRuntimePatch      EffectType = "runtimePatch"
	EffectNewMessages       EffectType = "newMessages"
	EffectPermissionUpdates EffectType = "permissionUpdates"
)

// Valid reports whether t is a known effect type.
func (t EffectType) Valid() bool {
	switch t {
	case EffectContextPatch, EffectRuntimePatch, EffectNewMessages, EffectPermissionUpdates:
		return true
	}
	return false
}

// Effect asks the session for a change. Patch belongs to contextPatch and
// runtimePatch, Messages to newMessages, Updates to permissionUpdates; each is
// kept as the bytes the tool wrote.
type Effect struct {
	Type     EffectType        `json:"type"`
	Patch    json.RawMessage   `json:"patch,omitempty"`
	Messages []json.RawMessage `json:"messages,omitzero"`
	Updates  []json.RawMessage `json:"updates,omitzero"`
}

// Scope is how long a patch lasts.
type Scope string

// Scopes. A patch that names none lasts for the turn.
const (
	ScopeTurn    Scope = "turn"
	ScopeSession Scope = "session"
)

// ContextPatch is the patch of a contextPatch effect.
type ContextPatch struct {
	Scope Scope `json:"scope,omitempty"`
	// Context replaces the overlay of this scope; it is merged over the base.
	Context *RuntimeContext `json:"context,omitempty"`
	// Metadata is the short form of Context.Metadata.
	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`
	// Reset clears the overlay of this scope first.
	Reset bool `json:"reset,omitempty"`
}

// RuntimeContext is what a session or a turn knows about its surroundings.
type RuntimeContext struct {
	ID           string                     `json:"id,omitempty"`
	Capabilities *ContextCapabilities       `json:"capabilities,omitempty"`
	Environment  map[string]string          `json:"environment,omitempty"`
	Metadata     map[string]json.RawMessage `json:"metadata,omitempty"`
}

// ContextCapabilities are the facets of a context. A facet that is set replaces
// the same facet of the context below it as a whole.
type ContextCapabilities struct {
	Filesystem *FilesystemFacet `json:"filesystem,omitempty"`
	Browser    *BrowserFacet    `json:"browser,omitempty"`
	Network    *NetworkFacet    `json:"network,omitempty"`
}

// FilesystemFacet names the workspace roots, absolute paths, and the folder that
// relative paths start from.
type FilesystemFacet struct {
	Roots []string `json:"roots"`
	Cwd   string   `json:"cwd,omitempty"`
}

// BrowserFacet names a page and a tab of a browser that the agent drives.
type BrowserFacet struct {
	PageID string `json:"pageId,omitempty"`
	TabID  string `json:"tabId,omitempty"`
}

// NetworkFacet lists the domains the turn may reach.
type NetworkFacet struct {
	AllowDomains []string `json:"allowDomains,omitzero"`
}

// RuntimePatch is the patch of a runtimePatch effect.
type RuntimePatch struct {
	Scope              Scope             `json:"scope,omitempty"`
	Source             string            `json:"source"`
	Skill              *SkillRef         `json:"skill,omitempty"`
	ToolPolicy         *ToolPolicy       `json:"toolPolicy,omitempty"`
	ToolDiscovery      *ToolDiscovery    `json:"toolDiscovery,omitempty"`
	ModelOverride      *ModelOverride    `json:"modelOverride,omitempty"`
	SystemPromptAppend string            `json:"systemPromptAppend,omitempty"`
	Environment        map[string]string `json:"environment,omitempty"`
	Hooks              []json.RawMessage `json:"hooks,omitzero"`
}

// SkillRef names the skill a patch comes from.
type SkillRef struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	BasePath string `json:"basePath,omitempty"`
}

// ToolPolicy narrows the tools of its scope. A selector is a tool's name or
// Name(anything). A nil Allow does not restrict; an empty one allows nothing.
type ToolPolicy struct {
	Allow []string `json:"allow,omitzero"`
	Deny  []string `json:"deny,omitzero"`
}

// ToolDiscovery makes tools visible that were deferred or discoverable only.
type ToolDiscovery struct {
	Discover []string `json:"discover,omitzero"`
	Reset    bool     `json:"reset,omitempty"`
}

// ModelOverride asks for another model. Effort is a string or a number.
type ModelOverride struct {
	ModelID string          `json:"modelId"`
	Effort  json.RawMessage `json:"effort,omitempty"`
}

// PermissionUpdate is one update of a permissionUpdates effect or of a
// permission decision. Type is addRules or removeRules.
type PermissionUpdate struct {
	Type     string           `json:"type"`
	Rules    []PermissionRule `json:"rules"`
	Behavior string           `json:"behavior,omitempty"`
}

// PermissionRule names a tool and, optionally, the content of its signature.
type PermissionRule struct {
	ToolName    string `json:"toolName"`
	RuleContent string `json:"ruleContent,omitempty"`
}
