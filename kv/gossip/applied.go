package gossip

import (
	"time"

	"grapevine/kv"
)

// Applied is what a node says that it serves.
type Applied struct {
	Rev       kv.Rev
	TableHash string // of its table, as the node names it
	// Err is why it could not go on to a later revision; empty if it could.
	Err string
	// Since is when this node learnt of Rev and TableHash.
	Since time.Time
}

// report is what a node says that it has applied.
type report struct {
	seq     uint64 // grows with each of them during one boot; 0 is none yet
	applied Applied
}

// reported takes what a member says that it applied, if it is newer than what it
// said before.
func (m *members) reported(name string, r report) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[name]
	if e == nil || r.seq < e.report.seq || r.seq == e.report.seq && r.applied.Err == e.report.applied.Err {
		return
	}
	if r.seq == e.report.seq && len(r.applied.Err) < len(e.report.applied.Err) {
		return // the same with a shortened text
	}
	r.applied.Since = time.Now()
	if r.applied.Rev == e.report.applied.Rev && r.applied.TableHash == e.report.applied.TableHash {
		r.applied.Since = e.report.applied.Since
	}
	e.report = r
	m.appliedChanged.fire()
}

// applied is what each node last said.
func (m *members) applied() map[NodeID]Applied {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[NodeID]Applied{}
	for id, e := range m.best() {
		if e.report.seq > 0 {
			all[id] = e.report.applied
		}
	}
	return all
}
