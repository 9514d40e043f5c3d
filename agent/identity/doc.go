// Package identity proves who is who in a cluster.
//
//	Found ──► cluster CA + voter key + node certificate     the first node
//	Join  ──► token ──gv-join/1──► node certificate          every other
//	Open  ──► the same again from the file                   each later start
//
// A cluster has a CA of its own. Its certificate names the cluster, and carries
// the public key that vouches for what the voters decided (the voter key). Each
// node has a key for life and a certificate for a year, which says its id and
// its role. Voters hold the CA's key and the voter key; edges never see them.
//
// All of it stands in one file that others may not read, and that is replaced as
// a whole: what is on disk always fits together.
//
// An Identity shakes hands for package mux. With TLS both sides prove
// themselves, and the role decides who may speak which protocol; without
// (loopback only) they just say it, and the same rules hold.
//
// An Identity may be used by any number of goroutines. See
// docs/design/identity.md for the reasons.
package identity
