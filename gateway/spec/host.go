package spec

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
)

// Host is a host name or address to match, in lower case and without a port;
// *.example.com stands for every name below example.com.
type Host string

// UnmarshalText folds the host to lower case.
func (h *Host) UnmarshalText(text []byte) error {
	name := strings.ToLower(string(text))
	rest, wildcard := strings.CutPrefix(name, "*.")
	host, err := parseHost(rest)
	if err != nil {
		return err
	}
	if wildcard {
		host = "*." + host
	}
	*h = Host(host)
	return nil
}

func (Host) pattern() string { return `^(\*\.)?[a-z0-9_.:\[\]-]+$` }

// Wildcard says whether the host stands for names below it, and below which.
func (h Host) Wildcard() (domain string, ok bool) {
	return strings.CutPrefix(string(h), "*.")
}

var (
	label      = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$`)
	lastNumber = regexp.MustCompile(`(^|\.)(0x[0-9a-f]*|[0-9]+)$`)
)

// parseHost reads a host without a port: a name, an IPv4 address or an IPv6
// address in brackets. The name is in lower case already.
func parseHost(host string) (string, error) {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		return parseIPv6(inner)
	}
	switch {
	case host == "":
		return "", errors.New("names no host")
	case strings.Contains(host, "/"):
		return "", errors.New("must be a host name alone, without scheme and path")
	case strings.Count(host, ":") > 1:
		return "", errors.New("IPv6 addresses need brackets, as [::1]")
	case strings.Contains(host, ":"):
		return "", errors.New("must not have a port")
	}
	host = strings.TrimSuffix(host, ".")
	if lastNumber.MatchString(host) {
		return parseIPv4(host)
	}
	return host, checkName(host)
}

func checkName(host string) error {
	if len(host) > 253 {
		return errors.New("is longer than 253 characters")
	}
	for part := range strings.SplitSeq(host, ".") {
		if !label.MatchString(part) {
			return fmt.Errorf("%q cannot be part of a host name%s", shorten(part), hostHint(part))
		}
	}
	return nil
}

func hostHint(part string) string {
	switch {
	case strings.Contains(part, "*"):
		return ": a wildcard is *. at the very front"
	case strings.IndexFunc(part, func(r rune) bool { return r > 127 }) >= 0:
		return ": write international names in their xn-- form"
	default:
		return ""
	}
}

func parseIPv4(host string) (string, error) {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return "", errors.New("is neither a host name nor an IPv4 address")
	}
	return addr.String(), nil
}

func parseIPv6(inner string) (string, error) {
	inner, closed := strings.CutSuffix(inner, "]")
	addr, err := netip.ParseAddr(inner)
	if !closed || err != nil || !addr.Is6() || addr.Zone() != "" {
		return "", errors.New("is not an IPv6 address in brackets, as [::1]")
	}
	return "[" + addr.String() + "]", nil
}
