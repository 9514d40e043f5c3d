package api

import (
	"context"
	"net/http"
	"time"

	"grapevine/kv"
)

// alone is the Cluster of a node that has none: all that needs no other node it does, the rest it refuses.
type alone struct{ api *API }

var errAlone = &RefusedError{Reason: "this node is in no cluster; start it without --dev to have one"}

func (l alone) Standing() Standing { return Standing{Voters: 1, Reachable: 1} }

func (l alone) Members() []Member {
	node := l.api.Node()
	return []Member{{
		Node: node.Name, ID: node.ID, Status: StatusAlive, Role: "voter", Version: node.Version,
		Applied: l.api.Gateway.Table().Rev().String(), Region: node.Region, Leader: true, Self: true,
	}}
}

func (l alone) Await(ctx context.Context, rev kv.Rev, _ Share) Receipt {
	began := time.Now()
	if l.api.Gateway.Wait(ctx, rev) != nil {
		return Receipt{Of: 1, Took: time.Since(began), Missing: []string{l.api.Node().Name}}
	}
	return Receipt{Nodes: 1, Of: 1, Took: time.Since(began)}
}

func (l alone) Read(context.Context) error { return nil }

func (l alone) Peers(context.Context) ([]Peer, error) {
	node := l.api.Node()
	return []Peer{{Node: node.Name, ID: node.ID, Role: "voter", Leader: true}}, nil
}

func (l alone) TransferLeadership(context.Context, string) (string, error) { return "", errAlone }
func (l alone) Promote(context.Context, string) error                      { return errAlone }
func (l alone) RecoveryPlan(context.Context) (Recovery, error)             { return Recovery{}, errAlone }

func (l alone) Recover(context.Context) (Recovery, error)      { return Recovery{}, errAlone }
func (l alone) Demote(context.Context, string) error           { return errAlone }
func (l alone) Join(context.Context, []string) error           { return errAlone }
func (l alone) Leave(context.Context) error                    { return errAlone }
func (l alone) ForceLeave(context.Context, string, bool) error { return errAlone }
func (l alone) Reachability(context.Context) ([]Reach, error)  { return nil, nil }
func (l alone) Tokens(context.Context) ([]Token, error)        { return nil, nil }
func (l alone) RevokeToken(context.Context, string) error      { return errAlone }
func (l alone) Alarms() ([]Alarm, error)                       { return nil, nil }
func (l alone) Certificates() ([]Certificate, error)           { return nil, nil }
func (l alone) Ask(string) (http.Handler, error)               { return nil, errAlone }
func (l alone) Keyring(context.Context) (Keyring, error)       { return Keyring{}, errAlone }

func (l alone) RotateKeys(context.Context) (Keyring, error) { return Keyring{}, errAlone }

func (l alone) CreateToken(context.Context, TokenWish) (string, Token, error) {
	return "", Token{}, errAlone
}

func (l alone) Difference(context.Context, string) (Difference, error) { return Difference{}, errAlone }

func (l alone) Settle(context.Context, string, Keep) (Settled, error) { return Settled{}, errAlone }
