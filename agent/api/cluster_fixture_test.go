package api_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"grapevine/agent/api"
	"grapevine/kv"
)

// trio is a cluster of three nodes in memory, of which edge-1 is the one that is asked. Edge-3 has gone without a word.
type trio struct {
	// fails is what every call returns that can fail.
	fails error
	// silent lets calls wait until their context ends.
	silent bool
	// receipt is what Await returns; nil: all serve it.
	receipt *api.Receipt
	others  map[string]http.Handler

	// mu guards what is below.
	mu       sync.Mutex
	members  []api.Member
	tokens   []api.Token
	standing api.Standing
	did      []string // the calls, as text
	asker    string   // who asked for the last of them
}

func newTrio() *trio {
	return &trio{
		members: []api.Member{
			{Node: "edge-1", ID: "01a", Address: "10.0.0.1:7946", Status: "alive", Role: "voter", Version: "0.1.0", Applied: "1.12", Region: "eu", Self: true},
			{Node: "edge-2", ID: "01b", Address: "10.0.0.2:7946", Status: "suspect", Role: "voter", Version: "0.1.0", Applied: "1.12", Region: "eu", Leader: true},
			{Node: "edge-3", ID: "01c", Address: "10.0.0.3:7946", Status: "dead", Role: "voter", Version: "0.1.0", Applied: "1.9", Lag: 3, LagMs: 8100, Region: "us"},
		},
		standing: api.Standing{Cluster: "c1", Leader: "edge-2", Voters: 3, Reachable: 2, Alarms: []string{"edge-3 has not been heard of for 8s"}},
	}
}

// in puts the cluster behind the API.
func (t *trio) in(s *setup) {
	s.Cluster = t
	s.Node = func() api.Node {
		return api.Node{ID: "01a", Name: "edge-1", Version: "0.1.0", Listeners: map[string]string{}}
	}
}

// call is what every call begins with.
func (t *trio) call(ctx context.Context, format string, args ...any) error {
	if t.silent {
		<-ctx.Done()
		return ctx.Err()
	}
	if t.fails != nil {
		return t.fails
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.did = append(t.did, fmt.Sprintf(format, args...))
	t.asker = api.Author(ctx)
	return nil
}

func (t *trio) calls() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.did)
}

func (t *trio) Standing() api.Standing { return t.standing }

func (t *trio) Members() []api.Member {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.members)
}

func (t *trio) Await(ctx context.Context, rev kv.Rev, share api.Share) api.Receipt {
	_ = t.call(ctx, "await %s %s", rev, share)
	if t.receipt != nil {
		return *t.receipt
	}
	return api.Receipt{Nodes: 2, Of: 2, Took: 9 * time.Millisecond, Slowest: "edge-2"}
}

func (t *trio) Read(ctx context.Context) error { return t.call(ctx, "read") }

func (t *trio) Peers(ctx context.Context) ([]api.Peer, error) {
	if err := t.call(ctx, "peers"); err != nil {
		return nil, err
	}
	var peers []api.Peer
	for _, m := range slices.Backward(t.Members()) {
		peers = append(peers, api.Peer{Node: m.Node, ID: m.ID, Address: m.Address, Role: m.Role, Leader: m.Leader})
	}
	return peers, nil
}

func (t *trio) TransferLeadership(ctx context.Context, node string) (string, error) {
	return "edge-1", t.call(ctx, "transfer %q", node)
}

func (t *trio) Promote(ctx context.Context, node string) error {
	return t.call(ctx, "promote %s", node)
}

var recovery = api.Recovery{Node: "edge-1", Epoch: 2, Rev: "1.7", Voters: []string{"edge-1", "edge-2"}, Unreachable: []string{"edge-2"}}

func (t *trio) RecoveryPlan(ctx context.Context) (api.Recovery, error) {
	return recovery, t.call(ctx, "plan recovery")
}

func (t *trio) Recover(ctx context.Context) (api.Recovery, error) {
	return recovery, t.call(ctx, "recover")
}

func (t *trio) Demote(ctx context.Context, node string) error { return t.call(ctx, "demote %s", node) }

func (t *trio) Join(ctx context.Context, addresses []string) error {
	return t.call(ctx, "join %s", addresses)
}

func (t *trio) Leave(ctx context.Context) error { return t.call(ctx, "leave") }

