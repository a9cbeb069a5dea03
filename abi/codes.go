package abi

// Code is the stable name of a failure. The host's codes are upper case and all
// in this file; a tool's own codes are lower case (see ValidToolCode).
type Code string

// Codes of a call.
const (
	CodeArgumentsInvalid Code = "TOOL_ARGUMENTS_INVALID"
	CodeValidation       Code = "TOOL_VALIDATION_ERROR"
	CodeToolNotFound     Code = "TOOL_NOT_FOUND"
	CodeNotDiscovered    Code = "TOOL_NOT_DISCOVERED"
	CodeDuplicateCall    Code = "TOOL_CALL_DUPLICATE"
	CodeQueueFull        Code = "TOOL_CONCURRENCY_QUEUE_FULL"
	CodeLockTimeout      Code = "TOOL_LOCK_TIMEOUT"
	CodeNestedTooDeep    Code = "TOOL_NESTED_TOO_DEEP"

	CodeDeniedRule    Code = "DENIED_RULE"
	CodeDeniedMode    Code = "DENIED_MODE"
	CodeDeniedPath    Code = "DENIED_PATH"
	CodeDeniedHandler Code = "DENIED_HANDLER"
	CodeDeniedTool    Code = "DENIED_TOOL"
	CodeDeniedUser    Code = "DENIED_USER"
	CodeDeniedSource  Code = "DENIED_SOURCE_POLICY"
	CodeDeniedHook    Code = "DENIED_HOOK"
	CodeDeniedPolicy  Code = "DENIED_TOOL_POLICY"
	CodeNoConfirm     Code = "NO_CONFIRMATION_HANDLER"
	CodeConfirmFailed Code = "CONFIRMATION_FAILED"
	CodeHandlerFailed Code = "PERMISSION_HANDLER_FAILED"

	CodeAborted     Code = "REQUEST_ABORTED"
	CodeSteering    Code = "INTERRUPTED_STEERING"
	CodeCascade     Code = "BATCH_CASCADE"
	CodeLeaseLost   Code = "LEASE_LOST"
	CodeShutdown    Code = "HOST_SHUTDOWN"
	CodeConsumer    Code = "CONSUMER_GONE"
	CodeTimeout     Code = "TOOL_TIMEOUT"
	CodeTimeoutRan  Code = "TIMEOUT_AFTER_START"
	CodePreempted   Code = "PREEMPTED_AFTER_START"
	CodeCleanup     Code = "CLEANUP_PENDING"
	CodeQuarantine  Code = "SESSION_QUARANTINED"
	CodeSessionOver Code = "SESSION_CLOSED"

	CodeHookTimeout Code = "HOOK_TIMEOUT"
	CodeHookFailed  Code = "HOOK_FAILED"
	CodeHookPending Code = "HOOK_PENDING"
	CodeMiddleware  Code = "MIDDLEWARE_FAILED"
	CodeLifecycle   Code = "LIFECYCLE_FAILED"

	CodeToolPanic     Code = "TOOL_PANIC"
	CodeNoResult      Code = "TOOL_NO_RESULT"
	CodeResultNotJSON Code = "RESULT_NOT_JSON"
	CodeResultShape   Code = "RESULT_INVALID"
	CodeResultTooBig  Code = "RESULT_TOO_LARGE"
	CodeOutputSchema  Code = "OUTPUT_SCHEMA_MISMATCH"
	CodeYieldLimit    Code = "YIELD_LIMIT"
)

// Codes of a guest.
const (
	CodeInstantiation Code = "INSTANTIATION_FAILED"
	CodeGuestTrap     Code = "GUEST_TRAP"
	CodeGuestOOM      Code = "GUEST_OOM"
	CodeGuestStack    Code = "GUEST_STACK"
	CodeGuestExit     Code = "GUEST_EXIT"
	CodeGuestNoResult Code = "GUEST_NO_RESULT"
	CodeGuestTwice    Code = "GUEST_RESULT_TWICE"
	CodeGuestAfterRet Code = "GUEST_CALL_AFTER_RESULT"
	CodeGuestPointer  Code = "GUEST_BAD_POINTER"
	CodeGuestProtocol Code = "GUEST_PROTOCOL"
	CodeGuestPhase    Code = "GUEST_PHASE"
)

