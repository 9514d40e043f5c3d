package gateway

import (
	"slices"
	"strings"
	"time"

	"grapevine/gateway/exchange"
	"grapevine/gateway/routing"
	"grapevine/gateway/spec"
	"grapevine/kv"
)

// Table is what is served: immutable, and complete for every request that
// loads it.
type Table struct {
	plan    *plan
	hash    string
	builtAt time.Time
	took    time.Duration

	handler  exchange.Handler
	matcher  *routing.Linear
	routes   []*route // in the order of plan.routes
	clusters map[string]*cluster
	planned  map[*plannedCluster]*cluster
	pools    map[spec.Address]*pool
	trust    trust
	probes   map[string]probe
	stray    *routeMetrics // requests that no route took
}

// route is a live route.
type route struct {
	id      string
	cluster *cluster // nil when blocked
	bounds  bounds
	// strip is how many leading segments the backend does not see.
	strip   int
	metrics *routeMetrics
}

// Rev is the revision of the operator's keys that the table was made from.
func (t *Table) Rev() kv.Rev { return t.plan.rev }

// Hash is equal for tables that serve the same, on any node.
func (t *Table) Hash() string { return t.hash }

// BuiltAt is when the table went live.
func (t *Table) BuiltAt() time.Time { return t.builtAt }

// Faults are those of the keys that are quarantined.
func (t *Table) Faults() spec.Faults { return slices.Clone(t.plan.faults) }

// Notices are things that an operator may not expect, but which work.
func (t *Table) Notices() spec.Faults { return slices.Clone(t.plan.notices) }

// Logging is the section gateway/config/logging.
func (t *Table) Logging() spec.Logging { return t.plan.settings.logging }

// RouteStatus is one row of the list of routes.
type RouteStatus struct {
	ID     string   `json:"id"`
	Order  int      `json:"order"`
	Hosts  []string `json:"hosts"`
	Path   string   `json:"path"`
	Target string   `json:"target"` // "cluster booking", or addresses
	Source string   `json:"source"` // operator or static
	Rev    string   `json:"rev"`    // of the key; empty for static
	State  string   `json:"state"`  // live, shadowed or invalid
	// Problem says why a route is shadowed or invalid.
	Problem string `json:"problem,omitempty"`
	// ServingRev is the revision of the version that is served; empty for a
	// static route and for one that answers 503.
	ServingRev string `json:"servingRev,omitempty"`
}

// Routes lists live, invalid and shadowed routes by id.
func (t *Table) Routes() []RouteStatus {
	rows := make([]RouteStatus, 0, len(t.plan.routes)+len(t.plan.shadowed))
	for _, r := range t.plan.routes {
		rows = append(rows, r.status())
	}
	for _, r := range t.plan.shadowed {
		row := r.status()
		row.State = "shadowed"
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b RouteStatus) int { return strings.Compare(a.ID, b.ID) })
	return rows
}

func (r *plannedRoute) status() RouteStatus {
	row := RouteStatus{
		ID: r.id, Order: r.spec.Order, Hosts: []string{}, Path: string(r.spec.Path),
		Target: r.target(), Source: r.layer, State: "live", Problem: r.problem,
	}
	for _, host := range r.spec.Hosts {
		row.Hosts = append(row.Hosts, string(host))
	}
	if r.problem != "" {
		row.State = "invalid"
	}
	if !r.rev.IsZero() {
		row.Rev = r.rev.String()
	}
	if !r.serving.IsZero() && !r.blocked {
		row.ServingRev = r.serving.String()
	}
	return row
}

func (r *plannedRoute) target() string {
	if r.spec.Cluster != "" {
		return "cluster " + string(r.spec.Cluster)
	}
	addresses := make([]string, len(r.spec.Backends))
	for i, address := range r.spec.Backends {
		addresses[i] = string(address)
	}
	return strings.Join(addresses, ",")
}
