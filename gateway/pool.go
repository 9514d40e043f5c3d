package gateway

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"net/url"
	"sync/atomic"
	"time"

	"grapevine/gateway/exchange"
	"grapevine/gateway/health"
	"grapevine/gateway/http1"
	"grapevine/gateway/names"
	"grapevine/gateway/spec"
	"grapevine/gateway/stdhttp"
)

// upstream carries exchanges to one address, see http1.Upstream.
type upstream interface {
	RoundTrip(x *exchange.Exchange, b bounds) error
	// Close closes the idle connections.
	Close()
	// Drain ends the connections whose other end keep refuses, as soon as nothing is
	// under way on them, and tells how many there are left.
	Drain(keep func(end net.Addr) bool) (open int)
}

// pool is the connections to one address, for as long as a table wants them.
type pool struct {
	upstream upstream
	// dial makes a connection as the upstream does, also for checks.
	dial    health.Dial
	name    *names.Name // nil for an address that needs no lookup
	users   atomic.Int64
	retired atomic.Bool
}

// newPool speaks to http addresses by our own engine. TLS, and what its handshake
// chooses, is net/http's.
func (e *estate) newPool(address spec.Address) *pool {
	origin := address.URL()
	p := &pool{}
	p.dial = e.dialer(origin, p)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return p.dial(ctx) }
	if origin.Scheme == "http" {
		p.upstream = http1.NewUpstream(origin, http1.UpstreamOptions{Dial: dial})
	} else {
		p.upstream = stdhttp.NewUpstream(origin, stdhttp.UpstreamOptions{Dial: dial})
	}
	return p
}

// dialer makes connections for p, which gets a name if origin has a hostname.
func (e *estate) dialer(origin *url.URL, p *pool) health.Dial {
	host, port := origin.Hostname(), cmp.Or(origin.Port(), defaultPorts[origin.Scheme])
	if _, err := netip.ParseAddr(host); err != nil {
		p.name = names.New(names.Options{
			Host: host, Port: port, Resolver: e.resolver, Logger: e.logger,
			Drain: func(keep func(net.Addr) bool) int { return p.upstream.Drain(keep) },
		})
		return p.name.Dial
	}
	address := net.JoinHostPort(host, port)
	return func(ctx context.Context) (net.Conn, error) { return plainDialer.DialContext(ctx, "tcp", address) }
}

var (
	defaultPorts = map[string]string{"http": "80", "https": "443"}
	plainDialer  = &net.Dialer{KeepAlive: 15 * time.Second}
)

// retire closes the idle connections, now and after every use that is still
// under way.
func (p *pool) retire() {
	p.retired.Store(true)
	if p.name != nil {
		p.name.Close()
	}
	p.upstream.Close()
}