// Codes of a service call.
const (
	CodeUnknownService Code = "UNKNOWN_SERVICE"
	CodeNotDeclared    Code = "NOT_DECLARED"
	CodeNotGranted     Code = "NOT_GRANTED"
	CodeRequest        Code = "INVALID_REQUEST"
	CodeServiceLimit   Code = "SERVICE_LIMIT"
	CodeServiceFailed  Code = "SERVICE_FAILED"
	CodeSecretMissing  Code = "SECRET_MISSING"
	CodeNetBlocked     Code = "NETWORK_BLOCKED"
	CodeNetFailed      Code = "NETWORK_FAILED"
	CodeNetLimit       Code = "NETWORK_LIMIT"
)

// Codes of loading a module.
const (
	CodeNotWasm         Code = "MODULE_NOT_WASM"
	CodeComponent       Code = "MODULE_IS_COMPONENT"
	CodeModuleTruncated Code = "MODULE_TRUNCATED"
	CodeModuleMalformed Code = "MODULE_MALFORMED"
	CodeModuleLimit     Code = "MODULE_OVER_LIMIT"
	CodeModuleFeature   Code = "MODULE_UNSUPPORTED"
	CodeCommandModule   Code = "MODULE_IS_COMMAND"
	CodeExportMissing   Code = "MODULE_EXPORT_MISSING"
	CodeExportType      Code = "MODULE_EXPORT_SIGNATURE"
	CodeImportUnknown   Code = "MODULE_IMPORT_UNKNOWN"
	CodeImportType      Code = "MODULE_IMPORT_SIGNATURE"
	CodeCompile         Code = "MODULE_COMPILE_FAILED"
	CodeInit            Code = "MODULE_INIT_FAILED"
	CodeManifestMissing Code = "MANIFEST_MISSING"
	CodeManifest        Code = "MANIFEST_INVALID"
	CodeManifestDiffers Code = "MANIFEST_DIFFERS"
	CodeABIVersion      Code = "ABI_UNSUPPORTED"
	CodeFeature         Code = "FEATURE_UNKNOWN"
)

// Codes of definitions, registration and options.
const (
	CodeDefinition      Code = "DEFINITION_INVALID"
	CodeSchema          Code = "SCHEMA_INVALID"
	CodeNameReserved    Code = "NAME_RESERVED"
	CodeNameTaken       Code = "NAME_TAKEN"
	CodeAliasTaken      Code = "ALIAS_TAKEN"
	CodeServiceName     Code = "SERVICE_NAME_UNKNOWN"
	CodeOptions         Code = "OPTIONS_INVALID"
	CodeContextRequired Code = "CONTEXT_REQUIRED"
)

// Codes of the installed plugins and the command line.
const (
	CodeNotInstalled Code = "PLUGIN_NOT_INSTALLED"
	CodeChanged      Code = "PLUGIN_CHANGED"
	CodeCorrupt      Code = "PLUGIN_CORRUPT"
	CodeBuild        Code = "BUILD_FAILED"
	CodeNoToolchain  Code = "TOOLCHAIN_MISSING"
	CodeUsage        Code = "USAGE"
	CodeIO           Code = "FILE_ERROR"
)

