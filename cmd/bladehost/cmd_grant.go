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
	"github.com/bladehost/bladehost/host"
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
	c.Flags().StringVar(&toolName, "tool", "", "only for this `tool` of the plugin")
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
		base.Scope, base.Tool = policy.ScopeTool, toolName
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
		l := &lender{a: a}
		if l.p, err = a.places(); err != nil {
			return err
		}
		defer l.close()
		if err := l.open(&host.Grants{}, g.Plugin, "", g.Kind, abs, nil); err != nil {
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
	if !secretName.MatchString(v) {
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
	c.AddCommand(
		&cobra.Command{Use: "ls [PLUGIN]", Short: "List grants", Args: rangeArgs(0, 1), RunE: func(_ *cobra.Command, args []string) error {
			return a.grantsList(append(args, "")[0])
		}},
		&cobra.Command{Use: "why PLUGIN KIND VALUE", Short: "Explain whether a plugin may have something, and by which grant", Args: exactArgs(3),
			Example: "  bladehost grants why blade-tool-hash read /data/file\n  bladehost grants why blade-tool-github net api.github.com",
			RunE: func(_ *cobra.Command, args []string) error {
				return a.grantsWhy(args[0], policy.GrantKind(args[1]), args[2])
			}},
		revoke)
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

func (a *app) grantsWhy(plugin string, k policy.GrantKind, value string) error {
	if !slices.Contains(policy.GrantKinds(), k) {
		return usage("%q is no kind; there are read, write, net, net-private, env and secret", clip(string(k)))
	}
	s, err := a.store()
	if err != nil {
		return err
	}
	e, err := s.Get(plugin)
	if err != nil {
		return err
	}
	store, _, err := a.grantStore()
	if err != nil {
		return err
	}
	list, err := store.List()
	if err != nil {
		return err
	}
	if k == policy.GrantRead || k == policy.GrantWrite {
		if value, err = absPath(value); err != nil {
			return err
		}
	}
	set := policy.Effective(list, plugin, e.SHA256, "", time.Now())
	set.Covers = func(host, pattern string) bool { return caphttp.Covers(host, []string{pattern}) }
	if err := a.addBladeFiles(&set); err != nil {
		return err
	}
	why := set.Why(k, value)
	own := a.ownFolder(k, value)
	if own != "" {
		why = append(why, own+" is a folder of bladehost itself, which is never granted")
		set.Allow = nil
	}
	asked := asksFor(k, value, &abi.Manifest{Capabilities: e.Capabilities})
	if a.json {
		writeJSON(a.out, map[string]any{"plugin": plugin, "kind": k, "value": value, "granted": set.Allows(k, value) && asked, "why": why, "requested": asked})
		return nil
	}
	for _, w := range why {
		if err := a.line(w); err != nil {
			return err
		}
	}
	if own != "" {
		return a.line("so it is not granted, and a grant would not help")
	}
	return a.line(verdict(plugin, k, value, set, asked))
}

// bladeFileID stands for an id where blade.yaml decides.
const bladeFileID = "blade.yaml"

// addBladeFiles adds what blade.yaml says, of the user and of this folder, as far as it
// always counts.
func (a *app) addBladeFiles(set *policy.GrantSet) error {
	p, err := a.places()
	if err != nil {
		return err
	}
	f, err := a.readBladeFiles(p, "")
	if err != nil {
		return err
	}
	for _, k := range policy.GrantKinds() {
		for i, v := range slices.Concat(f.allow[k], f.deny[k]) {
			g := policy.Grant{ID: bladeFileID, Kind: k, Value: v, Deny: i >= len(f.allow[k])}
			if k == policy.GrantRead || k == policy.GrantWrite {
				if g.Value, err = absPath(v); err != nil {
					return err
				}
			}
			if g.Deny {
				set.Deny[k] = append(set.Deny[k], g)
			} else {
				set.Allow[k] = append(set.Allow[k], g)
			}
		}
	}
	return nil
}

// ownFolder is the one of our own folders that a path lies in, or empty.
func (a *app) ownFolder(k policy.GrantKind, path string) string {
	p, err := a.places()
	if err != nil || k != policy.GrantRead && k != policy.GrantWrite {
		return ""
	}
	for _, own := range p.own() {
		if below(own, path) {
			return own
		}
	}
	return ""
}

// verdict says what it comes to, and what would change it.
func verdict(plugin string, k policy.GrantKind, value string, set policy.GrantSet, asked bool) string {
	switch denied := set.Denies(k, value); {
	case set.Allows(k, value) && asked:
		return "so it is granted"
	case denied == bladeFileID:
		return "so it is not granted; the denial is in blade.yaml, of this folder or of the user"
	case denied != "":
		return "so it is not granted; take the denial back with: bladehost grants revoke " + denied
	case !asked:
		return "so it is not granted, and a grant would not help: the plugin's manifest does not ask for it"
	case (k == policy.GrantRead || k == policy.GrantWrite) && !isFolder(value):
		value = filepath.Dir(value)
	}
	return "so it is not granted; grant it with: bladehost grant " + plugin + " --allow-" + string(k) + " " + value
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
