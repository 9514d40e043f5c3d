package gossip

// packetsLostProbes is how many probes of a member in a row have to be answered over TCP alone
// before an operator is told: packets get lost at times.
const packetsLostProbes = 6

// packetsLost notes that a member answered a probe over TCP and not by packets.
func (m *members) packetsLost(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[name]
	if e == nil {
		return
	}
	if e.packetsLost++; e.packetsLost == packetsLostProbes {
		m.log.Warn("UDP to a member is blocked: it answers over TCP alone; open its port for UDP too, both ways",
			"member", string(e.ID), "name", e.Name, "address", e.Address)
	}
}

// packetsCome notes that a member answered a probe by a packet.
func (m *members) packetsCome(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[name]
	if e == nil {
		return
	}
	if e.packetsLost >= packetsLostProbes {
		m.log.Info("UDP to a member is open", "member", string(e.ID), "name", e.Name, "address", e.Address)
	}
	e.packetsLost = 0
}
