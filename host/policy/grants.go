package policy

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/strictjson"
)

// GrantKind is what a grant lends.
type GrantKind string

// Grant kinds, each with what its value is.
const (
	GrantRead       GrantKind = "read"        // a folder
	GrantWrite      GrantKind = "write"       // a folder, which may then be read too
	GrantNet        GrantKind = "net"         // a host, *.host, host:port or address:port
	GrantNetPrivate GrantKind = "net-private" // a name with a port
	GrantEnv        GrantKind = "env"         // a variable's name
	GrantSecret     GrantKind = "secret"      // a secret's name
)

// GrantKinds lists the kinds.
func GrantKinds() []GrantKind {
	return []GrantKind{GrantRead, GrantWrite, GrantNet, GrantNetPrivate, GrantEnv, GrantSecret}
}

// GrantScope is how far a grant reaches.
type GrantScope string

// Grant scopes. Once and session are never kept on disk.
const (
	ScopeOnce    GrantScope = "once"    // one call
	ScopeSession GrantScope = "session" // all calls of one session
	ScopeTool    GrantScope = "tool"    // one tool of a plugin, in all sessions
	ScopePlugin  GrantScope = "plugin"  // all tools of a plugin, in all sessions
)

// Grant is what a user allowed, or denied, one plugin. It is bound to the
// module's digest: another module of the same name has none of it.
type Grant struct {
	ID     string    `json:"id"`
	Plugin string    `json:"plugin"`
	Digest string    `json:"sha256"`
	Kind   GrantKind `json:"kind"`
	Value  string    `json:"value"`
	// Deny makes it a denial, which wins over every grant.
	Deny  bool       `json:"deny,omitempty"`
	Scope GrantScope `json:"scope"`
	// Tool is set for ScopeTool.
	Tool    string     `json:"tool,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
	Created time.Time  `json:"created"`
	// Asked is what the module asked for when it was granted; see [Asked]. Nil is not
	// known, an empty list is nothing.
	Asked []string `json:"asked,omitzero"`
	// Real is the folder that Value meant when it was granted, after links.
	Real string `json:"realPath,omitempty"`
}

// String is the grant as the flag that makes it.
func (g Grant) String() string {
	word := "allow"
	if g.Deny {
		word = "deny"
	}
	s := fmt.Sprintf("--%s-%s %s", word, g.Kind, g.Value)
	if g.Tool != "" {
		s += " for the tool " + g.Tool
	}
	if g.Expires != nil {
		s += " until " + g.Expires.UTC().Format(time.RFC3339)
	}
	return s
}

func (g Grant) live(now time.Time) bool { return g.Expires == nil || now.Before(*g.Expires) }

// GrantStore keeps grants in one file that only the user can write. Several
// processes may use it at once: a change is seen by the next reader.
type GrantStore struct{ path string }

// grantVersion is the version of the file's format, maxGrants what it may hold.
const (
	grantVersion = 1
	maxGrants    = 10_000
	maxGrantFile = 8 << 20
)

type grantFile struct {
	Version int     `json:"version"`
	Grants  []Grant `json:"grants"`
}

// OpenGrants uses the file at path, which is made with the first grant.
func OpenGrants(path string) *GrantStore { return &GrantStore{path} }

// List returns all grants, expired ones too, in the order they were made.
func (s *GrantStore) List() ([]Grant, error) {
	f, err := s.read()
	if err != nil {
		return nil, err
	}
	return f.Grants, nil
}

func (s *GrantStore) file() OwnFile { return OwnFile{Path: s.path, MaxBytes: maxGrantFile} }

func (s *GrantStore) read() (*grantFile, error) {
	b, err := s.file().Read()
	if err != nil {
		e := abi.AsError(err)
		return nil, abi.NewError(e.Code, "%s; nothing is granted until that is mended", e.Message).Because(err)
	}
	return s.parse(b)
}

func (s *GrantStore) parse(b []byte) (*grantFile, error) {
	if b == nil {
		return &grantFile{Version: grantVersion}, nil
	}
	bad := func(format string, args ...any) (*grantFile, error) {
		return nil, abi.NewError(abi.CodeIO, "the grants in %s cannot be used: %s; nothing is granted until that is mended", s.path, fmt.Sprintf(format, args...))
	}
	var f grantFile
	if err := strictjson.DecodeKnown(b, &f); err != nil {
		return bad("it is %v", err)
	}
	if f.Version != grantVersion {
		return bad("its format has version %d; this bladehost knows %d", f.Version, grantVersion)
	}
	for i, g := range f.Grants {
		if err := g.check(); err != nil {
			return bad("grant %d: %v", i, err)
		}
	}
	return &f, nil
}

// check refuses a grant that could not have been made here.
func (g Grant) check() error {
	switch {
	case g.ID == "" || len(g.ID) > 64:
		return errors.New("it has no id")
	case !abi.ValidPackageName(g.Plugin):
		return fmt.Errorf("%q is no plugin's name", g.Plugin)
	case len(g.Digest) != 64 || strings.Trim(g.Digest, "0123456789abcdef") != "":
		return errors.New("it has no SHA-256")
	case !slices.Contains(GrantKinds(), g.Kind):
		return fmt.Errorf("the kind %q is not known", g.Kind)
	case g.Value == "" || len(g.Value) > 4096 || strings.ContainsRune(g.Value, 0):
		return errors.New("its value makes no sense")
	case g.Scope != ScopePlugin && g.Scope != ScopeTool:
		return fmt.Errorf("the scope %q is never kept", g.Scope)
	case (g.Scope == ScopeTool) != (g.Tool != ""):
		return errors.New("scope and tool do not agree")
	case (g.Kind == GrantRead || g.Kind == GrantWrite) && !g.Deny && !filepath.IsAbs(g.Real):
		return errors.New("it names no real folder")
	}
	return nil
}

// Add keeps grants. The same grant twice is one, with the later expiry.
func (s *GrantStore) Add(ctx context.Context, list ...Grant) error {
	return s.change(ctx, func(f *grantFile) error {
		for _, g := range list {
			if g.ID == "" {
				g.ID = grantID()
			}
			if g.Created.IsZero() {
				g.Created = time.Now().UTC().Truncate(time.Second)
			}
			if err := g.check(); err != nil {
				return abi.NewError(abi.CodeOptions, "%s cannot be granted: %v", g, err)
			}
			same := func(o Grant) bool {
				return o.Plugin == g.Plugin && o.Digest == g.Digest && o.Kind == g.Kind && o.Value == g.Value && o.Deny == g.Deny && o.Tool == g.Tool
			}
			for _, o := range f.Grants {
				if same(o) && g.Expires != nil && (o.Expires == nil || o.Expires.After(*g.Expires)) {
					g.Expires = o.Expires
				}
			}
			f.Grants = append(slices.DeleteFunc(f.Grants, same), g)
		}
		if len(f.Grants) > maxGrants {
			return abi.NewError(abi.CodeOptions, "there are %d grants already; revoke some", maxGrants)
		}
		return nil
	})
}

// Revoke removes the grants that match and returns them.
func (s *GrantStore) Revoke(ctx context.Context, match func(Grant) bool) ([]Grant, error) {
	var gone []Grant
	err := s.change(ctx, func(f *grantFile) error {
		f.Grants = slices.DeleteFunc(f.Grants, func(g Grant) bool {
			if match(g) {
				gone = append(gone, g)
				return true
			}
			return false
		})
		return nil
	})
	return gone, err
}

// change runs f on the file's content while no other process does. Grants that
// have expired are dropped afterwards.
func (s *GrantStore) change(ctx context.Context, change func(*grantFile) error) error {
	return s.file().Change(ctx, func(old []byte) ([]byte, error) {
		f, err := s.parse(old)
		if err != nil {
			return nil, err
		}
		if err := change(f); err != nil {
			return nil, err
		}
		now := time.Now()
		f.Grants = slices.DeleteFunc(f.Grants, func(g Grant) bool { return !g.live(now) })
		b, err := json.MarshalIndent(f, "", "  ")
		return append(b, '\n'), err
	})
}

func grantID() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // crypto/rand never fails on the supported platforms
	return "g-" + hex.EncodeToString(b[:])
}

// Watch calls changed as soon as it watches, after the file was changed by anybody,
// and after a grant expired, until ctx ends. It looks every interval, so a revocation
// is noticed that late at most; one that came before it watched, in the first call.
func (s *GrantStore) Watch(ctx context.Context, interval time.Duration, changed func()) {
	t := time.NewTicker(interval)
	defer t.Stop()
	last, next := s.stamp(), s.nextExpiry()
	changed()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			now := s.stamp()
			if now.same(last) && (next.IsZero() || time.Now().Before(next)) {
				continue
			}
			last, next = now, s.nextExpiry()
			changed()
		}
	}
}

// nextExpiry is when the next grant expires, or zero.
func (s *GrantStore) nextExpiry() (next time.Time) {
	list, err := s.List()
	if err != nil {
		return next // whoever uses the grants reports it
	}
	now := time.Now()
	for _, g := range list {
		if g.Expires != nil && g.Expires.After(now) && (next.IsZero() || g.Expires.Before(next)) {
			next = *g.Expires
		}
	}
	return next
}

// stamp tells two contents of the file apart: each change is a new file.
func (s *GrantStore) stamp() stamp {
	fi, err := os.Stat(s.path)
	if err != nil {
		return stamp{err: err.Error()}
	}
	return stamp{fi: fi}
}

// stamp is a file as it was found, or why it was not.
type stamp struct {
	fi  os.FileInfo
	err string
}

// same leaves out what reading changes, such as the time of that.
func (a stamp) same(b stamp) bool {
	if a.fi == nil || b.fi == nil {
		return a.fi == nil && b.fi == nil && a.err == b.err
	}
	return os.SameFile(a.fi, b.fi) && a.fi.ModTime().Equal(b.fi.ModTime()) && a.fi.Size() == b.fi.Size()
}

// GrantSet is what grants come to for one plugin: the values by kind, and the
// denied ones.
type GrantSet struct {
	Allow, Deny map[GrantKind][]Grant
	// Stale are grants of another module of the same name: they do not count.
	Stale []Grant
	// Covers says whether a granted pattern has a host; nil compares texts.
	Covers func(host, pattern string) bool
}

// Effective picks the grants that count for one tool of a module now. Denials count
// for every module of the name. Without a toolName it picks those that count for all
// tools; denials for one of them, too, so that nothing denied is taken for granted.
func Effective(list []Grant, plugin, digest, toolName string, now time.Time) GrantSet {
	set := GrantSet{Allow: map[GrantKind][]Grant{}, Deny: map[GrantKind][]Grant{}}
	for _, g := range list {
		switch {
		case g.Plugin != plugin || !g.live(now):
		case g.Deny && g.Scope == ScopeTool && toolName != "" && g.Tool != toolName:
		case g.Deny:
			set.Deny[g.Kind] = append(set.Deny[g.Kind], g)
		case g.Digest != digest:
			set.Stale = append(set.Stale, g)
		case g.Scope == ScopeTool && g.Tool != toolName:
		default:
			set.Allow[g.Kind] = append(set.Allow[g.Kind], g)
		}
	}
	return set
}

// Values are the granted values of a kind, without those that a denial of the
// same kind names exactly.
func (s GrantSet) Values(k GrantKind) []string {
	var out []string
	for _, g := range s.Allow[k] {
		if !slices.ContainsFunc(s.Deny[k], func(d Grant) bool { return d.Value == g.Value }) && !slices.Contains(out, g.Value) {
			out = append(out, g.Value)
		}
	}
	return out
}

// Denied are the denied values of a kind.
func (s GrantSet) Denied(k GrantKind) []string {
	var out []string
	for _, g := range s.Deny[k] {
		out = append(out, g.Value)
	}
	return out
}

// fits reports whether a grant is about a value: a folder is about everything below
// where it really is, a denied one also about everything below its name.
func (s GrantSet) fits(g Grant, value string) bool {
	switch g.Kind {
	case GrantRead, GrantWrite:
		real, err := realPath(value)
		if err != nil {
			return g.Deny // a path that leads nowhere is not granted
		}
		home := g.Real
		if home == "" {
			if home, err = realPath(g.Value); err != nil {
				home = g.Value
			}
		}
		return within(home, real) || g.Deny && within(g.Value, value)
	case GrantNet, GrantNetPrivate:
		if s.Covers != nil {
			return s.Covers(value, g.Value)
		}
	}
	return g.Value == value
}

// about are the grants, or the denials, that decide about a value of a kind: a grant to
// write is one to read, and a denial of reading one of writing.
func (s GrantSet) about(k GrantKind, value string) (allow, deny []Grant) {
	from, not := s.Allow[k], s.Deny[k]
	switch k {
	case GrantRead:
		from = slices.Concat(from, s.Allow[GrantWrite])
	case GrantWrite:
		not = slices.Concat(not, s.Deny[GrantRead])
	}
	other := func(g Grant) bool { return !s.fits(g, value) }
	return slices.DeleteFunc(slices.Clone(from), other), slices.DeleteFunc(slices.Clone(not), other)
}

// Why tells a person, a line a grant, what counts for a value of a kind.
func (s GrantSet) Why(k GrantKind, value string) []string {
	var out []string
	allow, deny := s.about(k, value)
	for _, g := range deny {
		out = append(out, fmt.Sprintf("denied by %s: %s", g.ID, g))
	}
	for _, g := range allow {
		out = append(out, fmt.Sprintf("granted by %s: %s", g.ID, g))
	}
	for _, g := range s.Stale {
		if g.Kind == k && s.fits(g, value) {
			out = append(out, fmt.Sprintf("%s was granted to another module of this name (sha256 %s…) and does not count", g.ID, g.Digest[:12]))
		}
	}
	return out
}

// Allows reports whether a value of a kind is granted and not denied.
func (s GrantSet) Allows(k GrantKind, value string) bool {
	allow, deny := s.about(k, value)
	return len(allow) > 0 && len(deny) == 0
}

// Denies is the id of a denial that keeps a value of a kind from the plugin, or
// empty.
func (s GrantSet) Denies(k GrantKind, value string) string {
	if _, deny := s.about(k, value); len(deny) > 0 {
		return deny[0].ID
	}
	return ""
}
