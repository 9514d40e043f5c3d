package consensus_test

import (
	"path/filepath"
	"testing"

	"grapevine/kv"
	"grapevine/kv/consensus"
)

// One writer waits for its sync; many share theirs. Run it with -cpu 1,64 to see.
func BenchmarkProposeSynced(b *testing.B) {
	store, err := kv.Open(kv.Options{Path: filepath.Join(b.TempDir(), "kv.db")})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	log := consensus.NewSingle(store, nil)
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := log.Propose(b.Context(), kv.Txn{Then: []kv.Op{kv.Put("k", make([]byte, 200))}}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
