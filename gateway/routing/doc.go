// Package routing decides which route serves a request.
//
// One canonical form of the path decides (Canonical), and what is forwarded
// agrees with it: a path that differs from its canonical form in more than its
// encoding is forwarded in canonical form. Order is total and known before any
// request comes (Rule.compare), so Linear, the matcher that tries one candidate
// after the other, is a few obvious lines. It is the judge of any faster one.
//
// Everything here is immutable once made and safe for concurrent use.
package routing
