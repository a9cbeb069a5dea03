package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
)

func runCommand(a *app) *cobra.Command {
	var f hostFlags
	var keep journalFlags
	c := &cobra.Command{
		Use:   "run [PLUGIN] TOOL [INPUT]",
		Short: "Run one tool and print its result",
		Long: `Run one tool and print what a model would read to standard output.

PLUGIN is a plugin's source folder, a .wasm file, or the name of an installed
plugin (blade-tool-…). Without it, TOOL is looked for among the built-in tools
and the installed plugins. INPUT is a JSON object, @FILE, or - for standard
input; without it standard input is read if it is not a terminal.

Typing the command approves the call. What the plugin may touch is granted by
--allow-… flags, or for good with bladehost grant; --deny-… wins. With --json the session's events are written, a line each, the
last is the result.`,
		Example: `  bladehost run ./plugins/blade-tool-hash Hash '{"path":"go.mod"}' --allow-read .
  echo '{"a":[1,2]}' | bladehost run blade-tool-jq Jq '{"query":".a[]","json":{"a":[1,2]}}'`,
		Args:              rangeArgs(1, 3),
		ValidArgsFunction: a.completeRun,
		RunE:              func(c *cobra.Command, args []string) error { return a.runTool(c.Context(), f, keep, args) },
	}
	f.add(c.Flags())
	keep.add(c.Flags(), "none")
	return c
}

func (f *hostFlags) add(fs *pflag.FlagSet) {
	f.lend.add(fs)
	fs.StringArrayVar(&f.roots, "root", nil, "workspace `folder` of the built-in tools (may be repeated)")
	fs.StringVar(&f.timeout, "timeout", "", "stop a tool after this `duration` (default 10m)")
	fs.StringVar(&f.memoryLimit, "memory-limit", "", "memory of a plugin, as a `size` such as 64MiB (default 256MiB)")
	fs.StringVar(&f.mode, "mode", "", "permission `mode`: default, autoEdit, yolo or plan")
}

// runTool is the command run.
func (a *app) runTool(ctx context.Context, f hostFlags, keep journalFlags, args []string) error {
	ref, name, rest, err := splitRun(args)
	if err != nil {
		return err
	}
	if ref == "" {
		if ref, err = a.installedWith(name); err != nil {
			return err
		}
	}
	f.typed, f.plugin = true, ref
	input, err := a.input(ctx, rest)
	if err != nil {
		return err
	}
	opt, err := a.sessionOptions(f)
	if err != nil {
		return err
	}
	path, err := keep.path("")
	if err == nil {
		err = f.lend.keepOut(path)
	}
	if err != nil {
		return err
	}
	l, err := a.newLender(f.lend)
	if err != nil {
		return err
	}
	defer l.close()
	h, err := a.newHost(f)
	if err != nil {
		return err
	}
	defer closeHost(h)
	var plugins []*host.Plugin
	if ref != "" {
		p, err := a.loadPlugin(ctx, h, ref)
		if err != nil {
			return err
		}
		plugins = []*host.Plugin{p}
	}
	if a.json {
		opt.Events = func(e host.Event) { writeJSON(a.out, e) }
		opt.ExtendedEvents = true
	}
	for _, p := range plugins {
		if err := l.askMissing(ctx, p, name); err != nil {
			return err
		}
	}
	call := host.Call{Tool: name, Input: input, Approved: true, MessageID: "run"} // with an id, what it changes is kept: bladehost history
	r, known, err := a.runOnce(ctx, h, opt, l, path, plugins, call)
	if err == nil && r.IsError() && len(plugins) == 1 {
		var granted bool
		if granted, err = l.askFolder(ctx, plugins[0], name, r.Error); granted && err == nil {
			r, known, err = a.runOnce(ctx, h, opt, l, path, plugins, call)
		}
	}
	if err != nil {
		return err
	}
	if r.IsError() && r.Error.Code == abi.CodeToolNotFound && !a.json {
		return notFound(name, ref, known)
	}
	return a.printResult(r)
}

