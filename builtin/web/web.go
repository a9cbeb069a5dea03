// Package web has the built-in tools that reach the network: WebFetch and
// WebSearch.
//
// This package owns what they share: deadlines, cancellation, redirects, the policy
// of hosts, providers and the cache. Every request goes through host/caps/http,
// which judges the address that is really dialled, at each hop.
package web

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/caps/http"
	"github.com/bladehost/bladehost/host/tool"
)

// Options configures the web tools. The zero value reaches all public hosts and has
// no search provider, so no WebSearch.
type Options struct {
	// AllowedHosts, if not nil, are the only hosts that WebFetch may reach: a name,
	// which stands for all below it too, *.name for only those, or an address, each
	// with an optional :port. An empty list allows none. It does not open private
	// networks.
	AllowedHosts []string
	// BlockedHosts are never reached; they win over AllowedHosts. Same forms.
	BlockedHosts []string
	// AllowPrivateNetwork lets WebFetch reach private addresses, this machine's too.
	// It is for trusted local use only.
	AllowPrivateNetwork bool
	// Proxy is an HTTP proxy, as http://host:port, or nil. Proxies of the environment
	// are not used. Names are resolved and judged here all the same.
	Proxy *url.URL
	// Search are the search providers, in the order in which they are asked. Without
	// any there is no WebSearch.
	Search []Provider
	// Limits bounds what is read and kept.
	Limits Limits

	resolver *net.Resolver // of tests; nil is the system's
}

// Limits bounds the web tools. A zero field has the default beside it.
type Limits struct {
	// MaxBody is how much of a body is read, in bytes; the rest is left out.
	MaxBody int64 // 10 MiB
	// MaxText is how much of a body a model is shown, in UTF-16 code units.
	MaxText int // 100,000
	// CacheTime is how long a page stays in the cache, CacheEntries and CacheBytes how
	// much does, for each session. A negative time turns the cache off.
	CacheTime    time.Duration // 15 min
	CacheEntries int           // 100
	CacheBytes   int64         // 50 MiB
	// SearchTime bounds one attempt of one provider, SearchCache how long its answer
	// stays in the cache.
	SearchTime  time.Duration // 15 s
	SearchCache time.Duration // 1 h
	// RetryWait is the wait before the second attempt of a provider; it doubles.
	RetryWait time.Duration // 1 s
}

