// Package secrets lends credentials without showing them. A plugin writes
// {{secret:NAME}} into a header value; the host puts the value in for the hosts
// that the secret was granted for, and takes it out of everything that comes
// back. The values live in the sources (the environment, the system's keyring, a
// private file, a command) and are asked for anew each time, so a secret that
// was missing works as soon as it is there.
package secrets

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sort"
	"strings"
	"sync"

	"github.com/bladehost/bladehost/abi"
)

// Source knows the values of some secrets. It is safe for concurrent use.
type Source interface {
	// Get returns the value, or false if the source does not have it. An error
	// says why it could not look, and never holds a value.
	Get(ctx context.Context, name string) (value string, ok bool, err error)
}

// Grant says that a plugin may use a secret for some hosts: names or *.name, which may
// have a port.
type Grant struct {
	Name  string
	Hosts []string
}

// Vault puts secrets into requests for one plugin and remembers which values
// must never come back. It is safe for concurrent use.
type Vault struct {
	sources []Source
	covers  func(host string, patterns []string) bool

	mu     sync.Mutex
	grants map[string]Grant
	used   map[string]string
	// scrubber is for used; nil if that has grown since.
	scrubber *Scrubber
}

// NewVault makes a Vault. covers says whether a list of patterns has a host.
func NewVault(sources []Source, grants []Grant, covers func(host string, patterns []string) bool) *Vault {
	v := &Vault{sources: sources, covers: covers, used: map[string]string{}}
	v.SetGrants(grants)
	return v
}

// SetGrants puts other grants in force. Values that were used stay remembered, so
// that they are taken out of late answers too. A nil Vault ignores it.
func (v *Vault) SetGrants(grants []Grant) {
	if v == nil {
		return
	}
	m := map[string]Grant{}
	for _, g := range grants {
		m[g.Name] = g
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.grants = m
}

func (v *Vault) grant(name string) (Grant, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	g, ok := v.grants[name]
	return g, ok
}

var mark = regexp.MustCompile(`\{\{secret:([A-Za-z_][A-Za-z0-9_]*)\}\}`)

// Names are the secrets that a header value asks for.
func Names(value string) []string {
	var out []string
	for _, m := range mark.FindAllStringSubmatch(value, -1) {
		out = append(out, m[1])
	}
	return out
}

// minLength is the shortest value that is used: a shorter one would be taken out
// of half the texts that come back.
const minLength = 4

// Fill replaces the marks in a header value for a host, which has its port. Its errors are
// NOT_GRANTED or SECRET_MISSING and name the secret, never its value.
func (v *Vault) Fill(ctx context.Context, host, value string) (string, error) {
	var fail error
	out := mark.ReplaceAllStringFunc(value, func(m string) string {
		name := mark.FindStringSubmatch(m)[1]
		g, ok := v.grant(name)
		switch {
		case fail != nil:
			return ""
		case !ok:
			fail = abi.NewError(abi.CodeNotGranted, "the secret %s was not granted; grant it with --allow-secret %s", name, name)
			return ""
		case !v.covers(host, g.Hosts):
			fail = abi.NewError(abi.CodeNotGranted, "the secret %s may not be sent to %s; it is for %s", name, host, strings.Join(g.Hosts, ", "))
			return ""
		}
		secret, err := v.value(ctx, name)
		if err != nil {
			fail = err
			return ""
		}
		return secret
	})
	if fail != nil {
		return "", fail
	}
	return out, nil
}

// value asks the sources in order.
func (v *Vault) value(ctx context.Context, name string) (string, error) {
	var problems []error
	for _, s := range v.sources {
		val, ok, err := s.Get(ctx, name)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if !ok {
			continue
		}
		if len(val) < minLength {
			return "", abi.NewError(abi.CodeSecretMissing, "the secret %s has fewer than %d characters", name, minLength)
		}
		v.mu.Lock()
		if v.used[val] != name {
			v.used[val], v.scrubber = name, nil
		}
		v.mu.Unlock()
		return val, nil
	}
	if err := errors.Join(problems...); err != nil {
		return "", abi.NewError(abi.CodeSecretMissing, "the secret %s has no value: %v", name, err)
	}
	return "", abi.NewError(abi.CodeSecretMissing, "the secret %s has no value; set it with: bladehost secret set %s", name, name)
}

// Exists reports whether a granted secret has a value now.
func (v *Vault) Exists(ctx context.Context, name string) bool {
	if _, ok := v.grant(name); !ok {
		return false
	}
	_, err := v.value(ctx, name)
	return err == nil
}

// Require is nil if all of the names have a value, else SECRET_MISSING for the
// first that has none.
func (v *Vault) Require(ctx context.Context, names ...string) error {
	for _, n := range names {
		if _, ok := v.grant(n); !ok {
			return abi.NewError(abi.CodeSecretMissing, "the plugin needs the secret %s; grant it with --allow-secret %s", n, n)
		}
		if _, err := v.value(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// Scrubber takes the values that were used so far out of texts. It is nil-safe:
// a nil Vault has a Scrubber that changes nothing.
func (v *Vault) Scrubber() *Scrubber {
	if v == nil {
		return &Scrubber{}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.scrubber == nil {
		v.scrubber = NewScrubber(v.used)
	}
	return v.scrubber
}

// String never shows a value.
func (v *Vault) String() string { return fmt.Sprintf("vault of %d grants", len(v.Names())) }

// GoString never shows a value.
func (v *Vault) GoString() string { return v.String() }

// Names lists the granted secrets.
func (v *Vault) Names() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []string
	for n := range v.grants {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}
