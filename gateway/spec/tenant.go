package spec

// Tenant gives one tenant clusters, hosts and limits of its own. Its key is
// gateway/tenants/{tenantId}.
type Tenant struct {
	Meta
	Enabled  *bool                   `json:"enabled,omitzero" default:"true" doc:"false turns the tenant's requests away"`
	Clusters map[ClusterID]ClusterID `json:"clusters,omitzero" doc:"cluster that takes the place of another for this tenant"`
	Hosts    []Host                  `json:"hosts,omitzero" doc:"hosts that belong to this tenant"`
	Limits   *Limits                 `json:"limits,omitzero" doc:"bounds for this tenant alone"`
}

func (t *Tenant) check(c *checks) { unique(c, "hosts", t.Hosts) }
