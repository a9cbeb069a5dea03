package host

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/bladehost/bladehost/abi"
	capfs "github.com/bladehost/bladehost/host/caps/fs"
	caphttp "github.com/bladehost/bladehost/host/caps/http"
	"github.com/bladehost/bladehost/host/caps/secrets"
	"github.com/bladehost/bladehost/host/internal/engine"
	"github.com/bladehost/bladehost/host/tool"
)

// ToolGrants is what a user granted one tool of a plugin, or one call, beside what the
// plugin is granted. No other tool of the plugin, and no other call, has any of it.
type ToolGrants struct {
	// Folders are more folders. One of the same path as one of the plugin's takes its
	// place.
	Folders []*capfs.Grant
	// Env are more environment variables.
	Env map[string]string
	// Net, NetPrivate and DenyNet are as in Grants. DenyNet wins over the plugin's, too.
	Net, NetPrivate, DenyNet []string
	// Secrets are more secrets. Their values are in the plugin's SecretSources.
	Secrets []secrets.Grant
}

// with is g and t.
func (g Grants) with(t ToolGrants) Grants {
	if len(t.Folders) > 0 {
		g.Folders = slices.Clone(g.Folders)
	}
	for _, f := range t.Folders {
		same := func(o *capfs.Grant) bool { return o.GuestPath() == f.GuestPath() }
		if i := slices.IndexFunc(g.Folders, same); i >= 0 {
			g.Folders[i] = f
		} else {
			g.Folders = append(g.Folders, f)
		}
	}
	if len(t.Env) > 0 {
		env := map[string]string{}
		maps.Copy(env, g.Env)
		maps.Copy(env, t.Env)
		g.Env = env
	}
	g.Net = slices.Concat(g.Net, t.Net)
	g.NetPrivate = slices.Concat(g.NetPrivate, t.NetPrivate)
	g.DenyNet = slices.Concat(g.DenyNet, t.DenyNet)
	g.Secrets = slices.Concat(g.Secrets, t.Secrets)
	return g
}

// of is what one tool is lent, or one call of it that has grants of its own.
func (g Grants) of(name string, call *ToolGrants) Grants {
	out := g.with(g.Tools[name])
	if call != nil {
		out = out.with(*call)
	}
	out.Tools = nil
	return out
}

// check refuses grants that mean nothing.
func (g Grants) check(m *abi.Manifest) error {
	patterns := slices.Concat(g.Net, g.NetPrivate, g.DenyNet)
	for _, name := range slices.Sorted(maps.Keys(g.Tools)) {
		if !slices.ContainsFunc(m.Tools, func(t abi.ToolSpec) bool { return t.Name == name }) {
			return abi.NewError(abi.CodeOptions, "something is granted to the tool %q, which %s does not have", clip(name), m.Name)
		}
		t := g.Tools[name]
		patterns = append(patterns, slices.Concat(t.Net, t.NetPrivate, t.DenyNet)...)
	}
	for _, p := range patterns {
		if err := caphttp.CheckPattern(p); err != nil {
			return abi.NewError(abi.CodeOptions, "the granted host %v", err)
		}
	}
	return nil
}

// lending is what one session lends a plugin, as far as its tools share it.
type lending struct {
	plugin *Plugin
	// cwd is where the session works.
	cwd string
	// http is what the manifest asks for; base has the connections. Both are nil where it
	// asks for none.
	http    *abi.HTTPRequest
	base    *caphttp.Client
	methods []string
	// vault has the secrets of all tools, so that what one of them used is taken out of
	// what another one gets. It is nil where the manifest asks for none.
	vault    *secrets.Vault
	required []string
	config   json.RawMessage

	mu     sync.Mutex
	grants Grants
	// lent are the tools, and the calls that are lent something of their own.
	lent map[*guestInfo]struct{}
}

// guestInfo is what the pipeline knows about a guest beyond its definition.
type guestInfo struct {
	manifest *abi.Manifest
	name     string
	grants   Grants
	env      map[string]string
	digest   string
	of       *lending
	network  *network
	// call are the grants of one call alone, or nil.
	call *ToolGrants
}