// runOnce makes one call in a session of its own, which is kept in the journal if
// there is one, and returns the result and the names of the session's tools.
func (a *app) runOnce(ctx context.Context, h *host.Host, opt host.SessionOptions, l *lender, path string, plugins []*host.Plugin, call host.Call) (r *abi.Result, names []string, err error) {
	k, err := a.keep(ctx, path, &opt)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, k.end(reasonOf(ctx, err))) }()
	if opt.Plugins, err = l.attach(plugins); err != nil {
		return nil, nil, err
	}
	s, err := h.NewSession(opt)
	if err != nil {
		return nil, nil, err
	}
	k.attach(s)
	for _, p := range plugins {
		if call.Grants, err = l.lentOnce(p); err != nil {
			return nil, nil, err
		}
	}
	defer l.watch(ctx, s, plugins)()
	x := s.Start(ctx, call)
	bar := a.newProgress(call.Tool)
	for y := range x.Yields() {
		bar.show(y)
	}
	bar.close()
	r, err = x.Result()
	return r, toolNames(s, plugins), err
}

// toolNames are the names that a wrong one may have meant: those of the plugin,
// if it is one, else all.
func toolNames(s *host.Session, plugins []*host.Plugin) []string {
	var out []string
	for _, p := range plugins {
		for _, t := range p.Manifest().Tools {
			out = append(out, t.Name)
		}
	}
	if len(plugins) > 0 {
		return out
	}
	for _, t := range s.Tools() {
		out = append(out, t.Name)
	}
	return out
}

// printResult writes a success to standard output and a failure to standard
// error. With --json the event said it all.
func (a *app) printResult(r *abi.Result) error {
	if r.IsError() {
		if a.json {
			return &toldError{exitOf(r.Error.Code, r.Error.Type)}
		}
		return r.Error
	}
	if a.json {
		return nil
	}
	if p, ok := r.Metadata["resultArtifactPath"].(string); ok {
		a.note("the result is large; the whole of it is in %s", p)
	}
	text := string(r.Model)
	var s string
	if json.Unmarshal(r.Model, &s) == nil {
		text = s
		if a.outTTY {
			text = printable(s)
		}
	}
	_, err := io.WriteString(a.out, text+"\n")
	if err != nil {
		return abi.NewError(abi.CodeIO, "the result cannot be written: %v", err)
	}
	return nil
}

// splitRun tells PLUGIN, TOOL and INPUT apart.
func splitRun(args []string) (plugin, name string, rest []string, err error) {
	if isPluginRef(args[0]) {
		if len(args) < 2 {
			return "", "", nil, usage("%s is a plugin; name one of its tools too: bladehost run %s TOOL [INPUT] (bladehost tools %s lists them)", args[0], args[0], args[0])
		}
		return args[0], args[1], args[2:], nil
	}
	if len(args) > 2 {
		return "", "", nil, usage("%q is neither a plugin's folder, a .wasm file nor blade-tool-…, so it names a tool, and a tool takes one INPUT", args[0])
	}
	return "", args[0], args[1:], nil
}

// isPluginRef reports whether an argument names a plugin rather than a tool.
func isPluginRef(s string) bool {
	return s == "." || s == ".." || strings.ContainsRune(s, '/') || strings.ContainsRune(s, filepath.Separator) ||
		strings.HasSuffix(s, ".wasm") || abi.ValidPackageName(s)
}

// input is the call's input: the argument, a file, standard input, or nothing.
func (a *app) input(ctx context.Context, rest []string) (json.RawMessage, error) {
	name := "-"
	switch {
	case len(rest) == 0:
		if a.inTTY {
			return json.RawMessage("{}"), nil
		}
	case strings.HasPrefix(rest[0], "@"):
		name = rest[0][1:]
	case rest[0] != "-":
		return json.RawMessage(rest[0]), nil
	}
	type read struct {
		b   json.RawMessage
		err error
	}
	done := make(chan read, 1)
	go func() { // ends with the input, or with the process: a pipe may stay open for ever
		b, err := a.readInput(name)
		done <- read{b, err}
	}()
	select {
	case r := <-done:
		return r.b, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (a *app) readInput(name string) (json.RawMessage, error) {
	r := a.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, abi.NewError(abi.CodeIO, "the input file: %v", err)
		}
		defer func() { _ = f.Close() }() // read only
		r = f
	}
	b, err := io.ReadAll(io.LimitReader(r, abi.MaxInput+1))
	if err != nil {
		return nil, abi.NewError(abi.CodeIO, "the input cannot be read: %v", err)
	}
	if len(b) > abi.MaxInput {
		return nil, abi.NewError(abi.CodeArgumentsInvalid, "the input has more than %d MiB", abi.MaxInput>>20)
	}
	if strings.TrimSpace(string(b)) == "" {
		return json.RawMessage("{}"), nil
	}
	return b, nil
}
