package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bladehost/bladehost/abi"
	caphttp "github.com/bladehost/bladehost/host/caps/http"
	"github.com/bladehost/bladehost/host/policy"
)

func (a *app) grantStore() (*policy.GrantStore, places, error) {
	p, err := a.places()
	if err != nil {
		return nil, p, err
	}
	return policy.OpenGrants(filepath.Join(p.config, "grants.json")), p, nil
}

func grantCommand(a *app) *cobra.Command {
	var f lendFlags
	var toolName, lasts string
	c := &cobra.Command{
		Use:   "grant PLUGIN --allow-… VALUE",
		Short: "Grant an installed plugin something, or deny it",
		Long: `Grant an installed plugin folders, hosts, variables or secrets, until you revoke
it. The grant is bound to the plugin's module: another one of the same name has
none of it. A denial (--deny-…) wins over every grant and flag.`,
		Example: `  bladehost grant blade-tool-github --allow-net api.github.com --allow-secret GITHUB_TOKEN
  bladehost grant blade-tool-hash --allow-read ~/data --for 24h`,
		Args: exactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.grant(c.Context(), args[0], f, toolName, lasts) },
	}
	f.add(c.Flags())
	c.Flags().StringVar(&toolName, "tool", "", "only for this `tool` of the plugin; a denial, too, is for it alone")
	c.Flags().StringVar(&lasts, "for", "", "for this `duration` only, such as 24h")
	return c
}

// grant keeps what the flags say for an installed plugin.
func (a *app) grant(ctx context.Context, name string, f lendFlags, toolName, lasts string) error {
	s, err := a.store()
	if err != nil {
		return err
	}
	e, err := s.Get(name)
	if err != nil {
		return err
	}
	m, err := a.installedManifest(name)
	if err != nil {
		return err
	}
	base := policy.Grant{Plugin: name, Digest: e.SHA256, Scope: policy.ScopePlugin, Asked: policy.Asked(m)}
	if toolName != "" {
		if !contains(e.ToolNames(), toolName) {
			return notFound(toolName, name, e.ToolNames())
		}
		base.Scope, base.Tool = policy.ScopeTool, canonicalTool(m, toolName)
	}
	if lasts != "" {
		d, err := time.ParseDuration(lasts)
		if err != nil || d <= 0 {
			return usage("--for %s: give a duration such as 24h", lasts)
		}
		until := time.Now().Add(d).UTC().Truncate(time.Second)
		base.Expires = &until
	}
	list, err := a.newGrants(base, m, f)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return usage("nothing to grant; give --allow-… or --deny-… flags (see bladehost inspect %s for what it asks for)", name)
	}
	store, _, err := a.grantStore()
	if err != nil {
		return err
	}
	if err := store.Add(ctx, list...); err != nil {
		return err
	}
	if a.json {
		writeJSON(a.out, map[string]any{"granted": list})
		return nil
	}
	for _, g := range list {
		a.note("%s: %s", name, g)
		if !g.Deny && !asksFor(g.Kind, g.Value, m) {
			a.note("%s %s does not ask for that, so it will not count; bladehost inspect %s shows what it asks for", a.paint(a.errTTY, yellow, "careful:"), name, name)
		}
	}
	return nil
}

// newGrants makes the grants of flags, each value checked.
func (a *app) newGrants(base policy.Grant, m *abi.Manifest, f lendFlags) ([]policy.Grant, error) {
	var out []policy.Grant
	for _, k := range policy.GrantKinds() {
		allow := *f.allow[k]
		if f.all {
			allow = append(allow, requested(k, m)...)
		}
		for i, v := range append(slices.Clone(allow), *f.deny[k]...) {
			g := base
			g.Kind, g.Value, g.Deny = k, v, i >= len(allow)
			if err := a.completeGrant(&g); err != nil {
				return nil, err
			}
			out = append(out, g)
		}
	}
	return out, nil
}

// completeGrant checks a value and makes it whole: folders are absolute and real.
func (a *app) completeGrant(g *policy.Grant) error {
	switch g.Kind {
	case policy.GrantRead, policy.GrantWrite:
		abs, err := absPath(g.Value)
		if err != nil {
			return err
		}
		g.Value = abs
		real, err := filepath.EvalSymlinks(abs)
		if err != nil {
			if g.Deny {
				return nil
			}
			return usage("--allow-%s %s: %v", g.Kind, g.Value, err)
		}
		g.Real = real
		if g.Deny {
			return nil
		}
		p, err := a.places()
		if err != nil {
			return err
		}
		l := newLender(a, p)
		defer l.close()
		if _, err := l.open(g.Plugin, g.Kind, abs, "", nil); err != nil {
			return usage("--allow-%s %s: %v", g.Kind, g.Value, err)
		}
	default:
		if err := checkValue(g.Kind, g.Value); err != nil {
			return usage("%s: %v", g, err)
		}
	}
	return nil
}

