package api

import "fmt"

// ClusterStatus is the cluster's part of a Status.
type ClusterStatus struct {
	ID        string   `json:"id" doc:"the cluster's id"`
	Role      string   `json:"role" doc:"what the node is: voter, learner or edge"`
	Leader    string   `json:"leader" doc:"the name of the leader; empty: the node knows of none"`
	Alive     int      `json:"alive" doc:"how many nodes live"`
	Members   int      `json:"members" doc:"how many have not left"`
	Voters    int      `json:"voters" doc:"how many vote"`
	Applied   string   `json:"applied" doc:"the revision that the node serves"`
	Lag       uint64   `json:"lag" doc:"how many revisions it is behind the newest that it knows of"`
	LagMs     int64    `json:"lagMs" doc:"milliseconds since it fell behind; 0 where it is not"`
	Tolerance string   `json:"tolerance" doc:"what the loss of voters would do, in words"`
	Stale     bool     `json:"stale" doc:"the node has heard of no leader for a while, so that what it serves may be old"`
	Alarms    []string `json:"alarms" doc:"what an operator has to look at"`
}

// clusterStatus is nil for a node that has no cluster.
func (a *API) clusterStatus() *ClusterStatus {
	if _, none := a.Cluster.(alone); none {
		return nil
	}
	s := a.Cluster.Standing()
	status := &ClusterStatus{
		ID: s.Cluster, Leader: s.Leader, Voters: s.Voters, Tolerance: tolerance(s.Voters, s.Reachable),
		Stale: s.Stale, Alarms: append([]string{}, s.Alarms...),
	}
	for _, m := range a.Cluster.Members() {
		if m.Status != StatusLeft {
			status.Members++
		}
		if m.live() {
			status.Alive++
		}
		if m.Self {
			status.Role, status.Applied, status.Lag, status.LagMs = m.Role, m.Applied, m.Lag, m.LagMs
		}
	}
	return status
}

// tolerance says what the loss of voters would do, or has done. A majority of all voters has to live.
func tolerance(voters, reachable int) string {
	need := voters/2 + 1
	who := count(voters, "voter")
	if reachable < voters {
		who = fmt.Sprintf("%d of %s can be reached", reachable, count(voters, "voter"))
	}
	switch spare := reachable - need; {
	case voters == 0:
		return "no voter is known: nothing can be written"
	case spare < 0:
		return fmt.Sprintf("%s, and %d are needed: writes have stopped", who, need)
	case voters == 1:
		return who + ": losing it stops writes"
	case spare == 0:
		return who + ": losing one of them stops writes"
	default:
		return fmt.Sprintf("%s: writes outlive the loss of %d", who, spare)
	}
}

func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
