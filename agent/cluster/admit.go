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

// sound refuses writes while a voter has another history than this node, or the
// cluster was recovered without it.
func (m *member) sound() error {
	if m.met.Load() == nil {
		return nil
	}
	for _, a := range m.contradictions() {
		if !m.stopsWrites(a) {
			continue
		}
		if a.Kind == gossip.EpochAhead {
			return &api.RefusedError{Reason: fmt.Sprintf("%s: node %s is in epoch %d: the cluster was recovered without these voters. Stop all but one of them, "+
				"and that one follows; then start the others", a.Kind, m.nameOf(string(a.Node)), a.Theirs.Rev.Epoch)}
		}
		name := m.nameOf(string(a.Node))
		return &api.RefusedError{Reason: fmt.Sprintf("%s: voter %s is at revision %s and this leader at %s, and nothing is written until an operator has decided: agent alarms show %s",
			a.Kind, name, a.Theirs.Rev, a.Ours.Rev, name)}
	}
	return nil
}
