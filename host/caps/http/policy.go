package http

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/bladehost/bladehost/abi"
)

// Policy says where requests may go. The zero value allows every public host and
// every method; Hosts narrows it.
type Policy struct {
	// Hosts are the allowed hosts: a name, *.name for all below it, an address, or
	// any of them with :port. Nil does not restrict; an empty list allows none. An
	// address with a port, or localhost with a port, allows exactly that, private
	// or not.
	Hosts []string
	// Declared are the hosts that whoever asks said it needs; they must be allowed
	// by Hosts too. Nil does not restrict.
	Declared []string
	// Blocked wins over Hosts, in the same forms.
	Blocked []string
	// Private are names with a port that may lead to private addresses; they must
	// be allowed by Hosts too.
	Private []string
	// Methods are the allowed methods, in capitals. Nil does not restrict.
	Methods []string
	// AllowPrivateNetwork allows private addresses everywhere. It is for trusted
	// local use only.
	AllowPrivateNetwork bool
	// Grant tells how a person can allow a host, for errors; nil says nothing.
	Grant func(hostPort string) string
}

// CheckPattern is nil for what may stand in the lists of a Policy.
func CheckPattern(p string) error {
	host, port, err := splitPattern(p)
	if err != nil {
		return err
	}
	if port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 || strconv.Itoa(n) != port {
			return fmt.Errorf("%q: the port is not a number from 1 to 65535", p)
		}
	}
	bare := strings.TrimPrefix(host, "*.")
	name, addr, err := canonicalHost(bare)
	switch {
	case err != nil:
		return fmt.Errorf("%q: %w", p, err)
	case host != bare && addr.IsValid():
		return fmt.Errorf("%q: there is nothing below an address", p)
	case host != bare && !strings.Contains(name, "."):
		return fmt.Errorf("%q covers a whole top-level domain", p)
	case strings.Contains(name, "*"):
		return fmt.Errorf("%q: a star can only be the first label, as in *.example.com", p)
	case name != bare:
		return fmt.Errorf("%q: write it as %s", p, name)
	}
	return nil
}

// Covers reports whether a list of patterns has a host, which may be given with its
// port. Without one, a pattern that names a port does not have it.
func Covers(host string, patterns []string) bool {
	bare, port, err := splitPattern(host)
	if err != nil {
		return false
	}
	name, addr, err := canonicalHost(bare)
	if err != nil {
		return false
	}
	t := Target{Host: name, Addr: addr}
	if port != "" {
		if t.Port, err = strconv.Atoi(port); err != nil {
			return false
		}
	}
	ok, _ := covered(patterns, t)
	return ok
}

// splitPattern parts host and port, which may be missing.
func splitPattern(p string) (host, port string, err error) {
	if strings.HasPrefix(p, "[") {
		end := strings.IndexByte(p, ']')
		if end < 0 {
			return "", "", fmt.Errorf("%q: the bracket is not closed", p)
		}
		rest := p[end+1:]
		if rest != "" && rest[0] != ':' {
			return "", "", fmt.Errorf("%q: a port follows the bracket", p)
		}
		return p[1:end], strings.TrimPrefix(rest, ":"), nil
	}
	if strings.Count(p, ":") > 1 {
		return p, "", nil // an IPv6 address without a port
	}
	host, port, found := strings.Cut(p, ":")
	if found && port == "" {
		return "", "", fmt.Errorf("%q: the port is empty", p)
	}
	return host, port, nil
}

// matches reports whether a pattern covers a target, and whether it names
// exactly its address or localhost and its port.
func matches(pattern string, t Target) (ok, exact bool) {
	host, port, err := splitPattern(pattern)
	if err != nil || (port != "" && port != strconv.Itoa(t.Port)) {
		return false, false
	}
	if below, star := strings.CutPrefix(host, "*"); star {
		return !t.Addr.IsValid() && len(below) > 1 && strings.HasSuffix(t.Host, below) && t.Host != below[1:], false
	}
	if a, err := netip.ParseAddr(host); err == nil {
		same := t.Addr.IsValid() && a.Unmap() == t.Addr
		return same, same && port != ""
	}
	return host == t.Host, host == t.Host && host == "localhost" && port != ""
}

func covered(list []string, t Target) (ok, exact bool) {
	for _, p := range list {
		o, e := matches(p, t)
		ok, exact = ok || o, exact || e
	}
	return ok, exact
}

// judge is the second gate. private says that the address that is dialled may be
// private.
func (p *Policy) judge(t Target, method string) (private bool, err *abi.Error) {
	if p.Methods != nil && !slices.Contains(p.Methods, method) {
		return false, abi.NewError(abi.CodeNotGranted, "the method %s is not allowed for %s; allowed are %s", method, t.HostPort(), orNone(p.Methods))
	}
	if ok, _ := covered(p.Blocked, t); ok {
		return false, abi.NewError(abi.CodeNetBlocked, "%s is blocked", t.HostPort())
	}
	if said, _ := covered(p.Declared, t); p.Declared != nil && !said {
		return false, abi.NewError(abi.CodeNotDeclared, "%s is not among the hosts that the plugin declares: %s", t.HostPort(), orNone(p.Declared))
	}
	ok, exact := covered(p.Hosts, t)
	if p.Hosts != nil && !ok {
		return false, abi.NewError(abi.CodeNotGranted, "%s is not among the allowed hosts%s", t.HostPort(), p.hint(t))
	}
	if exact || p.AllowPrivateNetwork {
		return true, nil
	}
	if named, _ := covered(p.Private, t); named && !t.Addr.IsValid() {
		return true, nil
	}
	if why := t.checkPublic(); why != nil {
		return false, abi.NewError(abi.CodeNetBlocked, "%s cannot be reached: %v", t.HostPort(), why)
	}
	return false, nil
}

// Allows is nil if the policy allows a request to a target, as far as that can be
// said before its name is resolved.
func (p *Policy) Allows(t Target, method string) error {
	if _, err := p.judge(t, method); err != nil {
		return err
	}
	return nil
}

func (p *Policy) hint(t Target) string {
	if p.Grant == nil {
		return ""
	}
	return "; " + p.Grant(t.HostPort())
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
