package tool

import (
	"context"
	"errors"

	"github.com/bladehost/bladehost/abi"
)

// CancelError is the cause of a call's context that ended: why the call should
// stop.
type CancelError struct {
	Reason abi.Cancel
	// Detail is the canceller's own words; it may be empty.
	Detail string
}

// Error says why.
func (e *CancelError) Error() string {
	if e.Detail != "" {
		return e.Reason.String() + ": " + e.Detail
	}
	return e.Reason.String()
}

// Reason is why ctx ended, or abi.CancelNone while it has not. A context that
// was cancelled without a cause counts as the request's cancellation, one whose
// own deadline passed as a deadline.
func Reason(ctx context.Context) abi.Cancel {
	if ctx.Err() == nil {
		return abi.CancelNone
	}
	cause := context.Cause(ctx)
	var c *CancelError
	switch {
	case errors.As(cause, &c):
		return c.Reason
	case errors.Is(cause, context.DeadlineExceeded):
		return abi.CancelDeadline
	}
	return abi.CancelRequest
}

// ErrRejected is in the error of a Yield that the tool may not send: wrong
// shape, or of a kind or type it did not declare.
var ErrRejected = errors.New("the yield was rejected")

// ErrPreempted is in the error of an Execute that was stopped by force: the tool
// had no chance to say how far it came.
var ErrPreempted = errors.New("the tool was stopped")