func (a Attachment) lending(cwd string) (*lending, error) {
	m, g := a.Plugin.Manifest(), a.Grants
	if err := g.check(m); err != nil {
		return nil, err
	}
	l := &lending{plugin: a.Plugin, cwd: cwd, grants: g, lent: map[*guestInfo]struct{}{}}
	if err := l.settings(m, g); err != nil {
		return nil, err
	}
	for _, want := range m.Requested().Secrets {
		if want.Required {
			l.required = append(l.required, want.Name)
		}
	}
	if len(m.Requested().Secrets) > 0 {
		l.vault = secrets.NewVault(g.SecretSources, nil, caphttp.Covers)
	}
	if l.http = m.Requested().HTTP; l.http != nil {
		if l.methods = l.http.Methods; l.methods == nil {
			l.methods = []string{http.MethodGet, http.MethodHead}
		}
		l.base = caphttp.New(caphttp.Options{Resolver: g.Resolver, Policy: caphttp.Policy{Hosts: []string{}}})
	}
	return l, nil
}

// entries are the plugin's tools as registry entries, in a session that works in
// cwd.
func (a Attachment) entries(cwd string) ([]*entry, error) {
	l, err := a.lending(cwd)
	if err != nil {
		return nil, err
	}
	m := a.Plugin.Manifest()
	src := tool.Source{Kind: tool.SourceCustom, Trust: a.Plugin.opt.Trust, ID: "plugin:" + m.Name}
	var out []*entry
	for i := range m.Tools {
		g := l.guest(m.Tools[i].Name, nil)
		e, err := newEntry(l.tool(i, g), src)
		if err != nil {
			return nil, err
		}
		e.guest = g
		g.network = l.network(g)
		l.lent[g] = struct{}{}
		out = append(out, e)
	}
	l.settle()
	return out, nil
}

// guest is a tool with what is in force for it; l.mu is held, or nobody else has l yet.
func (l *lending) guest(name string, call *ToolGrants) *guestInfo {
	m := l.plugin.Manifest()
	g := &guestInfo{manifest: m, name: name, grants: l.grants.of(name, call), env: map[string]string{}, digest: l.plugin.Digest(), of: l, call: call}
	for _, want := range m.Requested().Env {
		if v, ok := g.grants.Env[want.Name]; ok {
			g.env[want.Name] = v
		}
	}
	return g
}

// tool runs a guest in a world that has what it is lent. Tools with the same grants
// share their instances.
func (l *lending) tool(i int, g *guestInfo) tool.Tool {
	seen := maps.Clone(g.env)
	if dir := g.grants.cwd(l.cwd); dir != "" {
		seen[workingDir] = dir
	}
	w := engine.NewWorld(engine.World{
		Mounts: g.grants.Folders, Env: seen, Limits: g.grants.Limits,
		FineClock: g.manifest.Requested().Clock == abi.ClockFine,
	})
	return l.plugin.p.Tool(i, w, engine.Lent{Writes: lentWrites})
}

// again is an entry with what is in force now. What the running calls of the old one
// have beside files changes with it.
func (l *lending) again(e *entry, call *ToolGrants) *entry {
	g := l.guest(e.spec.Name, call)
	i := slices.IndexFunc(g.manifest.Tools, func(t abi.ToolSpec) bool { return t.Name == g.name })
	out := *e
	out.guest, out.tool = g, l.tool(i, g)
	return &out
}

// settle puts the grants in force for what is lent beside files.
func (l *lending) settle() {
	var all []secrets.Grant
	for g := range l.lent {
		now := l.grants.of(g.name, g.call)
		list := secretGrants(g.manifest, now)
		g.network.granted.Store(&list)
		all = append(all, list...)
		if g.network.client != nil {
			g.network.client.SetPolicy(l.policy(g, now))
		}
	}
	l.vault.SetGrants(union(all))
}

// union has each secret once, for all hosts that it is granted for.
func union(list []secrets.Grant) []secrets.Grant {
	hosts := map[string][]string{}
	for _, g := range list {
		hosts[g.Name] = append(hosts[g.Name], g.Hosts...)
	}
	var out []secrets.Grant
	for name, h := range hosts {
		slices.Sort(h)
		out = append(out, secrets.Grant{Name: name, Hosts: slices.Compact(h)})
	}
	return out
}

