package accesslog

import (
	"math/rand/v2"
	"slices"

	"grapevine/gateway/exchange"
	"grapevine/gateway/spec"
)

// Policy says which requests are written, and what of them. It never changes. A
// nil Policy writes nothing.
type Policy struct {
	fields []field
	// below is how many of 1<<32 requests that went well are written.
	below uint64
}

// NewPolicy reads a section; nil and one that is switched off give none.
func NewPolicy(s *spec.AccessLog) *Policy {
	if s == nil || s.Enabled != nil && !*s.Enabled {
		return nil
	}
	percent := 100.0
	if s.Sample != nil {
		percent = *s.Sample
	}
	p := &Policy{below: uint64(percent / 100 * (1 << 32))}
	for _, f := range fields {
		if len(s.Fields) == 0 && !f.asked || slices.Contains(s.Fields, f.name) {
			p.fields = append(p.fields, f)
		}
	}
	return p
}

// wants tells whether the request is written: always when something went wrong.
func (p *Policy) wants(x *exchange.Exchange, err error) bool {
	if err != nil || x.Reason != "" || x.Response.Status >= 400 || x.Response.Status == 0 {
		return true
	}
	return p.below == 1<<32 || uint64(rand.Uint32()) < p.below
}
