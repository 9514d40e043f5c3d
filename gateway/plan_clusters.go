package gateway

import (
	"fmt"
	"maps"
	"slices"

	"grapevine/gateway/spec"
)

// plannedCluster is a cluster of the effective table, named or implied by a
// route's backends.
type plannedCluster struct {
	id           string
	layer        string // where its destinations come from, else its policy
	policy       *spec.Cluster
	destinations []plannedDestination // by id; the order of turns
	named        bool
	blocked      bool // its key has no good version
	// guarded is set when the instances that are its destinations ask for a token.
	guarded bool
}

type plannedDestination struct {
	id      string
	address spec.Address
	weight  int
	region  string
	status  string // healthy, degraded, unhealthy or draining; empty is healthy
	// instance is the announcement that it comes from, nil for a configured one.
	instance *instance
}

// judgeCluster makes a named cluster: the operator's, else the static one, with the
// instances that announce themselves as its destinations where they have precedence.
// A key without a good version hides all that.
func (p *planner) judgeCluster(key string) *verdict {
	id, v := idOf(key), &verdict{}
	policy, layer, fleet := p.static.Clusters[id], layerStatic, p.fleet(id)
	switch current := p.decoding.get(key); {
	case current != nil:
		use := p.judgeKey(key, v, func(d *decoded) spec.Faults {
			return settingsIn(key, d.Value.(*spec.Cluster), refusedInCluster, refusal)
		})
		if use == nil {
			v.cluster = &plannedCluster{id: id, layer: layerOperator, policy: &spec.Cluster{}, named: true, blocked: true}
			v.sum = digestOf("cluster %s blocked", id)
			return v
		}
		policy, layer = use.Value.(*spec.Cluster), layerOperator
	case policy != nil:
		v.faults = settingsIn(key, policy, refusedInCluster, refusal)
	case fleet == nil || fleet.route == nil:
		return nil
	default:
		policy, layer = &spec.Cluster{}, layerAnnounced
	}
	v.cluster = newPlannedCluster(id, layer, policy)
	v.cluster.blocked = len(v.faults) > 0 && v.good == nil // a static one that this version can't serve
	v.sum = digestOf("cluster %s %s %x", id, spec.Encode(policy), v.cluster.enlist(key, fleet, v))
	return v
}

func newPlannedCluster(id, layer string, policy *spec.Cluster) *plannedCluster {
	c := &plannedCluster{id: id, layer: layer, policy: policy, named: true}
	for _, name := range slices.Sorted(maps.Keys(policy.Destinations)) {
		d, weight := policy.Destinations[name], 1
		if d.Weight != nil {
			weight = *d.Weight
		}
		c.destinations = append(c.destinations, plannedDestination{id: string(name), address: d.Address, weight: weight, region: d.Region, status: d.Status})
	}
	return c
}

// withBackends is the cluster that a route's own backends make: the policy of
// the named cluster of the same id, if there is one, and the backends as
// destinations in the order given.
func withBackends(id, layer string, backends []spec.Address, named *plannedCluster) *plannedCluster {
	c := &plannedCluster{id: id, layer: layer, policy: &spec.Cluster{}}
	if named != nil {
		c.policy, c.blocked = named.policy, named.blocked
	}
	for i, address := range backends {
		c.destinations = append(c.destinations, plannedDestination{id: fmt.Sprint(i), address: address, weight: 1})
	}
	return c
}

// lookUp gives a named cluster, nil if there is none, and remembers that the
// route that is being judged depends on it.
func (p *planner) lookUp(id string) *plannedCluster {
	if !slices.Contains(p.looked, id) {
		p.looked = append(p.looked, id)
	}
	if v := p.judging.get(clusterPrefix + id); v != nil {
		return v.cluster
	}
	return nil
}
