package abi

import "time"

// Limits of one call. Sizes are bytes. They are part of the contract: a guest
// may rely on them, and a host does not set them lower.
const (
	// MaxInput bounds a call's input.
	MaxInput = 16 << 20
	// MaxResult bounds what a guest hands to ret.
	MaxResult = 16 << 20
	// MaxYield bounds one yield.
	MaxYield = 64 << 10
	// MaxYields bounds the messages and effects of one call. Progress is not
	// counted: it may be coalesced.
	MaxYields = 1000
	// MaxYieldBytes bounds the messages and effects of one call together.
	MaxYieldBytes = 4 << 20
	// MaxFrameHead bounds the JSON head of a service frame.
	MaxFrameHead = 256 << 10
	// MaxFrameBody bounds the bytes behind it.
	MaxFrameBody = 16 << 20
	// MaxChunk bounds the bytes of one answer of stream.read, MaxStreams the open
	// streams of one call.
	MaxChunk   = 1 << 20
	MaxStreams = 16
	// MaxAnswers bounds the answers of call that wait to be taken.
	MaxAnswers = 16
	// MaxLog bounds what one call may log; what is over is dropped with one notice.
	MaxLog = 64 << 10
	// MaxOutput bounds the captured standard output and standard error, each.
	MaxOutput = 64 << 10
	// MaxServiceName bounds the name argument of call.
	MaxServiceName = 256

	// MaxManifest bounds the manifest.
	MaxManifest = 1 << 20
	// MaxTools bounds the tools of one plugin.
	MaxTools = 256
	// MaxSchema bounds one JSON Schema.
	MaxSchema = 256 << 10
	// MaxSchemaDepth bounds its nesting: the validator's compile time is cubic
	// in it (1.7 s at 800 levels).
	MaxSchemaDepth = 64
	// MaxDepth bounds the nesting of any JSON document that crosses the ABI.
	MaxDepth = 128
	// MaxNumber bounds the characters of a JSON number and MaxExponent its
	// decimal exponent: the range of a float64.
	MaxNumber   = 40
	MaxExponent = 308
	// MaxStep bounds the step of a call, in UTF-16 code units.
	MaxStep = 500
)

const (
	// InitTime bounds each of _initialize, blade_describe and blade_warm.
	InitTime = 10 * time.Second
	// CleanupTime is the one budget for everything that follows a cancelled or
	// expired call.
	CleanupTime = 5 * time.Second
	// AfterRet is how long a guest may keep running after ret before its
	// instance is dropped.
	AfterRet = 250 * time.Millisecond
)

// DefaultMaxResultSize is how many UTF-16 code units of model content reach the
// model when a plugin's tool names no limit of its own; what is longer becomes
// an artifact.
const DefaultMaxResultSize = 100_000
