package api

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"grapevine/agent/announcing"
	"grapevine/gateway/spec"
)

// The bounds of the wait for a drain handshake where the client gives none.
const (
	clientDrain   = 5 * time.Second
	operatorDrain = 30 * time.Second
)

// typeLines is a JSON object a line.
const typeLines = "application/x-ndjson"

// Beaten answers a PATCH of a lease.
type Beaten struct {
	Status string `json:"status" doc:"what the agent takes the instance for"`
}

func leaseOperations() []operation {
	noSuchLease := answer{status: 404, text: "not_found: there is no such lease, or no more", document: Problem{}}
	drainTimeout := param{name: "timeout", text: "how long to wait for the gateways; 5s by default, at most 10m"}
	return []operation{
		{
			name: "announce", method: http.MethodPost, path: "/v1/announce", serve: (*API).announce, endless: true,
			summary: "Announce an instance for as long as the connection stands",
			text: "The body is an instance with its routeId, and optionally its instanceId. The answer does not end: its connection is the lease, and " +
				"when it ends, however that comes, the instance is withdrawn everywhere at once. Each line of it is an event, of which " +
				"clients ignore those that they don't know: accepted (Accepted) first, then applied (Applied), status (StatusChange), " +
				"draining (Draining) and drained (Drained) as they come, alive (Alive) after 10 s of silence, and one of superseded, withdrawn " +
				"and restarting (Ended) last. A bearer token in Authorization is what gateway/config/announce grants by.",
			params: []param{{name: "Authorization", header: true, text: "Bearer and a token, where gateway/config/announce asks for one"}},
			body:   &body{types: []string{typeJSON}, document: spec.Instance{}, limit: announcing.MaxBody},
			answers: []answer{
				{status: 200, text: "the events, a JSON object a line", media: typeLines},
				{status: 403, text: "denied: gateway/config/announce does not allow it; or forbidden_host, forbidden_origin as elsewhere", document: Problem{}},
				tooLarge,
				{status: 422, text: "invalid: faults says all that is wrong", document: Problem{}},
				{status: 429, text: "too_many_instances: the node holds as many as it may", document: Problem{}},
				{status: 503, text: "not_ready: the agent is stopping", document: Problem{}},
			},
		},
		{
			name: "getLease", method: http.MethodGet, path: "/v1/announce/{lease}", serve: (*API).lease,
			summary: "What the agent holds of an announced instance",
			answers: []answer{{status: 200, text: "the lease", document: announcing.State{}}, noSuchLease},
		},
		{
			name: "beat", method: http.MethodPatch, path: "/v1/announce/{lease}", serve: (*API).beat,
			summary: "Tell how the instance is",
			text:    "The heartbeat. Fields that are left out say nothing.",
			body:    &body{types: []string{typeJSON, typePatch}, document: announcing.Heartbeat{}, limit: maxSmallBody},
			answers: []answer{{status: 200, text: "what the agent takes the instance for", document: Beaten{}}, badRequest, noSuchLease},
		},
		{
			name: "drainLease", method: http.MethodPost, path: "/v1/announce/{lease}/drain", serve: (*API).drainLease,
			summary: "Drain the instance, before its process ends",
			text: "Answers when every live gateway has confirmed that it sends the instance nothing any more, or when the time is over; it is 200 " +
				"in both cases. The instance stays, draining, until its connection ends. To ask again is to wait again.",
			params:  []param{drainTimeout},
			answers: []answer{{status: 200, text: "how far the gateways are", document: announcing.Handshake{}}, badRequest, noSuchLease},
		},
		{
			name: "withdrawLease", method: http.MethodDelete, path: "/v1/announce/{lease}", serve: (*API).withdraw,
			summary: "Withdraw the instance at once",
			text:    "Requests to it that are under way may fail where it ends then. Drain it before.",
			answers: []answer{{status: 204, text: "it is withdrawn"}, noSuchLease},
		},
	}
}

