// Package names turns the hostnames of destinations into addresses, again and
// again: a name may mean other hosts an hour later, and several at once.
//
// A Name makes connections to all addresses of a host, in turn. As long as there
// are connections it is looked up again when its answer is old, and what does not
// belong to it any more is drained; without any, the next dial looks it up. A
// lookup that fails changes nothing: the last good answer holds, and the log says
// so once.
//
// All exported methods are safe for concurrent use.
package names
