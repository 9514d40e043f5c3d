package api

import (
	"context"
	"net/http"
)

// Recovery is what makes a cluster of what is left of one.
type Recovery struct {
	Node        string         `json:"node" doc:"the node that becomes the only voter"`
	Epoch       uint32         `json:"epoch" doc:"the epoch that begins"`
	Rev         string         `json:"rev" doc:"the revision that it begins with; what is later is lost, but for what is in the node's own log"`
	From        string         `json:"from,omitempty" doc:"the node that has it, where the first has to fetch it"`
	Voters      []string       `json:"voters" doc:"who votes in the cluster as it was"`
	Unreachable []string       `json:"unreachable" doc:"those of them that can't be reached; what only they have is lost"`
	Nodes       []RecoveryNode `json:"nodes" doc:"the other nodes that live, and how far they are"`
}

// RecoveryNode is a node that was asked how far it is.
type RecoveryNode struct {
	Node    string `json:"node" doc:"its name"`
	Rev     string `json:"rev" doc:"its revision"`
	EpochID string `json:"epochId" doc:"the id of its epoch, in hex"`
	Hash    string `json:"hash" doc:"the hash of its history, in hex"`
	MayVote bool   `json:"mayVote" doc:"it could be recovered on, too"`
	Leader  string `json:"leader,omitempty" doc:"whom it follows"`
	Problem string `json:"problem,omitempty" doc:"why it did not say"`
}

func (a *API) planRecovery(c *call) error {
	return a.within(c, func(ctx context.Context) error {
		plan, err := a.Cluster.RecoveryPlan(ctx)
		if err == nil {
			a.answer(c, http.StatusOK, plan.shown())
		}
		return err
	})
}

func (a *API) recoverCluster(c *call) error {
	var doc Nothing
	if err := c.optional(&doc); err != nil {
		return err
	}
	return a.within(c, func(ctx context.Context) error {
		plan, err := a.Cluster.Recover(ctx)
		if err == nil {
			a.answer(c, http.StatusOK, plan.shown())
		}
		return err
	})
}

// shown has lists where there is nothing in them.
func (r Recovery) shown() Recovery {
	r.Voters = append([]string{}, r.Voters...)
	r.Unreachable = append([]string{}, r.Unreachable...)
	r.Nodes = append([]RecoveryNode{}, r.Nodes...)
	return r
}
