package gateway

import (
	"github.com/prometheus/client_golang/prometheus"

	"grapevine/gateway/breaker"
)

// resilienceMetrics are about requests that a cluster was kept from, or that were
// tried again.
type resilienceMetrics struct {
	state       *prometheus.GaugeVec
	transitions *prometheus.CounterVec
	rejected    *prometheus.CounterVec
	retries     *prometheus.CounterVec
	denied      *prometheus.CounterVec
	shed        *prometheus.CounterVec
	routeShed   *prometheus.CounterVec
}

func newResilienceMetrics() *resilienceMetrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	return &resilienceMetrics{
		state: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "grapevine_breaker_state", Help: "Circuit breaker of a cluster: 0 closed, 1 half-open, 2 open. An open one becomes half-open with the first request after its break.",
		}, []string{"cluster"}),
		transitions: counter("grapevine_breaker_transitions_total", "Changes of a cluster's circuit breaker, by the state that it came to.", "cluster", "to"),
		rejected:    counter("grapevine_breaker_rejected_total", "Requests answered with 503 since the circuit breaker let none pass.", "cluster"),
		retries:     counter("grapevine_upstream_retries_total", "Attempts that a route's retry policy asked for, by what ended the one before: connect, reset, timeout or status.", "cluster", "reason"),
		denied:      counter("grapevine_upstream_retries_denied_total", "Attempts that were not made since the cluster's budget of retries was used up.", "cluster"),
		shed:        counter("grapevine_upstream_shed_total", "Requests answered with 503 since the cluster had maxConcurrent, or each of its destinations maxConnections.", "cluster"),
		routeShed:   counter("grapevine_route_shed_total", "Requests answered with 503 since the route had limits.maxConcurrent.", "route"),
	}
}

func (m *resilienceMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.state, m.transitions, m.rejected, m.retries, m.denied, m.shed, m.routeShed}
}

// Each series of a cluster and a route is made by its first event: most never have
// one.

func (c *clusterMetrics) breaker(change breaker.Change) {
	c.events.do(func() {
		m := c.of.resilience
		m.state.WithLabelValues(c.id).Set(float64(change.To))
		if change.From != change.To {
			m.transitions.WithLabelValues(c.id, change.To.String()).Inc()
		}
	})
}

// breakerGone ends the state of a breaker that the cluster has no more.
func (c *clusterMetrics) breakerGone() {
	c.events.do(func() { c.of.resilience.state.DeleteLabelValues(c.id) })
}

func (c *clusterMetrics) rejected() {
	c.events.do(func() { c.of.resilience.rejected.WithLabelValues(c.id).Inc() })
}

func (c *clusterMetrics) retried(reason string) {
	c.events.do(func() { c.of.resilience.retries.WithLabelValues(c.id, reason).Inc() })
}

func (c *clusterMetrics) deniedRetry() {
	c.events.do(func() { c.of.resilience.denied.WithLabelValues(c.id).Inc() })
}

func (c *clusterMetrics) shed() {
	c.events.do(func() { c.of.resilience.shed.WithLabelValues(c.id).Inc() })
}

func (r *routeMetrics) shed() {
	r.events.do(func() { r.of.resilience.routeShed.WithLabelValues(r.id).Inc() })
}

// dropEvents ends the series of a cluster that is gone.
func (c *clusterMetrics) dropEvents() {
	c.events.drop(func() {
		m, of := c.of.resilience, prometheus.Labels{"cluster": c.id}
		m.state.DeletePartialMatch(of)
		for _, counter := range []*prometheus.CounterVec{m.transitions, m.rejected, m.retries, m.denied, m.shed} {
			counter.DeletePartialMatch(of)
		}
	})
}

func (r *routeMetrics) dropEvents() {
	r.events.drop(func() { r.of.resilience.routeShed.DeleteLabelValues(r.id) })
}
