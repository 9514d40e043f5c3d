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
	policy       *spec.Cluster
	destinations []plannedDestination // by id; the order of turns
	named        bool
	blocked      bool // its key has no good version
}

type plannedDestination struct {
	id      string
	address spec.Address
	weight  int
	region  string
	status  string // healthy, degraded or draining; empty is healthy
}

// judgeCluster makes a named cluster: the operator's, else the static one. A
// key without a good version hides the static one as well.
func (p *planner) judgeCluster(key string) *verdict {
	id, v := idOf(key), &verdict{}
	policy := p.static.Clusters[id]
	switch current := p.decoding.get(key); {
	case current != nil:
		use := p.judgeKey(key, v, func(d *decoded) spec.Faults {
			return settingsIn(key, d.Value.(*spec.Cluster), refusedInCluster, refusal)
		})
		if use == nil {
			v.cluster = &plannedCluster{id: id, policy: &spec.Cluster{}, named: true, blocked: true}
			v.sum = digestOf("cluster %s blocked", id)
			return v
		}
		policy = use.Value.(*spec.Cluster)
	case policy != nil:
		v.faults = settingsIn(key, policy, refusedInCluster, refusal)
	default:
		return nil
	}
	v.cluster = newPlannedCluster(id, policy)
	v.cluster.blocked = len(v.faults) > 0 && v.good == nil // a static one that this version can't serve
	v.sum = digestOf("cluster %s %s", id, spec.Encode(policy))
	return v
}

func newPlannedCluster(id string, policy *spec.Cluster) *plannedCluster {
	c := &plannedCluster{id: id, policy: policy, named: true}
	for _, name := range slices.Sorted(maps.Keys(policy.Destinations)) {
		d, weight := policy.Destinations[name], 1
		if d.Weight != nil {
			weight = *d.Weight
		}
		c.destinations = append(c.destinations, plannedDestination{string(name), d.Address, weight, d.Region, d.Status})
	}
	return c
}

// withBackends is the cluster that a route's own backends make: the policy of
// the named cluster of the same id, if there is one, and the backends as
// destinations in the order given.
func withBackends(id string, backends []spec.Address, named *plannedCluster) *plannedCluster {
	c := &plannedCluster{id: id, policy: &spec.Cluster{}}
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

// clusterLayer tells where a named cluster comes from.
func (p *planner) clusterLayer(id string) string {
	if p.decoding.get(clusterPrefix+id) != nil {
		return layerOperator
	}
	return layerStatic
}
