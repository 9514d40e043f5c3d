package gateway

import (
	"fmt"
	"slices"
	"time"

	"grapevine/gateway/routing"
	"grapevine/gateway/spec"
)

// DefaultLinger is how long the route of instances that are gone answers 503, where
// gateway/config/announce says nothing else.
const DefaultLinger = 30 * time.Second

// judgeAnnouncedRoute makes the route that a fleet announces, or has announced before
// its last instance went. What this version can't do of it is never left out: the
// route is blocked.
func (p *planner) judgeAnnouncedRoute(key string, f *fleet, v *verdict) {
	r := &plannedRoute{id: f.id, key: key, layer: layerAnnounced, spec: f.route}
	faults := p.checkRoute(instancePrefix+f.id, layerAnnounced, f.route)
	if len(faults) == 0 {
		faults = p.lowers(f)
	}
	if len(faults) > 0 {
		r.blocked, r.problem, v.route = true, shortly(faults[0]), r
		v.notices = faults
		v.sum = digestOf("blocked route %s %s", r.id, spec.Encode(r.spec))
		return
	}
	p.serve(r, spec.Encode(r.spec), v)
	if r.problem == "" && f.lingers() {
		r.problem = "its last instance is gone; without another one it answers 503 until " + f.until.UTC().Format(time.TimeOnly) + "Z"
	}
}

// linger keeps what a fleet announced when its last instance went, for a while.
func (p *planner) linger(key string, f *fleet) {
	if p.before == nil {
		return
	}
	before := p.before.verdicts.get(key).fleetOf()
	if before == nil || before.route == nil {
		return
	}
	until := before.until
	if until.IsZero() {
		until = p.now.Add(p.settings.linger())
	}
	if p.now.Before(until) {
		f.route, f.until = before.route, until
		f.sum = digestOf("lingering %s", spec.Encode(f.route))
	}
}

// noteLinger keeps until when a fleet lingers; zero is that it does not.
func (p *planner) noteLinger(key string, until time.Time) {
	if until == p.announced.lingering.get(key) {
		return
	}
	edit := p.announced.lingering.edit()
	if until.IsZero() {
		edit.del(key)
	} else {
		edit.set(key, until)
	}
	p.announced.lingering = edit.now()
}

// linger is how long a route without instances is kept.
func (s *settings) linger() time.Duration {
	if s.announce.Linger > 0 {
		return time.Duration(s.announce.Linger)
	}
	return DefaultLinger
}

// lingersUntil is when the first route that lingers is to be given up; zero: none
// lingers.
func (p *plan) lingersUntil() (first time.Time) {
	for _, until := range p.announced.lingering.under("") {
		if first.IsZero() || until.Before(first) {
			first = until
		}
	}
	return first
}

// lowers is what an announced route would open that an operator has guarded: paths of
// a route with requireAuth or auth that it is tried before. An operator who wants that
// writes the route, and names the cluster of the announced instances in it.
func (p *planner) lowers(f *fleet) spec.Faults {
	rule := routing.NewRule(f.id, f.route, nil)
	for key, guards := range p.guarding.now().under("") {
		if slices.ContainsFunc(guards, rule.Opens) {
			return spec.Faults{{
				Key: instancePrefix + f.id, Field: "path", Value: string(f.route.Path),
				Problem: fmt.Sprintf("would open what route %q guards; an operator's route may name cluster %q", idOf(key), f.id),
			}}
		}
	}
	return nil
}

// guard keeps what an operator's route guards, whether or not this version can serve
// it; nil is nothing.
func (p *planner) guard(key string, rules []*routing.Rule) {
	if rules == nil && p.guarding.get(key) == nil {
		return
	}
	p.guarded = true
	if rules == nil {
		p.guarding.del(key)
	} else {
		p.guarding.set(key, rules)
	}
}

// announcedRoutes are the keys of the routes that are announced, and no operator's.
func (p *planner) announcedRoutes() (keys []string) {
	for fleet := range p.judging.now().under(instancePrefix) {
		if key := routePrefix + idOf(fleet); p.decoding.get(key) == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// guards are the rules of a route that asks for a token, or may be meant to.
func (v *verdict) guards() []*routing.Rule {
	r := v.routeOf()
	switch {
	case r == nil || r.layer != layerOperator:
		return nil
	case !r.spec.RequireAuth && r.spec.Auth == nil && !guardsIdentity(v.faults):
		return nil
	default:
		return blockedRules(r.id, r.spec, v.faults, nil)
	}
}
