package gateway

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"grapevine/gateway/breaker"
	"grapevine/gateway/exchange"
)

// Forward is what a backend would receive.
type Forward struct {
	Cluster      string               `json:"cluster" doc:"which cluster would get it"`
	Balancing    string               `json:"balancing" doc:"how one of its destinations is chosen"`
	Chosen       string               `json:"chosen,omitempty" doc:"the address that would get it if it came now; absent when none would, or chance decides"`
	Panic        bool                 `json:"panic,omitempty" doc:"so few destinations are healthy that all are asked"`
	Breaker      *ForwardBreaker      `json:"breaker,omitempty" doc:"the cluster's circuit breaker on this node; absent without one"`
	Destinations []ForwardDestination `json:"destinations" doc:"which of them there are"`
	Method       string               `json:"method" doc:"as sent on"`
	Target       string               `json:"target" doc:"path and query as sent on"`
	Host         string               `json:"host" doc:"the Host that the backend sees"`
	Fields       []string             `json:"fields" doc:"header lines as sent on, without those that the gateway gives every request"`
}

// ForwardDestination is one destination that may get the request.
type ForwardDestination struct {
	Address  string `json:"address" doc:"scheme://host:port"`
	Weight   int    `json:"weight" doc:"its share, relative to the others; 0: no requests"`
	InFlight int64  `json:"inFlight" doc:"requests that it has from this node now"`
	Region   string `json:"region,omitempty" doc:"where it is"`
	Instance string `json:"instance,omitempty" doc:"id of the instance that announced itself; absent for a configured destination"`
	Version  string `json:"version,omitempty" doc:"what the instance says that it runs"`
	Orphaned bool   `json:"orphaned,omitempty" doc:"the node to which the instance announced itself can't be reached"`
	Status   string `json:"status,omitempty" doc:"what the configuration, or the instance, says of it: healthy, degraded, unhealthy or draining"`
	Health   string `json:"health" doc:"what this node knows: unknown, healthy, unhealthy or ejected"`
	Why      string `json:"why,omitempty" doc:"what the last check said that was bad"`
	ByOthers bool   `json:"byOthers,omitempty" doc:"checks are made by other nodes, who say that it is well"`
	Use      string `json:"use" doc:"yes, last (when none of the others can be reached) or no"`
}

// ForwardBreaker is a cluster's circuit breaker on one node.
type ForwardBreaker struct {
	State     string `json:"state" doc:"closed, open or half-open"`
	Successes int    `json:"successes" doc:"calls that count now: of its window, or of its probes while it is half-open"`
	Failures  int    `json:"failures" doc:"those of them that failed"`
	OpenForMs int64  `json:"openForMs,omitempty" doc:"milliseconds until it lets probes pass"`
}

// SplitPart is one cluster of a route's split.
type SplitPart struct {
	Cluster     string `json:"cluster" doc:"its id"`
	Weight      int    `json:"weight" doc:"its part, relative to the others'"`
	Conditional bool   `json:"conditional,omitempty" doc:"a header or a cookie chooses it, whatever the weights say"`
	Chosen      bool   `json:"chosen,omitempty" doc:"it would get the request if that came now"`
	Maintenance bool   `json:"maintenance,omitempty" doc:"its requests are turned away, but for clients that are let through"`
}

// What a destination is used for.
const (
	useYes  = "yes"
	useLast = "last"
	useNo   = "no"
)

// forwards says what of x a destination would get.
func (c *cluster) forwards(x *exchange.Exchange) *Forward {
	f := &Forward{
		Cluster: c.id, Balancing: c.planned.balancing(), Destinations: []ForwardDestination{},
		Method: x.Request.Method, Target: string(x.Request.Target), Host: string(x.Request.Authority), Fields: []string{},
	}
	l := c.lineup.Load()
	f.Panic, f.Breaker = l.panics, c.guard.explain()
	for i, d := range c.destinations {
		f.Destinations = append(f.Destinations, d.explain(l.use(i, d)))
	}
	if i := c.wouldAsk(l, &x.Request); i >= 0 && !c.planned.byChance() {
		f.Chosen = c.destinations[i].address
	}
	for _, field := range x.Request.Fields {
		f.Fields = append(f.Fields, string(field.Name)+": "+string(field.Value))
	}
	return f
}

// byChance tells whether nobody knows which destination comes next.
func (c *plannedCluster) byChance() bool {
	return slices.Contains([]string{"random", "powerOfTwo", "latency"}, c.policy.LoadBalancing)
}

