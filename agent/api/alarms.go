package api

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Alarm is a node whose history contradicts that of the node that was asked.
type Alarm struct {
	Kind        string    `json:"kind" doc:"histories diverged: one revision has two contents; rival epochs: two epochs have one number; higher epoch elsewhere; leader is behind: the other has a revision that the leader never made; forged: a change without the signature that it needs"`
	Node        string    `json:"node" doc:"the name of the other node"`
	ID          string    `json:"id" doc:"its id"`
	Role        string    `json:"role" doc:"what it was when that was noticed first: voter, learner or edge"`
	Ours        string    `json:"ours" doc:"the revision of the node that was asked, when it was noticed last"`
	OurHash     string    `json:"ourHash" doc:"the front of the hash of its history"`
	Theirs      string    `json:"theirs" doc:"the revision of the other node"`
	TheirHash   string    `json:"theirHash" doc:"the front of the hash of the other's history"`
	First       time.Time `json:"first" doc:"when it was noticed first"`
	Last        time.Time `json:"last" doc:"when it was noticed last"`
	Count       int       `json:"count" doc:"how often it was noticed"`
	StopsWrites bool      `json:"stopsWrites" doc:"nothing is written until it is settled, where the node that was asked leads"`
}

// AlarmList answers GET /v1/alarms.
type AlarmList struct {
	Alarms []Alarm `json:"alarms" doc:"in the order in which they were noticed"`
}

// What a key is in one state that differs from another.
const (
	OnlyHere  = "only here"
	OnlyThere = "only there"
	Different = "different"
)

// Difference answers GET /v1/alarms/{node}.
type Difference struct {
	Node   string          `json:"node" doc:"the other node"`
	Ours   string          `json:"ours" doc:"the revision of the node that was asked"`
	Theirs string          `json:"theirs" doc:"the revision of the other"`
	Voter  bool            `json:"voter" doc:"what the other holds can be kept: it is a voter or learner"`
	Keys   []KeyDifference `json:"keys" doc:"the keys that differ, without those of the nodes themselves"`
}

// KeyDifference is a key that is not the same.
type KeyDifference struct {
	Key string `json:"key" doc:"the key"`
	Is  string `json:"is" doc:"only here: the other node has it not; only there; different"`
}

// Keep says whose content stays when a contradiction is settled.
type Keep string

// The two that can be kept.
const (
	KeepCluster Keep = "cluster" // the node takes what the cluster has
	KeepNode    Keep = "node"    // what the node holds is written to the cluster before
)

// Settling is the body of POST /v1/alarms/{node}.
type Settling struct {
	Keep Keep `json:"keep" doc:"cluster: the node gives up its history and takes that of the cluster; node: before that, what it holds is written to the cluster, as a new revision"`
}

// Settled answers it.
type Settled struct {
	Node    string `json:"node" doc:"the name of the node that gave up its history; it is kept beside its store"`
	Keep    Keep   `json:"keep" doc:"whose content stayed"`
	Keys    int    `json:"keys" doc:"how many keys were written to the cluster"`
	Rev     string `json:"rev,omitempty" doc:"as which revision"`
	Restart bool   `json:"restart" doc:"the node had a part in the order of writes: its agent stops, and takes the cluster's state when it is started again"`
}

func (a *API) alarms(c *call) error {
	alarms, err := a.Cluster.Alarms()
	if err == nil {
		a.answer(c, http.StatusOK, AlarmList{Alarms: append([]Alarm{}, alarms...)})
	}
	return err
}

func (a *API) difference(c *call) error {
	return a.within(c, func(ctx context.Context) error {
		d, err := a.Cluster.Difference(ctx, c.rest)
		if err == nil {
			d.Keys = append([]KeyDifference{}, d.Keys...)
			a.answer(c, http.StatusOK, d)
		}
		return err
	})
}

func (a *API) settle(c *call) error {
	var doc Settling
	if err := c.document(maxSmallBody, &doc); err != nil {
		return err
	}
	if doc.Keep != KeepCluster && doc.Keep != KeepNode {
		return fail(codeBadRequest, "keep %s: is neither %s nor %s", fmt.Sprintf("%.40q", string(doc.Keep)), KeepCluster, KeepNode)
	}
	return a.within(c, func(ctx context.Context) error {
		settled, err := a.Cluster.Settle(ctx, c.rest, doc.Keep)
		if err == nil {
			a.answer(c, http.StatusOK, settled)
		}
		return err
	})
}
