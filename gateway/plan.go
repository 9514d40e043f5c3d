package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"grapevine/gateway/routing"
	"grapevine/gateway/spec"
	"grapevine/kv"
)

// plan is what a table shall serve and what is wrong with the rest. It is
// immutable, touches nothing and starts nothing.
//
// A plan that follows another one is made from what changed: the keys of the
// change, and the routes that look at a cluster among them. So a change costs the
// same however many routes there are.
type plan struct {
	view     kv.View
	static   *spec.File
	settings *settings

	decoded   index[*decoded]        // the operator's keys
	announced announced              // what services say of themselves
	verdicts  index[*verdict]        // on every key, the operator's and those of the file, and on each fleet
	troubled  index[*verdict]        // those with faults or notices
	users     index[struct{}]        // cluster's id, space, key of a route that looks at it
	guards    index[[]*routing.Rule] // of the operator's routes that ask for a token, by key
	counts    counts
	sum       digest // of all verdicts, in any order

	// id is this plan's own. base is that of the plan that this one was made from,
	// nil when it was made from nothing; an id, since a plan would hold on to all
	// before it. changes are the verdicts that are not base's.
	id, base *planID
	changes  []change
}

type planID struct{ _ byte }

// verdict is what becomes of a key. It is immutable.
type verdict struct {
	faults, notices spec.Faults
	// good is the version of an operator's key that is served: as it stands, or
	// the last good one. Nil when there is none.
	good        *decoded
	quarantined bool // the key has faults, with a good version or not
	// last is the last good version of a quarantined key, also when something
	// else that it needs is not there now.
	last *decoded

	fleet   *fleet          // of a fleet's key
	cluster *plannedCluster // of a cluster's key
	route   *plannedRoute   // of a route's key; nil when it is not enabled
	hidden  []*plannedRoute // of lower layers, which the one that is served hides
	looked  []string        // ids of the clusters that the route's verdict depends on
	sum     digest
}

// change is a verdict that took the place of another. One of the two may be nil.
type change struct {
	key      string
	old, now *verdict
}

// counts of routes by state.
type counts struct{ live, hidden, invalid int }

func (c *counts) add(v *verdict, n int) {
	if v == nil {
		return
	}
	c.hidden += n * len(v.hidden)
	switch {
	case v.route == nil:
	case v.route.problem != "":
		c.invalid += n
	default:
		c.live += n
	}
}

// digest is a SHA-256, or several combined by exclusive or. That is a name for
// sets whose elements all differ, not a defence against who may choose them.
type digest [sha256.Size]byte

func (d *digest) flip(e digest) {
	for i := range d {
		d[i] ^= e[i]
	}
}

func digestOf(format string, args ...any) digest {
	return sha256.Sum256(fmt.Appendf(nil, format, args...))
}

// planner holds a plan while it is being made.
type planner struct {
	*plan
	base *plan // nil when everything is judged anew
	// before is the plan before, also when everything is judged anew; nil for the first.
	before *plan
	now    time.Time
	// lastGood gives the last good version of a key, nil when none is known.
	lastGood func(kv.Key) *decoded

	decoding  *indexEdit[*decoded]
	judging   *indexEdit[*verdict]
	troubling *indexEdit[*verdict]
	using     *indexEdit[struct{}]
	guarding  *indexEdit[[]*routing.Rule]
	guarded   bool     // guarding is another than base's
	looked    []string // by the route that is being judged
}

// newPlan judges the static file and the operator's keys together. previous
// may be nil; lastGood gives the version of a key to fall back to.
func newPlan(previous *plan, static *spec.File, view kv.View, lastGood func(kv.Key) *decoded) *plan {
	p := &planner{plan: &plan{id: new(planID), view: view, static: static}, before: previous, now: time.Now(), lastGood: lastGood}
	if previous != nil {
		p.announced.lingering = previous.announced.lingering
	}
	if previous != nil && previous.static == static {
		if _, follows := view.ChangedSince(previous.view); follows {
			p.follow(previous)
		}
	}
	p.decoding, p.judging = p.decoded.edit(), p.verdicts.edit()
	p.troubling, p.using, p.guarding = p.troubled.edit(), p.users.edit(), p.guards.edit()
	p.judge(p.stale(previous))
	p.decoded, p.verdicts = p.decoding.now(), p.judging.now()
	p.troubled, p.users, p.guards = p.troubling.now(), p.using.now(), p.guarding.now()
	return p.plan
}

