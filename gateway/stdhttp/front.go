package stdhttp

import (
	"bytes"
	"cmp"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"grapevine/gateway/exchange"
)

// Front turns each request of a net/http server into an Exchange. The server
// may speak HTTP/1.1 or HTTP/2.
type Front struct {
	Handler exchange.Handler
}

// ServeHTTP serves one request. It panics with http.ErrAbortHandler to cut the
// connection when a response broke off after its head was sent.
func (f Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Without it an HTTP/1.1 server reads the request's body to its end before
	// it lets a response begin. A writer that can't (HTTP/2 has no need) says so.
	_ = http.NewResponseController(w).EnableFullDuplex()
	x := new(exchange.Exchange)
	x.Reset(r.Context())
	x.Started = time.Now()
	fillRequest(x, r)
	x.Request.Abandon = func() {
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // as in stopBody
	}
	defer x.Finish(http.ErrAbortHandler) // only what panics gets here unfinished
	interim := &interimWriter{w: w}
	if relaysInterim(r) {
		x.Interim = interim.relay
	}
	f.Handler.Serve(x)
	interim.close()
	err := writeResponse(w, r, x)
	stopBody(w, x)
	x.Finish(err)
	if err != nil {
		abort(w, r)
	}
}

// relaysInterim: HTTP/1.0 has no 1xx (RFC 9110 §15.2), and to a client that waits
// for 100 the server writes its own, from another goroutine.
func relaysInterim(r *http.Request) bool {
	return r.ProtoAtLeast(1, 1) && r.Header.Get("Expect") == ""
}

// abort ends the client's connection so that the response can't look whole. In
// HTTP/1.0 the end of the connection may be the end of the body, so it has to be
// reset there.
func abort(w http.ResponseWriter, r *http.Request) {
	if !r.ProtoAtLeast(1, 1) {
		reset(w)
	}
	panic(http.ErrAbortHandler)
}

func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	var plain any = conn
	for {
		if lingerer, ok := plain.(interface{ SetLinger(int) error }); ok {
			_ = lingerer.SetLinger(0)
			return
		}
		wrapped, ok := plain.(interface{ NetConn() net.Conn })
		if !ok {
			return
		}
		plain = wrapped.NetConn()
	}
}

// fillRequest describes r. net/http has taken Host and Transfer-Encoding out of
// r.Header.
func fillRequest(x *exchange.Exchange, r *http.Request) {
	req := &x.Request
	req.Method = r.Method
	req.Target = originForm([]byte(r.RequestURI))
	req.Authority = []byte(r.Host)
	req.Protocol = protocol(r)
	req.Scheme = "http"
	if r.TLS != nil {
		req.Scheme = "https"
	}
	req.Fields = appendHeader(req.Fields, r.Header)
	req.Fields.Del("Content-Length") // ContentLength has it
	req.Trailers = appendNames(req.Trailers, r.Trailer)
	if r.Body != nil && r.Body != http.NoBody {
		req.Body = &requestBody{r: r, to: &req.Trailers, count: &x.BytesIn}
		req.ContentLength = r.ContentLength
	}
	// A peer that is no IP address (a unix socket) stays the zero AddrPort.
	if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		req.Peer = netip.AddrPortFrom(peer.Addr().Unmap(), peer.Port())
		req.Client = req.Peer.Addr()
	}
}

// protocol is the version without a minor number where there is none (RFC 9110
// §2.5).
func protocol(r *http.Request) string {
	if r.ProtoMajor >= 2 {
		return strconv.Itoa(r.ProtoMajor)
	}
	return strings.TrimPrefix(r.Proto, "HTTP/")
}

// originForm takes scheme and authority off an absolute-form target (RFC 9112
// §3.2.2); net/http has made the authority the request's host.
func originForm(target []byte) []byte {
	if len(target) == 0 || target[0] == '/' || target[0] == '*' {
		return target
	}
	_, rest, absolute := bytes.Cut(target, []byte("://"))
	if !absolute {
		return target
	}
	end := bytes.IndexAny(rest, "/?")
	switch {
	case end < 0:
		return []byte("/")
	case rest[end] == '?':
		return append([]byte("/"), rest[end:]...)
	}
	return rest[end:]
}

// requestBody hands the trailers over when the body has reached its end. An
// upstream may go on reading when the response has begun, and even when it has
// ended: stop makes sure that nobody reads once the handler has returned.
type requestBody struct {
	r     *http.Request
	to    *exchange.Fields
	count *int64      // of the bytes that were read
	ended atomic.Bool // the client's bytes have all been read

	// mu is held while somebody reads; it guards stopped.
	mu      sync.Mutex
	stopped bool
}

func (b *requestBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.r.Body.Read(p)
	*b.count += int64(n)
	if err == io.EOF {
		*b.to = appendTrailers((*b.to)[:0], b.r.Trailer)
		b.ended.Store(true)
	}
	return n, err
}

