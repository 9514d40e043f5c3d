package gateway

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

// InstanceStatus is an announced instance as the live table has it.
type InstanceStatus struct {
	Key        kv.Key     `json:"key" doc:"under which it is announced"`
	RouteID    string     `json:"routeId" doc:"the route that it serves"`
	InstanceID string     `json:"instanceId" doc:"its own id"`
	Address    string     `json:"address" doc:"where it is reached"`
	Owner      kv.OwnerID `json:"owner" doc:"the node that it announced itself to"`
	Draining   bool       `json:"draining,omitempty" doc:"it asks for no new requests"`
	Orphaned   bool       `json:"orphaned,omitempty" doc:"its owner can't be reached, so that nobody vouches for it"`
	Serves     bool       `json:"serves" doc:"it is a destination of a route that is served"`
	Why        string     `json:"why,omitempty" doc:"why it serves nothing"`
}

// Instances are all announced instances that the live table knows, those that
// serve nothing included, in the order of their keys.
func (g *Gateway) Instances() []InstanceStatus {
	list := []InstanceStatus{}
	t := g.Table()
	if t == nil {
		return list
	}
	for _, v := range t.plan.verdicts.under(instancePrefix) {
		unused := t.unused(v.fleet)
		for _, m := range v.fleet.members {
			s := m.status()
			if s.Why == "" {
				s.Why = unused
			}
			s.Serves = s.Why == ""
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b InstanceStatus) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return list
}

func (m member) status() InstanceStatus {
	return InstanceStatus{
		Key: m.key, RouteID: idOf(fleetOf(m.key)), InstanceID: m.id, Address: string(m.address()), Owner: m.own.Owner,
		Draining: m.draining(), Orphaned: m.own.Orphaned, Why: m.why,
	}
}

// unused says why the good instances of a fleet serve nothing; empty: they do.
func (t *Table) unused(f *fleet) string {
	c := t.plan.verdicts.get(clusterPrefix + f.id).clusterOf()
	switch {
	case c == nil:
		return ""
	case c.blocked:
		return "cluster " + f.id + " has no good version"
	case c.layer != layerAnnounced:
		return "the destinations that an operator gave cluster " + f.id + " are used"
	}
	why := "no route leads to cluster " + f.id
	for name := range t.plan.users.under(f.id + " ") {
		r := t.plan.verdicts.get(strings.TrimPrefix(name, f.id+" ")).routeOf()
		switch {
		case r == nil || r.cluster != c && !slices.Contains(r.split, c):
		case r.blocked:
			why = "route " + r.id + " is not served: " + r.problem
		case r.cluster == c || c.closedTo(r.spec) == "":
			return ""
		}
	}
	if r := t.plan.verdicts.get(routePrefix + f.id).routeOf(); r != nil && r.layer == layerOperator {
		why = hiddenByOperator + ", and does not name cluster " + f.id
	} else if r != nil && r.blocked {
		why = "route " + r.id + " is not served: " + r.problem
	}
	return why
}

func (v *verdict) clusterOf() *plannedCluster {
	if v == nil {
		return nil
	}
	return v.cluster
}

func (v *verdict) routeOf() *plannedRoute {
	if v == nil {
		return nil
	}
	return v.route
}

// Effective is the route of an id as it is served now, nil if there is none, and
// what there is to say about it and its instances.
func (g *Gateway) Effective(routeID string) (route json.RawMessage, notices []string) {
	t := g.Table()
	if t == nil {
		return nil, nil
	}
	if r := t.routes.get(routePrefix + routeID); r != nil {
		route = spec.Encode(r.planned.spec)
		if r.planned.problem != "" {
			notices = append(notices, r.planned.problem)
		}
	}
	for _, prefix := range [...]string{instancePrefix, clusterPrefix, routePrefix} {
		v := t.plan.troubled.get(prefix + routeID)
		if v == nil {
			continue
		}
		for _, f := range slices.Concat(v.faults, v.notices) {
			if text := shortly(f); !slices.Contains(notices, text) {
				notices = append(notices, text)
			}
		}
	}
	return route, notices
}

// logFleet says once which instances get no requests, and that the last one is gone.
func (g *Gateway) logFleet(c change) {
	var before spec.Faults
	if c.old != nil {
		before = c.old.notices
	}
	for _, n := range c.now.notices {
		if !slices.Contains(before, n) {
			g.logger.Warn("instances get no requests", "route", c.now.fleet.id, "problem", n.Problem)
		}
	}
	if f := c.now.fleet; f.lingers() && !c.old.fleetOf().lingers() {
		g.logger.Info("the last instance is gone", "route", f.id, "keptUntil", f.until.UTC().Format(time.RFC3339))
	}
}

// The series of announcements are made when they are asked for, of the live table:
// they end with their routes.
var (
	announcedInstances = prometheus.NewDesc("grapevine_announced_instances",
		"Announced instances that this node knows, by state (serving, draining, orphaned or excluded: it gets no requests).", []string{"state"}, nil)
	announcedExcluded = prometheus.NewDesc("grapevine_announced_excluded_instances",
		"Instances that get no requests: they disagree with the others of their route, their address is another's, or they can't be read. By route, where there are some.",
		[]string{"route"}, nil)
)

func describeAnnounced(ch chan<- *prometheus.Desc) {
	ch <- announcedInstances
	ch <- announcedExcluded
}

// collectAnnounced sends the series of the live table, nil before there is one.
func collectAnnounced(t *Table, ch chan<- prometheus.Metric) {
	if t == nil {
		return
	}
	counts := map[string]int{"serving": 0, "draining": 0, "orphaned": 0, "excluded": 0}
	for _, v := range t.plan.verdicts.under(instancePrefix) {
		excluded := 0
		for _, m := range v.fleet.members {
			if m.why != "" {
				excluded++
			}
			counts[m.state()]++
		}
		if excluded > 0 {
			ch <- prometheus.MustNewConstMetric(announcedExcluded, prometheus.GaugeValue, float64(excluded), v.fleet.id)
		}
	}
	for state, n := range counts {
		ch <- prometheus.MustNewConstMetric(announcedInstances, prometheus.GaugeValue, float64(n), state)
	}
}

func (m member) state() string {
	switch {
	case m.why != "":
		return "excluded"
	case m.draining():
		return "draining"
	case m.own.Orphaned:
		return "orphaned"
	default:
		return "serving"
	}
}
