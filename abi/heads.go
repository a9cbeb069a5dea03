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
	AllowDomains []string `json:"allowDomains,omitzero"`
	// Metadata is the metadata of the context.
	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`
	// DeadlineUnixMs is when the call ends, in milliseconds of Unix time as of
	// the question; 0 means never. A host may move it.
	DeadlineUnixMs int64 `json:"deadlineUnixMs,omitempty"`
	// Step is the agent's own name for where it is, at most MaxStep characters.
	Step string `json:"step,omitempty"`
}

// HTTPRequestHead is the head of http.request; the body of the request is the
// frame's bytes. The header values may hold {{secret:NAME}}.
type HTTPRequestHead struct {
	// Method is upper case; empty means GET.
	Method  string      `json:"method,omitempty"`
	URL     string      `json:"url"`
	Headers HTTPHeaders `json:"headers,omitempty"`
	// TimeoutMs bounds this request; 0 leaves it to the call's deadline.
	TimeoutMs int64 `json:"timeoutMs,omitempty"`
	// Redirect is "follow" (the default, each hop judged anew), "manual" (the
	// redirect itself is the answer) or "error".
	Redirect string `json:"redirect,omitempty"`
	// Stream asks for the answer's body as a stream, for what may be larger
	// than MaxFrameBody.
	Stream bool `json:"stream,omitempty"`
}

// Values of HTTPRequestHead.Redirect.
const (
	RedirectFollow = "follow"
	RedirectManual = "manual"
	RedirectError  = "error"
)

// HTTPResponseHead is the head of the answer; its body is the frame's bytes, or
// comes through stream.read where Stream is not 0.
type HTTPResponseHead struct {
	Status  int         `json:"status"`
	Headers HTTPHeaders `json:"headers"`
	// URL is where the answer came from after redirects.
	URL    string `json:"url"`
	Stream int64  `json:"stream,omitempty"`
	// Length is the length of the body when it is known, else -1.
	Length int64 `json:"length"`
}

// HTTPHeaders are header fields by lower-case name. In JSON a value is a string
// or an array of strings; this package writes arrays.
type HTTPHeaders map[string][]string

// UnmarshalJSON accepts strings and arrays of strings as values.
func (h *HTTPHeaders) UnmarshalJSON(b []byte) error {
	var m map[string]oneOrMore
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	if m == nil {
		*h = nil
		return nil
	}
	*h = make(HTTPHeaders, len(m))
	for name, values := range m {
		(*h)[name] = values
	}
	return nil
}

type oneOrMore []string

func (o *oneOrMore) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*o = oneOrMore{""}
		return json.Unmarshal(b, &(*o)[0])
	}
	return json.Unmarshal(b, (*[]string)(o))
}

// StreamReadHead is the head of stream.read. Max bounds the bytes of the answer;
// 0 means MaxChunk, which no answer exceeds.
type StreamReadHead struct {
	Stream int64 `json:"stream"`
	Max    int   `json:"max,omitempty"`
}

// StreamReadAnswer is the head of its answer, before the bytes. EOF says that
// these are the last.
type StreamReadAnswer struct {
	EOF bool `json:"eof"`
}

// StreamCloseHead is the head of stream.close. Its answer is {}, for a stream
// that is closed already too.
type StreamCloseHead struct {
	Stream int64 `json:"stream"`
}

// ArtifactPutHead is the head of artifact.put, before the bytes. Name is for a
// person and no path.
type ArtifactPutHead struct {
	Name string `json:"name,omitempty"`
}

// ArtifactInfo is the answer of artifact.put. The handle is what another tool
// opens.
type ArtifactInfo struct {
	Handle string `json:"handle"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// ArtifactOpenHead is the head of artifact.open.
type ArtifactOpenHead struct {
	Handle string `json:"handle"`
}

// ArtifactOpenAnswer is its answer; stream.read reads the bytes.
type ArtifactOpenAnswer struct {
	Stream int64 `json:"stream"`
	Bytes  int64 `json:"bytes"`
}

