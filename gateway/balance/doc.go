// Package balance decides which destination of a cluster is next: by turn, by
// chance, by load, or by a hash of the request.
//
// A Balancer is made anew when the destinations change. What has to outlive it,
// the loads and the count of picks, belongs to the caller, so that no request is
// lost from a count and no destination begins its turn again.
//
// Everything here may be used by any number of goroutines, and no pick takes a
// lock or allocates.
package balance
