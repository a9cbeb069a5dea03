package wasm

import (
	"errors"
	"fmt"
)

// Reason is the stable kind of an [Error]. Decisions are made on it, never on
// the text.
type Reason string

// The reasons a module is refused for.
const (
	// NotWasm: the bytes are no WebAssembly binary at all.
	NotWasm Reason = "not_wasm"
	// Component: the bytes are a WebAssembly component, not a core module.
	Component Reason = "component"
	// BadVersion: the binary format has a version other than 1.
	BadVersion Reason = "bad_version"
	// Truncated: the file ends before a section it announces.
	Truncated Reason = "truncated"
	// Malformed: the binary contradicts itself or the format.
	Malformed Reason = "malformed"
	// OverLimit: the module is larger in some respect than [Limits] allows.
	OverLimit Reason = "limit"
	// Unsupported: the module needs a WebAssembly feature that is not offered.
	Unsupported Reason = "unsupported"
	// Reserved: the module uses a name that belongs to the host, such as an
	// export that begins with __blade_.
	Reserved Reason = "reserved"
)

// Error says why a module was refused.
type Error struct {
	// Reason is the stable kind.
	Reason Reason
	// Offset is where in the file the fault was found, in bytes; 0 when the
	// fault is the file as a whole.
	Offset int
	// Text is one sentence for a person, lower case, without a full stop.
	Text string
}

// Error returns the sentence for a person.
func (e *Error) Error() string { return e.Text }

// ReasonOf returns the reason of the first [Error] in err's chain, or "" when
// there is none.
func ReasonOf(err error) Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

func refuse(reason Reason, offset int, format string, args ...any) *Error {
	return &Error{Reason: reason, Offset: offset, Text: fmt.Sprintf(format, args...)}
}
