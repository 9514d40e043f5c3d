package cluster

import (
	"fmt"

	"grapevine/agent/api"
	"grapevine/kv/gossip"
)

// admit refuses every write for a reason that none is to blame for.
func (m *member) admit() error {
	if err := m.sound(); err != nil {
		return err
	}
	return m.roomOnDisk()
}

// sound refuses writes while a voter has another history than this node: whoever is
// right, each write would make it worse. What an edge says is an alarm only.
func (m *member) sound() error {
	peer := m.met.Load()
	if peer == nil {
		return nil
	}
	for _, a := range peer.Alarms() {
		if a.Role == gossip.Voter && (a.Kind == gossip.Diverged || a.Kind == gossip.LeaderBehind || a.Kind == gossip.Rivals) {
			return &api.RefusedError{Reason: fmt.Sprintf("%s: voter %s is at revision %s and this leader at %s, and nothing is written until an operator has decided",
				a.Kind, m.nameOf(string(a.Node)), a.Theirs.Rev, a.Ours.Rev)}
		}
	}
	return nil
}