func (t *trio) ForceLeave(ctx context.Context, node string, revoke bool) error {
	return t.call(ctx, "force-leave %s %t", node, revoke)
}

func (t *trio) Reachability(ctx context.Context) ([]api.Reach, error) {
	ok, cut := &api.Probe{OK: true, Us: 180}, &api.Probe{Problem: "connection refused"}
	return []api.Reach{
		{From: "edge-1", To: "edge-2", UDP: ok, TCP: ok, Raft: ok},
		{From: "edge-2", To: "edge-1", UDP: ok, TCP: ok, Raft: cut},
		{From: "edge-3", To: "edge-1", Problem: "edge-3 does not answer"},
	}, t.call(ctx, "reachability")
}

func (t *trio) CreateToken(ctx context.Context, wish api.TokenWish) (string, api.Token, error) {
	created := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	token := api.Token{ID: "0123456789abcdef", Role: wish.Role, Created: created, Expires: created.Add(24 * time.Hour), Uses: wish.Uses, State: "live"}
	if err := t.call(ctx, "token %s %s %d", wish.Role, wish.TTL, wish.Uses); err != nil {
		return "", api.Token{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tokens = append(t.tokens, token)
	return "gvt1.secret", token, nil
}

func (t *trio) Tokens(ctx context.Context) ([]api.Token, error) {
	if err := t.call(ctx, "tokens"); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.tokens), nil
}

func (t *trio) RevokeToken(ctx context.Context, id string) error {
	if err := t.call(ctx, "revoke %s", id); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	before := len(t.tokens)
	t.tokens = slices.DeleteFunc(t.tokens, func(known api.Token) bool { return known.ID == id })
	if len(t.tokens) == before {
		return &api.NotFoundError{What: "token", Name: id}
	}
	return nil
}

func (t *trio) Alarms() ([]api.Alarm, error) {
	return []api.Alarm{{Kind: "histories diverged", Node: "edge-2", ID: "01b", Role: "voter", Ours: "1.12", Theirs: "1.12", StopsWrites: true}}, t.fails
}

func (t *trio) Difference(ctx context.Context, node string) (api.Difference, error) {
	return api.Difference{Node: node, Ours: "1.12", Theirs: "1.12", Voter: true, Keys: []api.KeyDifference{{Key: "app/x", Is: api.Different}}}, t.call(ctx, "difference %s", node)
}

func (t *trio) Settle(ctx context.Context, node string, keep api.Keep) (api.Settled, error) {
	return api.Settled{Node: node, Keep: keep}, t.call(ctx, "settle %s %s", node, keep)
}

func (t *trio) Keyring(ctx context.Context) (api.Keyring, error) {
	return api.Keyring{
		Generation: 2, Phase: "use", Keys: []string{"k2", "k1"}, Nodes: []api.KeyringNode{
			{Node: "edge-1", Uses: "k2", Has: []string{"k2", "k1"}, Ready: true}, {Node: "edge-2", Problem: "no answer"},
		},
	}, t.call(ctx, "keyring")
}

func (t *trio) RotateKeys(ctx context.Context) (api.Keyring, error) {
	return api.Keyring{Generation: 3, Phase: "done", Keys: []string{"k3"}}, t.call(ctx, "rotate")
}

func (t *trio) Certificates() ([]api.Certificate, error) {
	made := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	return []api.Certificate{
		{Kind: "ca", Cluster: "c1", Subject: "CN=c1", Names: []string{}, Serial: "01", NotBefore: made, NotAfter: made.AddDate(10, 0, 0), Fingerprint: "aa", Key: "ab", VoterKey: "ac", PEM: "-----BEGIN"},
		{Kind: "node", Cluster: "c1", Node: "01a", Subject: "CN=01a", Names: []string{"01a.c1.grapevine.internal"}, Role: "voter", Serial: "02", NotBefore: made, NotAfter: made.AddDate(1, 0, 0), Fingerprint: "bb", Key: "bc", PEM: "-----BEGIN"},
	}, t.fails
}

func (t *trio) Ask(node string) (http.Handler, error) {
	if handler, ok := t.others[node]; ok {
		return handler, nil
	}
	return nil, &api.UnreachableError{Node: node, Err: context.DeadlineExceeded}
}
