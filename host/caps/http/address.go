package http

import (
	"errors"
	"fmt"
	"net/netip"
)

// block is a range of addresses that are not public hosts, and what it is.
type block struct {
	p   netip.Prefix
	why string
}

// blocks are the special-purpose registries of IANA for IPv4 and IPv6, plus what
// clouds use inside public space. The standard library's predicates alone miss
// some forty of the cases in testdata/ssrf-cases.tsv.
var blocks = []block{
	{netip.MustParsePrefix("0.0.0.0/8"), "this network"},
	{netip.MustParsePrefix("10.0.0.0/8"), "a private network"},
	{netip.MustParsePrefix("100.64.0.0/10"), "a carrier's internal network"},
	{netip.MustParsePrefix("127.0.0.0/8"), "this machine"},
	{netip.MustParsePrefix("169.254.0.0/16"), "the link-local network, where clouds keep their metadata"},
	{netip.MustParsePrefix("172.16.0.0/12"), "a private network"},
	{netip.MustParsePrefix("192.0.0.0/24"), "a range for protocols"},
	{netip.MustParsePrefix("192.0.2.0/24"), "a range for documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a 6to4 relay"},
	{netip.MustParsePrefix("192.168.0.0/16"), "a private network"},
	{netip.MustParsePrefix("198.18.0.0/15"), "a range for benchmarks"},
	{netip.MustParsePrefix("198.51.100.0/24"), "a range for documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "a range for documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast range"},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved range"},
	{netip.MustParsePrefix("168.63.129.16/32"), "the agent of a cloud"},
	{netip.MustParsePrefix("2001::/23"), "a range for protocols"},
	{netip.MustParsePrefix("2001:db8::/32"), "a range for documentation"},
	{netip.MustParsePrefix("3fff::/20"), "a range for documentation"},
	{netip.MustParsePrefix("2620:4f:8000::/48"), "a sink for reverse lookups"},
	{netip.MustParsePrefix("5f00::/16"), "a range for segment routing"},
}

var (
	global6 = netip.MustParsePrefix("2000::/3")
	nat64   = netip.MustParsePrefix("64:ff9b::/96")
	sixTo4  = netip.MustParsePrefix("2002::/16")
)

// CheckAddr is nil for a plainly public address, else it says what the address
// is. IPv6 forms that carry an IPv4 address are judged by the one they carry.
func CheckAddr(a netip.Addr) error {
	if !a.IsValid() {
		return errors.New("it is no address")
	}
	if a.Zone() != "" {
		return errors.New("it has a zone, so it is of this machine's links")
	}
	if a = a.Unmap(); a.Is6() {
		if done, err := checkCarried(a); done {
			return err
		}
		if !global6.Contains(a) {
			return errors.New("it is not a public IPv6 address")
		}
	}
	for _, b := range blocks {
		if b.p.Contains(a) {
			return errors.New("it is in " + b.why)
		}
	}
	if !a.IsGlobalUnicast() {
		return errors.New("it is not the address of one host")
	}
	return nil
}

// checkCarried judges an IPv6 address by the IPv4 address inside it, and reports
// whether that decides.
func checkCarried(a netip.Addr) (done bool, err error) {
	b := a.As16()
	carried := func(i int) netip.Addr { return netip.AddrFrom4([4]byte(b[i : i+4])) }
	switch {
	case nat64.Contains(a):
		if err := CheckAddr(carried(12)); err != nil {
			return true, fmt.Errorf("it leads to %s: %w", carried(12), err)
		}
		return true, nil
	case sixTo4.Contains(a):
		return true, errors.New("6to4 addresses are not used any more")
	case b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe: // ISATAP
		if err := CheckAddr(carried(12)); err != nil {
			return true, fmt.Errorf("it leads to %s: %w", carried(12), err)
		}
	}
	return false, nil
}
