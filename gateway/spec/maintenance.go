package spec

import "time"

// Maintenance turns requests away while work is done. Its key is
// gateway/maintenance for the whole gateway, gateway/maintenance/{clusterId}
// for one cluster. Its bare form is on, off, true or false.
type Maintenance struct {
	Meta
	Enabled    bool      `json:"enabled" required:"true" bare:"true" doc:"whether it is on"`
	Reason     string    `json:"reason,omitzero" doc:"told to the client"`
	RetryAfter Duration  `json:"retryAfter,omitzero" range:"1s..168h" default:"30s" doc:"when the client should come back"`
	Grace      *Duration `json:"grace,omitzero" range:"0s..24h" default:"30s" doc:"how long requests and connections in flight may go on"`
	Until      Time      `json:"until,omitzero" doc:"when it ends by itself"`
	Allow      []CIDR    `json:"allow,omitzero" doc:"clients that are let through"`
	Body       string    `json:"body,omitzero" doc:"what the client sees instead of the usual answer"`
}

// check takes an end that has passed, since a value that was right when it was written must stay so; it says that it turns
// nobody away, since a year that is mistyped looks like a maintenance.
func (m *Maintenance) check(c *checks) {
	unique(c, "allow", m.Allow)
	if now := time.Now(); m.Enabled && !m.Until.IsZero() && !now.Before(m.Until.Time) {
		c.notice("until", "has passed, so nobody is turned away: it is %s on this node", now.UTC().Format(time.RFC3339))
	}
}
