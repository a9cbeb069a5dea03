package pdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/bladehost/bladehost/abi"
)

// Error is a failure that a tool reports. The model reads the message; callers
// decide on the code, which is lower case: a letter, then letters, digits and
// underscores, at most 64. A code or type outside the rules is left out of the
// result.
type Error struct {
	Message string
	// Type is validation_error, execution_error or network_error; empty means
	// execution_error.
	Type abi.ErrorType
	Code string
	// Details is any JSON, for the caller.
	Details any
	cause   error
}

// Errorf makes an execution_error. It understands %w.
func Errorf(code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Message: err.Error(), Type: abi.TypeExecution, Code: code, cause: errors.Unwrap(err)}
}

// Invalid makes a validation_error: the caller can mend it by another input.
func Invalid(code, format string, args ...any) *Error {
	return Errorf(code, format, args...).WithType(abi.TypeValidation)
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// Unwrap is the cause, which stays in the guest.
func (e *Error) Unwrap() error { return e.cause }

// Is compares codes, so that a tool's tests can say errors.Is(err, &pdk.Error{Code: "x"}).
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && (e == t || (e.Code != "" && e.Code == t.Code))
}

// WithType sets the type and returns e.
func (e *Error) WithType(t abi.ErrorType) *Error {
	e.Type = t
	return e
}

// With sets the details and returns e.
func (e *Error) With(details any) *Error {
	e.Details = details
	return e
}

// CancelError is why a call should stop. It is the cause of the call's context.
type CancelError struct{ Reason abi.Cancel }

// Error names the reason.
func (e *CancelError) Error() string { return "cancelled: " + e.Reason.String() }

// Is makes it equal to context.Canceled, and to context.DeadlineExceeded when
// the deadline is the reason.
func (e *CancelError) Is(target error) bool {
	if target == context.DeadlineExceeded {
		return e.Reason == abi.CancelDeadline
	}
	return target == context.Canceled && e.Reason != abi.CancelDeadline
}

// wireError is what ret gets with abi.RetError.
type wireError struct {
	Message string        `json:"message"`
	Type    abi.ErrorType `json:"type,omitempty"`
	Code    string        `json:"code,omitempty"`
	Details any           `json:"details,omitempty"`
}

// toWire finds the type, the code and the details of err, whose whole text is
// the message.
func toWire(err error) wireError {
	w := wireError{Message: err.Error(), Type: abi.TypeExecution}
	var (
		own    *Error
		host   *abi.Error
		cancel *CancelError
	)
	switch {
	case errors.As(err, &own):
		w.Type, w.Code, w.Details = own.Type, own.Code, own.Details
	case errors.As(err, &cancel):
		w.Code, w.Details = "cancelled", map[string]int32{"reason": int32(cancel.Reason)}
	case errors.As(err, &host):
		w.Type, w.Code = host.Type, strings.ToLower(string(host.Code))
		if len(host.Details) > 0 {
			w.Details = host.Details
		}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		w.Code = "cancelled"
	}
	if w.Message == "" {
		w.Message = "the tool failed without a message"
	}
	if !w.Type.GuestMayUse() {
		w.Type = abi.TypeExecution
	}
	if !abi.ValidToolCode(w.Code) {
		w.Code = ""
	}
	if raw, ok := w.Details.(json.RawMessage); ok && len(raw) == 0 {
		w.Details = nil
	}
	return w
}
