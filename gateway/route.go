package gateway

import (
	"errors"
	"fmt"

	"grapevine/gateway/exchange"
)

// serve answers a request that the route takes.
func (r *route) serve(x *exchange.Exchange, path requestPath, query []byte) {
	switch {
	case r.answer != nil:
		x.Request.Target = append(append([]byte(nil), path.forwardable()...), query...)
		r.answer.Serve(x)
	case r.cluster != nil:
		r.forward(x, path, query)
	default:
		x.Fail(exchange.Problem{
			Status: 503, Code: "route_quarantined", Detail: fmt.Sprintf("Route %s has no valid configuration.", r.id),
			Fields: exchange.Fields{retryAfter},
		})
	}
	r.response.Apply(&x.Response.Fields)
}

// forward sends the request on as the route changes it.
func (r *route) forward(x *exchange.Exchange, path requestPath, query []byte) {
	target, err := r.target.Apply(path.forwardable(), query)
	if err != nil {
		if _, ambiguous := errors.AsType[*exchange.QueryError](err); ambiguous {
			failAmbiguousQuery(x, err)
			return
		}
		failBadPath(x, err)
		return
	}
	x.Request.Target = target
	if r.request != nil {
		r.request.Apply(&x.Request.Fields)
		if r.request.Authority != nil {
			x.Request.Authority = r.request.Authority
		}
	}
	r.cluster.forward(x, r.bounds)
}
