// Package builtin is the one list of the native tools. An embedder hands Tools to
// host.Options.Builtins; a session leaves out the tools whose services it does not
// have.
package builtin

import (
	"io"
	"slices"

	"github.com/bladehost/bladehost/builtin/filesystem"
	"github.com/bladehost/bladehost/builtin/shell"
	"github.com/bladehost/bladehost/builtin/subagents"
	"github.com/bladehost/bladehost/builtin/system"
	"github.com/bladehost/bladehost/builtin/todos"
	"github.com/bladehost/bladehost/builtin/web"
	"github.com/bladehost/bladehost/host/tool"
)

// Options configures Tools. The zero value works; each group says what its own means.
type Options struct {
	// StateDir keeps what should outlive the process, below a folder a group; empty means
	// private temporary folders.
	StateDir string
	// Deny are absolute folders that no tool about files can use, even where they are
	// inside a workspace folder.
	Deny []string
	// Filesystem configures the tools about files. Its StateDir is this one where it
	// is empty.
	Filesystem filesystem.Options
	// Shell configures Bash and KillShell.
	Shell shell.Options
	// Web configures WebFetch and WebSearch.
	Web web.Options
	// Todos configures TodoWrite. Its StateDir is this one where it is empty.
	Todos todos.Options
	// Agents are the background agents that TaskOutput reads beside shells; nil means
	// there are none.
	Agents subagents.Agents
}

// History is where the copies of changed files are, and Snapshot is one of them.
type (
	History  = filesystem.History
	Snapshot = filesystem.Snapshot
)

// OpenHistory opens the copies below a StateDir.
func OpenHistory(stateDir string) *History { return filesystem.OpenHistory(stateDir) }

// PDFMain is the process that Filesystem.PDFChild names (see filesystem.PDFMain).
func PDFMain(in io.Reader, out io.Writer) int { return filesystem.PDFMain(in, out) }

// Tools are all built-in tools. What they keep for a session, they share: one list
// serves all sessions of a host.
func Tools(o Options) []tool.Tool {
	if o.Filesystem.StateDir == "" {
		o.Filesystem.StateDir = o.StateDir
	}
	o.Filesystem.Deny = slices.Concat(o.Filesystem.Deny, o.Deny)
	if o.Todos.StateDir == "" {
		o.Todos.StateDir = o.StateDir
	}
	sh := shell.New(o.Shell)
	return slices.Concat(
		filesystem.Tools(o.Filesystem),
		sh.Tools(),
		web.Tools(o.Web),
		subagents.Tools(subagents.Options{Shells: sh, Agents: o.Agents}),
		system.Tools(),
		todos.Tools(o.Todos),
	)
}
