package gateway

import (
	"errors"

	"grapevine/gateway/exchange"
)

// serve answers a request that the route takes; c is the cluster that gets it, nil
// where none does.
func (r *route) serve(x *exchange.Exchange, c *cluster, path *requestPath, query []byte) {
	switch {
	case r.answer != nil:
		x.Request.Target = append(append([]byte(nil), path.forwardable()...), query...)
		r.answer.Serve(x)
	case c != nil:
		r.forward(x, c, path, query)
	default:
		failQuarantined(x, r.id)
	}
	r.response.Apply(&x.Response.Fields)
}

func (r *route) forward(x *exchange.Exchange, c *cluster, path *requestPath, query []byte) {
	if !r.limits.admit(x) {
		return
	}
	if err := r.change(x, path, query); err != nil {
		failChange(x, err)
		return
	}
	x.Hold(c)
	c.forward(x, r.wayTo(c))
	if x.Response.Status == 0 && x.Recalled() { // the client is there still
		c.answerRecalled(x)
	}
}

// change makes x what the backend is to get. The error is the request's fault.
func (r *route) change(x *exchange.Exchange, path *requestPath, query []byte) error {
	target, err := r.target.Apply(path.forwardable(), query)
	if err != nil {
		return err
	}
	x.Request.Target = target
	if r.request != nil {
		r.request.Apply(&x.Request.Fields)
		if r.request.Authority != nil {
			x.Request.Authority = r.request.Authority
		}
	}
	return nil
}

// failChange answers for a request that the route can't change as it is to.
func failChange(x *exchange.Exchange, err error) {
	if _, ambiguous := errors.AsType[*exchange.QueryError](err); ambiguous {
		failAmbiguousQuery(x, err)
		return
	}
	failBadPath(x, err)
}
