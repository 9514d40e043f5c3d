package gossip

// Missing are addresses, IP and port, of remembered peers and of seeds where no
// living member is. The Peer itself looks for them, by a key that they may have no
// more; whoever can reach them in another way may bring it the present ones, see
// SetKeys.
func (p *Peer) Missing() []string { return p.missing() }
