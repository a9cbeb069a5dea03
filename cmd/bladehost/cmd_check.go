package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
)

func checkCommand(a *app) *cobra.Command {
	var rules strings.Builder
	for _, r := range checkRules {
		fmt.Fprintf(&rules, "\n  %s  %s", r.ID, r.Text)
	}
	return &cobra.Command{
		Use:   "check FILE.wasm|DIR",
		Short: "Check that a plugin keeps the contract and the package convention",
		Long: `Check a plugin as its author would before publishing it: the manifest, the
schemas, what it asks for, the module itself and the README. The module is really
started, with nothing granted: it describes itself twice, and each tool runs with
small inputs. A folder is built first; only there the README and the source are
looked at (for a file, a README beside it that is about the plugin).

Each finding has the id of a rule, and says where and how to mend it. An error
means exit code 1; warnings do not. The rules:
` + rules.String(),
		Args:              exactArgs(1),
		ValidArgsFunction: a.completePlugins(1),
		RunE:              func(c *cobra.Command, args []string) error { return a.check(c.Context(), args[0]) },
	}
}

// severity of a finding. An error makes the check fail.
type severity string

const (
	sevError severity = "error"
	sevWarn  severity = "warn"
)

// finding is one thing to mend.
type finding struct {
	Rule     string   `json:"rule"`
	Severity severity `json:"severity"`
	// Where is a JSON Pointer into the manifest, a file, or "module".
	Where   string `json:"where"`
	Message string `json:"message"`
	Fix     string `json:"fix"`
}

// checkReport is what check prints.
type checkReport struct {
	File     string    `json:"file"`
	Findings []finding `json:"findings"`
	Errors   int       `json:"errors"`
	Warnings int       `json:"warnings"`
}

// checkRules are the rules by id, for the help and docs/cli.md.
var checkRules = []struct{ ID, Text string }{
	{"V00", "the manifest is strict JSON, and each member has the shape that abi/SPEC.md says"},
	{"V01", "the name is blade-tool-x or @scope/blade-tool-x, in lower-case kebab-case"},
	{"V02", "the name says what the plugin is for: not blade-tool-utils"},
	{"V03", "the version is semantic; the ABI and the required features are this host's"},
	{"V04", "the manifest section is, byte for byte, what blade_describe answers, each time"},
	{"V05", "the module imports and exports what the ABI has, and nothing else of the host"},
	{"V06", "every tool states its sideEffect, and its kind"},
	{"V07", "every tool states its interruptBehavior"},
	{"V08", "schemas compile, describe an object, know their keywords and describe every property"},
	{"V09", "every tool, really run with nothing granted, ends with a result within 5 s; examples fit their schema"},
	{"V10", "no credential is in the module, and no variable is read that the manifest does not ask for"},
	{"V11", "hosts are named, none is private"},
	{"V12", "parameters that are paths are named in pathParams when folders are asked for"},
	{"V17", "the README has the tools, permissions, environment variables, side effects and an example"},
	{"V18", "names and aliases differ, and none is reserved or built in"},
	{"V19", "services are known"},
	{"V20", "what the tools say they do and what the plugin asks for do not contradict each other"},
	{"V21", "module and memory are small, and the README says how much memory it takes"},
	{"V22", "there is a licence, in the manifest and as a file"},
	{"V23", "the manifest has no members that nobody reads"},
}

// checker collects what is to be mended in one plugin.
type checker struct {
	a *app
	h *host.Host
	// dir is the source folder, or "".
	dir string
	// code is the module without its manifest section; section is that section
	// and told what the module says about itself: nil where there is none.
	code          []byte
	section, told json.RawMessage
	// whole is the module as it is, foreign that it was made for Extism.
	whole    []byte
	foreign  bool
	manifest *abi.Manifest
	// valid says that a host would accept the manifest, runs that it would load
	// the module.
	valid, runs bool

	report checkReport
}

func (c *checker) add(rule string, s severity, where, fix, format string, args ...any) {
	c.report.Findings = append(c.report.Findings, finding{rule, s, where, fmt.Sprintf(format, args...), fix})
}

func (a *app) check(ctx context.Context, ref string) error {
	h, err := a.newHost(hostFlags{})
	if err != nil {
		return err
	}
	defer closeHost(h)
	c := &checker{a: a, h: h, report: checkReport{File: ref, Findings: []finding{}}}
	if err := c.load(ctx, ref); err != nil {
		return err
	}
	if err := c.checkAll(ctx, ref); err != nil {
		return err
	}
	return a.checked(c)
}

// load reads or builds the module. What is no module at all is no finding but an
// error.
func (c *checker) load(ctx context.Context, ref string) error {
	var module []byte
	var err error
	if isFolder(ref) {
		c.dir = ref
		module, err = c.a.compileFolder(ctx, ref)
	} else {
		module, err = c.a.moduleOf(ctx, c.h, ref)
	}
	if err != nil {
		return err
	}
	c.whole = module
	if c.code, c.section, err = host.SplitManifest(module); err != nil {
		e := abi.AsError(err)
		return abi.NewError(e.Code, "%s: %s", ref, e.Message).Because(err)
	}
	return nil
}

// checkAll applies all rules. Its errors are no findings: the user stopped it.
func (c *checker) checkAll(ctx context.Context, ref string) error {
	c.module()
	if err := c.describe(ctx); err != nil {
		return err
	}
	c.readManifest()
	if c.manifest != nil {
		c.definitions()
		c.requests()
		c.schemas()
	}
	c.credentials()
	c.source()
	c.readme(ref)
	if c.valid && c.runs {
		if err := c.runTools(ctx); err != nil {
			return err
		}
	}
	slices.SortStableFunc(c.report.Findings, func(a, b finding) int { return strings.Compare(a.Rule, b.Rule) })
	for _, f := range c.report.Findings {
		if f.Severity == sevError {
			c.report.Errors++
		} else {
			c.report.Warnings++
		}
	}
	return nil
}

// checked prints the report and sets the exit code.
func (a *app) checked(c *checker) error {
	r := &c.report
	var failed error
	if r.Errors > 0 {
		failed = &toldError{exitFailed}
	}
	if a.json {
		writeJSON(a.out, r)
		return failed
	}
	var w strings.Builder
	for _, f := range r.Findings {
		colour := yellow
		if f.Severity == sevError {
			colour = red
		}
		// The columns are padded before they are painted.
		fmt.Fprintf(&w, "%s %s %s: %s\n", a.paint(a.outTTY, colour, fmt.Sprintf("%-5s", f.Severity)), f.Rule, printable(f.Where), indented(printable(f.Message)))
		fmt.Fprintf(&w, "          to mend it: %s\n", indented(printable(f.Fix)))
	}
	name := r.File
	if m := c.manifest; m != nil && m.Name != "" {
		name = fmt.Sprintf("%s %s", m.Name, m.Version)
	}
	fmt.Fprintf(&w, "%s: %s, %s\n", printable(name), count(r.Errors, "error"), count(r.Warnings, "warning"))
	if err := a.text(w.String()); err != nil {
		return err
	}
	return failed
}

func indented(s string) string { return strings.ReplaceAll(s, "\n", "\n          ") }

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