func (p *planner) follow(base *plan) {
	p.base, p.plan.base, p.settings = base, base.id, base.settings
	p.decoded, p.verdicts, p.troubled, p.users, p.guards = base.decoded, base.verdicts, base.troubled, base.users, base.guards
	p.announced, p.counts, p.sum = base.announced, base.counts, base.sum
}

// isSame tells whether the plan says nothing else than the one that it follows: what
// changed is no concern of a gateway's.
func (p *plan) isSame(base *plan) bool {
	return base != nil && p.base == base.id && len(p.changes) == 0 && p.settings == base.settings && p.rev() == base.rev()
}

// inPlaceOf lets the plan stand for the one that it is the same as, so that the next
// one follows it, and the table of the other is its own.
func (p *plan) inPlaceOf(base *plan) *plan {
	p.id, p.base, p.changes = base.id, base.base, base.changes
	return p
}

// stale reads what changed and gives the keys to judge, in order.
func (p *planner) stale(previous *plan) []string {
	keys := p.read(previous)
	if p.base == nil {
		keys = append(keys, staticKeys(p.static)...)
		keys = append(keys, previous.fleetKeys()...)
	}
	return sorted(keys)
}

func staticKeys(file *spec.File) (keys []string) {
	for id := range file.Routes {
		keys = append(keys, routePrefix+id)
	}
	for id := range file.Clusters {
		keys = append(keys, clusterPrefix+id)
	}
	for name := range file.Config {
		keys = append(keys, configPrefix+name)
	}
	return keys
}

// judge finds what becomes of the keys: first of those that nothing else follows
// from, sections and fleets, then of clusters, then of routes: those among the keys,
// and those that look at one of the clusters.
func (p *planner) judge(keys []string) {
	sections := p.base == nil
	var fleets, clusters, routes []string
	for _, key := range keys {
		switch {
		case strings.HasPrefix(key, clusterPrefix):
			clusters = append(clusters, key)
		case strings.HasPrefix(key, routePrefix):
			routes = append(routes, key)
		case strings.HasPrefix(key, instancePrefix):
			fleets = append(fleets, key)
			clusters, routes = append(clusters, clusterPrefix+idOf(key)), append(routes, routePrefix+idOf(key))
		case strings.HasPrefix(key, configPrefix):
			sections = true
			p.record(key, p.judgeSection(key))
		case isMaintenance(key):
			p.record(key, p.judgeMaintenance(key))
		default:
			p.record(key, p.judgeUnknown(key))
		}
	}
	if sections {
		p.settings = p.readSettings()
	}
	for _, key := range fleets {
		p.record(key, p.judgeFleet(key))
	}
	for _, key := range sorted(clusters) {
		p.record(key, p.judgeCluster(key))
		routes = append(routes, p.usersOf(idOf(key))...)
	}
	p.judgeRoutes(sorted(routes))
}

// judgeRoutes judges the operator's first: what is announced depends on what they
// guard.
func (p *planner) judgeRoutes(keys []string) {
	var others []string
	for _, key := range keys {
		if p.decoding.get(key) == nil {
			others = append(others, key)
			p.guard(key, nil)
			continue
		}
		v := p.judgeRoute(key)
		p.record(key, v)
		p.guard(key, v.guards())
	}
	if p.guarded && p.base != nil { // else all are judged anyway
		others = sorted(append(others, p.announcedRoutes()...))
	}
	for _, key := range others {
		p.record(key, p.judgeRoute(key))
	}
}

// sorted gives each key once, in order.
func sorted(keys []string) []string {
	slices.Sort(keys)
	return slices.Compact(keys)
}

// usersOf are the keys of the routes that looked at a cluster.
func (p *planner) usersOf(cluster string) (keys []string) {
	if p.base == nil {
		return nil // all are judged anyway
	}
	prefix := cluster + " "
	for name := range p.base.users.under(prefix) {
		keys = append(keys, strings.TrimPrefix(name, prefix))
	}
	return keys
}

