package abi

import "encoding/json"

// CallInfo is the answer of call.context. Roots are the folders that were
// mounted, under the paths the user wrote; Cwd is the folder that relative paths
// start from, one of them or below one, and empty where there is none.
type CallInfo struct {
	SessionID string `json:"sessionId"`
	MessageID string `json:"messageId,omitempty"`
	CallID    string `json:"callId"`
	// Tool is the canonical name of the tool.
	Tool string `json:"tool"`
	// Mode is the permission mode the call was judged under.
	Mode  string   `json:"permissionMode"`
	Cwd   string   `json:"cwd,omitempty"`
	Roots []string `json:"roots"`
	// Environment has the variables of the session's context that the manifest
	// asks for and the user granted.
	Environment map[string]string `json:"environment,omitempty"`
	// AllowDomains are the domains the turn may reach; nil does not restrict.
	AllowDomains []string `json:"allowDomains,omitempty"`
	// Metadata is the metadata of the context.
	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`
	// DeadlineUnixMs is when the call ends, in milliseconds of Unix time as of
	// the question; 0 means never. A host may move it.
	DeadlineUnixMs int64 `json:"deadlineUnixMs,omitempty"`
	// Step is the agent's own name for where it is, at most MaxStep characters.
	Step string `json:"step,omitempty"`
}
