package http1

import (
	"context"
	"errors"
	"net"
	"net/url"
	"time"

	"grapevine/gateway/exchange"
)

// Upstream carries exchanges to one destination over plain HTTP/1.1. It is safe
// for concurrent use, and keeps idle connections until Close.
type Upstream struct {
	destination string // the origin's host, as errors name it
	address     string // what is dialled
	host        []byte // destination, for requests without an authority
	dial        func(ctx context.Context, network, address string) (net.Conn, error)
	pool        *linkPool
}

// UpstreamOptions are what an upstream can be made with. The zero value works.
type UpstreamOptions struct {
	// Dial makes connections; nil is a net.Dialer's. One that it gives is the
	// destination itself: bytes are read from and written to its descriptor, if it
	// has one.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// NewUpstream makes an upstream for an origin such as http://10.0.0.5:8080.
func NewUpstream(origin *url.URL, options UpstreamOptions) *Upstream {
	u := &Upstream{destination: origin.Host, address: origin.Host, host: []byte(origin.Host), dial: options.Dial, pool: newLinkPool()}
	if origin.Port() == "" {
		u.address = net.JoinHostPort(origin.Hostname(), "80")
	}
	if u.dial == nil {
		u.dial = (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext
	}
	return u
}

// Close closes the idle connections, now, and those in use when their exchanges
// end. A RoundTrip after it works, on a connection of its own.
func (u *Upstream) Close() { u.pool.close() }

// Drain ends the connections whose other end keep refuses: idle ones now, those in
// use when their exchanges end. It tells how many connections are left, those in
// use included.
func (u *Upstream) Drain(keep func(end net.Addr) bool) (open int) { return u.pool.drain(keep) }

// RoundTrip sends x's request and fills the head of x's response. The body then
// streams, is a Stream, and must be closed exactly once, as x.Finish does: what
// the response's slices point to is in use again after that.
//
// The error is an *exchange.AttemptError, and the request's body is untouched
// when its phase is PhaseConnect. On a connection that was used before and ends
// before a byte of the response, the request is sent once more on a new one,
// when no byte of it was sent or when its method is idempotent and nothing of its
// body was read.
//
// While a body is being sent that is not in memory as a whole, RoundTrip and the
// response's body use a second goroutine, which has ended when RoundTrip fails
// and when the body is closed. An answer with status 400 or more does not wait
// for the request's end: the rest is given up by x.Request.Abandon, which must
// end a Read that waits.
func (u *Upstream) RoundTrip(x *exchange.Exchange, b exchange.Bounds) error {
	a := newAttempt(u, x, b)
	err := a.run()
	if err == nil {
		return nil
	}
	phase, err := a.failure(err)
	a.end()
	return &exchange.AttemptError{Phase: phase, Destination: u.destination, Err: err}
}

// connect makes a new connection.
func (u *Upstream) connect(ctx context.Context, bound time.Duration) (*link, error) {
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	conn, err := u.dial(bounded, "tcp", u.address)
	switch {
	case err == nil:
		return u.pool.add(conn), nil
	case errors.Is(bounded.Err(), context.DeadlineExceeded):
		return nil, exchange.ErrTimeout
	}
	return nil, err
}
