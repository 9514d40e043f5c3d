package gateway

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The series of a maintenance are there as long as it is switched on, and its
// start and end until its time is over. They are made when they are asked for,
// since time alone ends one.
var (
	maintenanceStart = maintenanceDesc("start_timestamp_seconds", "Since when a maintenance is on, by who wrote it; a forgotten one is old. cluster is empty for the whole gateway, scope is all or node.", "by")
	maintenanceEnd   = maintenanceDesc("end_timestamp_seconds", "When a maintenance that is on ends by itself; not there when it does not.")
	maintenanceAway  = maintenanceDesc("turned_away_total", "Requests that a maintenance has turned away, while it is there.")
	maintenanceEnded = maintenanceDesc("ended_total", "Requests and connections under way that were ended after the grace of a maintenance, while it is there.")
)

func maintenanceDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("grapevine_maintenance_"+name, help, append([]string{"cluster", "scope"}, labels...), nil)
}

func describeMaintenance(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{maintenanceStart, maintenanceEnd, maintenanceAway, maintenanceEnded} {
		ch <- desc
	}
}

// collectMaintenance sends the series of the live table, nil before there is one.
func collectMaintenance(t *Table, ch chan<- prometheus.Metric) {
	if t == nil {
		return
	}
	for _, m := range t.Maintenance() {
		send := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(desc, kind, value, append([]string{m.Cluster, m.Scope}, labels...)...)
		}
		if m.State == MaintenanceOn {
			send(maintenanceStart, prometheus.GaugeValue, seconds(m.Since), m.By)
		}
		if m.State == MaintenanceOn && m.Until != nil {
			send(maintenanceEnd, prometheus.GaugeValue, seconds(*m.Until))
		}
		send(maintenanceAway, prometheus.CounterValue, float64(m.TurnedAway))
		send(maintenanceEnded, prometheus.CounterValue, float64(m.Ended))
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
