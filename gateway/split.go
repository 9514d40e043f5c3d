package gateway

import (
	"sync/atomic"

	"grapevine/gateway/balance"
	"grapevine/gateway/exchange"
	"grapevine/gateway/routing"
	"grapevine/gateway/spec"
)

// split divides a route's requests between clusters: first by conditions, then by
// weight. What is wrong with one cluster never moves its requests to another,
// so that a canary's failures are seen; only a cluster without a good version
// takes none.
type split struct {
	parts   []part
	weighed *balance.Balancer // its targets are the parts
	turn    *atomic.Uint64    // of the route's tables together
	chooses bool              // a part has conditions
}

// part is one cluster of a split, nil when it has no good version.
type part struct {
	cluster          *cluster
	way              way
	headers, cookies []routing.Condition
}

// newSplit makes a route's split live. before may be nil.
func (c *compiler) newSplit(planned *plannedRoute, before *split) *split {
	s := &split{turn: new(atomic.Uint64)}
	if before != nil {
		s.turn = before.turn
	}
	var targets []balance.Target
	for i, share := range planned.spec.Split {
		cluster := planned.split[i]
		p := part{headers: routing.NewMatches(share.Headers), cookies: routing.NewMatches(share.Cookies)}
		target := balance.Target{Address: cluster.id}
		if cluster.closedTo(planned.spec) == "" {
			target.Weight = share.Weight
			p.cluster = c.clustered.get(clusterPrefix + cluster.id)
			p.way = c.plan.settings.way(planned.spec, cluster.policy)
		}
		s.chooses = s.chooses || len(p.headers)+len(p.cookies) > 0
		s.parts, targets = append(s.parts, p), append(targets, target)
	}
	policy := ""
	if planned.spec.SplitOn != "" {
		policy = "hash"
	}
	s.weighed = balance.New(policy, planned.spec.SplitOn, targets)
	return s
}

// choose gives the part for a request, nil when none can take it. turn is counted
// by the caller.
func (s *split) choose(turn uint64, x *exchange.Request) *part {
	if s.chooses {
		for i := range s.parts {
			if p := &s.parts[i]; p.cluster != nil && p.wants(x) {
				return p
			}
		}
	}
	if i := s.weighed.Pick(turn, x); i >= 0 {
		return &s.parts[i]
	}
	return nil
}

// wants tells whether the part has conditions, and all of them hold. A header that
// can be read in two ways meets none.
func (p *part) wants(x *exchange.Request) bool {
	for i := range p.headers {
		if takes, clear := p.headers[i].TakesField(x.Fields); !takes || !clear {
			return false
		}
	}
	for i := range p.cookies {
		value := balance.Cookie(x.Fields, p.cookies[i].Name)
		if !p.cookies[i].Holds(value, value != nil) {
			return false
		}
	}
	return len(p.headers)+len(p.cookies) > 0
}

// choose gives the cluster that takes a request, nil when none does.
func (r *route) choose(x *exchange.Request) *cluster {
	if r.split == nil {
		return r.cluster
	}
	if p := r.split.choose(r.split.turn.Add(1)-1, x); p != nil {
		return p.cluster
	}
	return nil
}

// wouldChoose is choose without a turn being taken.
func (r *route) wouldChoose(x *exchange.Request) *cluster {
	if r.split == nil {
		return r.cluster
	}
	if p := r.split.choose(r.split.turn.Load(), x); p != nil {
		return p.cluster
	}
	return nil
}

// splits is the route's split, nil without one and for a nil route.
func (r *route) splits() *split {
	if r == nil {
		return nil
	}
	return r.split
}

// wayTo is the way to one of the route's clusters.
func (r *route) wayTo(c *cluster) *way {
	if r.split != nil {
		for i := range r.split.parts {
			if r.split.parts[i].cluster == c {
				return &r.split.parts[i].way
			}
		}
	}
	return &r.way
}

// splitOf are the clusters of a checked route's split.
func (p *planner) splitOf(r *spec.Route) (clusters []*plannedCluster) {
	for _, share := range r.Split {
		clusters = append(clusters, p.lookUp(string(share.Cluster)))
	}
	return clusters
}
