package main

import (
	"context"
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
	// tool is the one tool that the process runs, or empty.
	tool string
	// said are the remarks that were made.
	said []string

	mu     sync.Mutex
	opened []openedFolder
}

// openedFolder is a folder that a plugin was lent. Stored is the id of the grant
// it comes from, or empty for a flag.
type openedFolder struct {
	plugin, stored string
	grant          *capfs.Grant
}

// newLender reads what is granted. toolName is the one tool that will run, or
// empty.
func (a *app) newLender(f lendFlags, toolName string) (*lender, error) {
	p, err := a.places()
	if err != nil {
		return nil, err
	}
	l := &lender{a: a, f: f, p: p, tool: toolName, store: policy.OpenGrants(filepath.Join(p.config, "grants.json"))}
	if l.config, err = a.readBladeFiles(p, f.set); err != nil {
		return nil, err
	}
	l.sources, err = a.secretSources(p)
	return l, err
}

func (l *lender) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.opened {
		_ = o.grant.Close() // nothing is written any more
	}
	l.opened = nil
}

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
	set := l.effective(list, p)
	if err := l.asksForMore(m, p.Digest(), set); err != nil {
		return host.Grants{}, err
	}
	var g host.Grants
	if err := l.folders(&g, m, set); err != nil {
		return g, err
	}
	l.network(&g, m, set)
	g.SecretSources = l.sources
	allow, deny := l.values(policy.GrantEnv, m)
	g.Env = map[string]string{}
	for _, name := range without(slices.Concat(allow, set.Values(policy.GrantEnv)), deny, set.Denied(policy.GrantEnv)) {
		if v, ok := os.LookupEnv(name); ok {
			g.Env[name] = v
		}
	}
	if g.Config, err = l.a.settingsOf(l.p, m.Name); err != nil {
		return g, err
	}
	l.tellStale(m, set)
	return g, nil
}

func (l *lender) effective(list []policy.Grant, p *host.Plugin) policy.GrantSet {
	return policy.Effective(list, p.Manifest().Name, p.Digest(), l.tool, time.Now())
}

// network fills in hosts and secrets, which can change while calls run.
func (l *lender) network(g *host.Grants, m *abi.Manifest, set policy.GrantSet) {
	allow, deny := l.values(policy.GrantNet, m)
	g.Net = without(slices.Concat(allow, set.Values(policy.GrantNet)), deny, set.Denied(policy.GrantNet))
	g.DenyNet = slices.Concat(deny, set.Denied(policy.GrantNet))
	private, denied := l.values(policy.GrantNetPrivate, m)
	g.NetPrivate = without(slices.Concat(private, set.Values(policy.GrantNetPrivate)), denied, set.Denied(policy.GrantNetPrivate))
	// A private name is a host that may be reached, too.
	g.Net = append(g.Net, g.NetPrivate...)
	allow, deny = l.values(policy.GrantSecret, m)
	for _, name := range without(slices.Concat(allow, set.Values(policy.GrantSecret)), deny, set.Denied(policy.GrantSecret)) {
		g.Secrets = append(g.Secrets, secrets.Grant{Name: name})
	}
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
func (l *lender) asksForMore(m *abi.Manifest, digest string, set policy.GrantSet) error {
	before, old, known := set.AskedBefore()
	if !known || len(set.Allow) > 0 || l.f.all || slices.ContainsFunc(policy.GrantKinds(), func(k policy.GrantKind) bool { return len(*l.f.allow[k]) > 0 }) {
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
		again += fmt.Sprintf(" --allow-%s %s", g.Kind, g.Value)
	}
	return abi.NewError(abi.CodeNotGranted, "%s is another module than the one that you granted something (sha256 %s…, now %s…), and it asks for more:%s\nif that is right, grant what it is to have, for example what the other one had: %s",
		m.Name, old[:12], digest[:12], b.String(), again).With(map[string]any{"more": more, "before": before, "now": asked})
}

// denial is a folder that is denied, and by what.
type denial struct{ path, by string }

// denials are the denied folders. What may not be read may not be written either.
func (l *lender) denials(m *abi.Manifest, set policy.GrantSet) (map[policy.GrantKind][]denial, error) {
	out := map[policy.GrantKind][]denial{}
	for _, k := range []policy.GrantKind{policy.GrantRead, policy.GrantWrite} {
		_, deny := l.values(k, m)
		for _, d := range deny {
			abs, err := absPath(d)
			if err != nil {
				return nil, err
			}
			out[k] = append(out[k], denial{abs, fmt.Sprintf("a --deny-%s flag or blade.yaml (%s)", k, d)})
		}
		for _, g := range set.Deny[k] {
			out[k] = append(out[k], denial{g.Value, fmt.Sprintf("the denial %s, which bladehost grants revoke %s takes back", g.ID, g.ID)})
		}
	}
	out[policy.GrantWrite] = append(out[policy.GrantWrite], out[policy.GrantRead]...)
	return out, nil
}

// folders opens the granted folders of a plugin.
func (l *lender) folders(g *host.Grants, m *abi.Manifest, set policy.GrantSet) error {
	denied, err := l.denials(m, set)
	if err != nil {
		return err
	}
	for _, k := range []policy.GrantKind{policy.GrantWrite, policy.GrantRead} {
		allow, _ := l.values(k, m)
		for _, dir := range allow {
			if err := l.open(g, m.Name, "", k, dir, denied[k]); err != nil {
				return abi.NewError(abi.CodeOptions, "--allow-%s %s: %v", k, dir, err)
			}
		}
		for _, stored := range set.Allow[k] {
			if real, err := filepath.EvalSymlinks(stored.Value); err != nil || real != stored.Real {
				l.leftOut("the granted folder %s is not the one it was (%s); grant it anew", stored.Value, stored.ID)
				continue
			}
			if err := l.open(g, m.Name, stored.ID, k, stored.Value, denied[k]); err != nil {
				l.leftOut("%s: %v", stored, err)
			}
		}
	}
	return nil
}

// leftOut says once why a folder is not lent.
func (l *lender) leftOut(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(l.said, text) {
		l.said = append(l.said, text)
		l.a.note("%s %s", l.a.paint(l.a.errTTY, yellow, "left out:"), text)
	}
}

// open opens one folder, without what is denied in it and without our own
// folders.
func (l *lender) open(g *host.Grants, plugin, stored string, k policy.GrantKind, dir string, denied []denial) error {
	abs, err := absPath(dir)
	if err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return fmt.Errorf("%w", err)
	}
	opt := capfs.Options{ReadOnly: k == policy.GrantRead}
	for _, own := range append(l.p.own(), l.f.own...) {
		if r, err := filepath.EvalSymlinks(own); err == nil {
			own = r
		}
		if below(own, real) {
			return fmt.Errorf("it is a folder of bladehost itself")
		}
		if below(real, own) {
			opt.Deny = append(opt.Deny, relSlash(real, own))
		}
	}
	for _, d := range denied {
		path := d.path
		if r, err := filepath.EvalSymlinks(path); err == nil {
			path = r
		}
		if below(path, real) {
			l.leftOut("%s is denied by %s", dir, d.by)
			return nil
		}
		if below(real, path) {
			opt.Deny = append(opt.Deny, relSlash(real, path))
		}
	}
	grant, err := capfs.Open(abs, opt)
	if err != nil {
		return err
	}
	g.Folders = append(g.Folders, grant)
	l.mu.Lock()
	l.opened = append(l.opened, openedFolder{plugin, stored, grant})
	l.mu.Unlock()
	return nil
}

