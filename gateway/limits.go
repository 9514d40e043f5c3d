package gateway

import (
	"errors"
	"fmt"

	"grapevine/gateway/exchange"
	"grapevine/gateway/limit"
	"grapevine/gateway/spec"
)

// limits are what a route takes on.
type limits struct {
	most    int64 // requests at the same time; 0: any number
	body    int64 // bytes of a request's body; 0: any number
	inside  *limit.Gate
	metrics *routeMetrics
}

// newLimits reads a route's configuration, nil where it has no such limits. The
// count of requests goes on from the route's version before, which may be nil.
func newLimits(s *spec.Limits, before *limits, metrics *routeMetrics) *limits {
	if s == nil || s.MaxConcurrent == 0 && s.MaxBodyBytes == 0 {
		return nil
	}
	l := &limits{most: int64(s.MaxConcurrent), body: int64(s.MaxBodyBytes), metrics: metrics}
	if before != nil {
		l.inside = before.inside
	} else {
		l.inside = new(limit.Gate)
	}
	return l
}

// admit tells whether a request is within the limits, or answers. A body whose
// length is not known is bounded as it comes.
func (l *limits) admit(x *exchange.Exchange) bool {
	if l == nil {
		return true
	}
	if l.body > 0 && x.Request.ContentLength > l.body {
		failBodyTooLarge(x, l.body)
		return false
	}
	if l.most > 0 {
		if !l.inside.Enter(l.most) {
			l.metrics.shed()
			x.Fail(exchange.Problem{
				Status: 503, Code: "overloaded", Detail: fmt.Sprintf("Route %s has %d requests, as many as it may.", x.Route, l.most),
				Fields: exchange.Fields{retryAfter},
			})
			return false
		}
		x.OnFinish(l.inside)
	}
	if l.body > 0 && x.Request.Body != nil && x.Request.ContentLength < 0 {
		x.Request.Body = limit.Body(x.Request.Body, l.body)
	}
	return true
}

// errFull is a destination that has as many requests as it may.
var errFull = errors.New("the destination has as many requests as it may")

// shed answers for a cluster that has as many requests as it may.
func (c *cluster) shed(x *exchange.Exchange) {
	c.state.metrics.shed()
	x.Fail(exchange.Problem{
		Status: 503, Code: "overloaded", Detail: fmt.Sprintf("cluster %s has as many requests as it may.", c.id),
		Fields: exchange.Fields{retryAfter},
	})
}

// inFlight is how many requests the destinations have from this node.
func (c *cluster) inFlight() (n int64) {
	for _, d := range c.destinations {
		n += d.load.Now()
	}
	return n
}

func failBodyTooLarge(x *exchange.Exchange, most int64) {
	x.Fail(exchange.Problem{
		Status: 413, Code: "body_too_large", Detail: fmt.Sprintf("The request's body is larger than the %s that are taken here.", spec.Size(most)),
	})
}
