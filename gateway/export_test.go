package gateway

// Refresh makes a table of the newest view, as Run does after a change.
func (g *Gateway) Refresh() { g.refresh() }
