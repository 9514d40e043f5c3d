package gateway

// Refresh makes a table of the newest view, as Run does after a change.
func (g *Gateway) Refresh() { g.refresh() }

// IsDestinations tells whether a failed attempt is held against its destination.
func IsDestinations(err error) bool { return isDestinations(err) }
