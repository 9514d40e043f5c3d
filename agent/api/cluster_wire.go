package api

import "time"

// The documents of the cluster.

// The statuses of a Member. A node that is suspect has not answered for a moment, and counts as alive.
const (
	StatusAlive   = "alive"
	StatusSuspect = "suspect"
	StatusDead    = "dead"
	StatusLeft    = "left"
)

// Member is a node, as the one that was asked knows it.
type Member struct {
	Node      string `json:"node" doc:"the node's name"`
	ID        string `json:"id" doc:"the node's id"`
	Address   string `json:"address" doc:"where other nodes reach it"`
	Status    string `json:"status" doc:"alive; suspect: did not answer for a moment, and counts as alive; dead: gone without a word; left"`
	Role      string `json:"role" doc:"voter, learner (gets what voters get, and does not vote) or edge"`
	Version   string `json:"version" doc:"the version of its agent"`
	Applied   string `json:"applied" doc:"the revision that it serves; 0.0: it has not said so yet"`
	Lag       uint64 `json:"lag" doc:"how many revisions it is behind the newest that is known"`
	LagMs     int64  `json:"lagMs" doc:"milliseconds since it fell behind; 0 where it is not"`
	Region    string `json:"region" doc:"its region; empty: none is set"`
	Leader    bool   `json:"leader" doc:"it leads"`
	Self      bool   `json:"self" doc:"it is the node that was asked"`
	Demoted   bool   `json:"demoted,omitempty" doc:"an operator demoted it: it gets no vote until it is promoted"`
	NoGateway bool   `json:"noGateway,omitempty" doc:"it runs no gateway: nobody waits for it to serve a change"`

	UDPBlocked bool `json:"udpBlocked,omitempty" doc:"the node that was asked reaches it over TCP alone: its packets, or the answers, are lost on the way"`
}

// live says whether it counts as alive.
func (m Member) live() bool { return m.Status == StatusAlive || m.Status == StatusSuspect }

func onlyLive(members []Member) []Member {
	var live []Member
	for _, m := range members {
		if m.live() {
			live = append(live, m)
		}
	}
	return live
}

// Peer is a node that orders writes, or stands by to do so.
type Peer struct {
	Node    string `json:"node" doc:"the node's name"`
	ID      string `json:"id" doc:"the node's id"`
	Address string `json:"address" doc:"where the other voters reach it"`
	Role    string `json:"role" doc:"voter or learner"`
	Leader  bool   `json:"leader" doc:"it leads"`
	Demoted bool   `json:"demoted,omitempty" doc:"an operator demoted it: it gets no vote until it is promoted"`
}

// Reach is what one node found when it probed another.
type Reach struct {
	From    string `json:"from" doc:"the name of the node that probed"`
	To      string `json:"to" doc:"the name of the node that was probed"`
	UDP     *Probe `json:"udp,omitempty" doc:"gossip; none: not tried"`
	TCP     *Probe `json:"tcp,omitempty" doc:"pushes, pulls and calls; none: not tried"`
	Raft    *Probe `json:"raft,omitempty" doc:"the order of writes; none: one of the two does not take part in it"`
	Problem string `json:"problem,omitempty" doc:"why nothing was tried, in words that name from: it did not answer"`
}

// Probe is the outcome of one try.
type Probe struct {
	OK      bool   `json:"ok" doc:"it was answered"`
	Us      int64  `json:"us" doc:"microseconds until the answer came"`
	Problem string `json:"problem,omitempty" doc:"why not"`
}

// Token is a join token without its secret.
type Token struct {
	ID      string    `json:"id" doc:"the token's id, which admits nobody"`
	Role    string    `json:"role" doc:"what nodes it makes: voter or edge"`
	Created time.Time `json:"created" doc:"when it was made"`
	Expires time.Time `json:"expires" doc:"when it ceases to admit nodes"`
	Uses    int       `json:"uses" doc:"how many nodes it admits; 0: any number"`
	Used    int       `json:"used" doc:"how many it admitted, where these are counted"`
	State   string    `json:"state" doc:"live, expired or used-up"`
}
