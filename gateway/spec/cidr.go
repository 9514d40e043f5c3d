package spec

import (
	"errors"
	"fmt"
	"net/netip"
)

// CIDR is a range of client addresses, as 10.0.0.0/8; a single address is a
// range of one.
type CIDR string

// UnmarshalText reads a range or an address.
func (c *CIDR) UnmarshalText(text []byte) error {
	prefix, err := parsePrefix(string(text))
	if err != nil {
		return err
	}
	*c = CIDR(prefix.String())
	return nil
}

func (CIDR) pattern() string { return `^[0-9a-f:.]+(/[0-9]+)?$` }

// Prefix is the range as a value.
func (c CIDR) Prefix() netip.Prefix {
	prefix, _ := parsePrefix(string(c))
	return prefix
}

func parsePrefix(s string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(s)
	if err != nil {
		addr, bad := netip.ParseAddr(s)
		if bad != nil || addr.Zone() != "" {
			return netip.Prefix{}, errors.New(`is not a range such as "10.0.0.0/8" or an address`)
		}
		prefix = netip.PrefixFrom(addr, addr.BitLen())
	}
	switch {
	case prefix.Addr().Is4In6():
		return netip.Prefix{}, errors.New("is IPv4 in the clothes of IPv6: write it as IPv4")
	case prefix != prefix.Masked():
		return netip.Prefix{}, fmt.Errorf("has bits set after the first %d: write %s", prefix.Bits(), prefix.Masked())
	}
	return prefix, nil
}

// TrustedProxy is whose forwarding headers are believed: a CIDR, loopback, or
// private for the address ranges of private networks.
type TrustedProxy string

// UnmarshalText reads a range or one of the two words.
func (t *TrustedProxy) UnmarshalText(text []byte) error {
	if s := string(text); s == "loopback" || s == "private" {
		*t = TrustedProxy(s)
		return nil
	}
	var c CIDR
	if c.UnmarshalText(text) != nil {
		_, err := parsePrefix(string(text))
		return fmt.Errorf("is neither loopback nor private, and %w", err)
	}
	*t = TrustedProxy(c)
	return nil
}

func (TrustedProxy) pattern() string { return `^(loopback|private|[0-9a-f:.]+(/[0-9]+)?)$` }

// Nets are the ranges that are meant.
func (t TrustedProxy) Nets() []netip.Prefix {
	switch t {
	case "loopback":
		return prefixes("127.0.0.0/8", "::1/128")
	case "private": // RFC 1918 and RFC 4193
		return prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
	default:
		return prefixes(string(t))
	}
}

func prefixes(ranges ...string) (all []netip.Prefix) {
	for _, r := range ranges {
		all = append(all, CIDR(r).Prefix())
	}
	return all
}
