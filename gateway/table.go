package gateway

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"grapevine/gateway/action"
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

	chain    *chain
	access   *access // nil when no request is written
	trie     *routing.Trie
	routes   index[*route]   // by key
	clusters index[*cluster] // named ones, by key
	trust    trust
	probes   map[string]probe
	windows  *windows      // nil when there is no maintenance
	stray    *routeMetrics // requests that no route took
}

// route is a live route.
type route struct {
	id      string
	planned *plannedRoute
	rules   []*routing.Rule // one, but for a blocked route, which may have none or two
	policy  routing.Policy
	metrics *routeMetrics

	// A route has one of cluster, split and answer; neither when it is blocked.
	cluster *cluster
	way     way
	split   *split
	limits  *limits // nil: none
	answer  exchange.Handler

	target            *action.Target
	request, response *action.Headers
}

// Rev is the revision of the operator's keys that the table was made from.
func (t *Table) Rev() kv.Rev { return t.plan.rev() }

// Hash is equal for tables that serve the same, on any node.
func (t *Table) Hash() string { return t.hash }

// BuiltAt is when the table went live.
func (t *Table) BuiltAt() time.Time { return t.builtAt }

// Faults are those of the keys that are quarantined.
func (t *Table) Faults() spec.Faults { return t.plan.faults() }

// Notices are things that an operator may not expect, but which work.
func (t *Table) Notices() spec.Faults { return t.plan.notices() }

// Logging is the section gateway/config/logging.
func (t *Table) Logging() spec.Logging { return t.plan.settings.logging }

// Len counts the rows that Routes has.
func (t *Table) Len() int { return t.plan.counts.live + t.plan.counts.invalid + t.plan.counts.hidden }

// RouteStatus is one row of the list of routes.
type RouteStatus struct {
	ID          string   `json:"id" doc:"of the route"`
	Order       int      `json:"order" doc:"lower is tried first"`
	Hosts       []string `json:"hosts" doc:"host patterns; none: any host"`
	Path        string   `json:"path" doc:"template, or ~ and the expression"`
	Target      string   `json:"target" doc:"a cluster, addresses, or what it answers"`
	Source      string   `json:"source" doc:"operator, announced or static"`
	Rev         string   `json:"rev" doc:"revision of the key; empty for a route that no operator wrote"`
	State       string   `json:"state" doc:"live, shadowed (gets no request) or invalid"`
	Problem     string   `json:"problem,omitempty" doc:"why it is shadowed or invalid"`
	Maintenance bool     `json:"maintenance,omitempty" doc:"its requests are turned away, but for clients that are let through"`
	Hidden      bool     `json:"hidden,omitempty" doc:"shadowed since a route of a higher layer has its id"`
	ServingRev  string   `json:"servingRev,omitempty" doc:"revision of the version that is served; absent for a route that no operator wrote and for one that answers 503"`
}

// Routes lists live, invalid and shadowed routes by id.
func (t *Table) Routes() []RouteStatus {
	rows := make([]RouteStatus, 0, t.Len())
	for key, v := range t.plan.verdicts.under(routePrefix) {
		if v.route != nil {
			rows = append(rows, t.status(t.routes.get(key)))
		}
		for _, hidden := range v.hidden {
			row := hidden.status()
			row.State, row.Hidden = stateShadowed, true
			rows = append(rows, row)
		}
	}
	return rows
}

const (
	stateLive     = "live"
	stateShadowed = "shadowed"
	stateInvalid  = "invalid"
)

// status of a live route, which others may still leave no request.
func (t *Table) status(r *route) RouteStatus {
	row := r.planned.status()
	row.Maintenance = t.windows.during(r.cluster.name(), time.Now())
	if row.State != stateLive {
		return row
	}
	if by := t.shadowing(r); by != nil {
		row.State, row.Problem = stateShadowed, fmt.Sprintf("route %q takes all its requests", by.ID)
	}
	return row
}

// shadowing is a rule that leaves a live route no request, nil if there is none.
func (t *Table) shadowing(r *route) *routing.Rule {
	if r.planned.blocked {
		return nil
	}
	return t.trie.Shadowing(r.rules[0])
}

func (r *plannedRoute) status() RouteStatus {
	row := RouteStatus{
		ID: r.id, Order: r.spec.Order, Hosts: []string{}, Path: pathOf(r.spec),
		Target: r.target(), Source: r.layer, State: stateLive, Problem: r.problem,
	}
	for _, host := range r.spec.Hosts {
		row.Hosts = append(row.Hosts, string(host))
	}
	if r.problem != "" {
		row.State = stateInvalid
	}
	if !r.rev.IsZero() {
		row.Rev = r.rev.String()
	}
	if !r.serving.IsZero() && !r.blocked {
		row.ServingRev = r.serving.String()
	}
	return row
}

// pathOf is how lists name the paths of a route.
func pathOf(r *spec.Route) string {
	if r.PathRegex != "" {
		return "~ " + string(r.PathRegex)
	}
	return string(r.Path)
}

func (r *plannedRoute) target() string {
	switch {
	case r.spec.Cluster != "":
		return "cluster " + string(r.spec.Cluster)
	case len(r.spec.Split) > 0:
		var parts []string
		for _, share := range r.spec.Split {
			parts = append(parts, fmt.Sprintf("%s %d", share.Cluster, share.Weight))
		}
		return "split " + strings.Join(parts, ",")
	case r.spec.Redirect != nil:
		return "redirect " + string(r.spec.Redirect.To)
	case r.spec.Respond != nil:
		return fmt.Sprintf("respond %d", cmp.Or(r.spec.Respond.Status, http.StatusOK))
	}
	addresses := make([]string, len(r.spec.Backends))
	for i, address := range r.spec.Backends {
		addresses[i] = string(address)
	}
	return strings.Join(addresses, ",")
}
