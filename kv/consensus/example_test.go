package consensus_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"grapevine/kv"
	"grapevine/kv/consensus"
)

// A write that the check refuses changes nothing.
func ExampleSingle() {
	store, err := kv.Open(kv.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	writes := consensus.NewSingle(store, func(_, candidate kv.View) error {
		if candidate.Len() > 1 {
			return errors.New("one key is enough")
		}
		return nil
	})
	for _, key := range []kv.Key{"app/one", "app/two"} {
		result, err := writes.Propose(context.Background(), kv.Txn{Then: []kv.Op{kv.Put(key, []byte("value"))}})
		fmt.Println(result.Rev, err)
	}
	fmt.Println(store.View().Rev())
	// Output:
	// 1.1 <nil>
	// 0.0 one key is enough
	// 1.1
}
