package gossip

import "sync/atomic"

type counter struct{ n atomic.Uint64 }

func (c *counter) add(n int)   { c.n.Add(uint64(n)) }
func (c *counter) get() uint64 { return c.n.Load() }

// counters are what a Peer counts, from its start.
type counters struct {
	headsSent, headsReceived, answers          counter
	packetsDropped, packetsBad                 counter
	streamsRefused, connectionsRefused         counter
	pushes, pushedChanges, pushesSkipped       counter
	received, applied, repeated                counter
	pulls, pullsFailed, pullsServed, pullsBusy counter
	snapshots, snapshotsServed                 counter
	alarms                                     counter
}

// Counts is how often things happened since the start of a Peer.
type Counts struct {
	HeadsSent      uint64 // packets with heads that were sent
	HeadsReceived  uint64 // and that came
	Answers        uint64 // heads sent at once to who lacks something; among HeadsSent
	PacketsDropped uint64 // messages lost because too many came at once
	PacketsBad     uint64 // messages that could not be read

	StreamsRefused     uint64 // of memberlist: too many, or not well formed
	ConnectionsRefused uint64 // for spreading: too many, another cluster or version, a wrong name

	Pushes        uint64 // messages with changes that were sent to neighbours
	PushedChanges uint64 // the changes in them
	PushesSkipped uint64 // a neighbour was too far behind: it has to pull
	Received      uint64 // changes that came by pushes and pulls
	Applied       uint64 // of them, those that were new
	Repeated      uint64 // messages with changes that were all known
	Neighbours    int    // members that this node is connected to now, to push to each other

	Pulls           uint64 // that ended well
	PullsFailed     uint64
	PullsServed     uint64 // for others
	PullsBusy       uint64 // refused, since too many ran
	Snapshots       uint64 // taken
	SnapshotsServed uint64
	AlarmsRaised    uint64 // how often something was noticed that is an Alarm
}

// Counts returns what the peer has counted.
func (p *Peer) Counts() Counts {
	c := &p.counters
	return Counts{
		HeadsSent: c.headsSent.get(), HeadsReceived: c.headsReceived.get(), Answers: c.answers.get(),
		PacketsDropped: c.packetsDropped.get(), PacketsBad: c.packetsBad.get(),
		StreamsRefused: c.streamsRefused.get(), ConnectionsRefused: c.connectionsRefused.get(),
		Pushes: c.pushes.get(), PushedChanges: c.pushedChanges.get(), PushesSkipped: c.pushesSkipped.get(),
		Received: c.received.get(), Applied: c.applied.get(), Repeated: c.repeated.get(),
		Pulls: c.pulls.get(), PullsFailed: c.pullsFailed.get(), PullsServed: c.pullsServed.get(), PullsBusy: c.pullsBusy.get(),
		Neighbours: p.Neighbours(),
		Snapshots:  c.snapshots.get(), SnapshotsServed: c.snapshotsServed.get(),
		AlarmsRaised: c.alarms.get(),
	}
}
