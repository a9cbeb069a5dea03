package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	capfs "github.com/bladehost/bladehost/host/caps/fs"
	"github.com/bladehost/bladehost/host/policy"
)

// folderKey is a folder as a plugin is lent it: where it really is, under which name, and
// without what in it.
type folderKey struct {
	plugin, path, real, without string
	kind                        policy.GrantKind
}

func (l *lender) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.opened {
		_ = g.Close() // nothing is written any more
	}
	clear(l.opened)
}

// denial is a folder that is denied, and by what.
type denial struct{ path, by string }

// denials are the denied folders. What may not be read may not be written either.
func (l *lender) denials(m *abi.Manifest, set policy.GrantSet, values valuesOf) (map[policy.GrantKind][]denial, error) {
	out := map[policy.GrantKind][]denial{}
	for _, k := range []policy.GrantKind{policy.GrantRead, policy.GrantWrite} {
		_, deny := values(k, m)
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

// folders opens the granted folders of one tool. Those that another tool is lent alike
// are the same, so that both can run in the same instances.
func (l *lender) folders(m *abi.Manifest, set policy.GrantSet, values valuesOf, again bool) ([]*capfs.Grant, error) {
	denied, err := l.denials(m, set, values)
	if err != nil {
		return nil, err
	}
	var out []*capfs.Grant
	add := func(g *capfs.Grant) {
		if g != nil && !slices.Contains(out, g) {
			out = append(out, g)
		}
	}
	for _, k := range []policy.GrantKind{policy.GrantWrite, policy.GrantRead} {
		allow, _ := values(k, m)
		for _, dir := range allow {
			g, err := l.open(m.Name, k, dir, "", denied[k])
			if err != nil && !again {
				return nil, abi.NewError(abi.CodeOptions, "--allow-%s %s: %v", k, dir, err)
			}
			if err != nil {
				l.leftOut("--allow-%s %s: %v", k, dir, err)
			}
			add(g)
		}
		for _, stored := range set.Allow[k] {
			g, err := l.open(m.Name, k, stored.Value, stored.Real, denied[k])
			switch {
			case err == errMoved:
				l.leftOut("the granted folder %s is not the one it was (%s); grant it anew", stored.Value, stored.ID)
			case err != nil:
				l.leftOut("%s: %v", stored, err)
			}
			add(g)
		}
	}
	return out, nil
}

// leftOut says once why a folder is not lent.
func (l *lender) leftOut(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(l.said, text) {
		l.said = append(l.said, text)
		l.a.note("%s %s", l.a.paint(l.a.errTTY, yellow, "left out:"), text)
	}
}

var errMoved = errors.New("it is not the folder that it was")

// open opens one folder, without what is denied in it and without our own folders; nil
// is one that is denied as a whole. Real is where it was when it was granted; without it,
// where it is when it is first lent. What is open stays so while it is lent.
func (l *lender) open(plugin string, k policy.GrantKind, dir, real string, denied []denial) (*capfs.Grant, error) {
	abs, err := absPath(dir)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	flag := real == ""
	if flag {
		real = l.real[abs]
	}
	if real == "" {
		if real, err = filepath.EvalSymlinks(abs); err != nil {
			return nil, err
		}
	}
	opt := capfs.Options{ReadOnly: k == policy.GrantRead}
	for _, own := range append(l.p.own(), l.f.own...) {
		if r, err := filepath.EvalSymlinks(own); err == nil {
			own = r
		}
		if below(own, real) {
			return nil, errors.New("it is a folder of bladehost itself")
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
			return nil, nil
		}
		if below(real, path) {
			opt.Deny = append(opt.Deny, relSlash(real, path))
		}
	}
	slices.Sort(opt.Deny)
	key := folderKey{plugin: plugin, path: abs, real: real, kind: k, without: strings.Join(opt.Deny, "\x00")}
	if g := l.opened[key]; g != nil {
		return g, nil
	}
	g, err := capfs.Open(abs, opt)
	if err != nil {
		return nil, err
	}
	if g.RealPath() != real {
		_ = g.Close() // nothing was written
		return nil, errMoved
	}
	if flag {
		l.real[abs] = real
	}
	l.opened[key] = g
	return g, nil
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
		l.mu.Lock()
		l.had[p] = foldersOf(p, g)
		l.mu.Unlock()
		out = append(out, host.Attachment{Plugin: p, Grants: g})
	}
	return out, nil
}

// watch keeps the grants of a session up to date until stop is called, which waits.
func (l *lender) watch(ctx context.Context, s *host.Session, plugins []*host.Plugin) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { // stop waits for it
		defer close(done)
		l.store.Watch(ctx, watchInterval, func() { l.refresh(s, plugins) })
	}()
	return func() {
		cancel()
		<-done
	}
}

// refresh puts in force what is granted now, and takes back the rest.
func (l *lender) refresh(s *host.Session, plugins []*host.Plugin) {
	list, err := l.store.List()
	if err != nil {
		l.a.report(err)
	}
	for _, p := range plugins {
		lent := func() (g host.Grants) {
			if err != nil { // a file that cannot be read grants nothing
				return g
			}
			g, bad := l.lent(p, list, true)
			if bad != nil {
				l.a.report(bad)
				return host.Grants{}
			}
			return g
		}
		g := lent()
		lost := l.lost(p, g)
		if len(lost) > 0 { // whoever else has one gets it opened anew
			g = lent()
		}
		if bad := s.UpdateGrants(p.Manifest().Name, g); bad != nil {
			l.a.report(bad)
			g = host.Grants{}
		}
		for _, f := range lost {
			f.Revoke()
		}
		l.takeBack(p, g)
	}
}

// foldersOf are the folders that each tool of a plugin is lent.
func foldersOf(p *host.Plugin, g host.Grants) map[string][]*capfs.Grant {
	out := map[string][]*capfs.Grant{}
	for _, t := range p.Manifest().Tools {
		out[t.Name] = slices.Concat(g.Folders, g.Tools[t.Name].Folders)
	}
	return out
}

// lost forgets and returns the folders that a tool of the plugin was lent and is not any
// more. To end the access of its running calls they have to be revoked, also where
// another tool is lent the same.
func (l *lender) lost(p *host.Plugin, g host.Grants) []*capfs.Grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := foldersOf(p, g)
	var out []*capfs.Grant
	for name, had := range l.had[p] {
		for _, f := range had {
			if !slices.Contains(now[name], f) && !slices.Contains(out, f) {
				out = append(out, f)
			}
		}
	}
	maps.DeleteFunc(l.opened, func(_ folderKey, f *capfs.Grant) bool { return slices.Contains(out, f) })
	return out
}

// takeBack notes what the tools of a plugin are lent, and revokes its other open folders.
func (l *lender) takeBack(p *host.Plugin, g host.Grants) {
	lent := foldersOf(p, g)
	var keep []*capfs.Grant
	for _, list := range lent {
		keep = append(keep, list...)
	}
	if once, err := l.lentOnce(p); err != nil {
		l.a.report(err)
	} else if once != nil {
		keep = append(keep, once.Folders...)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.had[p] = lent
	for key, f := range l.opened {
		if key.plugin == p.Manifest().Name && !slices.Contains(keep, f) {
			f.Revoke()
			delete(l.opened, key)
		}
	}
}
