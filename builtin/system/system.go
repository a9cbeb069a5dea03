// Package system has the built-in tools about the session itself.
package system

import "github.com/bladehost/bladehost/host/tool"

// Tools are the tools of the group system.
func Tools() []tool.Tool { return []tool.Tool{DiscoverTools()} }