// Codes of the durable journal. Those of a lease start with
// DURABLE_EXECUTION_LEASE_.
const (
	CodeSequence       Code = "DURABLE_SEQUENCE_CONFLICT"
	CodeEvent          Code = "DURABLE_EVENT_INVALID"
	CodeTransition     Code = "DURABLE_TRANSITION_INVALID"
	CodeReused         Code = "DURABLE_ID_REUSED"
	CodeCommand        Code = "DURABLE_COMMAND_CONFLICT"
	CodeUnknownOutcome Code = "DURABLE_COMMAND_OUTCOME_UNKNOWN"
	CodeCursor         Code = "DURABLE_CURSOR_INVALID"
	CodeJournalMissing Code = "DURABLE_SESSION_NOT_FOUND"
	CodeJournalWrite   Code = "DURABLE_STORE_WRITE_FAILED"
	CodeJournalRead    Code = "DURABLE_STORE_READ_FAILED"
	CodeJournalCorrupt Code = "DURABLE_STORE_CORRUPT"
	CodeJournalVersion Code = "DURABLE_STORE_VERSION"
	CodeRecovery       Code = "DURABLE_RECOVERY_REFUSED"

	CodeLeaseConflict     Code = "DURABLE_EXECUTION_LEASE_CONFLICT"
	CodeLeaseRequired     Code = "DURABLE_EXECUTION_LEASE_REQUIRED"
	CodeLeaseStale        Code = "DURABLE_EXECUTION_LEASE_LOST"
	CodeLeaseInvalid      Code = "DURABLE_EXECUTION_LEASE_INVALID"
	CodeLeaseNotSupported Code = "DURABLE_EXECUTION_LEASE_NOT_SUPPORTED"
	CodeLeaseTimeout      Code = "DURABLE_EXECUTION_LEASE_TIMEOUT"
	CodeLeaseCorrupt      Code = "DURABLE_EXECUTION_LEASE_CORRUPT"
	CodeLeaseWrite        Code = "DURABLE_EXECUTION_LEASE_WRITE_FAILED"
)

// CodeDoc is one row of the table of codes.
type CodeDoc struct {
	Code Code
	Type ErrorType
	// Meaning says what happened, Fix who can mend it and how.
	Meaning, Fix string
}

// Type is the type of one of the host's codes, execution_error for any other.
func (c Code) Type() ErrorType {
	// A scan, not a map: a guest would build the map at each start.
	for i := range codeTable {
		if codeTable[i].Code == c {
			return codeTable[i].Type
		}
	}
	return TypeExecution
}

// Codes returns the table of all of the host's codes, in its order of reading.
func Codes() []CodeDoc { return append([]CodeDoc(nil), codeTable...) }

