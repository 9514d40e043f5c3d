package breaker

import (
	"cmp"
	"time"

	"github.com/sony/gobreaker/v2"

	"grapevine/gateway/spec"
)

// The values where a spec.CircuitBreaker does not say otherwise; its fields tell
// the reader.
const (
	defaultThreshold = 10
	defaultBreak     = 30 * time.Second
	defaultMinimum   = 20
	defaultWindow    = 10 * time.Second
	defaultProbes    = 1
)

// buckets are the pieces that a window moves on by: what is older than it is
// forgotten a tenth at a time, and not all of it at once.
const buckets = 10

// Policy is when a Breaker opens and closes. Policies that are equal (==) are the
// same one.
type Policy struct {
	// Threshold is a number of failures within the window from 1 on, and below
	// that their share of the calls that ended in it.
	Threshold float64
	// Minimum is how many calls must have ended in the window.
	Minimum int
	// Window is how far back counts go. The oldest tenth of it is dropped at once.
	Window time.Duration
	// Break is how long it stays open.
	Break time.Duration
	// Probes is how many calls pass while it is half-open, and how many must go
	// well for it to close.
	Probes int
}

// NewPolicy reads a cluster's configuration, with the default of each field that
// it leaves out.
func NewPolicy(c *spec.CircuitBreaker) Policy {
	return Policy{
		Threshold: cmp.Or(c.FailureThreshold, defaultThreshold),
		Minimum:   cmp.Or(c.MinimumThroughput, defaultMinimum),
		Window:    cmp.Or(time.Duration(c.Sampling), defaultWindow),
		Break:     cmp.Or(time.Duration(c.BreakDuration), defaultBreak),
		Probes:    cmp.Or(c.HalfOpenRequests, defaultProbes),
	}
}

// trips tells whether counts of the window open a breaker. gobreaker's Requests
// has those under way as well, of which nobody knows how they end.
func (p Policy) trips(c gobreaker.Counts) bool {
	ended, failed := float64(c.TotalSuccesses)+float64(c.TotalFailures), float64(c.TotalFailures)
	switch {
	case ended < float64(p.Minimum):
		return false
	case p.Threshold < 1:
		return failed >= p.Threshold*ended
	}
	return failed >= p.Threshold
}
