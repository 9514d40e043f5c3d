package gossip

import (
	"net"
	"time"
)

// Rest tells the others that this node stops and will be back: they take it for dead
// at once, and go on looking for it. It waits at most grace for the word to spread;
// Close comes after it.
func (p *Peer) Rest(grace time.Duration) error {
	if !p.lockList() {
		return net.ErrClosed
	}
	defer p.unlockList()
	return p.list.Leave(grace)
}
