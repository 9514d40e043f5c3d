package agent

import (
	"log/slog"
	"net/http"
	"runtime"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"grapevine/kv"
)

// metrics are the agent's own series, beside those of the gateway, the process and the Go runtime.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	reloads  *prometheus.CounterVec
}

func newMetrics(version, build string, view func() kv.View) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "grapevine_api_requests_total", Help: "Requests of the API answered, by operation (empty: none has that path) and status.",
		}, []string{"operation", "status"}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "grapevine_reloads_total", Help: "Reloads of the static file, by outcome: done or refused.",
		}, []string{"outcome"}),
	}
	for _, outcome := range []string{reloadDone, reloadRefused} {
		m.reloads.WithLabelValues(outcome)
	}
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.requests, m.reloads, buildInfo(version, build),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "grapevine_kv_revision", Help: "Revision of the store, within its epoch.",
		}, func() float64 { return float64(view().Rev().Rev) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "grapevine_kv_keys", Help: "Keys in the store.",
		}, func() float64 { return float64(view().Len()) }),
	)
	return m
}

func buildInfo(version, build string) prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "grapevine_build_info", Help: "1, with what runs as labels.",
		ConstLabels: prometheus.Labels{"version": version, "build": build, "go": runtime.Version()},
	})
	info.Set(1)
	return info
}

// observe counts an answer of the API.
func (m *metrics) observe(operation string, status int) {
	m.requests.WithLabelValues(operation, strconv.Itoa(status)).Inc()
}

// handler serves the registry. A series that can't be read leaves the others readable.
func (m *metrics) handler(logger *slog.Logger) http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError,
		ErrorLog:      slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	})
}
