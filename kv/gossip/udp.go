package gossip

// packetsLostProbes is how many probes in a row have to be answered over TCP alone before an
// operator is told, and the members count as blocked: packets get lost at times.
const packetsLostProbes = 6

const openPort = "open the port for UDP too, both ways"

// blocked tells of a member that lives and answers over TCP alone: for some probes in a row, or
// while that is so of all members that are probed. A member of a thousand is probed once in
// a thousand seconds. Holders of mu call it.
func (m *members) blocked(e *entry) bool {
	return e.alive() && (e.packetsLost >= packetsLostProbes || e.packetsLost > 0 && m.nonePass())
}

// nonePass tells that the latest probes, whoever was probed, were all answered over TCP alone.
// Holders of mu call it.
func (m *members) nonePass() bool { return m.packetsLost >= packetsLostProbes }

// lostPackets notes that a member answered a probe over TCP and not by packets.
func (m *members) lostPackets(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[name]
	if e == nil {
		return
	}
	was := m.blocked(e)
	e.packetsLost++
	m.packetsLost++
	switch {
	case m.packetsLost == packetsLostProbes:
		m.log.Warn("UDP is blocked: no member that is probed answers otherwise than over TCP; "+openPort, "latest", e.Name, "address", e.Address)
	case e.packetsLost >= packetsLostProbes && !e.told && !m.nonePass():
		e.told = true
		m.log.Warn("UDP to a member is blocked: it answers over TCP alone; "+openPort, "member", string(e.ID), "name", e.Name, "address", e.Address)
	}
	if m.blocked(e) && !was || m.packetsLost == packetsLostProbes {
		m.touch()
	}
}

// packetsCome notes that a member answered a probe by a packet.
func (m *members) packetsCome(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[name]
	if e == nil || e.packetsLost == 0 && m.packetsLost == 0 {
		return
	}
	was := m.nonePass() || m.blocked(e)
	if m.nonePass() {
		m.log.Info("UDP is open: a member answers by packets", "member", string(e.ID), "name", e.Name, "address", e.Address)
	}
	if e.told {
		m.log.Info("UDP to a member is open", "member", string(e.ID), "name", e.Name, "address", e.Address)
	}
	e.packetsLost, e.told, m.packetsLost = 0, false, 0
	if was {
		m.touch()
	}
}
