package stdhttp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"grapevine/gateway/exchange"
)

const (
	// idlePerDestination bounds the idle connections kept to a destination;
	// further ones are closed when their request ends.
	idlePerDestination = 1024
	// idleConnTimeout is below the keep-alive timeouts of common servers
	// (Node.js 5 s apart), so that we close first and no request meets a
	// connection that is just being closed.
	idleConnTimeout = 30 * time.Second
	// maxResponseHead bounds the head of a response.
	maxResponseHead = 256 << 10
)

// Upstream carries exchanges to one destination. It is safe for concurrent
// use, and idle connections are kept until Close.
type Upstream struct {
	scheme, host string
	// transport is replaced when connections are to be drained.
	transport atomic.Pointer[http.Transport]
	conns     conns
}

// UpstreamOptions are what an upstream can be made with. The zero value works.
type UpstreamOptions struct {
	// Dial makes connections; nil is a net.Dialer's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// NewUpstream makes an upstream for an origin such as http://10.0.0.5:8080.
func NewUpstream(origin *url.URL, options UpstreamOptions) *Upstream {
	u := &Upstream{scheme: origin.Scheme, host: origin.Host}
	if u.conns.dial = options.Dial; u.conns.dial == nil {
		u.conns.dial = (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext
	}
	u.transport.Store(&http.Transport{
		DialContext:            u.conns.connect,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // the client's Accept-Encoding is forwarded as it is
		MaxIdleConns:           0,
		MaxIdleConnsPerHost:    idlePerDestination,
		IdleConnTimeout:        idleConnTimeout,
		MaxResponseHeaderBytes: maxResponseHead,
	})
	return u
}

// Close closes the idle connections. Those in use are closed by their idle
// timeout after they are returned.
func (u *Upstream) Close() { u.transport.Load().CloseIdleConnections() }

// RoundTrip sends x's request and fills the head of x's response, whose body
// then streams. The error is an *exchange.AttemptError, and the request's body
// is untouched when its phase is PhaseConnect.
func (u *Upstream) RoundTrip(x *exchange.Exchange, options exchange.Bounds) error {
	a := newAttempt(x, options)
	response, err := u.transport.Load().RoundTrip(a.request(u))
	if err == nil && (response.StatusCode < 200 || response.StatusCode > 599) {
		err = errors.Join(errNotFinal, response.Body.Close())
	}
	if err != nil {
		return a.fail(u.host, err)
	}
	a.fill(response)
	return nil
}

// errNotFinal is a 101 to a request that asked for no upgrade, what follows being
// no HTTP, or a status that is none.
var errNotFinal = errors.New("sent no final status")

// attempt is one request to one destination.
type attempt struct {
	x       *exchange.Exchange
	options exchange.Bounds
	ctx     context.Context
	cancel  context.CancelCauseFunc
	// timer ends the attempt with exchange.ErrTimeout; it bounds first the connection,
	// then the silence in the request's body, then the wait for the head, and
	// at last the silence in the response's body.
	timer *time.Timer

	connected atomic.Bool
	reading   atomic.Bool // a read of the client's body is under way
	stalled   atomic.Bool // it was when the time was up
	answered  atomic.Bool // the head has come
	// bodyErr is the error, other than io.EOF, that the client's body gave.
	bodyErr atomic.Pointer[error]

	// mu is held while a goroutine of the transport uses the exchange; it guards
	// ended. A front may use an exchange again once it has finished, and the
	// transport's goroutines are not awaited.
	mu    sync.Mutex
	ended bool
}

// use calls f while the exchange is the attempt's, or not at all.
func (a *attempt) use(f func(x *exchange.Exchange)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended {
		f(a.x)
	}
}

// end ends the attempt: from now on the transport finds no exchange.
func (a *attempt) end() {
	a.timer.Stop()
	a.mu.Lock()
	a.ended = true
	a.mu.Unlock()
	a.cancel(nil)
}

func newAttempt(x *exchange.Exchange, options exchange.Bounds) *attempt {
	a := &attempt{x: x, options: options}
	a.ctx, a.cancel = context.WithCancelCause(x.Context())
	a.timer = time.AfterFunc(options.Connect, a.expire)
	return a
}

// expire ends the attempt. The transport waits for a read of the client's body
// to return, so a client that has stopped sending must not hold it.
func (a *attempt) expire() {
	a.stalled.Store(a.reading.Load())
	a.cancel(exchange.ErrTimeout)
	if a.stalled.Load() {
		a.use(func(x *exchange.Exchange) {
			if x.Request.Abandon != nil {
				x.Request.Abandon()
			}
		})
	}
}

// awaitHead begins the wait for the head at the request's end. A head that has
// come already, or comes in between, is waited for no more.
func (a *attempt) awaitHead() {
	a.timer.Reset(a.options.Timeout)
	if a.answered.Load() {
		a.timer.Reset(a.options.Idle)
	}
}

// request describes the exchange for the transport. The target goes through
// URL.Opaque, which is written to the wire as it is.
func (a *attempt) request(u *Upstream) *http.Request {
	req := &a.x.Request
	out := &http.Request{
		Method:        req.Method,
		URL:           &url.URL{Scheme: u.scheme, Host: u.host, Opaque: string(req.Target)},
		Host:          string(req.Authority),
		Header:        make(http.Header, len(req.Fields)+1),
		ContentLength: req.ContentLength,
		ProtoMajor:    1, ProtoMinor: 1,
	}
	copyFields(out.Header, req.Fields)
	hideIdempotency(out.Header)
	if !req.Fields.Has("User-Agent") {
		out.Header["User-Agent"] = nil // net/http must not add its own
	}
	if req.Body != nil {
		out.Body = &attemptBody{a: a, body: req.Body, trailers: a.announceTrailers(out)}
	}
	return out.WithContext(httptrace.WithClientTrace(a.ctx, a.trace()))
}

// hideIdempotency spells two fields in a way that the transport does not look
// for: it would take them as leave to send a POST a second time.
func hideIdempotency(h http.Header) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, there := h[name]; there {
			delete(h, name)
			h[strings.ToLower(name)] = values
		}
	}
}

