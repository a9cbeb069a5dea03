package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/tool"
)

// app is what the commands share. It is made once a process and holds no state
// of a particular command.
type app struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	// inTTY, outTTY and errTTY say which streams are a terminal.
	inTTY, outTTY, errTTY bool
	// answers is what remains of the terminal's input after a question.
	answers *bufio.Reader

	// self is this program's own file, or empty: see compileVerb.
	self string

	json    bool
	verbose bool
}

// compileVerb is the first argument of the process that compiles a module for
// another bladehost, within bounds of time and memory. It is for nobody else.
const compileVerb = "__compile-module"

// pdfVerb is the first argument of the process that reads the text of a PDF for the
// tool Read of another bladehost. It is for nobody else.
const pdfVerb = "__read-pdf"

// start runs the command line of the process.
func start(args []string) int {
	if len(args) > 0 && args[0] == compileVerb {
		return host.CompileInChild(args[1:], os.Stdin, os.Stdout)
	}
	if len(args) > 0 && args[0] == pdfVerb {
		return builtin.PDFMain(os.Stdin, os.Stdout)
	}
	a := &app{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv,
		inTTY: term.IsTerminal(int(os.Stdin.Fd())), outTTY: term.IsTerminal(int(os.Stdout.Fd())), errTTY: term.IsTerminal(int(os.Stderr.Fd())),
	}
	if self, err := os.Executable(); err == nil {
		a.self = self
	}
	ctx, stop := withSignals(context.Background())
	defer stop()
	return a.run(ctx, args)
}

// withSignals cancels the context at the first SIGINT or SIGTERM, with the
// signal as the cause's detail, and ends the process at the second.
func withSignals(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	c := make(chan os.Signal, 2)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	var seen atomic.Bool
	done := make(chan struct{})
	go func() { // ends with stop
		for {
			select {
			case s := <-c:
				if seen.Swap(true) {
					os.Exit(signalExit(s))
				}
				cancel(&tool.CancelError{Reason: abi.CancelRequest, Detail: s.String()})
			case <-done:
				return
			}
		}
	}()
	return ctx, func() { signal.Stop(c); close(done); cancel(nil) }
}

func signalExit(s os.Signal) int {
	if s == syscall.SIGTERM {
		return exitTerminated
	}
	return exitInterrupted
}

// run executes one command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	out := &sticky{w: a.out}
	a.out = out
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	if lost := out.failed(); lost != nil && err == nil {
		err = abi.NewError(abi.CodeIO, "standard output cannot be written: %v", lost)
	}
	if err != nil {
		a.report(err)
	}
	return exitCode(ctx, err)
}

// sticky remembers that a writer failed: output that nobody got is no success,
// whoever wrote it.
type sticky struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

func (s *sticky) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err != nil {
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
	}
	return n, err
}

func (s *sticky) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// rootCommand is the one list of verbs.
func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "bladehost",
		Short: "Run AI-agent tools, sandboxed",
		Long: `bladehost runs the tools of AI agents: WebAssembly plugins called blade-tool-…,
each in a sandbox of its own, and the built-in tools, under one policy.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          knownVerb,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.PersistentFlags().BoolVar(&a.json, "json", false, "write machine-readable JSON to standard output")
	root.PersistentFlags().BoolVarP(&a.verbose, "verbose", "v", false, "show what plugins log, on standard error")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage("%v; see %s --help", err, c.CommandPath())
	})
	for _, make := range commands() {
		c := make(a)
		a.complete(c)
		root.AddCommand(c)
	}
	root.AddCommand(exitCodesTopic())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch {
		case c.Name() == "help":
			c.Args = knownTopic
		case c.HasSubCommands():
			c.Args = knownVerb
			if !c.Runnable() { // else nobody looks at Args
				c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
			}
		}
	}
	return root
}

// knownTopic refuses to help with a command that there is not.
func knownTopic(c *cobra.Command, args []string) error {
	at := c.Root()
	for _, word := range args {
		next := slices.IndexFunc(at.Commands(), func(c *cobra.Command) bool { return c.Name() == word || c.HasAlias(word) })
		if next < 0 {
			return knownVerb(at, []string{word})
		}
		at = at.Commands()[next]
	}
	return nil
}

// exitCodesTopic is a page of the help: a command that does nothing.
func exitCodesTopic() *cobra.Command {
	var text strings.Builder
	text.WriteString("Every command ends with one of these exit codes:\n")
	for _, d := range exitDocs {
		fmt.Fprintf(&text, "\n  %3d  %s", d.Code, d.Meaning)
	}
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: text.String()}
}

// knownVerb refuses a first word that is no verb, with what it may have meant.
func knownVerb(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var verbs []string
	for _, v := range c.Commands() {
		if v.IsAvailableCommand() || v.Name() == "help" {
			verbs = append(verbs, v.Name())
		}
	}
	if !c.HasParent() && isPluginRef(args[0]) {
		return usage("%q is no command; did you mean: bladehost run %s TOOL [INPUT]?", args[0], args[0])
	}
	if near := didYouMean(args[0], verbs); near != "" {
		return usage("%q is no command%s%s", args[0], under(c), near)
	}
	return usage("%q is no command%s; there are %s", args[0], under(c), strings.Join(verbs, ", "))
}

func under(c *cobra.Command) string {
	if !c.HasParent() {
		return ""
	}
	return " of " + c.CommandPath()
}

func usage(format string, args ...any) *abi.Error {
	return abi.NewError(abi.CodeUsage, format, args...)
}

// exactArgs is cobra.ExactArgs with an error of ours.
func exactArgs(n int) cobra.PositionalArgs { return rangeArgs(n, n) }

func rangeArgs(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) >= least && (most < 0 || len(args) <= most) {
			return nil
		}
		return usage("%s was given %d arguments; usage: %s", c.CommandPath(), len(args), c.UseLine())
	}
}

// report tells a person what went wrong, on standard error.
func (a *app) report(err error) {
	var told *toldError
	if errors.As(err, &told) {
		return
	}
	e := abi.AsError(err)
	if a.json {
		writeJSON(a.err, map[string]any{"error": e})
		return
	}
	line := e.Message
	if e.Code != "" {
		line += " [" + string(e.Code) + "]"
	}
	_, _ = fmt.Fprintf(a.err, "%s %s\n", a.paint(a.errTTY, red, "error:"), printable(line)) // nobody left to tell
}

// toldError is a failure that the command has shown already: it only sets the
// exit code.
type toldError struct{ code int }

func (e *toldError) Error() string { return fmt.Sprintf("exit code %d", e.code) }