// balancing is the policy in the words of the configuration.
func (c *plannedCluster) balancing() string {
	switch c.policy.LoadBalancing {
	case "":
		return "roundRobin"
	case "hash":
		if c.policy.HashOn == "" {
			return "hash on ip"
		}
		return "hash on " + string(c.policy.HashOn)
	default:
		return c.policy.LoadBalancing
	}
}

// would tells what becomes of a request for the cluster, as far as that shows.
func (c *cluster) would(f *Forward, r *route, x *exchange.Request) (status int, code, detail string) {
	l := c.lineup.Load()
	none := c.wouldAsk(l, x) < 0
	switch {
	case f.Breaker != nil && f.Breaker.State == breaker.Open.String():
		return 503, "circuit_open", fmt.Sprintf("Route %s takes it, and the breaker of its cluster %s is open for another %s.",
			r.id, c.id, time.Duration(f.Breaker.OpenForMs)*time.Millisecond)
	case none && l.unwell:
		return 503, "no_healthy_destination", fmt.Sprintf("Route %s takes it, and its cluster %s has no healthy destination.", r.id, c.id)
	case none:
		return 503, "no_destination", fmt.Sprintf("Route %s takes it, and its cluster %s has no destination.", r.id, c.id)
	default:
		return 0, "", fmt.Sprintf("Route %s forwards it to cluster %s.", r.id, c.id)
	}
}

// wouldAsk is first without a turn being taken.
func (c *cluster) wouldAsk(l *lineup, x *exchange.Request) int {
	if c.affinity != nil {
		if i := c.affinity.of(x); i >= 0 && l.may[i] {
			return i
		}
	}
	return l.pick(c.state.turn.Load(), x)
}

// use tells what the destination of an index is used for.
func (l *lineup) use(i int, d *destination) string {
	switch {
	case slices.Contains(l.rest, i):
		return useLast
	case l.may[i] && d.weight > 0:
		return useYes
	default:
		return useNo
	}
}

func (d *destination) explain(use string) ForwardDestination {
	report := d.health.Report()
	f := ForwardDestination{
		Address: d.address, Weight: d.weight, InFlight: d.load.Now(), Region: d.region, Status: d.status,
		Health: report.State.String(), Why: report.Why, ByOthers: report.Others, Use: use,
	}
	if i := d.instance; i != nil {
		f.Instance, f.Version, f.Orphaned = i.id, i.spec.Version, i.own.Orphaned
	}
	return f
}

// explain tells how a breaker stands; nil for a cluster without one.
func (g *guard) explain() *ForwardBreaker {
	if g == nil {
		return nil
	}
	f := &ForwardBreaker{State: g.breaker.State().String()}
	f.Successes, f.Failures = g.breaker.Counts()
	if f.State == breaker.Open.String() {
		f.OpenForMs = g.breaker.Wait().Milliseconds()
	}
	return f
}

// splitOf lists the parts of a route's split; chosen is the one that would get the
// request.
func (t *Table) splitOf(r *route, chosen *cluster) (parts []SplitPart) {
	now := time.Now()
	for i, share := range r.planned.spec.Split {
		if r.split == nil {
			break
		}
		c := r.split.parts[i].cluster
		parts = append(parts, SplitPart{
			Cluster: string(share.Cluster), Weight: share.Weight, Conditional: len(share.Headers)+len(share.Cookies) > 0,
			Chosen: c != nil && c == chosen, Maintenance: t.windows.during(string(share.Cluster), now),
		})
	}
	return parts
}

// explainMaintenance lists the maintenances that are in force for a cluster, and
// gives the one that keeps the client out, nil if none does.
func (t *Table) explainMaintenance(e *Explanation, c *cluster, client netip.Addr) *window {
	if t.windows == nil {
		return nil
	}
	now := time.Now()
	for _, w := range t.windows.list {
		if w.active(now) && (w.cluster == "" || w.cluster == c.name()) {
			e.Maintenance = append(e.Maintenance, w.status(now))
		}
	}
	return t.windows.against(c.name(), client, now)
}

// excuse says why a route's request is turned away.
func (w *window) excuse(r *route) string {
	what := "cluster " + w.cluster
	if w.cluster == "" {
		what = "the whole gateway"
	}
	if w.local {
		what += ", on this node,"
	}
	return fmt.Sprintf("Route %s takes it, and %s is under maintenance.", r.id, what)
}