// announceTrailers names the request's trailers to the transport, which reads
// their values when the body has reached its end.
func (a *attempt) announceTrailers(out *http.Request) http.Header {
	if len(a.x.Request.Trailers) == 0 {
		return nil
	}
	out.Trailer = make(http.Header, len(a.x.Request.Trailers))
	for _, trailer := range a.x.Request.Trailers {
		out.Trailer[textproto.CanonicalMIMEHeaderKey(string(trailer.Name))] = nil
	}
	out.ContentLength = -1 // trailers need chunks
	return out.Trailer
}

func (a *attempt) trace() *httptrace.ClientTrace {
	hasBody := a.x.Request.Body != nil
	return &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) {
			a.connected.Store(true)
			if hasBody {
				a.timer.Reset(a.options.Idle)
			} else {
				a.timer.Reset(a.options.Timeout)
			}
		},
		Got1xxResponse: func(status int, header textproto.MIMEHeader) error {
			a.use(func(x *exchange.Exchange) { x.RelayInterim(status, appendHeader(nil, http.Header(header))) })
			return nil
		},
	}
}

// fail ends the attempt and tells how far it had come.
func (a *attempt) fail(destination string, err error) error {
	phase := exchange.PhaseExchange
	timedOut := errors.Is(context.Cause(a.ctx), exchange.ErrTimeout)
	if timedOut {
		err = exchange.ErrTimeout
	}
	switch clientErr := a.bodyErr.Load(); {
	case timedOut && a.stalled.Load():
		phase = exchange.PhaseRequestBody
	case timedOut && a.connected.Load(): // first: abandoning the body ends the client's context too
		phase = exchange.PhaseTimeout
	case !timedOut && a.x.Context().Err() != nil:
		phase = a.x.Ended()
	case !a.connected.Load():
		phase = exchange.PhaseConnect
	case clientErr != nil:
		phase, err = exchange.PhaseRequestBody, *clientErr
	}
	a.end()
	return &exchange.AttemptError{Phase: phase, Destination: destination, Err: err}
}

// fill hands the response's head to the exchange.
func (a *attempt) fill(response *http.Response) {
	a.answered.Store(true)
	a.timer.Reset(a.options.Idle)
	resp := &a.x.Response
	resp.Status = response.StatusCode
	resp.Fields = appendHeader(resp.Fields[:0], response.Header)
	resp.Fields.Del("Content-Length") // ContentLength has it
	resp.ContentLength = response.ContentLength
	if resp.Status == http.StatusNotModified {
		resp.ContentLength = -1 // the transport says 0, which a GET would not have had
	}
	resp.Trailers = appendNames(resp.Trailers[:0], response.Trailer)
	resp.Body = &responseBody{a: a, response: response}
}

// attemptBody is the client's body as the transport reads it. Close does not
// reach the client's body, so that another destination can still have it.
type attemptBody struct {
	a        *attempt
	body     io.Reader
	trailers http.Header
	err      error // what every further read says
}

// Read asks a body that has ended no more: the transport does, to see whether
// there is too much of it, and its front may be at the next request by then.
func (b *attemptBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	b.a.reading.Store(true)
	n, err := b.body.Read(p)
	b.a.reading.Store(false)
	switch b.err = err; err {
	case nil:
		b.a.timer.Reset(b.a.options.Idle)
	case io.EOF:
		b.a.use(b.takeTrailers)
		b.a.awaitHead()
	default:
		b.a.bodyErr.Store(&err)
	}
	return n, err
}

func (b *attemptBody) takeTrailers(x *exchange.Exchange) {
	for _, trailer := range x.Request.Trailers {
		if _, announced := b.trailers[textproto.CanonicalMIMEHeaderKey(string(trailer.Name))]; announced {
			b.trailers.Add(string(trailer.Name), string(trailer.Value))
		}
	}
}

func (b *attemptBody) Close() error { return nil }

// responseBody streams the destination's body and ends the attempt with it.
type responseBody struct {
	a        *attempt
	response *http.Response
}

func (b *responseBody) Read(p []byte) (int, error) {
	b.a.timer.Reset(b.a.options.Idle)
	n, err := b.response.Body.Read(p)
	if err == io.EOF {
		resp := &b.a.x.Response
		resp.Trailers = appendTrailers(resp.Trailers[:0], b.response.Trailer)
	} else if err != nil && errors.Is(context.Cause(b.a.ctx), exchange.ErrTimeout) {
		err = exchange.ErrTimeout
	}
	return n, err
}

func (b *responseBody) Close() error {
	err := b.response.Body.Close()
	b.a.end()
	return err
}
