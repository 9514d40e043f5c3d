package gossip

import (
	"fmt"
	"net"
	"time"
)

// Ping asks a living member for an answer by a packet, and returns how long that
// took. It waits for at most half of Timings.Probe. Errors: ErrUnknownMember; else
// there was no answer.
func (p *Peer) Ping(id NodeID) (time.Duration, error) {
	for _, member := range p.members.all() {
		if member.ID != id || !member.alive() {
			continue
		}
		address, err := net.ResolveUDPAddr("udp", member.Address) // an IP and a port: nobody is asked
		if err != nil {
			return 0, err
		}
		return p.list.Ping(fullName(member.ID, member.boot), address)
	}
	return 0, fmt.Errorf("node %s: %w", id, ErrUnknownMember)
}
