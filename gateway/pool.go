package gateway

import (
	"sync/atomic"

	"grapevine/gateway/exchange"
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
	users    atomic.Int64
	retired  atomic.Bool
}

// newPool speaks to http addresses by our own engine. TLS, and what its handshake
// chooses, is net/http's.
func newPool(address spec.Address) *pool {
	if origin := address.URL(); origin.Scheme == "http" {
		return &pool{upstream: http1.NewUpstream(origin, http1.UpstreamOptions{})}
	}
	return &pool{upstream: stdhttp.NewUpstream(address.URL())}
}

// retire closes the idle connections, now and after every use that is still
// under way.
func (p *pool) retire() {
	p.retired.Store(true)
	p.upstream.Close()
}
