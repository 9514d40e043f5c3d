package gateway

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"grapevine/gateway/accesslog"
	"grapevine/gateway/exchange"
	"grapevine/gateway/health"
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
	unlogged  prometheus.CounterFunc
	panicking *prometheus.GaugeVec
	health    *health.Monitor // whose series are made at each collection

	resilience *resilienceMetrics
	table      func() *Table // the live one, nil before there is one
}

func newMetrics(log *accesslog.Logger) *metrics {
	return &metrics{
		resilience: newResilienceMetrics(),
		unlogged: prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "grapevine_access_log_dropped_total", Help: "Lines of the access log that its output did not take in time.",
		}, func() float64 { return float64(log.Dropped()) }),
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
		panicking: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "grapevine_cluster_panic", Help: "1 while so few destinations are healthy that all are used; there from a cluster's first panic on.",
		}, []string{"cluster"}),
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
	return append(m.resilience.collectors(),
		m.requests, m.duration, m.attempts, m.failures, m.inFlight, m.swaps, m.rejected,
		m.compile, m.revision, m.routes, m.faults, m.builtTime, m.unlogged, m.panicking)
}

// Describe and Collect make a metrics one prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(ch)
	}
	describeHealth(ch)
	describeMaintenance(ch)
	describeAnnounced(ch)
}

// Collect sends the current values.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(ch)
	}
	collectHealth(m.health, ch)
	collectMaintenance(m.table(), ch)
	collectAnnounced(m.table(), ch)
}

// clientLeft is the class of requests whose client did not wait.
const clientLeft = "499"

var classes = [...]string{clientLeft, "1xx", "2xx", "3xx", "4xx", "5xx"}

// series are those of one route or cluster. They are there from its first
// request on: of 100,000 routes most have none. What is bound late, by a request
// that outlived its route, is not counted.
type series[T any] struct {
	bound atomic.Pointer[T]

	// mu guards the step to bound, and dropped.
	mu      sync.Mutex
	dropped bool
}

// get gives the series, made by bind at first; nil once they are dropped and
// were never bound.
func (s *series[T]) get(bind func() *T) *T {
	if bound := s.bound.Load(); bound != nil {
		return bound
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if bound := s.bound.Load(); bound != nil || s.dropped {
		return bound
	}
	bound := bind()
	s.bound.Store(bound)
	return bound
}

// drop tells whether there were series, which end.
func (s *series[T]) drop() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped = true
	return s.bound.Load() != nil
}

// events count what happens seldom, in series that are there once it has.
type events struct {
	// mu guards what follows.
	mu                sync.Mutex
	happened, dropped bool
}

// do counts an event, unless the series have ended.
func (e *events) do(count func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.dropped {
		e.happened = true
		count()
	}
}

// drop ends the series, if there are some.
func (e *events) drop(end func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dropped = true; e.happened {
		end()
	}
}

// routeMetrics are told of each exchange's end.
type routeMetrics struct {
	id     string
	of     *metrics
	series series[routeSeries]
	events events
}

type routeSeries struct {
	byClass  [len(classes)]prometheus.Counter
	duration prometheus.Observer
}

// route gives the metrics of a route, "" for requests that no route took.
func (m *metrics) route(id string) *routeMetrics { return &routeMetrics{id: id, of: m} }

// Finished counts an exchange.
func (r *routeMetrics) Finished(x *exchange.Exchange, _ error) {
	if x.Reason == "" && x.Recalled() { // the log, which is told later, would take it for the client's leaving
		x.Reason = codeMaintenance
	}
	if s := r.series.get(r.bind); s != nil {
		s.byClass[x.Response.Status/100%len(classes)].Inc()
		s.duration.Observe(time.Since(x.Started).Seconds())
	}
}

func (r *routeMetrics) bind() *routeSeries {
	s := &routeSeries{duration: r.of.duration.WithLabelValues(r.id)}
	for i, class := range classes {
		s.byClass[i] = r.of.requests.WithLabelValues(r.id, class)
	}
	return s
}

func (r *routeMetrics) drop() {
	r.dropEvents()
	if !r.series.drop() {
		return
	}
	for _, class := range classes {
		r.of.requests.DeleteLabelValues(r.id, class)
	}
	r.of.duration.DeleteLabelValues(r.id)
}

// clusterMetrics are told of each attempt.
type clusterMetrics struct {
	id     string
	of     *metrics
	series series[clusterSeries]
	events events
}

type clusterSeries struct {
	inFlight prometheus.Gauge
	attempts prometheus.Counter
	failures [exchange.Phases]prometheus.Counter
}

func (m *metrics) cluster(id string) *clusterMetrics { return &clusterMetrics{id: id, of: m} }

func (c *clusterMetrics) attempted() {
	if s := c.series.get(c.bind); s != nil {
		s.attempts.Inc()
	}
}

func (c *clusterMetrics) failed(phase exchange.Phase) {
	if s := c.series.get(c.bind); s != nil {
		s.failures[phase].Inc()
	}
}

func (c *clusterMetrics) answered() {
	if s := c.series.get(c.bind); s != nil {
		s.inFlight.Inc()
	}
}

// Finished ends an exchange that the cluster answered.
func (c *clusterMetrics) Finished(*exchange.Exchange, error) {
	if s := c.series.get(c.bind); s != nil {
		s.inFlight.Dec()
	}
}

func (c *clusterMetrics) bind() *clusterSeries {
	s := &clusterSeries{inFlight: c.of.inFlight.WithLabelValues(c.id), attempts: c.of.attempts.WithLabelValues(c.id)}
	for phase := range s.failures {
		s.failures[phase] = c.of.failures.WithLabelValues(c.id, exchange.Phase(phase).String())
	}
	return s
}

func (c *clusterMetrics) drop() {
	c.of.panicking.DeleteLabelValues(c.id)
	c.dropEvents()
	if !c.series.drop() {
		return
	}
	c.of.inFlight.DeleteLabelValues(c.id)
	c.of.attempts.DeleteLabelValues(c.id)
	for phase := range exchange.Phase(exchange.Phases) {
		c.of.failures.DeleteLabelValues(c.id, phase.String())
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
