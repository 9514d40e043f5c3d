package kv_test

import (
	"fmt"
	"log"

	"grapevine/kv"
)

// A write on the condition that the key is not there yet.
func Example() {
	store, err := kv.Open(kv.Options{}) // in memory; a Path makes it durable
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	create := kv.Txn{
		Compare: []kv.Compare{{Key: "app/greeting", Target: kv.TargetAbsent}},
		Then:    []kv.Op{kv.Put("app/greeting", []byte("hello"))},
		By:      "example",
	}
	for range 2 {
		commit, result, err := store.View().Resolve(create)
		if err != nil {
			log.Fatal(err)
		}
		if result.Succeeded {
			if err := store.Merge(commit); err != nil {
				log.Fatal(err)
			}
		}
		fmt.Println(result.Succeeded, result.Rev)
	}
	for entry := range store.View().Under("app") {
		fmt.Printf("%s = %s\n", entry.Key, entry.Value)
	}
	// Output:
	// true 1.1
	// false 1.1
	// app/greeting = hello
}
