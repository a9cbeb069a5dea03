package fs

import (
	"fmt"
	"path"
	"strings"
)

// rules are the protected names of a grant.
type rules struct {
	deny, protect []rule
}

// rule is one protected path, in elements, folded where the platform's file systems
// ignore case. With any it holds at every depth.
type rule struct {
	elems []string
	path  string // the elements joined
	any   bool
}

func newRules(o Options) (rules, error) {
	var r rules
	for _, l := range []struct {
		in  []string
		out *[]rule
	}{{o.Deny, &r.deny}, {o.Protect, &r.protect}} {
		for _, p := range l.in {
			rest, anyDepth := strings.CutPrefix(p, "**/")
			c := cleanRel(rest)
			if rest == "" || isAbs(rest) || c == "." || c == ".." || strings.HasPrefix(c, "../") || strings.Contains(c, "*") {
				return rules{}, fmt.Errorf("protected name %q: %w", p, EINVAL)
			}
			c = fold(c)
			*l.out = append(*l.out, rule{elems: strings.Split(c, "/"), path: c, any: anyDepth})
		}
	}
	return r, nil
}

// RecommendedProtect are names that other programs execute or obey: Git's hooks and
// configuration, in every repository of the grant.
func RecommendedProtect() []string { return []string{"**/.git/hooks", "**/.git/config"} }

func cleanRel(p string) string { return path.Clean(toSlash(p)) }

func (r rules) empty() bool { return len(r.deny) == 0 && len(r.protect) == 0 }

// access is what an operation wants to do with a name.
type access int

const (
	accRead   access = iota
	accWrite         // change or create the file itself
	accMake          // create a plain directory
	accSwitch        // put something else in this place, or take it away: covers everything below
)

// covers reports whether a path is protected by the rule.
func (r rule) covers(rel string) bool {
	if !r.any {
		return within(rel, r.path)
	}
	return strings.Contains("/"+rel+"/", "/"+r.path+"/")
}

// leads reports whether something in this place would move what the rule protects
// away, or bring it in unseen: the place is above it. A rule for every depth travels
// with the directories that hold it, so only its own first elements count.
func (r rule) leads(rel string) bool {
	if !r.any {
		return within(r.path, rel)
	}
	for k := 1; k < len(r.elems); k++ {
		head := strings.Join(r.elems[:k], "/")
		if rel == head || strings.HasSuffix(rel, "/"+head) {
			return true
		}
	}
	return false
}

// check judges a resolved path relative to the root.
func (r rules) check(rel string, a access) error {
	rel = fold(rel)
	lists := [2][]rule{r.deny, r.protect}
	for i, list := range lists {
		if i == 1 && a == accRead {
			break
		}
		for _, x := range list {
			if x.covers(rel) || (a == accSwitch && x.leads(rel)) {
				return ErrDenied
			}
		}
	}
	return nil
}

// within reports whether p is base or below it, by whole elements.
func within(p, base string) bool {
	if base == "." || p == base {
		return true
	}
	return len(p) > len(base) && p[len(base)] == '/' && strings.HasPrefix(p, base)
}

// judge applies the rules to a place.
func (g *Grant) judge(h *handle, p place, a access) error {
	if g.rules.empty() {
		return nil
	}
	dir, err := g.resolvedDir(h, p)
	if err != nil {
		return err
	}
	return g.rules.check(joinRel(dir, p.base), a)
}

// resolvedDir is the path, relative to the root, of the directory that p lies in.
func (g *Grant) resolvedDir(h *handle, p place) (string, error) {
	if p.fd != noFD {
		if rel, known, err := g.fdPath(p.fd); known || err != nil {
			return rel, err
		}
	}
	rel, err := resolveWalk(h, p.dirRel)
	if err != nil {
		return "", err
	}
	return joinRel(h.rel, rel), nil
}

// resolveWalk follows the links of a directory path as text, one element at a time.
// It is the fallback where the system cannot tell the path of a descriptor; a race
// can mislead it, but not the containment.
func resolveWalk(h *handle, rel string) (string, error) {
	if rel == "" || rel == "." {
		return ".", nil
	}
	root, err := h.osRoot()
	if err != nil {
		return "", err
	}
	todo := strings.Split(toSlash(rel), "/")
	var done []string
	for links := 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if len(done) == 0 {
				return "", ErrEscape
			}
			done = done[:len(done)-1]
			continue
		}
		here := strings.Join(append(done[:len(done):len(done)], part), "/")
		target, err := root.Readlink(here)
		if err != nil {
			done = append(done, part)
			continue
		}
		if links++; links > maxLinks {
			return "", ELOOP
		}
		if isAbs(target) {
			return "", ErrEscape
		}
		todo = append(strings.Split(toSlash(target), "/"), todo...)
	}
	if len(done) == 0 {
		return ".", nil
	}
	return strings.Join(done, "/"), nil
}
