package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/store"
)

func inspectCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "inspect FILE.wasm|PLUGIN",
		Short: "Show what a plugin says about itself, without running it",
		Args:  exactArgs(1),

		ValidArgsFunction: a.completePlugins(1),

		RunE: func(c *cobra.Command, args []string) error { return a.inspect(c.Context(), args[0]) },
	}
}

func (a *app) inspect(ctx context.Context, ref string) error {
	b, err := a.readyModule(ctx, ref)
	if err != nil {
		return err
	}
	i, err := host.Inspect(b)
	if err != nil {
		e := abi.AsError(err)
		return abi.NewError(e.Code, "%s: %s", ref, e.Message).Because(err)
	}
	if a.json {
		writeJSON(a.out, i)
		return nil
	}
	var w strings.Builder
	if m := i.Manifest; m != nil {
		fmt.Fprintf(&w, "%s %s\n  %s\n", m.Name, m.Version, m.Description)
		if m.License != "" {
			fmt.Fprintf(&w, "  license: %s\n", m.License)
		}
		if m.Homepage != "" {
			fmt.Fprintf(&w, "  homepage: %s\n", m.Homepage)
		}
		fmt.Fprintf(&w, "abi: %d\n", m.ABI)
	}
	fmt.Fprintf(&w, "sha256: %s\nsize: %s, %d functions\n", i.Digest, sizeText(int64(i.Size)), i.Functions)
	fmt.Fprintf(&w, "memory: %s at the start%s\n", sizeText(int64(i.MemoryPages)<<16), maxMemory(i))
	fmt.Fprintf(&w, "imports: %s\n", strings.Join(i.Imports, " "))
	if m := i.Manifest; m != nil {
		a.describeManifest(&w, m)
	}
	if i.Problem != nil {
		fmt.Fprintf(&w, "it cannot be run: %s [%s]\n", i.Problem.Message, i.Problem.Code)
	}
	return a.text(printable(w.String()))
}

func maxMemory(i *host.ModuleInfo) string {
	if i.MemoryMaxPages == 0 {
		return ""
	}
	return ", at most " + sizeText(int64(i.MemoryMaxPages)<<16)
}

func (a *app) describeManifest(w *strings.Builder, m *abi.Manifest) {
	asks := store.Requests(m.Capabilities)
	if len(asks) == 0 {
		asks = []string{"nothing"}
	}
	fmt.Fprintf(w, "asks for: %s\n", strings.Join(asks, "; "))
	for _, why := range reasons(m.Requested()) {
		fmt.Fprintf(w, "  %s\n", why)
	}
	for _, t := range m.Tools {
		fmt.Fprintf(w, "tool %s (%s, %s, %s)\n  %s\n  parameters: %s\n", t.Name, or(string(t.Kind), "execute"), or(string(t.SideEffect), "non_idempotent"),
			or(string(t.Interrupt), "block"), t.Description.Short, t.Parameters)
	}
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func reasons(c *abi.Capabilities) []string {
	var out []string
	add := func(what, why string) {
		if why != "" {
			out = append(out, what+": "+why)
		}
	}
	if c.FS != nil {
		add("folders", c.FS.Why)
	}
	if c.HTTP != nil {
		add("network", c.HTTP.Why)
	}
	for _, s := range c.Secrets {
		add("secret "+s.Name, s.Why)
	}
	for _, e := range c.Env {
		add("variable "+e.Name, e.Why)
	}
	if c.KV != nil {
		add("store", c.KV.Why)
	}
	return out
}

// readyModule reads a file or an installed plugin; a folder is refused, because
// building it would run its code.
func (a *app) readyModule(ctx context.Context, ref string) ([]byte, error) {
	if isFolder(ref) {
		return nil, usage("%s is a folder; build it first: bladehost build %s", ref, ref)
	}
	return a.moduleOf(ctx, nil, ref)
}
