package consensus_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"grapevine/kv"
	"grapevine/kv/consensus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func single(t *testing.T, check consensus.Check) (*kv.Store, *consensus.Single) {
	t.Helper()
	store, err := kv.Open(kv.Options{}) // in memory: nothing here depends on a disk
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store, consensus.NewSingle(store, check)
}

// Compare-and-set from many goroutines: each revision has one winner.
func TestProposalsHaveOneOrder(t *testing.T) {
	store, log := single(t, nil)
	const writers, each = 8, 50
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for done := 0; done < each; {
				entry, _ := store.View().Get("count")
				var n int
				fmt.Sscan(string(entry.Value), &n)
				result, err := log.Propose(t.Context(), kv.Txn{
					Compare: []kv.Compare{{Key: "count", Target: kv.TargetModRev, Rev: entry.ModRev}},
					Then:    []kv.Op{kv.Put("count", fmt.Append(nil, n+1))},
				})
				if err != nil {
					t.Error(err)
					return
				}
				if result.Succeeded {
					done++
				}
			}
		})
	}
	wg.Wait()
	if entry, _ := store.View().Get("count"); string(entry.Value) != fmt.Sprint(writers*each) {
		t.Errorf("count %s; want %d: an update was lost", entry.Value, writers*each)
	}
}

// What the check refuses changes nothing; it sees the view with the write.
func TestCheckRefuses(t *testing.T) {
	refusal := errors.New("not this one")
	store, log := single(t, func(current, candidate kv.View) error {
		if _, bad := candidate.Get("bad"); bad && current.Rev().Next() == candidate.Rev() {
			return refusal
		}
		return nil
	})
	for _, propose := range []func(context.Context, kv.Txn) (kv.Result, error){log.Propose, log.Trial} {
		if _, err := propose(t.Context(), kv.Txn{Then: []kv.Op{kv.Put("good", nil), kv.Put("bad", nil)}}); !errors.Is(err, refusal) {
			t.Errorf("got %v; want the refusal itself", err)
		}
	}
	if store.View().Len() != 0 || store.View().Rev().Rev != 0 {
		t.Errorf("a refused write left %d keys at %s", store.View().Len(), store.View().Rev())
	}
}

// A trial tells what would happen and leaves no trace.
func TestTrial(t *testing.T) {
	store, log := single(t, nil)
	txn := kv.Txn{Then: []kv.Op{kv.Put("a", nil)}}
	tried, err := log.Trial(t.Context(), txn)
	if err != nil || tried.Rev.Rev != 1 || store.View().Len() != 0 {
		t.Fatalf("trial %+v, %v, %d keys", tried, err, store.View().Len())
	}
	made, err := log.Propose(t.Context(), txn)
	if err != nil || made.Rev != tried.Rev || made.Succeeded != tried.Succeeded {
		t.Errorf("trial said %+v, the write %+v, %v", tried, made, err)
	}
	none, err := log.Propose(t.Context(), kv.Txn{Then: []kv.Op{kv.Delete("none")}})
	if err != nil || !none.Succeeded || none.Rev != made.Rev {
		t.Errorf("a write that changes nothing: %+v, %v", none, err)
	}
}
