package spec

import "strings"

// Instance is one running copy of a service, announced by itself. Its key is
// gateway/instances/{routeId}/{instanceId}, which lives as long as the
// instance's connection.
type Instance struct {
	Meta
	RouteID          RouteID  `json:"routeId,omitzero" doc:"optional repetition of the key's segment; never stored"`
	InstanceID       string   `json:"instanceId,omitzero" doc:"optional repetition of the key's last segment; never stored"`
	Path             Path     `json:"path" required:"true" doc:"template of the paths it serves"`
	PathRemovePrefix Path     `json:"pathRemovePrefix,omitzero" doc:"leading segments of path that it does not see"`
	RequireAuth      bool     `json:"requireAuth,omitzero" doc:"refuse requests without a valid token"`
	AllowAnonymous   bool     `json:"allowAnonymous,omitzero" doc:"never ask for a token"`
	Address          Address  `json:"address,omitzero" doc:"where it is reached, as scheme://host:port"`
	Tunnel           bool     `json:"tunnel,omitzero" doc:"it is reached through the connection that announced it"`
	Version          string   `json:"version,omitzero" doc:"what it runs"`
	Region           string   `json:"region,omitzero" doc:"where it runs; missing: the region of the agent that it is announced to"`
	Weight           *int     `json:"weight,omitzero" range:"0..1000000" default:"1" doc:"its share, relative to the others; 0: no requests"`
	Status           string   `json:"status,omitzero" enum:"unknown|healthy|degraded|draining|unhealthy" default:"healthy" doc:"what it says of itself"`
	Heartbeat        Duration `json:"heartbeat,omitzero" range:"100ms..10m" default:"10s" doc:"how often it says so"`
	StartedAt        Time     `json:"startedAt,omitzero" doc:"when it started"`
	Claims           []Claim  `json:"claims,omitzero" doc:"claims it asks of a token"`
}

func (i *Instance) check(c *checks) {
	if steps := strings.Split(c.d.key, "/"); len(steps) > 2 {
		c.repeats(&i.RouteID, steps[2])
		if last := c.d.lastStep(); i.InstanceID != "" && i.InstanceID != last {
			c.fault("instanceId", "is not the %q of the key", last)
		}
	}
	i.InstanceID = ""
	if c.exclusive(choice{"address", i.Address != ""}, choice{"tunnel", i.Tunnel}) == 0 {
		c.fault("address", "is missing: where the instance is reached, unless tunnel is true")
	}
	if i.Path != "" && !i.Path.Template().begins(Literal) {
		c.fault("path", "an announcement cannot own the root: begin with a segment of its own")
	}
	checkRemoved(c, i.Path, i.PathRemovePrefix)
	noticeColons(c, i.Path)
	checkAccess(c, i.RequireAuth, i.AllowAnonymous)
	checkClaims(c, "claims", i.Claims, i.AllowAnonymous)
}