// record puts a verdict in its place; nil is that the key is gone.
func (p *planner) record(key string, now *verdict) {
	old := p.judging.get(key)
	if old == nil && now == nil {
		return
	}
	p.changes = append(p.changes, change{key, old, now})
	p.counts.add(old, -1)
	p.counts.add(now, 1)
	if old != nil {
		p.sum.flip(old.sum)
		for _, cluster := range old.looked {
			p.using.del(cluster + " " + key)
		}
		p.troubling.del(key)
	}
	if now == nil {
		p.judging.del(key)
		return
	}
	p.judging.set(key, now)
	p.sum.flip(now.sum)
	for _, cluster := range now.looked {
		p.using.set(cluster+" "+key, struct{}{})
	}
	if len(now.faults)+len(now.notices) > 0 {
		p.troubling.set(key, now)
	}
}

// judgeKey gives the version of an operator's key to serve: as it stands, or
// its last good one, or nil. check finds what more is wrong with a version.
func (p *planner) judgeKey(key string, v *verdict, check func(*decoded) spec.Faults) *decoded {
	current := p.decoding.get(key)
	faults := current.faults
	if len(faults) == 0 && check != nil {
		faults = check(current)
	}
	if len(faults) == 0 {
		v.good = current
		return current
	}
	v.quarantined = true
	v.faults = append(v.faults, faults...)
	guard := faults
	if check != nil && current.Value != nil { // what else can be read of a value that does not decode
		guard = append(slices.Clone(faults), check(current)...)
	}
	if guardsIdentity(guard) {
		return nil
	}
	v.last = p.lastGood(kv.Key(key))
	if v.last == nil || check != nil && len(check(v.last)) > 0 {
		return nil
	}
	v.good = v.last
	return v.good
}

// judgeUnknown finds keys of features that this version does not have, so that
// none is stored and then ignored.
func (p *planner) judgeUnknown(key string) *verdict {
	current := p.decoding.get(key)
	if current == nil {
		return nil
	}
	v := &verdict{quarantined: true, faults: current.faults}
	if len(v.faults) == 0 {
		v.faults = spec.Faults{{Key: key, Problem: refusal}}
	}
	return v
}

// hash names what is effective: equal plans have equal hashes on every node,
// whatever way they came about.
func (p *plan) hash() string {
	h := sha256.New()
	h.Write(p.sum[:])
	for _, section := range []any{&p.settings.timeouts, &p.settings.ready, &p.settings.headers} {
		fmt.Fprintf(h, "section %s\n", spec.Encode(section))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func (p *plan) rev() kv.Rev { return p.view.Rev() }

// faults of all keys, in the order of the keys.
func (p *plan) faults() (faults spec.Faults) {
	for _, v := range p.troubled.under("") {
		faults = append(faults, v.faults...)
	}
	return faults
}

// notices are what works and may not be expected.
func (p *plan) notices() (notices spec.Faults) {
	for _, v := range p.troubled.under("") {
		notices = append(notices, v.notices...)
	}
	return notices
}

// quarantined yields the keys that are not served as they stand.
func (p *plan) quarantined() iter.Seq2[kv.Key, *verdict] {
	return func(yield func(kv.Key, *verdict) bool) {
		for key, v := range p.troubled.under("") {
			if v.quarantined && !yield(kv.Key(key), v) {
				return
			}
		}
	}
}

// since yields the changes that lead from before to p, which may be any plan or
// nil.
func (p *plan) since(before *plan) iter.Seq[change] {
	return func(yield func(change) bool) {
		if before != nil && p.base == before.id {
			for _, c := range p.changes {
				if !yield(c) {
					return
				}
			}
			return
		}
		if before == nil {
			before = &plan{}
		}
		for key, now := range p.verdicts.under("") {
			if !yield(change{key, before.verdicts.get(key), now}) {
				return
			}
		}
		for key, old := range before.verdicts.under("") {
			if p.verdicts.get(key) == nil && !yield(change{key, old, nil}) {
				return
			}
		}
	}
}
