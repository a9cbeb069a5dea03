package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/policy"
)

// canAsk reports whether a person is there to ask: both the question and the
// answer need a terminal.
func (a *app) canAsk() bool { return a.inTTY && a.errTTY && !a.json }

// askMissing asks for what a plugin's manifest requests and nobody granted its tool or
// denied it yet, apart from folders, which depend on the call. Without a person
// nothing is asked: the plugin's own request is refused, with the command that
// grants it.
func (l *lender) askMissing(ctx context.Context, p *host.Plugin, toolName string) error {
	if !l.a.canAsk() {
		return nil
	}
	m := p.Manifest()
	list, err := l.store.List()
	if err != nil {
		return err
	}
	toolName = canonicalTool(m, toolName)
	set := effective(list, p, toolName)
	for _, k := range []policy.GrantKind{policy.GrantNet, policy.GrantSecret, policy.GrantEnv} {
		allow, deny := l.values(k, m)
		settled := slices.Concat(allow, deny, set.Values(k), set.Denied(k))
		for _, v := range requested(k, m) {
			if slices.Contains(settled, v) {
				continue
			}
			if _, err := l.ask(ctx, p, toolName, k, v, purpose(k, v, m)); err != nil {
				return err
			}
		}
	}
	return nil
}

// purpose is why the plugin wants something, as its manifest says.
func purpose(k policy.GrantKind, v string, m *abi.Manifest) string {
	switch k {
	case policy.GrantNet:
		return m.Requested().HTTP.Why
	case policy.GrantSecret:
		for _, s := range m.Requested().Secrets {
			if s.Name == v {
				return s.Why
			}
		}
	case policy.GrantEnv:
		for _, e := range m.Requested().Env {
			if e.Name == v {
				return e.Why
			}
		}
	}
	return ""
}

// ask asks one question and reports whether the answer was a yes. Once counts for the
// call, session for this process, always is kept, and anything but a clear yes is a no.
func (l *lender) ask(ctx context.Context, p *host.Plugin, toolName string, k policy.GrantKind, v, why string) (bool, error) {
	m := p.Manifest()
	text := m.Name + " wants to " + grantWords[k] + " " + printable(v)
	if why != "" {
		text += " (" + oneLine(why) + ")"
	}
	always, later := "[a]lways", m.Name
	if len(m.Tools) > 1 {
		always = fmt.Sprintf("[a]lways for all %d tools of %s, always for the [t]ool %s only", len(m.Tools), m.Name, toolName)
		later += " --tool " + toolName
	}
	l.a.note("%s %s\n  [o]nce for this call, for this [s]ession, %s, [N]o?", l.a.paint(l.a.errTTY, yellow, "permission:"), text, always)
	answer, err := l.a.answer(ctx)
	if err != nil {
		return false, err
	}
	g := policy.Grant{Plugin: m.Name, Digest: p.Digest(), Scope: policy.ScopePlugin, Kind: k, Value: v, Asked: policy.Asked(m)}
	switch answer {
	case "o", "once", "y", "yes":
		l.once[k], l.onceTool = append(l.once[k], v), toolName
		return true, nil
	case "s", "session": // one process is one session
		*l.f.allow[k] = append(*l.f.allow[k], v)
		return true, nil
	case "t", "tool":
		g.Scope, g.Tool = policy.ScopeTool, toolName
		return true, l.keep(ctx, g)
	case "a", "always":
		return true, l.keep(ctx, g)
	}
	l.a.note("not granted; to grant it later: bladehost grant %s --allow-%s %s", later, k, quoted(v))
	return false, nil
}

// keep makes a grant for good and says what it counts for.
func (l *lender) keep(ctx context.Context, g policy.Grant) error {
	if err := l.a.completeGrant(&g); err != nil {
		return err
	}
	if err := l.store.Add(ctx, g); err != nil {
		return err
	}
	l.a.note("granted to %s: %s; to take it back: bladehost grants revoke %s", g.Plugin, g, g.Plugin)
	return nil
}

var grantWords = map[policy.GrantKind]string{
	policy.GrantRead: "read the folder", policy.GrantWrite: "read and write the folder", policy.GrantNet: "reach the host",
	policy.GrantNetPrivate: "reach the private address of", policy.GrantEnv: "see the variable", policy.GrantSecret: "use the secret",
}

// answer reads one line. It ends with ctx; the reader then waits for a line that
// nobody will read, which ends with the process.
func (a *app) answer(ctx context.Context) (string, error) {
	type line struct {
		s   string
		err error
	}
	if a.answers == nil {
		a.answers = bufio.NewReader(a.in)
	}
	got := make(chan line, 1)
	go func() {
		s, err := a.answers.ReadString('\n')
		got <- line{s, err}
	}()
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case l := <-got:
		if l.err != nil && l.err != io.EOF {
			return "", abi.NewError(abi.CodeIO, "the answer cannot be read: %v", l.err)
		}
		return strings.ToLower(strings.TrimSpace(l.s)), nil
	}
}

// askFolder asks for the folder that a refused call needed. It reports whether it
// was granted, so that the call, which had not begun, can be made again.
func (l *lender) askFolder(ctx context.Context, p *host.Plugin, toolName string, e *abi.Error) (bool, error) {
	var at struct {
		Path string `json:"path"`
	}
	fs := p.Manifest().Requested().FS
	if !l.a.canAsk() || fs == nil || (e.Code != abi.CodeNotGranted && e.Code != abi.CodeDeniedPath) || json.Unmarshal(e.Details, &at) != nil || at.Path == "" {
		return false, nil
	}
	k, dir := policy.GrantRead, filepath.Dir(at.Path)
	if fs.Write {
		k = policy.GrantWrite
	}
	if isFolder(at.Path) {
		dir = at.Path
	}
	abs, err := absPath(dir)
	if err != nil {
		return false, err
	}
	return l.ask(ctx, p, canonicalTool(p.Manifest(), toolName), k, abs, "for "+toolName+" "+at.Path)
}
