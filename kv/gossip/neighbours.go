package gossip

// Neighbourhood is what a node knows when it looks for its neighbours.
type Neighbourhood struct {
	Self, Leader NodeID
	Members      []Member // the living ones, in the order of their ids, without Self
}

// Neighbours names the members to which a node pushes what is new: what it made, and
// what others pushed to it. Changes must reach every node from the leader, whatever
// way; no node sends one back to whom it has it from.
type Neighbours func(Neighbourhood) []NodeID

// Star lets the leader push to everybody, and nobody else to anybody.
func Star(n Neighbourhood) []NodeID {
	if n.Self != n.Leader {
		return nil
	}
	ids := make([]NodeID, len(n.Members))
	for i, member := range n.Members {
		ids[i] = member.ID
	}
	return ids
}
