package consensus_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"

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

// A cluster of one: it leads at once. Others join when the leader adds them.
func ExampleRaft() {
	store, err := kv.Open(kv.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	address := listener.Addr().String()
	raft, err := consensus.Open(consensus.Options{
		Node: "first", Server: "first", Address: address, Store: store, Listener: listener,
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, "tcp", address)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer raft.Shutdown(context.Background())
	if err := raft.Bootstrap(consensus.Server{ID: "first", Address: address, Voter: true}); err != nil {
		log.Fatal(err)
	}
	result, err := raft.Propose(context.Background(), kv.Txn{Then: []kv.Op{kv.Put("app/one", []byte("value"))}})
	fmt.Println(result.Rev, err)
	view, err := raft.Read(context.Background())
	fmt.Println(view.Len(), err)
	// Output:
	// 1.1 <nil>
	// 1 <nil>
}
