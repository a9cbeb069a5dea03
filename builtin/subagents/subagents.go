// Package subagents has the built-in tools about work that goes on in the
// background. TaskOutput reads background shells; agents join through Agents.
package subagents

import (
	"context"
	"encoding/json"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/shell"
	"github.com/bladehost/bladehost/host/tool"
)

// Options configures the tools about background work.
type Options struct {
	// Shells are the background shells; nil means there are none.
	Shells *shell.Shell
	// Agents are the background agents; nil means there are none.
	Agents Agents
}

// Agents are background agents that TaskOutput can read. Reading takes nothing
// away. It is safe for concurrent use.
type Agents interface {
	// Owns reports whether an id is an agent of a session.
	Owns(sessionID, taskID string) bool
	// Output waits at most for the time given, 0 for not at all, and tells how the
	// agent is, as a JSON object for the model, and in one line for a person. When
	// ctx ends it returns its cause.
	Output(ctx context.Context, sessionID, taskID string, wait time.Duration) (model json.RawMessage, summary string, err error)
}

// Tools are the tools of the group subagents.
func Tools(o Options) []tool.Tool { return []tool.Tool{newTaskOutput(o)} }

// Codes of these tools.
const codeUnknown abi.Code = "unknown_task"