// below reports whether path is dir or inside it.
func below(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

func relSlash(base, path string) string {
	rel, err := filepath.Rel(base, path)
	if err != nil {
		return filepath.ToSlash(path)
	}
	return filepath.ToSlash(rel)
}

// watchInterval is how soon a revocation by another process is seen: well within
// the second that it may take.
const watchInterval = 200 * time.Millisecond

// attach lends each plugin what it is granted.
func (l *lender) attach(plugins []*host.Plugin) ([]host.Attachment, error) {
	var out []host.Attachment
	for _, p := range plugins {
		g, err := l.grants(p)
		if err != nil {
			return nil, err
		}
		out = append(out, host.Attachment{Plugin: p, Grants: g})
	}
	return out, nil
}

// watch keeps the grants of a session up to date until ctx ends.
func (l *lender) watch(ctx context.Context, s *host.Session, plugins []*host.Plugin) {
	l.store.Watch(ctx, watchInterval, func() { l.refresh(s, plugins) })
}

// refresh takes back what is not granted any more. Folders that were granted
// meanwhile count for the next process: a guest sees its folders once.
func (l *lender) refresh(s *host.Session, plugins []*host.Plugin) {
	list, err := l.store.List()
	if err != nil {
		l.a.report(err)
		list = nil // a file that cannot be read grants nothing
	}
	live, now := map[string]bool{}, time.Now()
	for _, g := range list {
		live[g.ID] = g.Expires == nil || now.Before(*g.Expires)
	}
	for _, p := range plugins {
		m := p.Manifest()
		set := l.effective(list, p)
		l.revokeFolders(m.Name, live, set)
		var g host.Grants
		l.network(&g, m, set)
		if err := s.UpdateGrants(m.Name, g); err != nil {
			l.a.report(err)
		}
	}
}

func (l *lender) revokeFolders(plugin string, live map[string]bool, set policy.GrantSet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.opened {
		if o.plugin != plugin {
			continue
		}
		denied := slices.ContainsFunc(slices.Concat(set.Denied(policy.GrantRead), set.Denied(policy.GrantWrite)), func(d string) bool { return below(d, o.grant.RealPath()) })
		if denied || (o.stored != "" && !live[o.stored]) {
			o.grant.Revoke()
		}
	}
}

// settingsOf are the settings the user made for a plugin, or nil.
func (a *app) settingsOf(p places, name string) (json.RawMessage, error) {
	all, err := readSettings(settingsPath(p))
	if err != nil {
		return nil, err
	}
	return all[name], nil
}
