package gateway

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"grapevine/gateway/exchange"
)

// metrics are the gateway's own series. Those of a route or cluster are bound
// when a table is compiled and end when the last table that has it goes.
type metrics struct {
	requests  *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	attempts  *prometheus.CounterVec
	failures  *prometheus.CounterVec
	inFlight  *prometheus.GaugeVec
	swaps     prometheus.Counter
	rejected  prometheus.Counter
	compile   prometheus.Histogram
	revision  prometheus.Gauge
	routes    *prometheus.GaugeVec
	faults    prometheus.Gauge
	builtTime prometheus.Gauge
}

func newMetrics() *metrics {
	return &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "grapevine_requests_total", Help: "Requests answered, by route (empty: none took it) and class of status (499: the client left).",
		}, []string{"route", "class"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "grapevine_request_duration_seconds", Help: "From a request's head to the end of its response.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"route"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "grapevine_upstream_attempts_total", Help: "Destinations that were tried; more than the requests when some were tried again.",
		}, []string{"cluster"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "grapevine_upstream_failures_total", Help: "Attempts without a response head, by how far they had come.",
		}, []string{"cluster", "phase"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "grapevine_upstream_in_flight", Help: "Responses that are being received.",
		}, []string{"cluster"}),
		swaps: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "grapevine_table_swaps_total", Help: "Route tables that went live.",
		}),
		rejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "grapevine_table_failures_total", Help: "Compilations that broke off; the table before stayed live.",
		}),
		compile: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "grapevine_table_compile_seconds", Help: "Time from a view to a live table.",
			Buckets: []float64{.0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5},
		}),
		revision: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "grapevine_table_revision", Help: "Revision that the live table was made from.",
		}),
		routes: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "grapevine_table_routes", Help: "Routes of the live table, by state (hidden: static, and an operator's route has the id).",
		}, []string{"state"}),
		faults: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "grapevine_table_quarantined_keys", Help: "Keys that are not served as they stand.",
		}),
		builtTime: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "grapevine_table_built_timestamp_seconds", Help: "When the live table was made.",
		}),
	}
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.requests, m.duration, m.attempts, m.failures, m.inFlight, m.swaps, m.rejected,
		m.compile, m.revision, m.routes, m.faults, m.builtTime,
	}
}

// Describe and Collect make a metrics one prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(ch)
	}
}

// Collect sends the current values.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(ch)
	}
}

// clientLeft is the class of requests whose client did not wait.
const clientLeft = "499"

var classes = [...]string{clientLeft, "1xx", "2xx", "3xx", "4xx", "5xx"}

// routeMetrics are the series of one route, told of each exchange's end. They
// are there from the first request on: of 100,000 routes most have none.
type routeMetrics struct {
	id    string
	of    *metrics
	bound atomic.Pointer[boundMetrics]

	// mu guards the step to bound, and dropped: what ends later is not counted,
	// or the series would be there again.
	mu      sync.Mutex
	dropped bool
}

type boundMetrics struct {
	byClass  [len(classes)]prometheus.Counter
	duration prometheus.Observer
}

// route gives the series of a route, "" for requests that no route took.
func (m *metrics) route(id string) *routeMetrics { return &routeMetrics{id: id, of: m} }

// Finished counts an exchange.
func (r *routeMetrics) Finished(x *exchange.Exchange, _ error) {
	b := r.bound.Load()
	if b == nil {
		if b = r.bind(); b == nil {
			return
		}
	}
	b.byClass[x.Response.Status/100%len(classes)].Inc()
	b.duration.Observe(time.Since(x.Started).Seconds())
}

func (r *routeMetrics) bind() *boundMetrics {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.bound.Load(); b != nil || r.dropped {
		return b
	}
	b := &boundMetrics{duration: r.of.duration.WithLabelValues(r.id)}
	for i, class := range classes {
		b.byClass[i] = r.of.requests.WithLabelValues(r.id, class)
	}
	r.bound.Store(b)
	return b
}

// drop ends the series.
func (r *routeMetrics) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropped = true
	if r.bound.Load() == nil {
		return
	}
	for _, class := range classes {
		r.of.requests.DeleteLabelValues(r.id, class)
	}
	r.of.duration.DeleteLabelValues(r.id)
}

// cluster binds the series of a cluster.
func (m *metrics) cluster(id string) *clusterState {
	s := &clusterState{
		turn:     atomic.Uint64{},
		inFlight: m.inFlight.WithLabelValues(id),
		attempts: m.attempts.WithLabelValues(id),
	}
	for phase := range s.failures {
		s.failures[phase] = m.failures.WithLabelValues(id, exchange.Phase(phase).String())
	}
	return s
}

func (m *metrics) dropCluster(id string) {
	m.inFlight.DeleteLabelValues(id)
	m.attempts.DeleteLabelValues(id)
	for phase := range exchange.PhaseClientGone + 1 {
		m.failures.DeleteLabelValues(id, phase.String())
	}
}

// live tells of a table that went live.
func (m *metrics) live(t *Table) {
	m.swaps.Inc()
	m.compile.Observe(t.took.Seconds())
	m.revision.Set(float64(t.Rev().Rev))
	m.builtTime.Set(float64(t.builtAt.UnixMilli()) / 1000)
	quarantined := 0
	for range t.plan.quarantined() {
		quarantined++
	}
	m.faults.Set(float64(quarantined))
	m.routes.WithLabelValues("live").Set(float64(t.plan.counts.live))
	m.routes.WithLabelValues("hidden").Set(float64(t.plan.counts.hidden))
	m.routes.WithLabelValues("invalid").Set(float64(t.plan.counts.invalid))
}