// KVKeyHead is the head of kv.get and kv.delete.
type KVKeyHead struct {
	Key string `json:"key"`
}

// KVFound is the answer of kv.get, before the value, and of kv.delete.
type KVFound struct {
	Found bool `json:"found"`
}

// KVSetHead is the head of kv.set, before the value. Its answer is {}.
type KVSetHead struct {
	Key string `json:"key"`
	// TTLMs is when the value is dropped; 0 means never.
	TTLMs int64 `json:"ttlMs,omitempty"`
}

// KVListHead is the head of kv.list. Keys come in byte order, after After; Limit
// 0 means 1,000.
type KVListHead struct {
	Prefix string `json:"prefix,omitempty"`
	After  string `json:"after,omitempty"`
	Limit  int    `json:"limit,omitempty"`
}

// KVListAnswer is its answer. More says that there are keys after the last.
type KVListAnswer struct {
	Keys []string `json:"keys"`
	More bool     `json:"more,omitempty"`
}

// RuntimeFenceAnswer is the answer of runtime.fence. Under no lease both are
// absent. Lease errors of runtime.assert have a code that starts with
// LeaseErrorPrefix; its answer is {}, also where there is no lease.
type RuntimeFenceAnswer struct {
	LeaseID      string `json:"leaseId,omitempty"`
	FencingToken int64  `json:"fencingToken,omitempty"`
}

// LeaseErrorPrefix starts the codes of lease errors.
const LeaseErrorPrefix = "DURABLE_EXECUTION_LEASE_"

// SecretExistsHead is the head of secret.exists.
type SecretExistsHead struct {
	Name string `json:"name"`
}

// SecretExistsAnswer is its answer.
type SecretExistsAnswer struct {
	Exists bool `json:"exists"`
}

// HostService is one row of the table of the host's own services.
type HostService struct {
	Name string
	// Declare is what lends it: "always", or what the manifest must hold.
	Declare string
	// Writes marks a service that can change something outside the call.
	Writes bool
	// Request and Answer are the heads and, after a plus sign, the bytes.
	Request, Answer string
}

// HostServices returns the host's own services.
func HostServices() []HostService {
	return []HostService{
		{CallContext, "always", false, `{}`, `{"sessionId","messageId"?,"callId","tool","permissionMode","cwd"?,"roots":[…],"environment"?:{…},"allowDomains"?:[…],"metadata"?:{…},"deadlineUnixMs"?,"step"?}`},
		{ArtifactPut, "always", false, `{"name"?} + content`, `{"handle","sha256","bytes"}`},
		{ArtifactOpen, "always", false, `{"handle"}`, `{"stream","bytes"}`},
		{StreamRead, "always", false, `{"stream","max"?}`, `{"eof"} + bytes`},
		{StreamClose, "always", false, `{"stream"}`, `{}`},
		{HTTPCall, "capabilities.http", true, `{"method"?,"url","headers"?:{…},"timeoutMs"?,"redirect"?,"stream"?} + body`, `{"status","headers":{…},"url","stream"?,"length"} + body`},
		{ConfigGet, "config", false, `{}`, `{…}: the settings`},
		{KVGet, "capabilities.kv", false, `{"key"}`, `{"found"} + value`},
		{KVSet, "capabilities.kv", true, `{"key","ttlMs"?} + value`, `{}`},
		{KVDelete, "capabilities.kv", true, `{"key"}`, `{"found"}`},
		{KVList, "capabilities.kv", false, `{"prefix"?,"after"?,"limit"?}`, `{"keys":[…],"more"?}`},
		{RuntimeFence, "requiresRuntime", false, `{}`, `{"leaseId"?,"fencingToken"?}`},
		{RuntimeAssert, "requiresRuntime", false, `{}`, `{}`},
		{SecretPresence, "capabilities.secrets", false, `{"name"}`, `{"exists"}`},
	}
}
