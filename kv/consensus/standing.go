package consensus

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Member is what the leader has heard of a node that may have a part in raft.
type Member struct {
	Node string
	// Server and Address are its id and address in raft, "" while they are not
	// known.
	Server, Address string
	Region          string
	// Votes says that the node may become a voter. An edge may not.
	Votes bool
	// Demoted says that an operator took its vote, and wants it to have none. It may
	// follow as a learner.
	Demoted bool
	// Alive is as membership sees it, and Since for how long that has been so.
	Alive bool
	Since time.Duration
	// Left says that the node has said goodbye, or was made to leave. A node that is
	// only silent stays a member, and dead.
	Left bool
	// Level is its feature level. Only a learner of the leader's level, or a higher
	// one, may become a voter.
	Level int
}

// Standing is all that a decision on voters is made from.
type Standing struct {
	Members []Member
	// Servers are those of the configuration that was committed last.
	Servers []Server
	// Leader is the server id of the node that decides.
	Leader string
	// Lag is how many entries servers are behind; those that are missing are not
	// caught up.
	Lag map[string]uint64
}

// How a server of the configuration is doing.
type health int

const (
	unknown health = iota // nobody has told of it: it is left alone
	healthy
	ill  // dead for a moment
	dead // dead for so long that it is to be replaced
	gone // its node left, or came back under another server id
)

// member gives the member that a server is, and how it is doing.
func (s *Standing) member(server string) (Member, health) {
	for _, m := range s.Members {
		switch {
		case m.Node != NodeOf(server):
			continue
		case m.Left, m.Server != "" && m.Server != server:
			return m, gone
		case m.Alive:
			return m, healthy
		case m.Since >= replaceAfter:
			return m, dead
		}
		return m, ill
	}
	return Member{}, unknown
}

// voter is a server with a vote and what is known of it.
type voter struct {
	Server
	Member
	health health
}

func (s *Standing) voters() []voter {
	var all []voter
	for _, server := range s.Servers {
		if server.Voter {
			m, h := s.member(server.ID)
			all = append(all, voter{server, m, h})
		}
	}
	return all
}

func (s *Standing) learners() []voter {
	var all []voter
	for _, server := range s.Servers {
		if !server.Voter {
			m, h := s.member(server.ID)
			all = append(all, voter{server, m, h})
		}
	}
	return all
}

// stays reports whether a server is to remain one.
func (v voter) stays() bool {
	return v.health == unknown || v.Votes && v.health != gone && v.health != dead
}

// keepsVote reports whether a voter is to remain one.
func (v voter) keepsVote() bool { return v.stays() && !v.Demoted }

// mayVote reports whether a member may get a vote, if it is well.
func (m Member) mayVote() bool { return m.Votes && !m.Demoted && !m.Left }

func count(all []voter, is func(voter) bool) int {
	n := 0
	for _, v := range all {
		if is(v) {
			n++
		}
	}
	return n
}

func isHealthy(v voter) bool { return v.health == healthy }

func quorum(voters int) int { return voters/2 + 1 }

// canLose reports whether the others are a quorum of what remains, so that the
// change without it can be committed, and the next one too.
func canLose(all []voter, v voter) bool {
	others := count(all, func(o voter) bool { return o.health == healthy && o.ID != v.ID })
	return others >= quorum(len(all)-1) && count(all, isHealthy) >= quorum(len(all))
}

// capable counts the members that may vote, dead or alive.
func (s *Standing) capable() int {
	n := 0
	for _, m := range s.Members {
		if m.mayVote() {
			n++
		}
	}
	return n
}

// sizes are how many voters, and how many learners beside them, a cluster of so
// many capable nodes has. Two voters would be worse than one: losing either stops
// writes.
func sizes(capable int) (voters, spares int) {
	switch {
	case capable <= 1:
		return 1, 0
	case capable == 2:
		return 1, 1
	case capable < 7:
		return 3, min(2, capable-3)
	}
	return 5, 2
}

// regions counts voters by region.
func regions(voters []voter) map[string]int {
	n := map[string]int{}
	for _, v := range voters {
		if v.keepsVote() {
			n[v.Region]++
		}
	}
	return n
}

func fullest(n map[string]int) int {
	most := 0
	for _, count := range slices.Collect(maps.Values(n)) {
		most = max(most, count)
	}
	return most
}

// byRegion orders candidates: first those of regions with the fewest voters, then
// by node, so that the order is always the same.
func byRegion(n map[string]int) func(a, b Member) int {
	return func(a, b Member) int {
		return cmp.Or(cmp.Compare(n[a.Region], n[b.Region]), cmp.Compare(a.Node, b.Node))
	}
}
