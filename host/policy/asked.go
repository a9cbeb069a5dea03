package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bladehost/bladehost/abi"
)

// Asked lists what a manifest asks for, a line each and sorted, so that what two
// modules of one name ask for can be compared. It is never nil: nothing is an answer.
func Asked(m *abi.Manifest) []string {
	c := m.Requested()
	out := []string{}
	if c.FS != nil {
		out = append(out, "read folders")
		if c.FS.Write {
			out = append(out, "write folders")
		}
	}
	if c.HTTP != nil {
		methods := "any method"
		if len(c.HTTP.Methods) > 0 {
			methods = strings.Join(slices.Sorted(slices.Values(c.HTTP.Methods)), ", ")
		}
		for _, h := range c.HTTP.Hosts {
			out = append(out, fmt.Sprintf("reach %s (%s)", h, methods))
		}
	}
	for _, s := range c.Secrets {
		out = append(out, fmt.Sprintf("use the secret %s at %s", s.Name, strings.Join(slices.Sorted(slices.Values(s.Hosts)), ", ")))
	}
	for _, e := range c.Env {
		out = append(out, "see the variable "+e.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// AskedBefore is what the module asked for that a grant was last made to, of the
// stale grants; known is false where no grant says.
func (s GrantSet) AskedBefore() (asked []string, digest string, known bool) {
	var last Grant
	for _, g := range s.Stale {
		if g.Asked != nil && !g.Created.Before(last.Created) {
			last, known = g, true
		}
	}
	return last.Asked, last.Digest, known
}