// announceFailure is failureOf for the errors of package announcing.
func announceFailure(err error) *failure {
	var (
		denied   *announcing.DeniedError
		many     *announcing.TooManyError
		missing  *announcing.NoLeaseError
		refused  *announcing.RefusedError
		stopping *announcing.StoppingError
		invalid  *announcing.InvalidError
	)
	switch {
	case errors.As(err, &denied):
		return fail(codeDenied, "%v", denied)
	case errors.As(err, &many):
		return fail(codeTooMany, "%v", many)
	case errors.As(err, &missing):
		return fail(codeNotFound, "%v", missing)
	case errors.As(err, &refused):
		return fail(codeRefused, "%v", refused)
	case errors.As(err, &stopping):
		return fail(codeNotReady, "%v", stopping)
	case errors.As(err, &invalid):
		return fail(codeBadRequest, "%v", invalid)
	}
	return nil
}

// leases are the node's, unless this API announces nothing.
func (a *API) leases(c *call) (*announcing.Leases, error) {
	switch {
	case a.Leases == nil:
		return nil, fail(codeRefused, "this node announces nothing")
	case c.door == Peers:
		return nil, fail(codeRefused, "a lease is a connection with the agent of its own node")
	}
	return a.Leases, nil
}

// announce holds a lease for as long as the connection stands.
func (a *API) announce(c *call) error {
	leases, err := a.leases(c)
	if err != nil {
		return err
	}
	data, err := c.read(announcing.MaxBody)
	if err != nil {
		return err
	}
	wanted, err := announcing.Parse(data)
	if err != nil {
		return err
	}
	notice(c.r)
	lease, accepted, err := leases.Announce(c.r.Context(), wanted, announcing.HashToken(bearer(c.r)))
	if err != nil {
		return err
	}
	defer lease.Close()
	c.w.Header().Set("Content-Type", typeLines)
	c.w.Header().Set("Cache-Control", "no-store")
	return c.tell(lease, accepted)
}

// tell sends events until the last one, or until the client is gone, which is no fault.
func (c *call) tell(lease *announcing.Lease, event announcing.Event) error {
	for ctx := c.r.Context(); ; {
		var line bytes.Buffer
		if err := encode(&line, event); err != nil {
			return err
		}
		if _, err := line.WriteTo(c.w); err != nil {
			return nil
		}
		if http.NewResponseController(c.w).Flush() != nil {
			return nil
		}
		if _, last := event.(announcing.Ended); last {
			return nil
		}
		var err error
		if event, err = lease.Next(ctx); err != nil {
			return nil
		}
	}
}

func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// How long a connection that says nothing is believed to stand: a host that lost its power, or its network, does not
// close it. The probes are over before the stream's next alive is due: from then on the kernel waits for that to be acknowledged,
// and begins to count anew.
const (
	probeAfter  = 3 * time.Second
	probeEvery  = 2 * time.Second
	probeCount  = 3
	probeUnsent = probeAfter + probeCount*probeEvery - probeEvery/2 // it is looked at where another probe were due
)

// notice has the kernel notice within seconds that the other end of a TCP connection is gone. On the unix socket it does so
// at once, always.
func notice(r *http.Request) {
	conn, ok := r.Context().Value(connKey{}).(*net.TCPConn)
	if !ok {
		return
	}
	// Where this fails, the stream's own lines find out, a little later.
	_ = conn.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: probeAfter, Interval: probeEvery, Count: probeCount})
	_ = boundUnsent(conn, probeUnsent)
}

func (a *API) lease(c *call) error {
	lease, err := a.leaseOf(c)
	if err == nil {
		a.answer(c, http.StatusOK, lease.State())
	}
	return err
}

func (a *API) leaseOf(c *call) (*announcing.Lease, error) {
	leases, err := a.leases(c)
	if err != nil {
		return nil, err
	}
	return leases.Lease(c.rest)
}

func (a *API) beat(c *call) error {
	lease, err := a.leaseOf(c)
	if err != nil {
		return err
	}
	var beat announcing.Heartbeat
	if err := c.document(maxSmallBody, &beat); err != nil {
		return err
	}
	status, err := lease.Beat(beat)
	if err == nil {
		a.answer(c, http.StatusOK, Beaten{status})
	}
	return err
}

func (a *API) drainLease(c *call) error {
	lease, err := a.leaseOf(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), cmp.Or(c.timeout, clientDrain))
	defer cancel()
	handshake, err := lease.Drain(ctx, announcing.ByClient, "its process is about to end")
	if err == nil {
		a.answer(c, http.StatusOK, handshake)
	}
	return err
}

func (a *API) withdraw(c *call) error {
	lease, err := a.leaseOf(c)
	if err != nil {
		return err
	}
	lease.Withdraw()
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}
