package agent

import (
	"github.com/prometheus/client_golang/prometheus"

	"grapevine/agent/api"
	"grapevine/agent/cluster"
	"grapevine/kv/gossip"
)

// clusterView is what the series of a cluster are read from. cluster.Node is one.
type clusterView interface {
	Members() []api.Member
	Standing() api.Standing
	Counts() gossip.Counts
	Owners() cluster.Owners
}

// clusterMetrics reads the series of a cluster when they are asked for.
type clusterMetrics struct {
	members, voters, leads, leader, stale, behind, alarms *prometheus.Desc
	packets, changes, pulls, snapshots                    *prometheus.Desc
	neighbours, pushes, udpBlocked                        *prometheus.Desc
	owners, owned, frozen, freezes, silenced, refused     *prometheus.Desc

	of clusterView
}

func newClusterMetrics(of clusterView) *clusterMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("grapevine_cluster_"+name, help, labels, nil)
	}
	return &clusterMetrics{
		of:         of,
		members:    desc("members", "Nodes of the cluster that this one knows, by status (alive, suspect, dead, left).", "status"),
		voters:     desc("voters", "Nodes that vote, by whether this one has heard of them lately.", "reachable"),
		leads:      desc("leads", "1 if this node leads."),
		leader:     desc("has_leader", "1 if this node knows who leads."),
		stale:      desc("stale", "1 if this node has heard of no leader for a while: what it serves may be old."),
		behind:     desc("behind_revisions", "How many revisions this node serves less than the newest that it knows."),
		alarms:     desc("alarms", "What an operator has to look at; agent status tells."),
		packets:    desc("gossip_packets_total", "Messages of gossip with how far a node is, by what became of them: sent, received, dropped, bad.", "outcome"),
		changes:    desc("gossip_changes_total", "Changes of the store, by way: pushed to neighbours, received, applied.", "way"),
		pulls:      desc("gossip_pulls_total", "Fetching of what was missing, by outcome: done, failed, served, busy.", "outcome"),
		neighbours: desc("gossip_neighbours", "Members that this node is connected to, to push changes to each other: at most 15, and some more while members come and go."),
		pushes:     desc("gossip_pushes_total", "Messages with changes between neighbours, by what became of them: sent, skipped as the neighbour was too far behind, repeated as all in it was known.", "outcome"),
		udpBlocked: desc("udp_blocked_members", "Members that live and that this node reaches over TCP alone, since UDP is blocked on the way; agent reachability tells where."),
		owners:     desc("owners", "Nodes that own ephemeral keys, by what this one believes of them (active, orphaned, hidden).", "state"),
		owned:      desc("ephemeral_keys", "Ephemeral keys that are shown."),
		frozen:     desc("orphans_frozen", "1 while orphaned keys are kept beyond their time, since so many nodes died at once that this one may be cut off."),
		freezes:    desc("orphan_freezes_total", "How often so many nodes died at once."),
		silenced:   desc("orphans_silenced_total", "Orphaned keys that are no longer used since nobody answered there."),
		refused:    desc("ephemeral_refused_total", "Changes of other nodes' ephemeral keys that were not taken, as there are more than 8,192 nodes that own some, or 512 MiB of them."),
		snapshots:  desc("gossip_snapshots_total", "Whole stores, by whether they were taken or served.", "way"),
	}
}

// Describe: see prometheus.Collector.
func (m *clusterMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		m.members, m.voters, m.leads, m.leader, m.stale, m.behind, m.alarms, m.packets, m.changes, m.pulls, m.snapshots,
		m.neighbours, m.pushes, m.udpBlocked,
		m.owners, m.owned, m.frozen, m.freezes, m.silenced, m.refused,
	} {
		to <- desc
	}
}

// Collect: see prometheus.Collector.
func (m *clusterMetrics) Collect(to chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	statuses := map[string]int{api.StatusAlive: 0, api.StatusSuspect: 0, api.StatusDead: 0, api.StatusLeft: 0}
	blocked := 0
	for _, member := range m.of.Members() {
		statuses[member.Status]++
		if member.UDPBlocked {
			blocked++
		}
		if member.Self {
			gauge(m.behind, float64(member.Lag))
			gauge(m.leads, one(member.Leader))
		}
	}
	for status, n := range statuses {
		gauge(m.members, float64(n), status)
	}
	gauge(m.udpBlocked, float64(blocked))
	s := m.of.Standing()
	gauge(m.voters, float64(s.Reachable), "yes")
	gauge(m.voters, float64(s.Voters-s.Reachable), "no")
	gauge(m.leader, one(s.Leader != ""))
	gauge(m.stale, one(s.Stale))
	gauge(m.alarms, float64(len(s.Alarms)))
	m.collectOwners(to)
	m.collectCounts(to)
}

func (m *clusterMetrics) collectOwners(to chan<- prometheus.Metric) {
	put := func(desc *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, kind, v, labels...)
	}
	o := m.of.Owners()
	for state, n := range map[string]int{"active": o.Active, "orphaned": o.Orphaned, "hidden": o.Hidden} {
		put(m.owners, prometheus.GaugeValue, float64(n), state)
	}
	put(m.owned, prometheus.GaugeValue, float64(o.Keys))
	put(m.frozen, prometheus.GaugeValue, one(o.Frozen))
	put(m.freezes, prometheus.CounterValue, float64(o.Freezes))
	put(m.silenced, prometheus.CounterValue, float64(o.Silenced))
	put(m.refused, prometheus.CounterValue, float64(o.Refused))
}

func (m *clusterMetrics) collectCounts(to chan<- prometheus.Metric) {
	counter := func(desc *prometheus.Desc, v uint64, label string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(v), label)
	}
	c := m.of.Counts()
	counter(m.packets, c.HeadsSent, "sent")
	counter(m.packets, c.HeadsReceived, "received")
	counter(m.packets, c.PacketsDropped, "dropped")
	counter(m.packets, c.PacketsBad, "bad")
	counter(m.changes, c.PushedChanges, "pushed")
	counter(m.changes, c.Received, "received")
	counter(m.changes, c.Applied, "applied")
	to <- prometheus.MustNewConstMetric(m.neighbours, prometheus.GaugeValue, float64(c.Neighbours))
	counter(m.pushes, c.Pushes, "sent")
	counter(m.pushes, c.PushesSkipped, "skipped")
	counter(m.pushes, c.Repeated, "repeated")
	counter(m.pulls, c.Pulls, "done")
	counter(m.pulls, c.PullsFailed, "failed")
	counter(m.pulls, c.PullsServed, "served")
	counter(m.pulls, c.PullsBusy, "busy")
	counter(m.snapshots, c.Snapshots, "taken")
	counter(m.snapshots, c.SnapshotsServed, "served")
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
