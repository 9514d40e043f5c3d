package spec

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Address is where an instance is reached: scheme://host or scheme://host:port
// with http or https, in lower case. It has no path: what a path in front of
// the request's own would mean is said by a route's pathPrefix.
type Address string

// UnmarshalText reads an address.
func (a *Address) UnmarshalText(text []byte) error {
	u, err := parseHTTP(string(text))
	switch {
	case err != nil:
		return err
	case u.Path != "" && u.Path != "/":
		return fmt.Errorf("must not have a path (%s): a route's pathPrefix puts one in front", shorten(u.EscapedPath()))
	}
	*a = Address(u.Scheme + "://" + u.Host)
	return nil
}

func (Address) pattern() string { return `^https?://[^/?#@]+$` }

// URL is the address as a URL, without a path.
func (a Address) URL() *url.URL {
	scheme, host, _ := strings.Cut(string(a), "://")
	return &url.URL{Scheme: scheme, Host: host}
}

// URL is an http or https URL that may have a path, such as an issuer of tokens.
type URL string

// UnmarshalText reads a URL.
func (u *URL) UnmarshalText(text []byte) error {
	parsed, err := parseHTTP(string(text))
	if err != nil {
		return err
	}
	*u = URL(parsed.String())
	return nil
}

func (URL) pattern() string { return `^https?://[^?#@]+$` }

// Origin is what browsers call a page's scheme, host and port; * is any.
type Origin string

// UnmarshalText reads an origin.
func (o *Origin) UnmarshalText(text []byte) error {
	if string(text) == "*" {
		*o = "*"
		return nil
	}
	u, err := parseHTTP(string(text))
	switch {
	case err != nil:
		return err
	case u.Path != "":
		return errors.New("must not have a path, not even a slash")
	}
	*o = Origin(u.Scheme + "://" + u.Host)
	return nil
}

func (Origin) pattern() string { return `^(\*|https?://[^/?#@]+)$` }

// parseHTTP reads an http or https URL without user, query and fragment, and
// gives its scheme and host in lower case.
func parseHTTP(s string) (*url.URL, error) {
	scheme, _, found := strings.Cut(s, "://")
	if !found {
		return nil, errors.New("is not a URL: write http://host:port or https://host:port")
	}
	if scheme = strings.ToLower(scheme); scheme != "http" && scheme != "https" {
		return nil, fmt.Errorf("scheme %q is neither http nor https", shorten(scheme))
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, reason(err)
	case u.User != nil:
		return nil, errors.New("must not hold a user name or password")
	case strings.ContainsRune(s, '#'):
		return nil, errors.New("must not have a fragment (#)")
	case strings.ContainsRune(s, '?'):
		return nil, errors.New("must not have a query (?)")
	}
	u.Scheme = scheme
	u.Host, err = parseHostPort(u.Host)
	return u, err
}

// reason is what url.Parse found, without the URL, which the fault shows.
func reason(err error) error {
	if e := new(url.Error); errors.As(err, &e) {
		return fmt.Errorf("is not a URL: %w", e.Err)
	}
	return err
}

// parseHostPort reads host or host:port and gives it in lower case.
func parseHostPort(s string) (string, error) {
	host, port := s, ""
	if colon := strings.LastIndexByte(s, ':'); colon > strings.LastIndexByte(s, ']') {
		host, port = s[:colon], s[colon+1:]
		number, err := parsePort(port, 1)
		if err != nil {
			return "", err
		}
		port = ":" + number
	}
	host, err := parseHost(strings.ToLower(host))
	return host + port, err
}

func parsePort(s string, least uint64) (string, error) {
	number, err := strconv.ParseUint(s, 10, 16)
	if err != nil || number < least {
		return "", fmt.Errorf("port %q is not a number from %d to 65535", shorten(s), least)
	}
	return strconv.FormatUint(number, 10), nil
}
