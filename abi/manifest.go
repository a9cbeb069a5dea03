package abi

import "encoding/json"

// Manifest is what a plugin says about itself and asks for. What it asks for is
// a request: what it gets is the user's grant.
type Manifest struct {
	ABI         int    `json:"abi"`
	Name        string `json:"name"`
	Version     string `json:"version"`
	Description string `json:"description"`
	License     string `json:"license,omitempty"`
	Homepage    string `json:"homepage,omitempty"`
	// Requires lists features of the host; one that the host does not know is refused.
	Requires []string   `json:"requires,omitempty"`
	Tools    []ToolSpec `json:"tools"`
	// Config is a JSON Schema of the settings the user makes for the plugin.
	Config       json.RawMessage `json:"config,omitempty"`
	Capabilities *Capabilities   `json:"capabilities,omitempty"`
}

// Capabilities is what a plugin asks to be lent. The zero value asks for nothing.
type Capabilities struct {
	FS      *FSRequest      `json:"fs,omitempty"`
	HTTP    *HTTPRequest    `json:"http,omitempty"`
	Secrets []SecretRequest `json:"secrets,omitempty"`
	Env     []EnvRequest    `json:"env,omitempty"`
	KV      *KVRequest      `json:"kv,omitempty"`
	// Clock is "fine" for a clock finer than a millisecond, or empty.
	Clock string `json:"clock,omitempty"`
}

// FSRequest asks for folders to read or write. Which folders is the user's choice.
type FSRequest struct {
	Read  bool   `json:"read,omitempty"`
	Write bool   `json:"write,omitempty"`
	Why   string `json:"why"`
}

// HTTPRequest asks for hosts: exact names or *.example.com. No methods means
// GET and HEAD.
type HTTPRequest struct {
	Hosts   []string `json:"hosts"`
	Methods []string `json:"methods,omitempty"`
	Why     string   `json:"why"`
}

// SecretRequest asks that the secret Name may be put into headers to Hosts.
type SecretRequest struct {
	Name     string   `json:"name"`
	Hosts    []string `json:"hosts"`
	Required bool     `json:"required,omitempty"`
	Why      string   `json:"why"`
}

// EnvRequest asks for one environment variable.
type EnvRequest struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// KVRequest asks for a small store that lasts between calls.
type KVRequest struct {
	Why string `json:"why"`
}

// ClockFine is the value of Capabilities.Clock.
const ClockFine = "fine"

// Features lists what a manifest may require of this version of the host.
func Features() []string { return nil }

// Requested returns m's capabilities, never nil.
func (m *Manifest) Requested() *Capabilities {
	if m.Capabilities == nil {
		return &Capabilities{}
	}
	return m.Capabilities
}
