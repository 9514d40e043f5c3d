package gateway

import (
	"grapevine/gateway/balance"
	"grapevine/gateway/exchange"
	"grapevine/gateway/spec"
)

// destination is one address of a cluster. Its pool is shared by every cluster
// that has the address, its load is the cluster's own.
type destination struct {
	id      spec.Address
	address string
	weight  int
	pool    *pool
	load    *balance.Load
}

// begin starts a use of the destination.
func (d *destination) begin() {
	d.load.Begin()
	d.pool.users.Add(1)
}

// end ends a use. The last one of a retired pool closes what it left idle.
func (d *destination) end() {
	d.load.End()
	if d.pool.users.Add(-1) == 0 && d.pool.retired.Load() {
		d.pool.upstream.Close()
	}
}

// Finished ends the use of the destination by an exchange.
func (d *destination) Finished(*exchange.Exchange, error) { d.end() }
