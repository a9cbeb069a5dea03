package main

import (
	"context"
	"errors"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/tool"
)

// sessionFlags are the flags of the command session.
type sessionFlags struct {
	hostFlags
	keep        journalFlags
	cwd         string
	plugins     []string
	timeoutMs   string
	id          string
	autoApprove bool
	tools       string
	toolsSet    bool
	noTools     string
	services    string
}

func sessionCommand(a *app) *cobra.Command {
	var f sessionFlags
	c := &cobra.Command{
		Use:   "session",
		Short: "Serve a session to an agent, as JSON lines on standard input and output",
		Long: `Serve one session: the agent writes calls, cancels, confirmations and steering
as JSON lines to standard input and reads events and results from standard
output. docs/session.md describes every line; docs/session.schema.json is their
JSON Schema. End of input finishes running calls and ends the process.`,
		Args: exactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			f.toolsSet = c.Flags().Changed("tools")
			return a.session(c.Context(), f)
		},
	}
	fs := c.Flags()
	f.lend.add(fs)
	fs.StringArrayVar(&f.roots, "root", nil, "workspace `folder` of the built-in tools (may be repeated)")
	fs.StringVar(&f.cwd, "cwd", "", "`folder` that relative paths start from")
	fs.StringVar(&f.mode, "mode", "", "permission `mode`: default, autoEdit, yolo or plan")
	fs.StringArrayVar(&f.plugins, "plugin", nil, "plugin `file` or folder, beside the installed ones (may be repeated)")
	fs.StringVar(&f.timeoutMs, "tool-timeout-ms", "", "stop a tool after this many `milliseconds` (default 600000)")
	fs.StringVar(&f.memoryLimit, "memory-limit", "", "memory of a plugin, as a `size` such as 64MiB (default 256MiB)")
	fs.StringVar(&f.id, "session-id", "", "`id` of the session (default: a random one)")
	fs.BoolVar(&f.autoApprove, "auto-approve", false, "approve every confirmation; deny rules and plan mode still count")
	fs.StringVar(&f.tools, "tools", "", "only these tools, a `list` with commas; '' is none")
	fs.StringVar(&f.noTools, "no-tools", "", "not these tools, a `list` with commas")
	f.keep.add(fs, "journal.db in the state folder")
	fs.StringVar(&f.services, "services", "", "services the agent supplies, a `list` with commas: "+strings.Join(abi.SessionServices(), ", "))
	return c
}

// session is the command session.
func (a *app) session(ctx context.Context, f sessionFlags) (err error) {
	p, err := a.places()
	if err != nil {
		return err
	}
	if a.getenv("GOGC") == "" {
		debug.SetGCPercent(100) // this process stays: startupGC
	}
	path, err := f.keep.path(p.journalFile())
	if err == nil {
		err = f.lend.keepOut(path)
	}
	if err != nil {
		return err
	}
	opt, err := a.sessionOptions(f.hostFlags)
	if err != nil {
		return err
	}
	if err := f.apply(&opt); err != nil {
		return err
	}
	g, err := a.openGuests(ctx, f.hostFlags, f.plugins)
	if err != nil {
		return err
	}
	defer g.close()
	opt.Plugins = g.attached
	sv := newServer(a.out)
	opt.Events, opt.ExtendedEvents = sv.event, true
	if !f.autoApprove {
		opt.Confirm = tool.ConfirmFunc(sv.confirm)
	}
	if opt.Services, err = sv.services(splitList(f.services)); err != nil {
		return err
	}
	k, err := a.keep(ctx, path, &opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.end(reasonOf(ctx, err))) }()
	s, err := g.host.NewSession(opt)
	if err != nil {
		return err
	}
	k.attach(s)
	defer g.lender.watch(ctx, s, g.plugins)()
	for _, d := range s.Diagnostics() {
		a.h(d)
	}
	// An agent that went away is an error to clean up after, not the end at once.
	signal.Ignore(syscall.SIGPIPE)
	return sv.serve(ctx, s, a.in)
}

// h is a remark for whoever reads standard error of a served session.
func (a *app) h(text string) { a.note("note: %s", text) }

// maxSessionID bounds the id of a session, in bytes: operators type it.
const maxSessionID = 256

// apply puts the flags of session into its options.
func (f sessionFlags) apply(opt *host.SessionOptions) error {
	if len(f.id) > maxSessionID || printable(f.id) != f.id || strings.ContainsAny(f.id, "\n\t") {
		return usage("--session-id %q: give at most %d bytes of printable text", clip(f.id), maxSessionID)
	}
	opt.ID, opt.AutoApprove = f.id, f.autoApprove
	if f.timeoutMs != "" {
		d, err := host.ToolTimeoutMs(f.timeoutMs)
		if err != nil {
			return err
		}
		opt.ToolTimeout = d
	}
	if f.toolsSet {
		opt.AllowedTools = append([]string{}, splitList(f.tools)...)
	}
	opt.DisallowedTools = splitList(f.noTools)
	if f.cwd != "" {
		if !isFolder(f.cwd) {
			return usage("--cwd %s is not a folder", f.cwd)
		}
		abs, err := absPath(f.cwd)
		if err != nil {
			return err
		}
		opt.Context.Capabilities.Filesystem.Cwd = abs
	}
	return nil
}

func splitList(s string) []string {
	var out []string
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// sessionPlugins loads the named plugins, which must work, and the installed
// ones, of which a broken one is left out with a note.
func (a *app) sessionPlugins(ctx context.Context, h *host.Host, refs []string) ([]*host.Plugin, error) {
	var out []*host.Plugin
	seen := map[string]bool{}
	for _, ref := range refs {
		p, err := a.loadPlugin(ctx, h, ref)
		if err != nil {
			return nil, err
		}
		seen[p.Manifest().Name] = true
		out = append(out, p)
	}
	names, err := a.installedNames()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if seen[name] {
			continue
		}
		p, err := a.loadPlugin(ctx, h, name)
		if err != nil {
			a.h("left out: " + err.Error())
			continue
		}
		out = append(out, p)
	}
	return out, nil
}
