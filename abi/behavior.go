package abi

// Kind is what a tool does to the world, for permissions and scheduling.
type Kind string

// Kinds. The zero value in a manifest means KindExecute.
const (
	KindReadOnly Kind = "readonly"
	KindWrite    Kind = "write"
	KindExecute  Kind = "execute"
)

// Valid reports whether k is one of the three kinds.
func (k Kind) Valid() bool { return k == KindReadOnly || k == KindWrite || k == KindExecute }

// SideEffect is what a repetition of a call does, for recovery.
type SideEffect string

// Side effects. The zero value in a manifest means SideEffectNonIdempotent.
const (
	// SideEffectPure changes nothing outside: it may be replayed.
	SideEffectPure SideEffect = "pure"
	// SideEffectIdempotent reaches the same intended state again: it may be replayed.
	SideEffectIdempotent SideEffect = "idempotent"
	// SideEffectNonIdempotent may add effects when repeated: it is never replayed.
	SideEffectNonIdempotent SideEffect = "non_idempotent"
)

// Valid reports whether s is one of the three side effects.
func (s SideEffect) Valid() bool {
	return s == SideEffectPure || s == SideEffectIdempotent || s == SideEffectNonIdempotent
}

// InterruptBehavior is what a now-priority input does to a running call.
type InterruptBehavior string

// Interrupt behaviours. The zero value in a manifest means InterruptBlock.
const (
	// InterruptBlock lets the call end before the input is applied.
	InterruptBlock InterruptBehavior = "block"
	// InterruptCancel cancels the call.
	InterruptCancel InterruptBehavior = "cancel"
)

// Valid reports whether b is block or cancel.
func (b InterruptBehavior) Valid() bool { return b == InterruptBlock || b == InterruptCancel }

// ExposureMode is how a tool is shown to a model.
type ExposureMode string

// Exposure modes. The zero value means ExposureEager; ExposureHidden is only
// ever computed, never declared.
const (
	ExposureEager        ExposureMode = "eager"
	ExposureDeferred     ExposureMode = "deferred"
	ExposureDiscoverable ExposureMode = "discoverable-only"
	ExposureHidden       ExposureMode = "hidden"
)

// Declarable reports whether m may stand in a definition.
func (m ExposureMode) Declarable() bool {
	return m == "" || m == ExposureEager || m == ExposureDeferred || m == ExposureDiscoverable
}

// Exposure is the exposure a definition asks for.
type Exposure struct {
	Mode ExposureMode `json:"mode,omitempty"`
	// AlwaysLoad forces eager.
	AlwaysLoad bool `json:"alwaysLoad,omitempty"`
	// DiscoveryHint is searched by DiscoverTools.
	DiscoveryHint string `json:"discoveryHint,omitempty"`
}

// Group is the room a built-in tool belongs to.
type Group string

// Groups of the built-in tools.
const (
	GroupFilesystem   Group = "filesystem"
	GroupShell        Group = "shell"
	GroupWeb          Group = "web"
	GroupSubagents    Group = "subagents"
	GroupTasks        Group = "tasks"
	GroupSystem       Group = "system"
	GroupPlanning     Group = "planning"
	GroupTodos        Group = "todos"
	GroupMemory       Group = "memory"
	GroupMCPResources Group = "mcp-resources"
)

// Valid reports whether g is a known group or empty.
func (g Group) Valid() bool {
	switch g {
	case "", GroupFilesystem, GroupShell, GroupWeb, GroupSubagents, GroupTasks, GroupSystem,
		GroupPlanning, GroupTodos, GroupMemory, GroupMCPResources:
		return true
	}
	return false
}
