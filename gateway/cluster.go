package gateway

import (
	"sync/atomic"

	"grapevine/gateway/breaker"
	"grapevine/gateway/health"
	"grapevine/gateway/limit"
	"grapevine/gateway/spec"
)

// cluster is a live set of destinations.
type cluster struct {
	id           string
	planned      *plannedCluster
	region       string // of this node
	destinations []*destination
	affinity     *affinity // nil without
	guard        *guard    // nil: it has no breaker
	state        *clusterState
	// lineup says which destinations are asked: it follows their health, which is
	// judged by watched. A request loads it once.
	lineup  atomic.Pointer[lineup]
	watched health.Policy
	// places are the destinations by address once that was asked for often, see at.
	places map[spec.Address]*destination
	sought int
}

// name is the cluster's id, empty for a nil cluster.
func (c *cluster) name() string {
	if c == nil {
		return ""
	}
	return c.id
}

// clusterState is what a cluster keeps while its configuration changes.
type clusterState struct {
	// turn counts picks; which destination is next follows from it.
	turn    atomic.Uint64
	metrics *clusterMetrics
	roster  *roster
	// recalled is the latest maintenance that ended what was under way.
	recalled atomic.Pointer[window]
	// breaker is the one for the policy that the live cluster has, nil without one.
	breaker  atomic.Pointer[breaker.Breaker]
	gate     limit.Gate // requests, where they are bounded
	retrying limit.Gate // those that are tried again
}
