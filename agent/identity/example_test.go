package identity_test

import (
	"fmt"

	"grapevine/agent/identity"
)

// A founder makes a token, which the operator carries to the next node.
func ExampleFound() {
	first, err := identity.Found(identity.Options{Node: "01arz3ndektsv4rrffq69g5fav"})
	if err != nil {
		panic(err)
	}
	token, record, err := first.Cluster().NewToken(identity.TokenOptions{Role: identity.Edge, Seeds: []string{"10.0.0.1:7946"}})
	if err != nil {
		panic(err)
	}
	// record is stored under record.Key(); token.Encode() is what the other node is given.
	read, err := identity.ParseToken(token.Encode())
	fmt.Println(read.Role, read.Seeds, read.Cluster == first.Cluster().ID(), read.ID() == record.ID, err)
	// Output: edge [10.0.0.1:7946] true true <nil>
}
