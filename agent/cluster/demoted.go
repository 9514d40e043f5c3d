package cluster

import (
	"context"
	"time"

	"grapevine/kv"
)

// demotedPrefix is where the ids of nodes stand that an operator wants to have no
// vote. They stand in the store, so that the next leader knows it too.
const demotedPrefix = "cluster/demoted/"

func (m *member) isDemoted(node string) bool {
	_, is := m.n.o.Store.View().Get(kv.Key(demotedPrefix + node))
	return is
}

// setDemoted notes whether an operator wants a node to have no vote. It is for the
// leader.
func (m *member) setDemoted(ctx context.Context, node string, demoted bool) error {
	if m.isDemoted(node) == demoted {
		return nil
	}
	key := kv.Key(demotedPrefix + node)
	txn := kv.Txn{Then: []kv.Op{kv.Delete(key)}, At: time.Now(), Message: "may vote again"}
	if demoted {
		txn = kv.Txn{Then: []kv.Op{kv.Put(key, []byte(`{}`))}, At: time.Now(), Message: "demoted"}
	}
	_, err := m.raft.Propose(ctx, txn)
	return err
}
