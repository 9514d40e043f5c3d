package cluster

import (
	"fmt"

	"grapevine/agent/api"
)

// admit refuses every write for a reason that none is to blame for.
func (m *member) admit() error {
	if err := m.sound(); err != nil {
		return err
	}
	return m.roomOnDisk()
}

// sound refuses writes while a voter has another history than this node.
func (m *member) sound() error {
	if m.met.Load() == nil {
		return nil
	}
	for _, a := range m.contradictions() {
		if m.stopsWrites(a) {
			name := m.nameOf(string(a.Node))
			return &api.RefusedError{Reason: fmt.Sprintf("%s: voter %s is at revision %s and this leader at %s, and nothing is written until an operator has decided: agent alarms show %s",
				a.Kind, name, a.Theirs.Rev, a.Ours.Rev, name)}
		}
	}
	return nil
}
