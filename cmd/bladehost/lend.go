package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	capfs "github.com/bladehost/bladehost/host/caps/fs"
	"github.com/bladehost/bladehost/host/caps/secrets"
	"github.com/bladehost/bladehost/host/journal/sqlite"
	"github.com/bladehost/bladehost/host/policy"
)

// lendFlags are the flags that lend plugins something, or keep it from them. They
// count for every plugin of the process, for as long as it runs.
type lendFlags struct {
	allow, deny map[policy.GrantKind]*[]string
	all         bool
	set         string
	// own are files of this process that no tool may touch: its journal.
	own []string
}

// keepOut keeps all tools from the files of a journal; "" is none.
func (f *lendFlags) keepOut(journal string) error {
	if journal == "" {
		return nil
	}
	files, err := sqlite.Files(journal)
	f.own = append(f.own, files...)
	return err
}

var lendHelp = map[policy.GrantKind]string{
	policy.GrantRead:       "read this `folder`",
	policy.GrantWrite:      "read and write this `folder`",
	policy.GrantNet:        "reach this `host`: a name, *.name, either with :port, or address:port",
	policy.GrantNetPrivate: "reach this `name:port` also where it leads to a private address",
	policy.GrantEnv:        "(and the tool Bash) see this environment `variable`",
	policy.GrantSecret:     "use this `secret` in requests to its hosts",
}

// passed are the variables of the environment that Bash gets beside the usual ones.
func (f *lendFlags) passed() []string {
	allow, deny := f.allow[policy.GrantEnv], f.deny[policy.GrantEnv]
	if allow == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(*allow), func(name string) bool { return deny != nil && slices.Contains(*deny, name) })
}

func (f *lendFlags) add(fs *pflag.FlagSet) {
	f.allow, f.deny = map[policy.GrantKind]*[]string{}, map[policy.GrantKind]*[]string{}
	for _, k := range policy.GrantKinds() {
		f.allow[k], f.deny[k] = new([]string), new([]string)
		fs.StringArrayVar(f.allow[k], "allow-"+string(k), nil, "let plugins "+lendHelp[k]+" (may be repeated)")
		fs.StringArrayVar(f.deny[k], "deny-"+string(k), nil, "never let plugins "+lendHelp[k]+"; wins over every grant")
	}
	fs.BoolVar(&f.all, "allow-all", false, "grant plugins all that their manifests ask for; of folders the current one")
	fs.StringVar(&f.set, "set", "", "use this named `set` of permissions from blade.yaml")
}

// lender works out what each plugin of the process is lent: the stored grants of
// its module, the flags, and a named set; denials win over all of them.
type lender struct {
	a       *app
	f       lendFlags
	p       places
	store   *policy.GrantStore
	config  *bladeFile
	sources []secrets.Source
	// once is what the one call of the process, of a tool, is lent for itself.
	once     map[policy.GrantKind][]string
	onceTool string
	// said are the remarks that were made.
	said []string

	mu sync.Mutex
	// opened are the folders that plugins are lent, had those of each tool; real is
	// where those of flags were when they were first lent.
	opened map[folderKey]*capfs.Grant
	had    map[*host.Plugin]map[string][]*capfs.Grant
	real   map[string]string
}

func newLender(a *app, p places) *lender {
	return &lender{
		a: a, p: p, store: policy.OpenGrants(filepath.Join(p.config, "grants.json")), once: map[policy.GrantKind][]string{},
		opened: map[folderKey]*capfs.Grant{}, had: map[*host.Plugin]map[string][]*capfs.Grant{}, real: map[string]string{},
	}
}

// newLender reads what is granted.
func (a *app) newLender(f lendFlags) (*lender, error) {
	p, err := a.places()
	if err != nil {
		return nil, err
	}
	l := newLender(a, p)
	l.f = f
	if l.config, err = a.readBladeFiles(p, f.set); err != nil {
		return nil, err
	}
	l.sources, err = a.secretSources(p)
	return l, err
}