func (l Limits) withDefaults() Limits {
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{{&l.CacheTime, 15 * time.Minute}, {&l.SearchTime, 15 * time.Second}, {&l.SearchCache, time.Hour}, {&l.RetryWait, time.Second}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	for _, d := range []struct {
		v   *int64
		def int64
	}{{&l.MaxBody, 10 << 20}, {&l.CacheBytes, 50 << 20}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if l.MaxText == 0 {
		l.MaxText = 100000
	}
	if l.CacheEntries == 0 {
		l.CacheEntries = 100
	}
	return l
}

// Check is nil if the options make sense; the error names what does not.
func (o Options) Check() error {
	for name, list := range map[string][]string{"allowedHosts": o.AllowedHosts, "blockedHosts": o.BlockedHosts} {
		for _, p := range list {
			if err := http.CheckPattern(cleanPattern(p)); err != nil {
				return abi.NewError(abi.CodeOptions, "%s: %v", name, err)
			}
		}
	}
	if p := o.Proxy; p != nil && (p.Scheme != "http" || p.Hostname() == "") {
		return abi.NewError(abi.CodeOptions, "the proxy %s is not http://host:port", p.Redacted())
	}
	for i, p := range o.Search {
		if p == nil {
			return abi.NewError(abi.CodeOptions, "search provider %d is nil", i)
		}
	}
	return nil
}

// cleanPattern is a host as a pattern of caps/http: the name in ASCII and lower
// case, without a dot at its end.
func cleanPattern(p string) string {
	p = strings.ToLower(strings.TrimSpace(p))
	host, port := p, ""
	if i := strings.LastIndexByte(p, ':'); i >= 0 && strings.Count(p, ":") == 1 { // not an IPv6 address
		host, port = p[:i], p[i:]
	}
	host, star := strings.CutPrefix(host, "*.")
	host = strings.TrimSuffix(host, ".")
	if t, err := http.ParseTarget("http://" + host + "/"); err == nil && !t.Addr.IsValid() {
		host = t.Host
	}
	if star {
		host = "*." + host
	}
	return host + port
}

// patterns are hosts as patterns of caps/http, where a name covers itself only.
func patterns(hosts []string) []string {
	if hosts == nil {
		return nil
	}
	out := make([]string, 0, 2*len(hosts))
	for _, h := range hosts {
		h = cleanPattern(h)
		out = append(out, h)
		if below := "*." + h; !strings.HasPrefix(h, "*.") && http.CheckPattern(below) == nil {
			out = append(out, below)
		}
	}
	return out
}

// Tools are the tools of the group web. Options that make no sense give tools that
// say so at each call; Options.Check says it before.
func Tools(o Options) []tool.Tool {
	s := newShared(o)
	list := []tool.Tool{newFetch(s)}
	if len(o.Search) > 0 {
		list = append(list, newSearch(s))
	}
	return list
}

// shared is what the web tools share.
type shared struct {
	opt    Options
	lim    Limits
	wrong  error // what is wrong with the options
	client *http.Client
	// converting has an element for each page that is being converted.
	converting chan struct{}

	mu       sync.Mutex
	sessions map[string]*caches
}

// caches are those of one session.
type caches struct{ pages, searches *cache }

func newShared(o Options) *shared {
	s := &shared{opt: o, lim: o.Limits.withDefaults(), wrong: o.Check(), sessions: map[string]*caches{}, converting: make(chan struct{}, conversions)}
	s.client = http.New(http.Options{
		Policy: http.Policy{Hosts: patterns(o.AllowedHosts), Blocked: patterns(o.BlockedHosts), AllowPrivateNetwork: o.AllowPrivateNetwork},
		// A call's own deadline bounds all of it; what is read is bounded where it is
		// read, so that a body that is too long is cut and no error.
		Limits: http.Limits{Timeout: maxTimeout * time.Millisecond, Header: maxTimeout * time.Millisecond, MaxBody: s.lim.MaxBody + 1},
		Proxy:  o.Proxy, Resolver: o.resolver,
	})
	return s
}

// caches are those of a session; a call without one has its own, which nobody else
// sees.
func (s *shared) caches(session string) *caches {
	make := func() *caches {
		return &caches{newCache(s.lim.CacheEntries, s.lim.CacheBytes), newCache(s.lim.CacheEntries, s.lim.CacheBytes)}
	}
	if session == "" {
		return make()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.sessions[session]
	if c == nil {
		c = make()
		s.sessions[session] = c
	}
	return c
}

// EndSession forgets what was cached for a session, and closes idle connections.
func (s *shared) EndSession(_ context.Context, sessionID string) error {
	s.mu.Lock()
	delete(s.sessions, sessionID)
	s.mu.Unlock()
	s.client.Close()
	return nil
}

// Codes of the web tools.
const (
	codeScheme      abi.Code = "blocked_scheme"
	codeHost        abi.Code = "blocked_host"
	codeAddress     abi.Code = "blocked_address"
	codeDNS         abi.Code = "dns_failure"
	codeConnect     abi.Code = "connect_failed"
	codeTLS         abi.Code = "tls_failure"
	codeBroken      abi.Code = "response_broken"
	codeLimit       abi.Code = "response_limit"
	codeTooMany     abi.Code = "too_many_redirects"
	codeNoLocation  abi.Code = "missing_location"
	codeStatus      abi.Code = "http_status"
	codeTimeout     abi.Code = "timeout"
	codeAborted     abi.Code = "aborted"
	codeAllFailed   abi.Code = "all_providers_failed"
	codeMarkdown    abi.Code = "extract_failed"
	codeNotProvided abi.Code = "provider_failed"
)

func failure(kind abi.ErrorType, code abi.Code, format string, args ...any) *abi.Error {
	return &abi.Error{Type: kind, Code: code, Message: fmt.Sprintf(format, args...)}
}
