package abi

// Version is the ABI this package describes. A manifest states the version it
// was written for in its field "abi"; a host that does not know it refuses the
// module and names the versions it does know.
const Version = 1

// Names in a plugin module. The exports belong to the guest, the import module
// to the host.
const (
	// ImportModule is the import module of the seven host functions.
	ImportModule = "blade_v1"
	// WASIModule is the only other import module a plugin may name.
	WASIModule = "wasi_snapshot_preview1"
	// ManifestSection is the custom section that holds the manifest, byte for
	// byte the answer of ExportDescribe.
	ManifestSection = "blade.manifest"

	ExportMemory     = "memory"
	ExportDescribe   = "blade_describe"
	ExportExecute    = "blade_execute"
	ExportInitialize = "_initialize"
	ExportWarm       = "blade_warm"
	// ExportStart marks a command module: it is refused, because a command runs
	// once and ends, where a tool is called many times.
	ExportStart = "_start"
)

// Host functions of ImportModule.
const (
	FuncTake      = "take"
	FuncCall      = "call"
	FuncYield     = "yield"
	FuncRet       = "ret"
	FuncLog       = "log"
	FuncCancelled = "cancelled"
	FuncDeadline  = "deadline"
)

// ValueType is a Wasm number type, in the byte of the binary format.
type ValueType byte

// The value types that occur in ABI signatures.
const (
	I32 ValueType = 0x7f
	I64 ValueType = 0x7e
)

// Signature is the type of an ABI function.
type Signature struct {
	Params, Results []ValueType
}

// Imports returns the signatures of the host functions by name. The map is the
// caller's own.
func Imports() map[string]Signature {
	return map[string]Signature{
		FuncTake:      {[]ValueType{I32, I32, I32}, []ValueType{I32}},
		FuncCall:      {[]ValueType{I32, I32, I32, I32}, []ValueType{I64}},
		FuncYield:     {[]ValueType{I32, I32}, []ValueType{I32}},
		FuncRet:       {[]ValueType{I32, I32, I32}, nil},
		FuncLog:       {[]ValueType{I32, I32, I32}, nil},
		FuncCancelled: {nil, []ValueType{I32}},
		FuncDeadline:  {nil, []ValueType{I64}},
	}
}

// Exports returns the signatures of the functions a plugin exports. Required
// ones are true.
func Exports() map[string]struct {
	Signature
	Required bool
} {
	type export = struct {
		Signature
		Required bool
	}
	return map[string]export{
		ExportDescribe:   {Signature{}, true},
		ExportExecute:    {Signature{Params: []ValueType{I32, I32}}, true},
		ExportInitialize: {Signature{}, false},
		ExportWarm:       {Signature{}, false},
	}
}

// CallStatus is bits 48 to 63 of the answer of the host function call.
type CallStatus uint16

// Statuses of call. Every one but CallOK comes with an error object in the
// answer, unless the slot is 0.
const (
	CallOK          CallStatus = 0
	CallCancelled   CallStatus = 1
	CallUnknown     CallStatus = 2
	CallNotDeclared CallStatus = 3
	CallNotGranted  CallStatus = 4
	CallInvalid     CallStatus = 5
	CallOverLimit   CallStatus = 6
	CallFailed      CallStatus = 7
)

// PackCall makes the i64 that call returns.
func PackCall(status CallStatus, slot uint16, length uint32) uint64 {
	return uint64(length) | uint64(slot)<<32 | uint64(status)<<48
}

// UnpackCall takes it apart.
func UnpackCall(v uint64) (status CallStatus, slot uint16, length uint32) {
	return CallStatus(v >> 48), uint16(v >> 32), uint32(v)
}

// Answers of the host function yield.
const (
	YieldOK        = 0
	YieldCancelled = 1
	YieldRejected  = 2
	YieldOverLimit = 3
)

// Statuses a guest passes to ret.
const (
	// RetData: the bytes are JSON data, which becomes both model and data.
	RetData = 0
	// RetResult: the bytes are an explicit result {model, display?, data?, metadata?}.
	RetResult = 1
	// RetError: the bytes are an error {message, type?, code?, details?}.
	RetError = 2
)

// Cancel is why a call should stop, as the host function cancelled tells it.
type Cancel int32

// Cancel reasons. CancelNone means go on.
const (
	CancelNone     Cancel = 0
	CancelRequest  Cancel = 1
	CancelSteering Cancel = 2
	CancelDeadline Cancel = 3
	CancelShutdown Cancel = 4
	CancelLease    Cancel = 5
	CancelConsumer Cancel = 6
)

// String names the reason for messages to a person.
func (c Cancel) String() string {
	switch c {
	case CancelNone:
		return "not cancelled"
	case CancelRequest:
		return "the request was cancelled"
	case CancelSteering:
		return "a new input interrupted it"
	case CancelDeadline:
		return "the deadline passed"
	case CancelShutdown:
		return "the host is shutting down"
	case CancelLease:
		return "the session's lease was lost"
	case CancelConsumer:
		return "nobody reads its events any more"
	}
	return "cancelled"
}

// LogLevel is the first argument of the host function log.
type LogLevel int32

// Log levels; any other number counts as LogInfo.
const (
	LogTrace LogLevel = 0
	LogDebug LogLevel = 1
	LogInfo  LogLevel = 2
	LogWarn  LogLevel = 3
	LogError LogLevel = 4
)
