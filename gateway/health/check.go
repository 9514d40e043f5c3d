package health

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Dial connects to a destination. It ends with ctx.
type Dial func(ctx context.Context) (net.Conn, error)

// Check is a question to an address, and how its answers count. Equal ones are
// asked once.
type Check struct {
	Address string // scheme://host:port
	// Path is asked for with GET; "" asks for a connection alone.
	Path string
	// Host of the question; "" is that of the address.
	Host string
	// Statuses are the good ones, as "200,204"; "" is 200 to 299.
	Statuses string
	// Interval is between the beginnings of two checks, Timeout the longest wait.
	Interval, Timeout time.Duration
	// Rise and Fall are how many answers in a row turn a verdict.
	Rise, Fall int
}

// maxHead bounds the head of an answer; its body is not read.
const maxHead = 64 << 10

// asker asks one check's question.
type asker struct {
	check    Check
	dial     Dial
	statuses []string
	request  *http.Request // nil for a connection alone
}

func newAsker(c Check, dial Dial) *asker {
	a := &asker{check: c, dial: dial}
	if c.Statuses != "" {
		a.statuses = strings.Split(c.Statuses, ",")
	}
	if c.Path == "" {
		return a
	}
	scheme, host, _ := strings.Cut(c.Address, "://")
	a.request = &http.Request{
		Method: http.MethodGet, URL: &url.URL{Scheme: scheme, Host: host, Opaque: c.Path}, Host: c.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"User-Agent": {"grapevine-health"}, "Accept": {"*/*"}},
	}
	return a
}

// ask gives why the answer is bad, nil if it is good.
func (a *asker) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.check.Timeout)
	defer cancel()
	err := a.answer(ctx)
	if err != nil && ctx.Err() == context.DeadlineExceeded {
		return fmt.Errorf("no answer within %v", a.check.Timeout)
	}
	return err
}

func (a *asker) answer(ctx context.Context) error {
	conn, err := a.dial(ctx)
	if err != nil {
		return err
	}
	// Here, and not when the transport comes to it: no check begins before the one
	// before has ended.
	defer conn.Close()
	if a.request == nil {
		return nil
	}
	// A transport, and so a connection, for each question: that a destination still
	// takes some is part of it.
	transport := &http.Transport{
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		DisableKeepAlives: true, DisableCompression: true, ForceAttemptHTTP2: true,
		MaxResponseHeaderBytes: maxHead,
	}
	defer transport.CloseIdleConnections() // HTTP/2 keeps its own
	response, err := transport.RoundTrip(a.request.WithContext(ctx))
	if err != nil {
		return err
	}
	_ = response.Body.Close() // its connection is not used again
	if !a.good(response.StatusCode) {
		return fmt.Errorf("answered %d", response.StatusCode)
	}
	return nil
}

func (a *asker) good(status int) bool {
	if a.statuses == nil {
		return status/100 == 2
	}
	return slices.Contains(a.statuses, strconv.Itoa(status))
}