var codeTable = []CodeDoc{
	{CodeArgumentsInvalid, TypeValidation, "The arguments are not one JSON object.", "The model: send one JSON object."},
	{CodeValidation, TypeValidation, "The input does not fit the tool's schema, or the tool refused it before it ran; details.issues names each place.", "The model: correct the named fields."},
	{CodeToolNotFound, TypeExecution, "No tool of this name is registered in the session.", "The caller: pick a name from the tool list."},
	{CodeNotDiscovered, TypeExecution, "The tool exists but was not made visible yet.", "The model: find it with DiscoverTools first."},
	{CodeDuplicateCall, TypeValidation, "A call with this id is known already.", "The caller: give each call an id of its own."},
	{CodeQueueFull, TypeExecution, "Too many calls of this kind wait already.", "The caller: send fewer calls at once, or raise the queue limit."},
	{CodeLockTimeout, TypeExecution, "Another call held the same file for longer than the lock wait.", "The model: try again later."},
	{CodeNestedTooDeep, TypeExecution, "Tools called tools too deeply.", "The tool's author: call fewer tools from tools."},

	{CodeDeniedRule, TypePermission, "A deny rule matches the call.", "The user: change the rule."},
	{CodeDeniedMode, TypePermission, "The permission mode does not allow the call.", "The user: change the mode."},
	{CodeDeniedPath, TypePermission, "A path is outside the workspace roots, protected or sensitive.", "The user: add a root or an allow rule."},
	{CodeDeniedHandler, TypePermission, "The permission handler denied the call.", "The embedder's handler decides."},
	{CodeDeniedTool, TypePermission, "The tool's own check denied the call.", "The model: see the message."},
	{CodeDeniedUser, TypePermission, "The user said no.", "The user decides."},
	{CodeDeniedSource, TypePermission, "The session does not accept tools of this source or trust level, or the tool is filtered out.", "The embedder: change the tool selection or the source policy."},
	{CodeDeniedHook, TypePermission, "A hook stopped the call.", "The embedder's hook decides."},
	{CodeDeniedPolicy, TypePermission, "A running skill or tool narrowed the tools and left this one out.", "The model: use another tool."},
	{CodeNoConfirm, TypePermission, "The call needs a confirmation and nobody can be asked.", "The embedder: set a confirmation handler; on the command line: run on a terminal or grant beforehand."},
	{CodeConfirmFailed, TypeExecution, "The confirmation handler failed.", "The embedder: mend the handler."},
	{CodeHandlerFailed, TypeExecution, "The permission handler failed.", "The embedder: mend the handler."},

	{CodeAborted, TypeExecution, "The request was cancelled.", "Nothing to mend."},
	{CodeSteering, TypeInterrupted, "A new input interrupted the call.", "Nothing to mend."},
	{CodeCascade, TypeExecution, "Another call of the same batch failed and stopped this one.", "The model: look at the failed call."},
	{CodeLeaseLost, TypeExecution, "The session's lease was lost.", "The operator: see which process owns the session now."},
	{CodeShutdown, TypeExecution, "The host is shutting down.", "The caller: try again on a new host."},
	{CodeConsumer, TypeExecution, "The reader of the call's events stopped reading.", "The embedder: range to the end, or ask for the result only."},
	{CodeTimeout, TypeTimeout, "The deadline passed before the tool could have any effect.", "The caller: give more time, or ask for less."},
	{CodeTimeoutRan, TypeTimeout, "The deadline passed while the tool ran; what it did is not known.", "The caller: check the outcome before repeating the call."},
	{CodePreempted, TypeExecution, "The call was stopped while the tool ran; what it did is not known.", "The caller: check the outcome before repeating the call."},
	{CodeCleanup, TypeExecution, "An earlier call did not end in time and still runs.", "The caller: wait until it ends; the session then works again."},
	{CodeQuarantine, TypeExecution, "The session refuses all work after a failure that it cannot undo.", "The embedder: make a new session."},
	{CodeSessionOver, TypeExecution, "The session is closed.", "The embedder: make a new session."},

	{CodeHookTimeout, TypeExecution, "The hooks of an event used up their time.", "The embedder: make the hook faster or raise its budget."},
	{CodeHookFailed, TypeExecution, "A hook failed.", "The embedder: mend the hook."},
	{CodeHookPending, TypeExecution, "A hook that ran out of time still runs.", "The embedder: make the hook obey its context."},
	{CodeMiddleware, TypeExecution, "A middleware failed or broke its contract.", "The embedder: mend the middleware."},
	{CodeLifecycle, TypeExecution, "A durable record could not be written, so the call did not go on.", "The operator: see the cause; nothing ran that is not recorded."},

	{CodeToolPanic, TypeExecution, "A native tool panicked.", "The tool's author: see the message and the log."},
	{CodeNoResult, TypeExecution, "A native tool ended without a result.", "The tool's author: return a result or an error."},
	{CodeResultNotJSON, TypeExecution, "The tool's answer is not strict JSON.", "The tool's author: return JSON without duplicate keys, NaN or invalid UTF-8."},
	{CodeResultShape, TypeExecution, "The tool's result does not have the shape the contract asks for.", "The tool's author: see abi/SPEC.md."},
	{CodeResultTooBig, TypeExecution, "The tool's answer is over the limit.", "The tool's author: return less, or put the bytes into an artifact."},
	{CodeOutputSchema, TypeExecution, "The tool's data does not fit the output schema it declares; details.issues names each place.", "The tool's author: mend the tool or its schema."},
	{CodeYieldLimit, TypeExecution, "The tool sent more messages and effects than a call may.", "The tool's author: send fewer, or progress."},

	{CodeInstantiation, TypeExecution, "The guest could not be started.", "The plugin's author: see the cause in the message."},
	{CodeGuestTrap, TypeExecution, "The guest trapped.", "The plugin's author: see the log; the next call gets a new instance."},
	{CodeGuestOOM, TypeExecution, "The guest ran out of memory.", "The user: raise the memory limit; the plugin's author: use less."},
	{CodeGuestStack, TypeExecution, "The guest's calls nested too deeply.", "The plugin's author: bound the recursion."},
	{CodeGuestExit, TypeExecution, "The guest ended its process instead of returning a result.", "The plugin's author: return a result or an error."},
	{CodeGuestNoResult, TypeExecution, "The guest returned without calling ret.", "The plugin's author: call ret exactly once."},
	{CodeGuestTwice, TypeExecution, "The guest called ret a second time.", "The plugin's author: call ret exactly once."},
	{CodeGuestAfterRet, TypeExecution, "The guest called a host function after ret that is not allowed there.", "The plugin's author: finish yields and calls before ret."},
	{CodeGuestPointer, TypeExecution, "The guest passed a pointer or a length outside its memory.", "The plugin's author: mend the call."},
	{CodeGuestProtocol, TypeExecution, "The guest broke a rule of the ABI.", "The plugin's author: see the message and abi/SPEC.md."},
	{CodeGuestPhase, TypeExecution, "The guest called a host function that is not allowed in this phase.", "The plugin's author: see the state machine in abi/SPEC.md."},

	{CodeUnknownService, TypeExecution, "The host knows no service of this name.", "The plugin's author: see the list in abi/SPEC.md."},
	{CodeNotDeclared, TypePermission, "The tool did not declare the service in its manifest.", "The plugin's author: declare it."},
	{CodeNotGranted, TypePermission, "The user did not grant what the tool asked for.", "The user: see the command in the message."},
	{CodeRequest, TypeValidation, "The request to a service is not well formed.", "The plugin's author: see the message."},
	{CodeServiceLimit, TypeExecution, "A limit of the service was reached.", "The plugin's author: see the message."},
	{CodeServiceFailed, TypeExecution, "The service failed.", "See the message."},
	{CodeSecretMissing, TypePermission, "A required secret has no value.", "The user: see the command in the message."},
	{CodeNetBlocked, TypePermission, "The address, the host or the port may not be reached from here.", "The user: see the message; a private address needs a grant of its own."},
	{CodeNetFailed, TypeNetwork, "The request got no answer.", "The caller: see the message; the server or the way to it is at fault."},
	{CodeNetLimit, TypeNetwork, "The answer is over a limit: too large, too slow, too many redirects or headers.", "The caller: ask for less, or take the answer as a stream."},

	{CodeNotWasm, TypeValidation, "The file is no WebAssembly module.", "The user: name a .wasm file or a plugin folder."},
	{CodeComponent, TypeValidation, "The file is a WebAssembly component.", "The plugin's author: build a core module."},
	{CodeModuleTruncated, TypeValidation, "The module ends too early.", "The user: fetch or build the file again."},
	{CodeModuleMalformed, TypeValidation, "The module is not well formed.", "The plugin's author: build it again with a sound toolchain."},
	{CodeModuleLimit, TypeValidation, "The module is over a limit of the host.", "The plugin's author: see the limit in the message."},
	{CodeModuleFeature, TypeValidation, "The module uses a WebAssembly feature that the host does not run.", "The plugin's author: build without the feature."},
	{CodeCommandModule, TypeValidation, "The module is a command (it exports _start).", "The plugin's author: build a reactor."},
	{CodeExportMissing, TypeValidation, "The module lacks an export of the ABI.", "The plugin's author: see abi/SPEC.md."},
	{CodeExportType, TypeValidation, "An export has another signature than the ABI's.", "The plugin's author: see abi/SPEC.md."},
	{CodeImportUnknown, TypeValidation, "The module imports what the ABI does not have.", "The plugin's author: remove the named imports."},
	{CodeImportType, TypeValidation, "An import has another signature than the ABI's.", "The plugin's author: see abi/SPEC.md."},
	{CodeCompile, TypeExecution, "The module could not be compiled.", "The plugin's author: see the cause in the message."},
	{CodeInit, TypeExecution, "The module failed while it started or described itself.", "The plugin's author: see the cause in the message."},
	{CodeManifestMissing, TypeValidation, "The module has no manifest section.", "The plugin's author: bladehost build adds it."},
	{CodeManifest, TypeValidation, "The manifest is not valid; details.issues names each place.", "The plugin's author: correct the named fields."},
	{CodeManifestDiffers, TypeValidation, "The manifest section and blade_describe differ.", "The plugin's author: bladehost build writes the section anew."},
	{CodeABIVersion, TypeValidation, "The module was written for another version of the ABI.", "The user: use a host that knows it."},
	{CodeFeature, TypeValidation, "The module requires a feature this host does not have.", "The user: use a newer host."},

	{CodeDefinition, TypeValidation, "A tool definition is not valid; details.issues names each place.", "The tool's author: correct the named fields."},
	{CodeSchema, TypeValidation, "A JSON Schema cannot be used.", "The tool's author: see the message."},
	{CodeNameReserved, TypeValidation, "The name is reserved.", "The tool's author: choose another name."},
	{CodeNameTaken, TypeValidation, "Another tool has the name already.", "The embedder: register one of the two."},
	{CodeAliasTaken, TypeValidation, "An alias clashes with a name or another alias.", "The tool's author: choose another alias."},
	{CodeServiceName, TypeValidation, "A declared service has no known name.", "The tool's author: see the list in abi/SPEC.md."},
	{CodeOptions, TypeValidation, "An option is out of its range.", "The embedder: see the message."},
	{CodeContextRequired, TypePermission, "The tool needs something the session's context does not have.", "The embedder: set it in the session's context."},

	{CodeNotInstalled, TypeValidation, "No installed plugin has this name.", "The user: bladehost install."},
	{CodeChanged, TypePermission, "The plugin differs from the one that was accepted.", "The user: look at the difference; bladehost install --accept takes the new one."},
	{CodeCorrupt, TypeExecution, "An installed file is not the one that was recorded, or the record does not belong to it.", "The user: install the plugin again."},
	{CodeBuild, TypeExecution, "The plugin's source did not build.", "The plugin's author: see the compiler's message."},
	{CodeNoToolchain, TypeExecution, "The compiler for the plugin's language was not found.", "The user: install it, or use a ready .wasm file."},
	{CodeUsage, TypeValidation, "The command line is not understood.", "The user: see --help."},
	{CodeIO, TypeExecution, "A file could not be read or written.", "The user: see the message."},

	{CodeSequence, TypeExecution, "Another writer appended to the session's journal first; details has expected and actual.", "The caller: read the journal again, then decide."},
	{CodeEvent, TypeValidation, "An event has not the shape of its type; details.issues names each place.", "The caller: correct the named fields."},
	{CodeTransition, TypeValidation, "An event does not follow from the state of the session or of the tool attempt.", "The caller: read the state first."},
	{CodeReused, TypeValidation, "An id that must be new was used before in the session.", "The caller: make a new id."},
	{CodeCommand, TypeValidation, "A command of this id is in the journal with other content.", "The caller: give each command an id of its own."},
	{CodeUnknownOutcome, TypeExecution, "Whether a command was written is not known.", "The caller: repeat the same command, which only looks; or open the journal anew."},
	{CodeCursor, TypeValidation, "A cursor does not belong to this journal or lies beyond its end.", "The caller: start from the beginning."},
	{CodeJournalMissing, TypeValidation, "The journal has no such session or tool attempt.", "The operator: list what there is with bladehost journal ls."},
	{CodeJournalWrite, TypeExecution, "The journal could not be written, and nothing of the command is in it.", "The operator: see the cause, for example a full disk."},
	{CodeJournalRead, TypeExecution, "The journal could not be read.", "The operator: see the cause in the message."},
	{CodeJournalCorrupt, TypeExecution, "The journal's file is damaged.", "The operator: put a copy back; bladehost journal verify says what is left, and export saves it."},
	{CodeJournalVersion, TypeExecution, "The journal was written by a newer version, or is no journal.", "The operator: use the newer version, or name another file."},
	{CodeRecovery, TypeValidation, "A recovery step is not allowed for a tool attempt in this state.", "The operator: look at the plan with bladehost journal recover."},

	{CodeLeaseConflict, TypeExecution, "Another process owns the session.", "The operator: stop the other process, or wait until its lease ends."},
	{CodeLeaseRequired, TypeExecution, "The session was leased before, so nothing may be written without a lease.", "The embedder: acquire the lease."},
	{CodeLeaseStale, TypeExecution, "The lease is not owned any more.", "The operator: see which process owns the session now."},
	{CodeLeaseInvalid, TypeValidation, "The options of a lease are out of their range.", "The embedder: see the message."},
	{CodeLeaseNotSupported, TypeExecution, "The store has no leases.", "The embedder: use a store that has."},
	{CodeLeaseTimeout, TypeExecution, "The lease could not be renewed or checked in time.", "The operator: see what keeps the store busy."},
	{CodeLeaseCorrupt, TypeExecution, "The record of the lease is damaged.", "The operator: look at the journal with bladehost journal verify."},
	{CodeLeaseWrite, TypeExecution, "The record of the lease could not be written.", "The operator: see the cause in the message."},
}
