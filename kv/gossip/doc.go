// Package gossip keeps the list of members and makes every node's streams of
// changes the same.
//
//	            packets (UDP, encrypted)                streams (gv-spread/1)
//	memberlist  who is alive                 links      changes to the neighbours, at once
//	heads       200 ms, one member:          pulls      what is missing, as a delta
//	            how far is each stream                  or as a whole snapshot
//
// Membership and the detection of failures are memberlist's. It never carries
// data: its broadcasts lose updates. Changes go to the neighbours that a
// function names over connections that stay open, and whoever notices by a head
// that it lacks something pulls it. So pushes make it fast, and heads and pulls
// make it certain.
//
// Nothing is taken that its stream does not verify. Histories that contradict
// each other are never merged: they are an Alarm, and stay one until an operator
// has decided.
//
// A Peer owns its goroutines from Open to Close. Its methods may be called by any
// number of goroutines. What they return is immutable.
//
// See docs/design/gossip.md for the reasons.
package gossip
