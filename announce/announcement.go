package announce

import (
	"cmp"
	"time"
)

// announcement is the body of POST /v1/announce.
type announcement struct {
	RouteID          string            `json:"routeId"`
	InstanceID       string            `json:"instanceId,omitempty"`
	Path             string            `json:"path"`
	PathRemovePrefix string            `json:"pathRemovePrefix,omitempty"`
	RequireAuth      bool              `json:"requireAuth,omitempty"`
	AllowAnonymous   bool              `json:"allowAnonymous,omitempty"`
	Address          string            `json:"address"`
	Version          string            `json:"version,omitempty"`
	Region           string            `json:"region,omitempty"`
	Weight           *int              `json:"weight,omitempty"`
	Status           Health            `json:"status,omitempty"`
	Heartbeat        string            `json:"heartbeat,omitempty"`
	StartedAt        time.Time         `json:"startedAt"`
	Labels           map[string]string `json:"labels,omitempty"`
}

// announcement is what is true now: the id that the agent gave, and the health
// and weight that were set since. mu is held.
func (a *Announcer) announcement() announcement {
	c := &a.config
	it := announcement{
		RouteID: c.Route, InstanceID: a.status.Instance, Path: c.Path, PathRemovePrefix: c.PathRemovePrefix,
		RequireAuth: c.RequireAuth, AllowAnonymous: c.AllowAnonymous, Address: c.Address,
		Version: c.Version, Region: c.Region, Labels: c.Labels,
		Weight: a.weight, Status: a.health, StartedAt: a.started,
	}
	if a.draining { // whoever announces again while it drains must get no requests in between
		it.Status = "draining"
	}
	if a.beats {
		it.Heartbeat = cmp.Or(c.Heartbeat, DefaultHeartbeat).String()
	}
	return it
}
