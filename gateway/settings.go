package gateway

import (
	"net/netip"
	"time"

	"grapevine/gateway/spec"
)

// settings are the sections under gateway/config/ as the table uses them.
type settings struct {
	timeouts spec.Timeouts
	ready    spec.Ready
	headers  spec.Headers
	logging  spec.Logging
	announce spec.Announce
}

// judgeSection finds which version of a section counts.
func (p *planner) judgeSection(key string) *verdict {
	v, built := &verdict{}, builtSections[idOf(key)]
	_, static := p.static.Config[idOf(key)]
	if static && !built {
		v.faults = spec.Faults{{Key: key, Problem: refusal}}
	}
	switch current := p.decoding.get(key); {
	case current == nil && !static:
		return nil
	case current == nil:
	case built:
		p.judgeKey(key, v, nil)
	default:
		return p.judgeUnknown(key)
	}
	return v
}

// readSettings takes the static sections, then the operator's over them.
func (p *planner) readSettings() *settings {
	s := &settings{}
	for _, section := range p.static.Config {
		s.set(section.Value)
	}
	for key, v := range p.judging.now().under(configPrefix) {
		switch {
		case v.good != nil:
			s.set(v.good.Value)
		case v.quarantined && idOf(key) == "headers":
			s.headers = spec.Headers{} // trust nobody, whatever the file says
		}
	}
	return s
}

// set takes one section; a nil value is a section that is not there.
func (s *settings) set(value any) {
	switch v := value.(type) {
	case *spec.Timeouts:
		s.timeouts = *v
	case *spec.Ready:
		s.ready = *v
	case *spec.Headers:
		s.headers = *v
	case *spec.Logging:
		s.logging = *v
	case *spec.Announce:
		s.announce = *v
	}
}

// bounds of an attempt, in the order route, cluster, section, default.
func (s *settings) bounds(route *spec.Route, policy *spec.Cluster) bounds {
	var clusterTimeout spec.Duration
	if policy.Resilience != nil {
		clusterTimeout = policy.Resilience.Timeout
	}
	limit := firstSet(spec.DefaultTimeoutCap, s.timeouts.Cap)
	return bounds{
		Timeout: min(firstSet(spec.DefaultTimeout, route.Timeout, clusterTimeout, s.timeouts.Timeout), limit),
		Idle:    firstSet(spec.DefaultIdleTimeout, route.IdleTimeout, s.timeouts.IdleTimeout),
		Connect: firstSet(spec.DefaultConnect, s.timeouts.Connect),
	}
}

// way is how the requests of a route get to a destination.
func (s *settings) way(route *spec.Route, policy *spec.Cluster) way {
	w := way{bounds: s.bounds(route, policy), retry: newRetry(route.Retry)}
	w.total = w.bounds.Timeout
	if w.retry != nil && route.Retry.PerTryTimeout > 0 {
		w.bounds.Timeout = min(w.total, time.Duration(route.Retry.PerTryTimeout))
	}
	return w
}

func firstSet(otherwise time.Duration, durations ...spec.Duration) time.Duration {
	for _, d := range durations {
		if d > 0 {
			return time.Duration(d)
		}
	}
	return otherwise
}

// trust says whose forwarding headers are believed.
type trust struct {
	all  bool
	nets []netip.Prefix
}

func (s *settings) trust() trust {
	t := trust{all: s.headers.TrustAllProxies}
	for _, proxy := range s.headers.TrustedProxies {
		t.nets = append(t.nets, proxy.Nets()...)
	}
	return t
}

func (t trust) includes(peer netip.Addr) bool {
	if t.all {
		return true
	}
	for _, net := range t.nets {
		if net.Contains(peer) {
			return true
		}
	}
	return false
}
