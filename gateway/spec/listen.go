package spec

import (
	"errors"
	"strings"
)

// ListenAddress is where a listener binds: host:port, or :port for all
// interfaces. Port 0 lets the system choose. It may also be written as the URL
// http://*:8080.
type ListenAddress string

// UnmarshalText reads an address to bind.
func (l *ListenAddress) UnmarshalText(text []byte) error {
	s := string(text)
	if scheme, rest, ok := strings.Cut(s, "://"); ok {
		if scheme != "http" && scheme != "https" {
			return errors.New("is neither host:port nor an http or https URL")
		}
		s = strings.TrimSuffix(rest, "/")
	}
	colon := strings.LastIndexByte(s, ':')
	if colon < 0 || colon < strings.LastIndexByte(s, ']') {
		return errors.New("has no port: write :8080 or 127.0.0.1:8080")
	}
	port, err := parsePort(s[colon+1:], 0)
	if err != nil {
		return err
	}
	host := s[:colon]
	if host == "*" || host == "+" {
		host = ""
	}
	if host != "" {
		if host, err = parseHost(strings.ToLower(host)); err != nil {
			return err
		}
	}
	*l = ListenAddress(host + ":" + port)
	return nil
}

func (ListenAddress) pattern() string { return `:[0-9]+/?$` }

// check keeps the scheme of a URL from being dropped: http://*:8080 names an
// address, but https://*:8443 also says that there is TLS, and where it is given
// for a listener without, that would be served in the clear.
func (l *Listeners) check(c *checks) {
	for _, name := range []string{"http", "admin", "gossip", "metrics"} {
		if strings.HasPrefix(c.n.find(name).text, "https://") {
			c.fault(name, "is served without TLS: give an https URL to listeners.https")
		}
	}
	if strings.HasPrefix(c.n.find("https").text, "http://") {
		c.fault("https", "is served with TLS: give an http URL to listeners.http")
	}
}
