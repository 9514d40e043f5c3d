package cluster

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"grapevine/agent/api"
	"grapevine/agent/identity"
	"grapevine/kv"
	"grapevine/kv/consensus"
)

// What an edge may not do to its cluster stands here. Edges are for hosts that are
// trusted less: one that is broken into may write configuration, as every operator
// on it may, but neither make itself a voter, which has the keys of the cluster, nor
// let back in who was shut out.

// ownPrefix is where nodes keep what is about themselves: tokens, who is denied, and
// the like.
const ownPrefix = "cluster"

// mayGovern tells why this node's operators can't change the cluster through it.
func (m *member) mayGovern() error {
	if m.id.Role() == identity.Voter {
		return nil
	}
	voters := m.voterAddresses()
	if len(voters) == 0 {
		voters = []string{"none is known now"}
	}
	return &api.RefusedError{Reason: "this node is an edge, and edges pass on no change of the cluster itself; ask on the host of a voter: " + strings.Join(voters, ", ")}
}

// asksAsEdge tells whether a request came from another node that is no voter.
func asksAsEdge(ctx context.Context) (node string, edge bool) {
	peer, known := identity.PeerFrom(ctx)
	return peer.Node, known && peer.Role != identity.Voter
}

// permit refuses writes below ownPrefix that an edge brings.
func (m *member) permit(ctx context.Context, t kv.Txn) error {
	node, edge := asksAsEdge(ctx)
	if !edge {
		return nil
	}
	for _, op := range slices.Concat(t.Then, t.Else) {
		for _, key := range []string{string(op.Key), strings.TrimSuffix(op.Prefix, "/")} {
			if kv.Under(ownPrefix, kv.Key(key)) {
				return &consensus.RefusedError{Message: fmt.Sprintf("key %q: node %s is an edge, and only voters write there", key, m.nameOf(node))}
			}
		}
	}
	return nil
}

// govern lets voters ask for a change of the cluster, and no edge.
func govern[In, Out any](m *member, do func(context.Context, In) (Out, error)) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, in In) (out Out, err error) {
		if node, edge := asksAsEdge(ctx); edge {
			return out, &api.RefusedError{Reason: fmt.Sprintf("node %s is an edge, and edges pass on no change of the cluster itself", m.nameOf(node))}
		}
		return do(ctx, in)
	}
}

// guardAPI lets an edge pass on what reads, and writes of keys, which are judged as
// all others.
func (m *member) guardAPI(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		if node, edge := asksAsEdge(r.Context()); edge && !reads && !writesKeys(r.URL.Path) {
			api.RefuseAsked(w, r, &api.RefusedError{Reason: fmt.Sprintf("node %s is an edge, and edges pass on no change of the cluster itself", m.nameOf(node))})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func writesKeys(path string) bool {
	return strings.HasPrefix(path, "/v1/kv/") || path == "/v1/txn" || path == "/v1/validate"
}