// UpdateGrants puts other grants in force for a plugin of the session: hosts and
// secrets at once, for running calls too; folders and variables from the next call
// on. A folder that is not in g any more is the caller's to revoke, which ends the
// access of running calls. Settings, SecretSources and Resolver stay as they were when
// the session began. With an error nothing is granted any more.
func (s *Session) UpdateGrants(plugin string, g Grants) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var l *lending
	var err error
	changed := map[string]*entry{}
	for _, e := range s.reg.Load().sorted {
		if e.guest == nil || e.guest.manifest.Name != plugin {
			continue
		}
		if l == nil {
			l = e.guest.of
			if err = g.check(e.guest.manifest); err != nil {
				g = Grants{}
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.grants = g
		}
		n := l.again(e, nil)
		n.guest.network = e.guest.network
		delete(l.lent, e.guest)
		l.lent[n.guest] = struct{}{}
		changed[e.spec.Name] = n
	}
	if l == nil {
		return abi.NewError(abi.CodeNotInstalled, "the session has no plugin %q", clip(plugin))
	}
	l.settle()
	s.reg.Store(s.reg.Load().replaced(changed))
	return err
}

// lendOnce lends the call what it alone is granted.
func (r *run) lendOnce() {
	if r.call.Grants == nil || r.entry == nil {
		return
	}
	if r.entry.guest == nil {
		r.fail(abi.NewError(abi.CodeOptions, "%s is no plugin's tool, so a call of it cannot be lent anything", r.canonical()))
		return
	}
	l := r.entry.guest.of
	own := Grants{Tools: map[string]ToolGrants{r.canonical(): *r.call.Grants}}
	if err := own.check(r.entry.guest.manifest); err != nil {
		r.fail(abi.AsError(err))
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.again(r.entry, r.call.Grants)
	e.guest.network = l.network(e.guest)
	l.lent[e.guest] = struct{}{}
	l.settle()
	r.entry = e
	r.releases = append(r.releases, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.lent, e.guest)
		l.settle()
	})
}

// may is nil if the guest may use a secret, for a host unless that is empty.
func (g *guestInfo) may(name, host string) error {
	var hosts []string
	granted := false
	for _, s := range *g.network.granted.Load() {
		if s.Name == name {
			granted, hosts = true, append(hosts, s.Hosts...)
		}
	}
	switch {
	case !granted:
		return abi.NewError(abi.CodeNotGranted, "the secret %s was not granted; %s", name, g.hint("secret", name, name))
	case host != "" && !caphttp.Covers(host, hosts):
		return abi.NewError(abi.CodeNotGranted, "the secret %s may not be sent to %s; it is for %s", name, host, strings.Join(hosts, ", "))
	}
	return nil
}

// fill puts secrets into a header's value for a host.
func (g *guestInfo) fill(ctx context.Context, host, value string) (string, error) {
	for _, name := range secrets.Names(value) {
		if err := g.may(name, host); err != nil {
			return "", err
		}
	}
	return g.of.vault.Fill(ctx, host, value)
}

// hint says what a user types to grant something: the flag, and for a plugin that is
// installed the command, in which a folder has its full path.
func (g *guestInfo) hint(kind, value, full string) string {
	flag := "--allow-" + kind + " " + value
	if g.of.plugin.opt.Origin != g.manifest.Name {
		return "grant it with " + flag
	}
	only := ""
	if len(g.manifest.Tools) > 1 {
		only = " --tool " + g.name
	}
	return fmt.Sprintf("grant it with %s, or for good with: bladehost grant %s%s --allow-%s %s", flag, g.manifest.Name, only, kind, shellWord(full))
}

// shellWord is a text as one word of a command line.
func shellWord(s string) string {
	if runtime.GOOS != "windows" {
		return posixWord(s)
	}
	if strings.ContainsAny(s, " ^&|<>()") {
		return `"` + s + `"`
	}
	return s
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

func posixWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
