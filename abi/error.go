package abi

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ErrorType is the coarse class of a failure. There are six, and consumers may
// switch over them.
type ErrorType string

// Error types.
const (
	TypeValidation  ErrorType = "validation_error"
	TypePermission  ErrorType = "permission_denied"
	TypeExecution   ErrorType = "execution_error"
	TypeInterrupted ErrorType = "interrupted"
	TypeTimeout     ErrorType = "timeout_error"
	TypeNetwork     ErrorType = "network_error"
)

// Valid reports whether t is one of the six.
func (t ErrorType) Valid() bool {
	switch t {
	case TypeValidation, TypePermission, TypeExecution, TypeInterrupted, TypeTimeout, TypeNetwork:
		return true
	}
	return false
}

// GuestMayUse reports whether a guest may give its own error this type.
func (t ErrorType) GuestMayUse() bool {
	return t == TypeValidation || t == TypeExecution || t == TypeNetwork
}

// Error is a failure with a stable code. Errors compare by code (errors.Is), so
// the comparison survives the way through a guest and over a wire. The message
// is for a person and never part of a decision.
type Error struct {
	Message string          `json:"message"`
	Type    ErrorType       `json:"type"`
	Code    Code            `json:"code,omitempty"`
	Details json.RawMessage `json:"details,omitempty"`
	cause   error
}

// NewError makes the error of one of the host's codes; the type is the code's.
func NewError(code Code, format string, args ...any) *Error {
	return &Error{Message: fmt.Sprintf(format, args...), Type: code.Type(), Code: code}
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// Unwrap is the cause, which no wire carries.
func (e *Error) Unwrap() error { return e.cause }

// Is compares codes: an error without a code equals only itself.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && (e == t || (e.Code != "" && e.Code == t.Code))
}

// Because keeps err as the cause and returns e.
func (e *Error) Because(err error) *Error {
	e.cause = err
	return e
}

// With sets the details to the JSON of v and returns e. A value without a JSON
// form leaves them as they are.
func (e *Error) With(v any) *Error {
	if raw, err := marshal(v); err == nil {
		e.Details = raw
	}
	return e
}

// CodeOf is the code of the first Error in err's chain, or "".
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// AsError is the first Error in err's chain, or an execution_error with err's text.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Message: err.Error(), Type: TypeExecution, cause: err}
}

// Issue is one finding about a JSON document. Pointer is a JSON Pointer
// (RFC 6901); the root is "".
type Issue struct {
	Pointer string          `json:"pointer"`
	Message string          `json:"message"`
	Value   json.RawMessage `json:"value,omitempty"`
}

// IssueDetails is the shape of the details of a validation error.
type IssueDetails struct {
	Issues []Issue `json:"issues"`
}
