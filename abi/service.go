package abi

// Names of the services a session can have and a tool can declare.
const (
	ServiceSubagents    = "subagentRegistry"
	ServiceMemory       = "memoryManager"
	ServiceMCP          = "mcpRegistry"
	ServiceSkills       = "skillRegistry"
	ServiceBackground   = "backgroundAgentManager"
	ServiceDiscoverable = "discoverableCatalog"
)

// Services of the host itself, each with what a manifest declares to use it.
const (
	CallContext    = "call.context"   // always
	ArtifactPut    = "artifact.put"   // always
	ArtifactOpen   = "artifact.open"  // always
	StreamRead     = "stream.read"    // always: reads what artifact.open or http.request opened
	StreamClose    = "stream.close"   // always
	HTTPCall       = "http.request"   // capabilities.http
	ConfigGet      = "config.get"     // config
	KVGet          = "kv.get"         // capabilities.kv
	KVSet          = "kv.set"         // capabilities.kv
	KVDelete       = "kv.delete"      // capabilities.kv
	KVList         = "kv.list"        // capabilities.kv
	RuntimeFence   = "runtime.fence"  // requiresRuntime
	RuntimeAssert  = "runtime.assert" // requiresRuntime
	SecretPresence = "secret.exists"  // capabilities.secrets
)

// ServiceMethod is one method of a session service, as a guest calls it:
// Service "." Method. Request and answer are JSON heads; Body says whether the
// bytes behind the head are used.
type ServiceMethod struct {
	Service, Method string
	// Writes marks a method that can change something outside the call. A tool
	// that was lent one is not read-only, whatever it says.
	Writes bool
	// Request and Answer are the shapes, for the documentation.
	Request, Answer string
}

// SessionServices returns the names of the six services.
func SessionServices() []string {
	return []string{ServiceSubagents, ServiceMemory, ServiceMCP, ServiceSkills, ServiceBackground, ServiceDiscoverable}
}

// KnownService reports whether a tool may declare the service: one of the six
// or an embedder's x- name.
func KnownService(name string) bool {
	for _, s := range SessionServices() {
		if s == name {
			return true
		}
	}
	return EmbedderService(name)
}

// ServiceMethods returns the methods of the six services.
func ServiceMethods() []ServiceMethod {
	return []ServiceMethod{
		{ServiceSubagents, "getAllNames", false, `{}`, `{"names":[…]}`},
		{ServiceSubagents, "get", false, `{"name"}`, `{"name","description","tools"?,"model"?}`},
		{ServiceMemory, "read", false, `{"name"?}`, `{"name"?,"content"}`},
		{ServiceMemory, "list", false, `{}`, `{"memories":[{"name","description"?,"type"?}]}`},
		{ServiceMemory, "write", true, `{"name","content","description"?,"type"?}`, `{}`},
		{ServiceMCP, "listServers", false, `{}`, `{"servers":[{"name","status"}]}`},
		{ServiceMCP, "listResources", false, `{"serverName"?}`, `{"resources":[{"uri","name"?,"description"?,"mimeType"?,"serverName"}],"errors"?}`},
		{ServiceMCP, "readResource", false, `{"uri","serverName"?}`, `{"uri","mimeType"?,"text"?,"blob"?,"serverName"}`},
		{ServiceSkills, "list", false, `{}`, `{"skills":[{"name","description"?}]}`},
		{ServiceSkills, "load", false, `{"name"}`, `{"name","basePath"?,"content"}`},
		{ServiceBackground, "start", true, `{"prompt","subagent"?}`, `{"id"}`},
		{ServiceBackground, "list", false, `{}`, `{"tasks":[{"id","status"}]}`},
		{ServiceBackground, "output", false, `{"id"}`, `{"id","status","output"}`},
		{ServiceBackground, "stop", true, `{"id"}`, `{"id","status"}`},
		{ServiceDiscoverable, "listDiscoverable", false, `{"query"?,"permissionMode"?}`, `{"tools":[{"name","title","description","exposureMode","discoveryHint"?}]}`},
	}
}
