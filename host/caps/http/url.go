package http

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// maxURL bounds a URL, in bytes: what servers commonly take.
const maxURL = 8 << 10

// Target is a URL that passed the first gate.
type Target struct {
	URL *url.URL
	// Host is the canonical host: lower-case ASCII without a trailing dot, or an
	// address.
	Host string
	Port int
	// Addr is set if the host is an address.
	Addr netip.Addr
}

// HostPort is host:port, with brackets where they belong.
func (t Target) HostPort() string {
	if t.Addr.Is6() {
		return "[" + t.Host + "]:" + strconv.Itoa(t.Port)
	}
	return t.Host + ":" + strconv.Itoa(t.Port)
}

// refusedPorts are the ports that the Fetch standard keeps browsers from, and
// the usual ports of internal services.
var refusedPorts = []int{
	0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110, 111, 113, 115, 117,
	119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989,
	990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
	2375, 2376, 2379, 2380, 3306, 5432, 6379, 8500, 9200, 10250, 11211, 27017,
}

// specialNames end names that are not of the public network.
var specialNames = []string{"localhost", "local", "internal", "intranet", "lan", "home", "corp", "private", "localdomain", "home.arpa", "onion", "test", "invalid", "example", "alt"}

var lookup = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.StrictDomainName(true), idna.VerifyDNSLength(true))

// ParseTarget is the first gate: the grammar of the URL. It judges no host.
func ParseTarget(raw string) (Target, error) {
	if len(raw) > maxURL {
		return Target{}, fmt.Errorf("the URL has %d bytes, at most %d are allowed", len(raw), maxURL)
	}
	for i := range len(raw) {
		if c := raw[i]; c <= ' ' || c == 0x7f || c == '\\' {
			return Target{}, errors.New("the URL has a control character, a space or a backslash")
		}
	}
	u, err := url.Parse(raw)
	if err != nil {
		return Target{}, errors.New("the URL cannot be read")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return Target{}, fmt.Errorf("the scheme %q is not http or https", u.Scheme)
	case u.Opaque != "":
		return Target{}, errors.New("the URL has no //")
	case u.User != nil:
		return Target{}, errors.New("the URL holds a user name or password; put credentials into a header")
	}
	t := Target{URL: u}
	if t.Port, err = port(u); err != nil {
		return Target{}, err
	}
	t.Host, t.Addr, err = canonicalHost(u.Hostname())
	if err != nil {
		return Target{}, err
	}
	u.Fragment, u.RawFragment = "", ""
	return t, nil
}

func port(u *url.URL) (int, error) {
	p := u.Port()
	if p == "" {
		if strings.HasSuffix(u.Host, ":") {
			return 0, errors.New("the port is empty")
		}
		if u.Scheme == "https" {
			return 443, nil
		}
		return 80, nil
	}
	n, err := strconv.Atoi(p)
	if err != nil || n < 1 || n > 65535 || strconv.Itoa(n) != p {
		return 0, fmt.Errorf("the port %q is not a number from 1 to 65535", p)
	}
	return n, nil
}

// canonicalHost maps full-width and other odd letters first, so that what looks
// like a name but is an address is judged as one.
func canonicalHost(h string) (string, netip.Addr, error) {
	none := netip.Addr{}
	switch {
	case h == "":
		return "", none, errors.New("the URL has no host")
	case strings.Contains(h, "%"):
		return "", none, errors.New("the host has an escape or a zone")
	case strings.Contains(h, ":"):
		a, err := netip.ParseAddr(h)
		if err != nil {
			return "", none, errors.New("the host is no IPv6 address")
		}
		a = a.Unmap()
		return a.String(), a, nil
	}
	name, err := lookup.ToASCII(strings.TrimSuffix(h, "."))
	if err != nil {
		return "", none, fmt.Errorf("the host %q is no name", h)
	}
	name = strings.ToLower(name)
	// What another reader would refuse or read in another way is no name.
	if again, err := lookup.ToASCII(name); err != nil || again != name || !utf8.ValidString(h) {
		return "", none, fmt.Errorf("the host %q is no name", h)
	}
	if name == "" || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") || strings.Contains(name, "..") {
		return "", none, errors.New("the host has an empty part")
	}
	if numeric(name[strings.LastIndexByte(name, '.')+1:]) {
		a, err := netip.ParseAddr(name)
		if err != nil {
			return "", none, fmt.Errorf("the host %q is an address in an odd form; write four decimal numbers", h)
		}
		return name, a, nil
	}
	return name, none, nil
}

// numeric is the rule of the URL standard: a host whose last part is a number is
// an IPv4 address, in whatever form.
func numeric(s string) bool {
	if strings.HasPrefix(s, "0x") {
		return true
	}
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}

// checkPublic is nil if nothing about the target says that it is not public. The
// address that its name leads to is judged when it is dialled.
func (t Target) checkPublic() error {
	if slices.Contains(refusedPorts, t.Port) {
		return fmt.Errorf("port %d is not for the web", t.Port)
	}
	if t.Addr.IsValid() {
		return CheckAddr(t.Addr)
	}
	if !strings.Contains(t.Host, ".") {
		return errors.New("a name of one part is of a local network")
	}
	for _, s := range specialNames {
		if t.Host == s || strings.HasSuffix(t.Host, "."+s) {
			return fmt.Errorf("names that end in .%s are not public", s)
		}
	}
	return nil
}
