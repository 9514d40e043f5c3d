package gateway

import (
	"github.com/prometheus/client_golang/prometheus"

	"grapevine/gateway/health"
)

// The series of destinations' health are made when somebody asks, of what the
// monitor knows: they end with the address, and a destination of which there is
// nothing to say has none.
var (
	destinationHealthy = prometheus.NewDesc("grapevine_destination_healthy",
		"1 for a destination that is used, 0 for one that is unhealthy or ejected; of those that are checked or were ejected.", []string{"cluster", "destination"}, nil)
	destinationEjections = prometheus.NewDesc("grapevine_destination_ejections_total",
		"How often a destination was taken out because requests failed.", []string{"cluster", "destination"}, nil)
	healthChecks = prometheus.NewDesc("grapevine_health_checks_total",
		"Checks of an address, which the clusters that ask it share, by result (good or bad).", []string{"destination", "result"}, nil)
)

func describeHealth(ch chan<- *prometheus.Desc) {
	ch <- destinationHealthy
	ch <- destinationEjections
	ch <- healthChecks
}

func collectHealth(m *health.Monitor, ch chan<- prometheus.Metric) {
	m.Each(func(member *health.Member) {
		r, healthy := member.Report(), 0.0
		if r.State.Usable() {
			healthy = 1
		}
		ch <- prometheus.MustNewConstMetric(destinationHealthy, prometheus.GaugeValue, healthy, r.Cluster, r.Address)
		ch <- prometheus.MustNewConstMetric(destinationEjections, prometheus.CounterValue, float64(r.Ejections), r.Cluster, r.Address)
	})
	m.Checks(func(address string, good, bad uint64) {
		ch <- prometheus.MustNewConstMetric(healthChecks, prometheus.CounterValue, float64(good), address, "good")
		ch <- prometheus.MustNewConstMetric(healthChecks, prometheus.CounterValue, float64(bad), address, "bad")
	})
}

// panics tells whether all destinations of the cluster are used because too few
// are healthy.
func (c *clusterMetrics) panics(on bool) {
	value := 0.0
	if on {
		value = 1
	}
	c.of.panicking.WithLabelValues(c.id).Set(value)
}
