package gateway

import (
	"fmt"
	"strings"

	"grapevine/gateway/spec"
)

// Lint finds what works and is probably not meant: routes that get no request,
// clusters that no route uses, destinations that are there twice, and what a
// probe's path takes away. It looks at every route, so it is for people who ask.
func (t *Table) Lint() []spec.Fault {
	found := spec.Faults{}
	used, named := map[string]bool{}, map[string]bool{}
	for key, v := range t.plan.verdicts.under(routePrefix) {
		for _, id := range v.looked {
			used[id] = true
		}
		if v.route != nil && v.route.cluster != nil && v.route.cluster.named {
			named[v.route.cluster.id] = true
		}
		if v.route != nil {
			for _, c := range v.route.split {
				named[c.id] = true
			}
		}
		if v.hidden != nil && v.route == nil {
			found = append(found, t.plan.static.Locate(spec.Fault{Key: key, Problem: "the file's route of this id is hidden by one that is not enabled"}))
		}
		if r := t.routes.get(key); r != nil {
			found = append(found, t.lintRoute(r)...)
		}
	}
	for key, v := range t.plan.verdicts.under(clusterPrefix) {
		found = append(found, lintCluster(key, v.cluster, used[v.cluster.id], named[v.cluster.id])...)
	}
	found = append(found, t.lintMaintenance()...)
	for i, f := range found {
		if t.plan.decoded.get(f.Key) == nil { // else it is about the operator's value
			found[i] = t.plan.static.Locate(f)
		}
	}
	sortFaults(found)
	return found
}

func (t *Table) lintRoute(r *route) (found []spec.Fault) {
	key := r.planned.key
	if by := t.shadowing(r); by != nil {
		found = append(found, spec.Fault{Key: key, Problem: fmt.Sprintf(
			"gets no request: route %q comes first and takes all that this one would; change the order of one of them, or take one away", by.ID)})
	}
	path := r.planned.spec.Path
	if path != "" && !path.Template().CatchAll() && t.probes[strings.ToLower(string(path))] != 0 {
		found = append(found, spec.Fault{Key: key, Field: "path", Value: string(path), Problem: "gets no request: the gateway answers probes on this path " +
			"itself, see paths in gateway/config/ready"})
	}
	return append(found, lintDestinations(key, r.planned.cluster)...)
}

// lintCluster looks at a named cluster: used by routes, for its policy at least,
// and named by one, for its destinations.
func lintCluster(key string, c *plannedCluster, used, named bool) (found []spec.Fault) {
	switch {
	case c.blocked:
		return nil
	case !used:
		found = append(found, spec.Fault{Key: key, Problem: "no route uses this cluster"})
	case len(c.destinations) == 0 && named:
		found = append(found, spec.Fault{Key: key, Field: "destinations", Problem: "there are none, so every request gets 503"})
	}
	weight := 0
	for _, d := range c.destinations {
		weight += d.weight
	}
	if len(c.destinations) > 0 && weight == 0 {
		found = append(found, spec.Fault{Key: key, Field: "destinations", Problem: "all have weight 0, so every request gets 503"})
	}
	return append(found, lintAddresses(key, "destinations.", c)...)
}

// lintDestinations looks at a route's own cluster.
func lintDestinations(key string, c *plannedCluster) []spec.Fault {
	if c == nil || c.named {
		return nil
	}
	return lintAddresses(key, "backends.", c)
}

func lintAddresses(key, field string, c *plannedCluster) (found []spec.Fault) {
	first := map[spec.Address]string{}
	for _, d := range c.destinations {
		if before, twice := first[d.address]; twice {
			found = append(found, spec.Fault{Key: key, Field: field + d.id, Value: string(d.address), Problem: fmt.Sprintf(
				"is the same address as %s: it gets a double share", before)})
			continue
		}
		first[d.address] = d.id
	}
	return found
}