// valuesOf are the allowed and denied values of a kind for one plugin, apart from stored
// grants.
type valuesOf func(policy.GrantKind, *abi.Manifest) (allow, deny []string)

// values are the allowed and denied values of a kind for one plugin, apart from
// stored grants.
func (l *lender) values(k policy.GrantKind, m *abi.Manifest) (allow, deny []string) {
	allow = slices.Concat(*l.f.allow[k], l.config.allow[k])
	deny = slices.Concat(*l.f.deny[k], l.config.deny[k])
	if l.f.all {
		allow = append(allow, requested(k, m)...)
	}
	return allow, deny
}

// requested is what --allow-all means for a manifest.
func requested(k policy.GrantKind, m *abi.Manifest) []string {
	c := m.Requested()
	var out []string
	switch k {
	case policy.GrantRead:
		if c.FS != nil && !c.FS.Write {
			out = []string{"."}
		}
	case policy.GrantWrite:
		if c.FS != nil && c.FS.Write {
			out = []string{"."}
		}
	case policy.GrantNet:
		if c.HTTP != nil {
			out = c.HTTP.Hosts
		}
	case policy.GrantEnv:
		for _, e := range c.Env {
			out = append(out, e.Name)
		}
	case policy.GrantSecret:
		for _, s := range c.Secrets {
			out = append(out, s.Name)
		}
	}
	return out
}

// grants are what a plugin is lent now.
func (l *lender) grants(p *host.Plugin) (host.Grants, error) {
	m := p.Manifest()
	list, err := l.store.List()
	if err != nil {
		return host.Grants{}, err
	}
	if err := l.asksForMore(p, list); err != nil {
		return host.Grants{}, err
	}
	g, err := l.lent(p, list, false)
	if err != nil {
		return g, err
	}
	g.SecretSources = l.sources
	if g.Config, err = l.a.settingsOf(l.p, m.Name); err != nil {
		return g, err
	}
	l.tellStale(m, effective(list, p, ""))
	return g, nil
}

// effective are the stored grants that count for one tool of a plugin, or without a
// name for all of them.
func effective(list []policy.Grant, p *host.Plugin, toolName string) policy.GrantSet {
	return policy.Effective(list, p.Manifest().Name, p.Digest(), toolName, time.Now())
}

// lent is what grants come to for a plugin: for all of its tools, or for each of them
// where something is granted or denied to one alone. Again says that the session runs
// already, so that a folder which cannot be lent is left out.
func (l *lender) lent(p *host.Plugin, list []policy.Grant, again bool) (host.Grants, error) {
	m := p.Manifest()
	ofOne := func(g policy.Grant) bool { return g.Plugin == m.Name && g.Tool != "" }
	if !slices.ContainsFunc(list, ofOne) {
		t, err := l.share(m, effective(list, p, ""), l.values, again)
		return host.Grants{Folders: t.Folders, Env: t.Env, Net: t.Net, NetPrivate: t.NetPrivate, DenyNet: t.DenyNet, Secrets: t.Secrets}, err
	}
	g := host.Grants{Tools: map[string]host.ToolGrants{}}
	for _, t := range m.Tools {
		var err error
		if g.Tools[t.Name], err = l.share(m, effective(list, p, t.Name), l.values, again); err != nil {
			return g, err
		}
	}
	return g, nil
}

// lentOnce is what the one call of the process is lent, with what it has anyway.
func (l *lender) lentOnce(p *host.Plugin) (*host.ToolGrants, error) {
	if len(l.once) == 0 {
		return nil, nil
	}
	list, err := l.store.List()
	if err != nil {
		return nil, err
	}
	set := effective(list, p, canonicalTool(p.Manifest(), l.onceTool))
	g, err := l.share(p.Manifest(), set, func(k policy.GrantKind, m *abi.Manifest) (allow, deny []string) {
		_, deny = l.values(k, m)
		return l.once[k], deny
	}, false)
	return &g, err
}

