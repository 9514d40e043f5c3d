package cluster

// Joining tells whether the node waits to be let into its cluster: it knows nothing
// of what that serves.
func (n *Node) Joining() bool {
	_, err := n.in()
	return err == errJoining
}
