package gateway

import (
	"net/netip"

	"grapevine/gateway/exchange"
)

// Question is a request that nobody sent, put to the live table.
type Question struct {
	Method string // "" is GET
	// URL is absolute, or a path with its query for any host.
	URL    string
	Fields exchange.Fields
	// Client is the address that conditions on clients look at. The zero Addr
	// meets no such condition.
	Client netip.Addr
}

// Explanation says what the live table would do with a request, and why.
type Explanation struct {
	Rev  string `json:"rev"`  // of the table
	Hash string `json:"hash"` // of the table

	Method string `json:"method"`
	Host   string `json:"host"`   // as it is matched; empty for none
	Path   string `json:"path"`   // as sent
	Match  string `json:"match"`  // canonical: what is matched
	Client string `json:"client"` // empty when unknown

	// Route is the one that takes the request, empty when none does.
	Route string `json:"route"`
	// Status and Code are the gateway's own answer, 0 and empty when the
	// request is forwarded. Detail says in a sentence what decided.
	Status int    `json:"status,omitempty"`
	Code   string `json:"code,omitempty"`
	Detail string `json:"detail"`

	// Candidates are all routes whose host and path take the request, in the
	// order in which they are tried.
	Candidates []Candidate `json:"candidates"`
	// Forward is what a backend would receive, nil when none would.
	Forward *Forward `json:"forward,omitempty"`
}

// Candidate is a route in the order of those that were tried.
type Candidate struct {
	ID     string `json:"id"`
	Order  int    `json:"order"`
	Host   string `json:"host"` // the pattern that took the host; empty for any
	Path   string `json:"path"` // template, or "~ " and the expression
	Source string `json:"source"`
	State  string `json:"state"` // taken, failed or later
	// Why a condition failed, or by which rule it comes after the route that
	// is taken; for that route, what decided.
	Why string `json:"why"`
}

// Forward is what a backend would receive.
type Forward struct {
	Cluster      string               `json:"cluster"`
	Balancing    string               `json:"balancing"`
	Destinations []ForwardDestination `json:"destinations"`
	Method       string               `json:"method"`
	Target       string               `json:"target"` // path and query as sent on
	Host         string               `json:"host"`
	// Fields are the header lines as sent on, "Name: value", without those that
	// differ from request to request (ids, the connection's addresses).
	Fields []string `json:"fields"`
}

// ForwardDestination is one destination that may get the request.
type ForwardDestination struct {
	Address  string `json:"address"`
	Weight   int    `json:"weight"`
	InFlight int64  `json:"inFlight"` // requests it has from this node now
}
