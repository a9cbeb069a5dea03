package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/store"
	"github.com/bladehost/bladehost/host/tool"
)

func installCommand(a *app) *cobra.Command {
	var accept bool
	c := &cobra.Command{
		Use:   "install FILE.wasm|DIR",
		Short: "Install a plugin",
		Long: `Install a plugin from a file or a source folder. The module is kept under its
SHA-256, and lock.json remembers what its tools and requests were. A plugin of
the same name that differs is refused, with the difference, until you accept it.
Installing compiles ahead, so that the first call is fast. It grants nothing.`,
		Args: exactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.install(c.Context(), args[0], accept) },
	}
	c.Flags().BoolVar(&accept, "accept", false, "take a plugin that differs from the installed one")
	return c
}

func (a *app) install(ctx context.Context, ref string, accept bool) error {
	h, err := a.newHost(hostFlags{})
	if err != nil {
		return err
	}
	defer closeHost(h)
	module, err := a.moduleOf(ctx, h, ref)
	if err != nil {
		return err
	}
	info, err := usable(ref, module)
	if err != nil {
		return err
	}
	p, err := h.LoadPlugin(module, host.PluginOptions{Origin: ref})
	if err != nil {
		return about(ref, err)
	}
	if _, err := p.Compile(ctx); err != nil {
		return about(ref, err)
	}
	s, err := a.store()
	if err != nil {
		return err
	}
	a.warnSimilar(s, info.Manifest.Name)
	source := ref
	if abs, err := filepath.Abs(ref); err == nil {
		source = "file:" + abs
	}
	now, was, err := s.Install(ctx, store.Candidate{Module: module, Manifest: info.Manifest, RawManifest: info.RawManifest, Imports: info.Imports, Source: source}, accept)
	if err != nil {
		return acceptWith(ref, err)
	}
	return a.installed(now, was)
}

// acceptWith adds the command that takes a plugin all the same.
func acceptWith(ref string, err error) error {
	var e *abi.Error
	if !errors.As(err, &e) || e.Code != abi.CodeChanged {
		return err
	}
	if strings.HasPrefix(ref, "-") {
		ref = "./" + ref // no flag
	}
	c := *e
	c.Message += "\naccept it with: bladehost install --accept " + shellQuote(ref)
	return &c
}

func (a *app) installed(now, was *store.Entry) error {
	if a.json {
		writeJSON(a.out, map[string]any{"installed": now, "replaced": was})
		return nil
	}
	switch {
	case was == nil:
		a.note("installed %s %s: %s", now.Name, now.Version, strings.Join(now.ToolNames(), ", "))
	case was.SHA256 == now.SHA256:
		a.note("%s %s is installed already", now.Name, now.Version)
	default:
		a.note("replaced %s %s with %s:\n  %s", now.Name, was.Version, now.Version, strings.Join(store.Diff(was, now), "\n  "))
	}
	if asks := store.Requests(now.Capabilities); len(asks) > 0 {
		a.note("it asks for: %s. Nothing is granted; grant it with --allow-… flags of run and session, or for good with bladehost grant", strings.Join(asks, "; "))
	}
	return nil
}

// warnSimilar tells of an installed plugin whose name is easily taken for this one.
func (a *app) warnSimilar(s *store.Store, name string) {
	list, err := s.List()
	if err != nil {
		return // the install itself will say so
	}
	for _, e := range list {
		if e.Name != name && host.Similar(e.Name, name) {
			a.note("%s the name %s is easily taken for %s, which is installed", a.paint(a.errTTY, yellow, "careful:"), name, e.Name)
		}
	}
}

func listCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the installed plugins",
		Args:  exactArgs(0),
		RunE: func(*cobra.Command, []string) error {
			s, err := a.store()
			if err != nil {
				return err
			}
			list, err := s.List()
			if err != nil {
				return err
			}
			if a.json {
				writeJSON(a.out, map[string]any{"plugins": list})
				return nil
			}
			if len(list) == 0 {
				a.note("no plugin is installed; install one with: bladehost install FILE.wasm")
				return nil
			}
			var rows [][]string
			for _, e := range list {
				rows = append(rows, []string{e.Name, e.Version, sizeText(e.Size), strings.Join(e.ToolNames(), ", "), e.SHA256[:12]})
			}
			return a.table([]string{"NAME", "VERSION", "SIZE", "TOOLS", "SHA256"}, rows)
		},
	}
}

func removeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "remove PLUGIN",
		Short: "Remove an installed plugin",
		Args:  exactArgs(1),

		ValidArgsFunction: a.completeInstalled,

		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.store()
			if err != nil {
				return err
			}
			e, err := s.Remove(c.Context(), args[0])
			if err != nil {
				return err
			}
			if a.json {
				writeJSON(a.out, map[string]any{"removed": e})
				return nil
			}
			a.note("removed %s %s", e.Name, e.Version)
			return nil
		},
	}
}

func isFolder(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}

func toolsCommand(a *app) *cobra.Command {
	var f hostFlags
	c := &cobra.Command{
		Use:   "tools [PLUGIN]",
		Short: "List the tools of a plugin, or all there are",
		Args:  rangeArgs(0, 1),

		ValidArgsFunction: a.completePlugins(1),

		RunE: func(c *cobra.Command, args []string) error { return a.tools(c.Context(), f, args) },
	}
	c.Flags().StringVar(&f.mode, "mode", "", "permission `mode` to show them for")
	return c
}

func (a *app) tools(ctx context.Context, f hostFlags, args []string) error {
	h, err := a.newHost(f)
	if err != nil {
		return err
	}
	defer closeHost(h)
	opt, err := a.sessionOptions(f)
	if err != nil {
		return err
	}
	services := map[string]tool.Service{}
	opt.Services = services
	refs := args
	if len(args) == 0 {
		if refs, err = a.installedNames(); err != nil {
			return err
		}
	}
	for _, ref := range refs {
		p, err := a.loadPlugin(ctx, h, ref)
		if err != nil {
			if len(args) > 0 {
				return err
			}
			a.note("%s %v", a.paint(a.errTTY, yellow, "left out:"), err)
			continue
		}
		opt.Plugins = append(opt.Plugins, host.Attachment{Plugin: p})
		for _, t := range p.Manifest().Tools {
			for _, name := range t.Services { // without its services a tool is not there
				services[name] = absentService{}
			}
		}
	}
	s, err := h.NewSession(opt)
	if err != nil {
		return err
	}
	var list []host.ToolInfo
	for _, t := range s.Tools() {
		if len(args) == 0 || t.Plugin != nil {
			list = append(list, t)
		}
	}
	if a.json {
		writeJSON(a.out, map[string]any{"tools": list})
		return nil
	}
	var rows [][]string
	for _, t := range list {
		from := string(t.Source.Kind)
		if t.Plugin != nil {
			from = t.Plugin.Name
		}
		rows = append(rows, []string{t.Name, string(t.Behavior.Kind), string(t.Behavior.SideEffect), from, t.Description.Short})
	}
	if len(rows) == 0 {
		a.note("there are no tools; install a plugin with: bladehost install FILE.wasm")
		return nil
	}
	return a.table([]string{"TOOL", "KIND", "SIDE EFFECT", "FROM", "DESCRIPTION"}, rows)
}

func (a *app) installedNames() ([]string, error) {
	s, err := a.store()
	if err != nil {
		return nil, err
	}
	list, err := s.List()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Name)
	}
	return out, nil
}
