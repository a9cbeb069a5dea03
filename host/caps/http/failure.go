package http

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/bladehost/bladehost/abi"
)

// blockedError is a refusal at the last gate.
type blockedError struct{ addr, why string }

func (e *blockedError) Error() string { return e.addr + ": " + e.why }

// failure makes the error of a failed exchange: a refusal as it is, the end of
// the caller's context as its cause, all else as a network error. No text of the
// server is in it.
func (c *Client) failure(outer, ctx context.Context, err error, limit time.Duration) error {
	var own *abi.Error
	var blocked *blockedError
	var timeout net.Error
	switch {
	case ctx.Err() != nil && outer.Err() == nil && abi.CodeOf(context.Cause(ctx)) != "":
		return context.Cause(ctx) // the grant was revoked
	case errors.As(err, &own):
		return own
	case errors.As(err, &blocked):
		return abi.NewError(abi.CodeNetBlocked, "the name leads to %s, which may not be reached: %s", blocked.addr, blocked.why).With(map[string]string{"address": blocked.addr})
	case outer.Err() != nil:
		return context.Cause(outer)
	case errors.Is(context.Cause(ctx), errTime):
		return abi.NewError(abi.CodeNetFailed, "there was no whole answer within %v", limit)
	case errors.As(err, &timeout) && timeout.Timeout():
		return abi.NewError(abi.CodeNetFailed, "the server did not answer in time").Because(err)
	case strings.Contains(err.Error(), "server response headers exceeded"):
		return abi.NewError(abi.CodeNetLimit, "the header of the answer is over %d bytes", c.lim.MaxHeader)
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return abi.NewError(abi.CodeNetFailed, "the name %s was not found", dns.Name).Because(dns)
	}
	return abi.NewError(abi.CodeNetFailed, "the request failed: %s", cause(err)).Because(err)
}

// cause is the innermost error: the outer ones repeat the URL.
func cause(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return brief(err.Error())
		}
		err = next
	}
}

func brief(s string) string {
	const most = 200
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
