package api

import (
	"crypto/rand"
	"net/http"
	"runtime/debug"
	"time"
)

// Door is the kind of listener that a request came through.
type Door int

const (
	// Socket is the unix socket: its file mode says who may come, so nothing more is asked of a request.
	Socket Door = iota
	// TCP is reachable by every web page that the operator's browser opens.
	TCP
	// Peers is for the other nodes of the cluster, which have proved that they are. The door that a request came
	// through first has asked all that there is to ask.
	Peers
)

// call is one request on its way through an operation.
type call struct {
	w    *recorder
	r    *http.Request
	door Door
	// id names the request in the log, in the answer and, for a write, in the store.
	id string
	// rest is what the path holds in place of what is in braces, the first of named.
	rest    string
	named   []string
	query   query
	timeout time.Duration // that the client allows, 0 where it doesn't say
}

// Handler serves the API to one kind of listener. The server's ConnContext must be this package's.
func (a *API) Handler(door Door) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{w: &recorder{ResponseWriter: w}, r: r, door: door, id: rand.Text()}
		w.Header().Set(correlationHeader, c.id)
		w.Header().Set(sniffHeader, "nosniff")

		op, err := a.admit(c)
		defer func() { a.Observe(op.name, c.w.status) }()
		defer a.mend(c)
		if err == nil {
			err = a.serve(c, op)
		}
		if err != nil {
			a.refuse(c, err)
		}
	})
}

// The headers that every answer has.
const (
	correlationHeader = "X-Correlation-ID"
	sniffHeader       = "X-Content-Type-Options"
)

// serve answers, or lets the node answer that the request names.
func (a *API) serve(c *call, op operation) error {
	other, err := a.elsewhere(c)
	switch {
	case err != nil:
		return err
	case other != nil:
		return a.pass(c, op, other)
	case op.gateway && a.Gateway == nil:
		return fail(codeRefused, "node %q runs no gateway (--no-gateway): ask another node", a.Node().Name)
	}
	return op.serve(a, c)
}

// reads says whether the request can change nothing.
func (c *call) reads() bool { return c.r.Method == http.MethodGet || c.r.Method == http.MethodHead }

// admit finds the operation of a request that may come in. The checks of the door come first: who is turned away there
// learns nothing of what is behind it.
func (a *API) admit(c *call) (operation, error) {
	if c.door == TCP {
		if err := guard(c.r); err != nil {
			return operation{}, err
		}
	}
	op, named, err := a.find(c.r.Method, c.r.URL.Path)
	if err != nil {
		return operation{}, err
	}
	if c.named = named; len(named) > 0 {
		c.rest = named[0]
	}
	if c.query, err = parseQuery(c.r.URL.RawQuery, op.params); err != nil {
		return op, err
	}
	if c.timeout, err = c.query.timeout(); err != nil {
		return op, err
	}
	return op, op.checkType(c)
}

// mend turns a panic into an answer and a line in the log. Where the answer has begun, it is cut: it must not look
// whole.
func (a *API) mend(c *call) {
	cause := recover()
	if cause == nil {
		return
	}
	if cause != http.ErrAbortHandler {
		a.Logger.Error("api request panicked", "id", c.id, "method", c.r.Method, "path", c.r.URL.Path,
			"panic", cause, "stack", string(debug.Stack()))
	}
	if c.w.status != 0 {
		panic(http.ErrAbortHandler)
	}
	a.answerProblem(c, a.internal(c))
}
