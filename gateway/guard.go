package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"grapevine/gateway/breaker"
	"grapevine/gateway/exchange"
	"grapevine/gateway/health"
)

// guard is a cluster's breaker and what counts for it. The breaker is kept with
// the cluster's state as long as its policy is the same; the rest follows the
// configuration.
type guard struct {
	cluster string
	breaker *breaker.Breaker
	failing health.Statuses
	metrics *clusterMetrics
}

// newGuard gives a cluster its guard, nil when it asks for none.
func newGuard(c *cluster, logger *slog.Logger) *guard {
	resilience := c.planned.policy.Resilience
	if resilience == nil || resilience.CircuitBreaker == nil {
		c.state.forgetBreaker()
		return nil
	}
	policy := breaker.NewPolicy(resilience.CircuitBreaker)
	live := c.state.breaker.Load()
	if live == nil || live.Policy() != policy {
		c.state.forgetBreaker()
		live = c.state.newBreaker(c.id, policy, logger)
	}
	failing := health.NewStatuses(resilience.CircuitBreaker.Failures())
	return &guard{cluster: c.id, breaker: live, failing: failing, metrics: c.state.metrics}
}

// forgetBreaker ends the breaker that there was. Requests that it has let pass
// don't matter any more.
func (s *clusterState) forgetBreaker() {
	if s.breaker.Swap(nil) != nil {
		s.metrics.breakerGone()
	}
}

// newBreaker begins with a closed one. Each change is one line, and counted.
func (s *clusterState) newBreaker(cluster string, policy breaker.Policy, logger *slog.Logger) (b *breaker.Breaker) {
	b = breaker.New(policy, func(c breaker.Change) {
		if s.breaker.Load() != b {
			return
		}
		s.metrics.breaker(c)
		attrs := []any{"cluster", cluster, "from", c.From.String(), "to", c.To.String(), "at", c.At.UTC().Format(time.RFC3339Nano)}
		switch {
		case c.Reset:
			logger.Info("circuit breaker was reset", attrs...)
		case c.To == breaker.Open:
			logger.Warn("circuit breaker changed", attrs...)
		default:
			logger.Info("circuit breaker changed", attrs...)
		}
	})
	s.breaker.Store(b)
	return b
}

// refuse answers for a cluster that is not asked.
func (g *guard) refuse(x *exchange.Exchange) {
	g.metrics.rejected()
	seconds := max(1, int64((g.breaker.Wait()+time.Second-1)/time.Second))
	x.Fail(exchange.Problem{
		Status: 503, Code: "circuit_open", Detail: fmt.Sprintf("cluster %s keeps failing, and is not asked for a while.", g.cluster),
		Fields: exchange.Fields{{Name: retryAfter.Name, Value: strconv.AppendInt(nil, seconds, 10)}},
	})
}

// judge tells what a head says of the cluster. How its body ends is told by
// Finished: a stream may go on for hours, and a probe must not wait for it.
func (g *guard) judge(x *exchange.Exchange) breaker.Outcome {
	x.OnFinish(g)
	if g.failing.Has(x.Response.Status) {
		return breaker.Failure
	}
	return breaker.Success
}

// Finished counts an answer that broke off after its head. One that began before
// the window says nothing of now: when a backend is replaced, all the streams
// that it had break at once.
func (g *guard) Finished(x *exchange.Exchange, _ error) {
	if brokenByDestination(x) && time.Since(x.Started) < g.breaker.Policy().Window {
		g.breaker.Fail()
	}
}

// brokenByDestination tells whether a response broke off, and not by the client's
// leaving. A stream, of which nobody knows how long it is, may be silent for as
// long as nothing happens.
func brokenByDestination(x *exchange.Exchange) bool {
	stream := x.Response.ContentLength < 0
	return x.BodyErr != nil && x.Context().Err() == nil && !(stream && errors.Is(x.BodyErr, exchange.ErrTimeout))
}

// outcomeOf tells what a failed attempt says of its cluster: nothing, when it was
// the client's doing, or this node's own.
func outcomeOf(err error) breaker.Outcome {
	if triedNobody(err) || !isDestinations(err) {
		return breaker.Void
	}
	return breaker.Failure
}
