package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
)

// PeerList answers GET /v1/raft/peers.
type PeerList struct {
	Peers []Peer `json:"peers" doc:"voters and learners, by name"`
}

// Transfer is the body of POST /v1/raft/transfer-leadership.
type Transfer struct {
	Node string `json:"node,omitempty" doc:"who shall lead, by name or id; by default the voter that is furthest"`
}

// Leadership answers it.
type Leadership struct {
	Leader string `json:"leader" doc:"the name of the node that leads now"`
}

// Voter is the body of POST /v1/raft/promote and /v1/raft/demote.
type Voter struct {
	Node string `json:"node" doc:"the node, by name or id"`
}

// RoleChange answers it.
type RoleChange struct {
	Node string `json:"node" doc:"the node"`
	Role string `json:"role" doc:"what it is now: voter or learner"`
}

func (a *API) peers(c *call) error {
	return a.within(c, func(ctx context.Context) error {
		peers, err := a.Cluster.Peers(ctx)
		if err == nil {
			peers = append([]Peer{}, peers...)
			slices.SortFunc(peers, func(a, b Peer) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.ID, b.ID)) })
			a.answer(c, http.StatusOK, PeerList{Peers: peers})
		}
		return err
	})
}

func (a *API) transferLeadership(c *call) error {
	var doc Transfer
	if err := c.optional(&doc); err != nil {
		return err
	}
	return a.within(c, func(ctx context.Context) error {
		leader, err := a.Cluster.TransferLeadership(ctx, doc.Node)
		if err == nil {
			a.answer(c, http.StatusOK, Leadership{Leader: leader})
		}
		return err
	})
}

func (a *API) promote(c *call) error { return a.changeRole(c, "voter", a.Cluster.Promote) }
func (a *API) demote(c *call) error  { return a.changeRole(c, "learner", a.Cluster.Demote) }

func (a *API) changeRole(c *call, role string, change func(context.Context, string) error) error {
	var doc Voter
	if err := c.document(maxSmallBody, &doc); err != nil {
		return err
	}
	if doc.Node == "" {
		return fail(codeBadRequest, "node: is missing")
	}
	err := a.within(c, func(ctx context.Context) error { return change(ctx, doc.Node) })
	if err == nil {
		a.answer(c, http.StatusOK, RoleChange{Node: doc.Node, Role: role})
	}
	return err
}
