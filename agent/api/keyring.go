package api

import (
	"context"
	"net/http"
)

// Keyring answers GET /v1/keyring and POST /v1/keyring/rotate. It holds no key.
type Keyring struct {
	Generation uint64        `json:"generation" doc:"how often the key was replaced, or is being replaced"`
	Phase      string        `json:"phase" doc:"add: nodes learn the next key; use: they use it, and still read the last one; done: there is one key"`
	Again      bool          `json:"again" doc:"another rotation follows, since it was asked for while this one was under way"`
	Keys       []string      `json:"keys" doc:"the ids of the keys, the one that is to be used first"`
	Nodes      []KeyringNode `json:"nodes" doc:"the live nodes, by name"`
}

// KeyringNode is which gossip keys a node has.
type KeyringNode struct {
	Node    string   `json:"node" doc:"the node's name"`
	Uses    string   `json:"uses" doc:"the id of the key that it encrypts with; empty: it did not answer"`
	Has     []string `json:"has" doc:"the ids of the keys that it reads"`
	Ready   bool     `json:"ready" doc:"the phase is true of it; the next one begins when it is true of all"`
	Problem string   `json:"problem,omitempty" doc:"why it did not answer"`
}

// KeyringDone is the phase in which no rotation is under way.
const KeyringDone = "done"

func (a *API) keyring(c *call) error {
	return a.within(c, func(ctx context.Context) error { return a.answerKeyring(c, ctx, a.Cluster.Keyring) })
}

func (a *API) rotateKeys(c *call) error {
	var doc Nothing
	if err := c.optional(&doc); err != nil {
		return err
	}
	return a.within(c, func(ctx context.Context) error { return a.answerKeyring(c, ctx, a.Cluster.RotateKeys) })
}

func (a *API) answerKeyring(c *call, ctx context.Context, ask func(context.Context) (Keyring, error)) error {
	keyring, err := ask(ctx)
	if err != nil {
		return err
	}
	keyring.Keys, keyring.Nodes = append([]string{}, keyring.Keys...), append([]KeyringNode{}, keyring.Nodes...)
	for i := range keyring.Nodes {
		keyring.Nodes[i].Has = append([]string{}, keyring.Nodes[i].Has...)
	}
	a.answer(c, http.StatusOK, keyring)
	return nil
}