// canonicalTool is the name of the tool that a name or an alias means.
func canonicalTool(m *abi.Manifest, name string) string {
	for _, t := range m.Tools {
		if contains(t.Aliases, name) {
			return t.Name
		}
	}
	return name
}

// share is what one tool is lent: the values that the process adds, and the stored
// grants.
func (l *lender) share(m *abi.Manifest, set policy.GrantSet, values valuesOf, again bool) (g host.ToolGrants, err error) {
	if g.Folders, err = l.folders(m, set, values, again); err != nil {
		return g, err
	}
	all := func(k policy.GrantKind) []string {
		allow, deny := values(k, m)
		return without(slices.Concat(allow, set.Values(k)), deny, set.Denied(k))
	}
	g.NetPrivate = all(policy.GrantNetPrivate)
	// A private name is a host that may be reached, too.
	g.Net = append(all(policy.GrantNet), g.NetPrivate...)
	_, deny := values(policy.GrantNet, m)
	g.DenyNet = slices.Concat(deny, set.Denied(policy.GrantNet))
	for _, name := range all(policy.GrantSecret) {
		g.Secrets = append(g.Secrets, secrets.Grant{Name: name})
	}
	g.Env = map[string]string{}
	for _, name := range all(policy.GrantEnv) {
		if v, ok := os.LookupEnv(name); ok {
			g.Env[name] = v
		}
	}
	return g, nil
}

func without(list []string, denied ...[]string) []string {
	var out []string
	for _, v := range list {
		if !slices.ContainsFunc(denied, func(d []string) bool { return slices.Contains(d, v) }) && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// tellStale says that grants do not count because the module is another one.
func (l *lender) tellStale(m *abi.Manifest, set policy.GrantSet) {
	if len(set.Stale) == 0 {
		return
	}
	var what []string
	for _, g := range set.Stale {
		what = append(what, g.String())
	}
	l.a.note("%s %s was granted to another module of this name and does not count: %s; grant it anew with: bladehost grant %s …",
		l.a.paint(l.a.errTTY, yellow, "careful:"), m.Name, strings.Join(what, ", "), m.Name)
}

// asksForMore refuses a module that asks for more than another one of its name did
// when that was granted something: until the user has looked at the difference and
// granted, by a command or a flag, what this one is to have.
func (l *lender) asksForMore(p *host.Plugin, list []policy.Grant) error {
	m, digest := p.Manifest(), p.Digest()
	set := effective(list, p, "")
	before, old, known := set.AskedBefore()
	anew := func(g policy.Grant) bool {
		return g.Plugin == m.Name && g.Digest == digest && !g.Deny && (g.Expires == nil || time.Now().Before(*g.Expires))
	}
	if !known || slices.ContainsFunc(list, anew) || l.f.all || slices.ContainsFunc(policy.GrantKinds(), func(k policy.GrantKind) bool { return len(*l.f.allow[k]) > 0 }) {
		return nil
	}
	asked := policy.Asked(m)
	more := without(asked, before)
	if len(more) == 0 {
		return nil
	}
	var b strings.Builder
	for _, part := range []struct {
		sign string
		list []string
	}{{"+", more}, {"-", without(before, asked)}, {" ", without(asked, more)}} {
		for _, line := range part.list {
			fmt.Fprintf(&b, "\n  %s %s", part.sign, line)
		}
	}
	again := "bladehost grant " + m.Name
	for _, g := range set.Stale {
		again += fmt.Sprintf(" --allow-%s %s", g.Kind, quoted(g.Value))
	}
	return abi.NewError(abi.CodeNotGranted, "%s is another module than the one that you granted something (sha256 %s…, now %s…), and it asks for more:%s\nif that is right, grant what it is to have, for example what the other one had: %s",
		m.Name, old[:12], digest[:12], b.String(), again).With(map[string]any{"more": more, "before": before, "now": asked})
}

// settingsOf are the settings the user made for a plugin, or nil.
func (a *app) settingsOf(p places, name string) (json.RawMessage, error) {
	all, err := readSettings(settingsPath(p))
	if err != nil {
		return nil, err
	}
	return all[name], nil
}
