package gateway

import (
	"context"
	"net"
	"net/url"
	"sync/atomic"

	"grapevine/gateway/exchange"
	"grapevine/gateway/health"
	"grapevine/gateway/http1"
	"grapevine/gateway/spec"
	"grapevine/gateway/stdhttp"
)

// upstream carries exchanges to one address, see http1.Upstream.
type upstream interface {
	RoundTrip(x *exchange.Exchange, b bounds) error
	// Close closes the idle connections.
	Close()
}

// pool is the connections to one address, for as long as a table wants them.
type pool struct {
	upstream upstream
	// dial makes a connection as the upstream does, for checks.
	dial    health.Dial
	users   atomic.Int64
	retired atomic.Bool
}

// newPool speaks to http addresses by our own engine. TLS, and what its handshake
// chooses, is net/http's.
func newPool(address spec.Address) *pool {
	origin := address.URL()
	p := &pool{dial: dialer(origin)}
	if origin.Scheme == "http" {
		p.upstream = http1.NewUpstream(origin, http1.UpstreamOptions{})
	} else {
		p.upstream = stdhttp.NewUpstream(origin)
	}
	return p
}

func dialer(origin *url.URL) health.Dial {
	port := origin.Port()
	if port == "" {
		port = defaultPorts[origin.Scheme]
	}
	address, d := net.JoinHostPort(origin.Hostname(), port), &net.Dialer{}
	return func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) }
}

var defaultPorts = map[string]string{"http": "80", "https": "443"}

// retire closes the idle connections, now and after every use that is still
// under way.
func (p *pool) retire() {
	p.retired.Store(true)
	p.upstream.Close()
}
