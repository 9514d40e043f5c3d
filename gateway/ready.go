package gateway

import (
	"fmt"
	"strings"
)

// readiness says whether the node should get traffic: a table is live, nobody
// has begun to drain the node, and the clusters that gateway/config/ready
// requires have a destination.
func (g *Gateway) readiness(t *Table) (bool, string) {
	switch {
	case g.draining.Load():
		return false, "the node is draining"
	case t == nil:
		return false, "no route table is loaded"
	}
	return t.required()
}

func (t *Table) required() (bool, string) {
	ready := &t.plan.settings.ready
	var missing []string
	for _, id := range ready.Require {
		if !t.hasDestination(string(id)) {
			missing = append(missing, string(id))
		}
	}
	enough := len(missing) == 0 || ready.Policy == "any" && len(missing) < len(ready.Require)
	if enough {
		return true, ""
	}
	return false, fmt.Sprintf("required without destination: %s", strings.Join(missing, ", "))
}

// hasDestination tells whether a cluster can be asked: a named one, or the one
// that the backends of the route of this id make.
func (t *Table) hasDestination(id string) bool {
	if c := t.clusters.get(clusterPrefix + id); c != nil && len(c.destinations) > 0 {
		return true
	}
	r := t.routes.get(routePrefix + id)
	return r != nil && r.cluster != nil && len(r.cluster.destinations) > 0
}
