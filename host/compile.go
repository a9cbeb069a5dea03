package host

import (
	"io"

	"github.com/bladehost/bladehost/host/internal/engine"
)

// CompileInChild is the whole of the process that Options.CompileChild names: it
// compiles the module that it reads from in, within the bounds that its arguments
// give it, and returns the exit code. The arguments are those that the host
// appended. It bounds the process it runs in, so it is not for any other process.
func CompileInChild(args []string, in io.Reader, out io.Writer) int {
	return engine.CompileMain(args, in, out)
}

// EngineReport says how plugins run on this machine.
type EngineReport = engine.Report

// Doctor reports how plugins run on this machine.
func (h *Host) Doctor() EngineReport { return h.engine.Doctor() }
