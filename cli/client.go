package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"grapevine/agent/api"
	"grapevine/announce/reach"
)

// client speaks to one agent.
type client struct {
	place   reach.Place
	node    string        // who shall answer; empty: the agent itself
	timeout time.Duration // for a whole answer, or for a stream's head
	trace   io.Writer     // one line for each request, unless nil
	http    *http.Client
}

func newClient(p reach.Place, timeout time.Duration) *client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return reach.DialPlace(ctx, p) }
	return &client{place: p, timeout: timeout, http: &http.Client{
		// One connection a call: net/http would send a write again when it lost an idle one.
		Transport:     &http.Transport{DialContext: dial, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// request is one call of the API. Key is the key that it is about, for messages.
type request struct {
	method string
	path   string
	query  url.Values
	header http.Header
	body   []byte
	key    string
	next   string // what to try when the agent refuses
	check  string // what to try when nobody knows whether it was done
	// bounded requests tell the agent the timeout, by which it answers itself. One that waits has as much time again, for
	// the receipt of a write.
	bounded, waits bool
}

// answerSlack is what the answer of an agent whose time is over may take to come.
const answerSlack = 500 * time.Millisecond

// allowed is how long the agent may take.
func (c *client) allowed(r request) time.Duration {
	if r.waits {
		return 2 * c.timeout
	}
	return c.timeout
}

func (r request) writes() bool { return r.method != http.MethodGet && r.query.Get("dryRun") == "" }

// do makes a call and reads the whole answer. Anything but success is a failure.
func (c *client) do(ctx context.Context, r request) ([]byte, error) {
	bound := c.allowed(r)
	if r.bounded {
		bound += answerSlack
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bound, errNoAnswer)
	defer cancel()
	response, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, c.broken(ctx, r, err)
	}
	if response.StatusCode/100 != 2 {
		return nil, refusal(r, response, body)
	}
	return body, nil
}

// fetch makes a call and decodes its JSON answer into v.
func (c *client) fetch(ctx context.Context, r request, v any) error {
	body, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return notAnAgent(r, err.Error())
	}
	return nil
}

// stream makes a call whose answer does not end. The timeout holds for its head. The caller closes the body.
func (c *client) stream(ctx context.Context, r request) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(c.timeout, func() { cancel(errNoAnswer) })
	defer timer.Stop()
	response, err := c.send(ctx, r)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	body := streamBody{response.Body, cancel}
	if response.StatusCode/100 == 2 {
		return body, nil
	}
	defer body.Close()
	problem, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, c.broken(ctx, r, err)
	}
	return nil, refusal(r, response, problem)
}

// streamBody ends the request with its body.
type streamBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b streamBody) Close() error {
	b.cancel(nil)
	return b.ReadCloser.Close()
}

func (c *client) send(ctx context.Context, r request) (*http.Response, error) {
	target := c.place.Base + r.path
	if query := c.queryOf(r); len(query) > 0 {
		target += "?" + query.Encode()
	}
	hr, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(r.body))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.method, target, err)
	}
	for name, values := range r.header {
		hr.Header[name] = values
	}
	began := time.Now()
	response, err := c.http.Do(hr)
	if err != nil {
		c.note("%s %s: %v", r.method, target, err)
		return nil, c.broken(ctx, r, err)
	}
	c.note("%s %s: %s in %s", r.method, target, response.Status, time.Since(began).Round(time.Millisecond))
	return response, nil
}

// queryOf adds what the flags say that many commands have.
func (c *client) queryOf(r request) url.Values {
	query := url.Values{}
	maps.Copy(query, r.query)
	if c.node != "" {
		query.Set("node", c.node)
	}
	if r.bounded {
		query.Set("timeout", min(c.timeout, api.MaxBound).String())
	}
	return query
}

func (c *client) note(format string, values ...any) {
	if c.trace != nil {
		fmt.Fprintf(c.trace, format+"\n", values...)
	}
}

var errNoAnswer = errors.New("no answer in time")

// broken explains a call that got no answer. A write whose connection stood may have been made.
func (c *client) broken(ctx context.Context, r request, err error) error {
	f := &failure{code: exitUnreachable, cause: err}
	dial, dialing := errors.AsType[*net.OpError](err)
	dialing = dialing && dial.Op == "dial"
	stopped, bySignal := errors.AsType[interrupted](context.Cause(ctx))
	switch {
	case bySignal:
		f.cause = stopped
		f.problem = fmt.Sprintf("%s: %s before an answer came", c.place, stopped)
	case dialing:
		c.unreachable(f, dial)
	case errors.Is(context.Cause(ctx), errNoAnswer):
		f.problem = fmt.Sprintf("%s: no answer within %s", c.place, c.allowed(r))
		f.next = "a longer --timeout"
	default:
		f.problem = fmt.Sprintf("%s: the connection broke before an answer came: %v", c.place, root(err))
	}
	if r.writes() && !dialing {
		f.code, f.outcome = exitFailure, unknownOutcome
		f.next = cmp.Or(r.check, "agent config list --long "+r.key)
	}
	if bySignal {
		f.code = stopped.ExitCode()
	}
	return f
}

// unreachable explains that nobody could be asked.
func (c *client) unreachable(f *failure, dial *net.OpError) {
	f.problem = fmt.Sprintf("no agent answers at %s: %v", c.place, root(dial))
	if errors.Is(dial, syscall.EACCES) {
		f.code = exitDenied
		f.problem = fmt.Sprintf("%s: permission denied", c.place)
		f.next = "sudo, or join the group of the socket"
		return
	}
	for _, path := range c.place.Missing {
		f.details = append(f.details, "there is no socket at "+path)
	}
	f.next = "agent run, or name the agent with --addr or AGENT_ADDR"
}

// root is the innermost error, without what package net puts around it.
func root(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
