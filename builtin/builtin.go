// Package builtin is the one list of the native tools. An embedder hands Tools to
// host.Options.Builtins; a session leaves out the tools whose services it does not
// have.
package builtin

import (
	"slices"

	"github.com/bladehost/bladehost/builtin/system"
	"github.com/bladehost/bladehost/host/tool"
)

// Tools are all built-in tools.
func Tools() []tool.Tool {
	return slices.Concat(
		system.Tools(),
	)
}
