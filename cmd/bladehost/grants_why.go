package main

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/bladehost/bladehost/abi"
	caphttp "github.com/bladehost/bladehost/host/caps/http"
	"github.com/bladehost/bladehost/host/policy"
)

// whyQuestion is what grants why is asked: about one tool, or without a name about all.
type whyQuestion struct {
	plugin, tool string
	kind         policy.GrantKind
	value        string
}

// answerFor is what holds for one tool.
type answerFor struct {
	tool string
	set  policy.GrantSet
}

func (a *app) grantsWhy(q whyQuestion) error {
	if !slices.Contains(policy.GrantKinds(), q.kind) {
		return usage("%q is no kind; there are read, write, net, net-private, env and secret", clip(string(q.kind)))
	}
	m, tools, err := a.askedAbout(&q)
	if err != nil {
		return err
	}
	own, asked := a.ownFolder(q.kind, q.value), asksFor(q.kind, q.value, m)
	var why []string
	granted := map[string]bool{}
	all := true
	for i := range tools {
		for _, line := range tools[i].set.Why(q.kind, q.value) {
			if !slices.Contains(why, line) {
				why = append(why, line)
			}
		}
		if own != "" {
			tools[i].set.Allow = nil
		}
		yes := tools[i].set.Allows(q.kind, q.value) && asked
		granted[tools[i].tool] = yes
		all = all && yes
	}
	if own != "" {
		why = append(why, own+" is a folder of bladehost itself, which is never granted")
	}
	if a.json {
		writeJSON(a.out, map[string]any{"plugin": q.plugin, "kind": q.kind, "value": q.value, "granted": all, "tools": granted, "why": why, "requested": asked})
		return nil
	}
	if own != "" {
		why = append(why, "so it is not granted, and a grant would not help")
	} else {
		why = append(why, verdicts(q, tools, asked)...)
	}
	for _, w := range why {
		if err := a.line(w); err != nil {
			return err
		}
	}
	return nil
}

// askedAbout completes a question and works out what is in force for each tool that it is
// about.
func (a *app) askedAbout(q *whyQuestion) (*abi.Manifest, []answerFor, error) {
	s, err := a.store()
	if err != nil {
		return nil, nil, err
	}
	e, err := s.Get(q.plugin)
	if err != nil {
		return nil, nil, err
	}
	m, err := a.installedManifest(q.plugin)
	if err != nil {
		return nil, nil, err
	}
	if q.tool != "" {
		if !contains(e.ToolNames(), q.tool) {
			return nil, nil, notFound(q.tool, q.plugin, e.ToolNames())
		}
		q.tool = canonicalTool(m, q.tool)
	}
	store, _, err := a.grantStore()
	if err != nil {
		return nil, nil, err
	}
	list, err := store.List()
	if err != nil {
		return nil, nil, err
	}
	if q.kind == policy.GrantRead || q.kind == policy.GrantWrite {
		if q.value, err = absPath(q.value); err != nil {
			return nil, nil, err
		}
	}
	var out []answerFor
	for _, t := range m.Tools {
		if q.tool != "" && q.tool != t.Name {
			continue
		}
		set := policy.Effective(list, q.plugin, e.SHA256, t.Name, time.Now())
		set.Covers = func(host, pattern string) bool { return caphttp.Covers(host, []string{pattern}) }
		if err := a.addBladeFiles(&set); err != nil {
			return nil, nil, err
		}
		out = append(out, answerFor{t.Name, set})
	}
	return m, out, nil
}

// verdicts are what it comes to: one line for all tools, or where they differ a line for
// each.
func verdicts(q whyQuestion, tools []answerFor, asked bool) []string {
	var lines []string
	same := true
	for _, t := range tools {
		one := q
		one.tool = ""
		lines = append(lines, verdict(one, t.set, asked))
		same = same && lines[0] == lines[len(lines)-1]
	}
	if same && q.tool == "" {
		return []string{"so it is " + lines[0]}
	}
	for i, t := range tools {
		one := q
		one.tool = t.tool
		lines[i] = "so for " + t.tool + " it is " + verdict(one, t.set, asked)
	}
	return lines
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
func verdict(q whyQuestion, set policy.GrantSet, asked bool) string {
	k, value := q.kind, q.value
	switch denied := set.Denies(k, value); {
	case set.Allows(k, value) && asked:
		return "granted"
	case denied == bladeFileID:
		return "not granted; the denial is in blade.yaml, of this folder or of the user"
	case denied != "":
		return "not granted; take the denial back with: bladehost grants revoke " + denied
	case !asked:
		return "not granted, and a grant would not help: the plugin's manifest does not ask for it"
	case (k == policy.GrantRead || k == policy.GrantWrite) && !isFolder(value):
		value = filepath.Dir(value)
	}
	only := ""
	if q.tool != "" {
		only = " --tool " + q.tool
	}
	return "not granted; grant it with: bladehost grant " + q.plugin + only + " --allow-" + string(k) + " " + quoted(value)
}
