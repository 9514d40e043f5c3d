//go:build linux

// Package wire has the three programs that stand around a proxy under test: a
// backend, a relay that parses nothing, and a load client.
//
// Each is a loop over epoll on raw descriptors, without a goroutine or an
// allocation per request, so that what it costs does not drown what is
// measured. They speak only as much HTTP/1.1 as the bench sends: requests
// without a body, responses with a Content-Length.
package wire