// checkValue refuses a value that means nothing for its kind.
func checkValue(k policy.GrantKind, v string) error {
	switch k {
	case policy.GrantRead, policy.GrantWrite:
		_, err := absPath(v)
		return err
	case policy.GrantNetPrivate:
		name, port, _ := strings.Cut(v, ":")
		if _, err := netip.ParseAddr(name); port == "" || strings.Contains(port, ":") || strings.HasPrefix(v, "*") || err == nil {
			return fmt.Errorf("%q: give one name with its port, such as git.corp:443 (an address is allowed as it is: --allow-net ADDRESS:PORT)", clip(v))
		}
		return caphttp.CheckPattern(v)
	case policy.GrantNet:
		return caphttp.CheckPattern(v)
	}
	if !isName(v) {
		return fmt.Errorf("%q is no name", clip(v))
	}
	return nil
}

// asksFor reports whether a manifest asks for something, so that a grant of it
// counts.
func asksFor(k policy.GrantKind, v string, m *abi.Manifest) bool {
	c := m.Requested()
	switch k {
	case policy.GrantRead:
		return c.FS != nil
	case policy.GrantWrite:
		return c.FS != nil && c.FS.Write
	case policy.GrantNet, policy.GrantNetPrivate:
		name, _, err := net.SplitHostPort(v)
		if err != nil {
			name = v
		}
		return c.HTTP != nil && (slices.Contains(c.HTTP.Hosts, v) || caphttp.Covers(strings.TrimPrefix(name, "*."), c.HTTP.Hosts))
	}
	return slices.Contains(requested(k, m), v)
}

func grantsCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "grants",
		Short: "List, explain and revoke grants",
		Args:  exactArgs(0),
		RunE:  func(*cobra.Command, []string) error { return a.grantsList("") },
	}
	var all bool
	revoke := &cobra.Command{
		Use:   "revoke ID|PLUGIN",
		Short: "Revoke a grant, or all grants of a plugin; running calls lose access within a second",
		Args:  exactArgs(1),
		RunE:  func(c *cobra.Command, args []string) error { return a.grantsRevoke(c.Context(), args[0], all) },
	}
	revoke.Flags().BoolVar(&all, "denials", false, "with a plugin's name: its denials too")
	var toolName string
	why := &cobra.Command{
		Use: "why PLUGIN KIND VALUE", Short: "Explain whether a plugin's tools may have something, and by which grant", Args: exactArgs(3),
		Example: "  bladehost grants why blade-tool-hash read /data/file\n  bladehost grants why blade-tool-github net api.github.com",
		RunE: func(_ *cobra.Command, args []string) error {
			return a.grantsWhy(whyQuestion{args[0], toolName, policy.GrantKind(args[1]), args[2]})
		},
	}
	why.Flags().StringVar(&toolName, "tool", "", "only about this `tool` of the plugin")
	c.AddCommand(
		&cobra.Command{Use: "ls [PLUGIN]", Short: "List grants", Args: rangeArgs(0, 1), RunE: func(_ *cobra.Command, args []string) error {
			return a.grantsList(append(args, "")[0])
		}},
		why, revoke)
	return c
}

func (a *app) grantsList(plugin string) error {
	store, _, err := a.grantStore()
	if err != nil {
		return err
	}
	list, err := store.List()
	if err != nil {
		return err
	}
	if plugin != "" {
		list = slices.DeleteFunc(list, func(g policy.Grant) bool { return g.Plugin != plugin })
	}
	if a.json {
		writeJSON(a.out, map[string]any{"grants": list})
		return nil
	}
	if len(list) == 0 {
		a.note("nothing is granted")
		return nil
	}
	var rows [][]string
	for _, g := range list {
		word := "allow"
		if g.Deny {
			word = "deny"
		}
		until := "until revoked"
		if g.Expires != nil {
			until = g.Expires.Format(time.RFC3339)
		}
		rows = append(rows, []string{g.ID, g.Plugin, word, string(g.Kind), g.Value, or(g.Tool, "all"), until, a.standing(g)})
	}
	return a.table([]string{"ID", "PLUGIN", "", "KIND", "VALUE", "TOOL", "EXPIRES", "STATE"}, rows)
}

// standing says whether a grant counts now.
func (a *app) standing(g policy.Grant) string {
	if g.Expires != nil && time.Now().After(*g.Expires) {
		return "expired"
	}
	s, err := a.store()
	if err != nil {
		return "?"
	}
	e, err := s.Get(g.Plugin)
	switch {
	case err != nil:
		return "not installed"
	case !g.Deny && e.SHA256 != g.Digest:
		return "other module"
	case !g.Deny && !asksFor(g.Kind, g.Value, &abi.Manifest{Capabilities: e.Capabilities}):
		return "not asked for"
	}
	return "in force"
}

func (a *app) grantsRevoke(ctx context.Context, what string, denials bool) error {
	store, _, err := a.grantStore()
	if err != nil {
		return err
	}
	gone, err := store.Revoke(ctx, func(g policy.Grant) bool { return g.ID == what || g.Plugin == what && (!g.Deny || denials) })
	if err != nil {
		return err
	}
	if len(gone) == 0 {
		return usage("there is no grant with the id, or for the plugin, %s; see: bladehost grants ls", what)
	}
	if a.json {
		writeJSON(a.out, map[string]any{"revoked": gone})
		return nil
	}
	for _, g := range gone {
		a.note("revoked %s: %s", g.ID, g)
	}
	return nil
}
