// Package follow lets a gateway that is no node serve what an agent's cluster serves: a
// Source is a gateway.Source that follows an agent over its HTTP API.
//
//	source, err := follow.New(follow.Options{Store: store})
//	...
//	g := gateway.New(gateway.Options{Source: source, Keeper: store, Waiting: source.Waiting})
//	go source.Run(ctx)
//
// One request brings it the whole state, of the operators' keys and of announced
// instances, and then every change as it comes. When that stream ends, because the agent
// restarts or goes, it asks again, after random pauses, and what it knew last is served
// meanwhile, for as long as it takes. With a Store it is served after a restart, too.
//
// Such a gateway is no member of the cluster. It sends a draining instance nothing new as
// soon as it hears of it, but the handshake of a drain does not wait for it, no receipt of
// a write counts it, and what it finds out about destinations stays with it.
//
// A Source may be used by any number of goroutines; one of them runs Run.
package follow
