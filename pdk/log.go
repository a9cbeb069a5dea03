package pdk

import (
	"context"

	"github.com/bladehost/bladehost/abi"
)

// Log writes one line to the host's log. It never reaches the model. Outside a
// call it does nothing. A call may log abi.MaxLog bytes; the rest is dropped.
func Log(ctx context.Context, level abi.LogLevel, text string) {
	if s, ok := ctx.Value(callKey{}).(*callState); ok {
		s.host.Log(int32(level), text)
	}
}