// unread tells whether the client may still be sending its body.
func unread(x *exchange.Exchange) bool {
	b, ok := x.Request.Body.(*requestBody)
	return ok && !b.ended.Load()
}

// stopBody ends a read of the body that is under way, and those to come. What the
// client still sends belongs to no request, so its connection must end as well
// (writeResponse has said so).
func stopBody(w http.ResponseWriter, x *exchange.Exchange) {
	if !unread(x) {
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // a writer without deadlines has no connection to read from
	b := x.Request.Body.(*requestBody)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
}

// interimWriter relays 1xx responses. They come from the transport's own
// goroutine, so that its end has to be awaited before the final head is made.
type interimWriter struct {
	// mu guards w and closed.
	mu     sync.Mutex
	w      http.ResponseWriter
	closed bool
}

func (i *interimWriter) relay(status int, fields exchange.Fields) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed || status == http.StatusSwitchingProtocols || status == http.StatusContinue {
		return
	}
	header := i.w.Header()
	copyFields(header, fields)
	i.w.WriteHeader(status)
	clear(header)
}

func (i *interimWriter) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
}

// writeResponse writes head, body and trailers. After an error the client must
// not take what it has for a whole response. A client that left gets nothing.
func writeResponse(w http.ResponseWriter, r *http.Request, x *exchange.Exchange) error {
	resp := &x.Response
	if resp.Status == 0 {
		return cmp.Or(r.Context().Err(), io.ErrUnexpectedEOF)
	}
	header := w.Header()
	copyFields(header, resp.Fields)
	if len(header["Content-Type"]) == 0 {
		header["Content-Type"] = nil // net/http must not guess it
	}
	if resp.ContentLength >= 0 && lengthAllowed(resp.Status) {
		header["Content-Length"] = []string{strconv.FormatInt(resp.ContentLength, 10)}
	}
	if r.ProtoMajor == 1 && unread(x) {
		header.Set("Connection", "close") // else the rest of the body would be read as a request
	}
	announced := announce(header, resp.Trailers)
	w.WriteHeader(resp.Status)
	if err := copyBody(w, r, x); err != nil {
		return err
	}
	writeTrailers(header, resp.Trailers, announced)
	return nil
}

// announce names the trailers that are known already.
func announce(header http.Header, trailers exchange.Fields) map[string]bool {
	announced := map[string]bool{}
	for _, trailer := range trailers {
		name := textproto.CanonicalMIMEHeaderKey(string(trailer.Name))
		if !announced[name] {
			announced[name] = true
			header.Add("Trailer", name)
		}
	}
	return announced
}

// writeTrailers gives net/http the values: an announced one under its name, where
// a field of the head may stand, and others behind a prefix.
func writeTrailers(header http.Header, trailers exchange.Fields, announced map[string]bool) {
	for name := range announced {
		header.Del(name)
	}
	for _, trailer := range trailers {
		name := textproto.CanonicalMIMEHeaderKey(string(trailer.Name))
		if !announced[name] {
			name = http.TrailerPrefix + name
		}
		header.Add(name, string(trailer.Value))
	}
}

// lengthAllowed is RFC 9110 §8.6: no Content-Length with 1xx and 204.
func lengthAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent
}

// copyBufferSize is how much of a body is held at a time.
const copyBufferSize = 32 << 10

var copyBuffers = sync.Pool{New: func() any { return new([copyBufferSize]byte) }}

// copyBody sends what the upstream gave as soon as it gave it: a piece that is
// not known to be the last is flushed.
func copyBody(w http.ResponseWriter, r *http.Request, x *exchange.Exchange) error {
	resp := &x.Response
	if resp.Body == nil || r.Method == http.MethodHead {
		return nil
	}
	buffer := copyBuffers.Get().(*[copyBufferSize]byte)
	defer copyBuffers.Put(buffer)
	flusher := http.NewResponseController(w)
	if resp.ContentLength < 0 { // a stream, whose first byte may be long in coming
		if err := flusher.Flush(); err != nil {
			return err
		}
	}
	for left := resp.ContentLength; ; {
		n, readErr := resp.Body.Read(buffer[:])
		if n > 0 {
			sent, err := w.Write(buffer[:n])
			x.BytesOut += int64(sent)
			if err != nil {
				return err
			}
			left -= int64(n)
		}
		switch {
		case readErr == io.EOF && left > 0 && resp.ContentLength > 0:
			x.BodyErr = io.ErrUnexpectedEOF
			return x.BodyErr
		case readErr == io.EOF:
			return nil
		case readErr != nil:
			x.BodyErr = readErr
			return readErr
		}
		if left != 0 {
			if err := flusher.Flush(); err != nil {
				return err
			}
		}
	}
}
