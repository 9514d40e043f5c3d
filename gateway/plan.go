package gateway

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

// plan is what a table shall serve and what is wrong with the rest. It is
// immutable, touches nothing and starts nothing.
type plan struct {
	rev      kv.Rev
	decoded  map[kv.Key]*decoded
	routes   []*plannedRoute // by id
	clusters map[string]*plannedCluster
	settings settings
	faults   spec.Faults // of operator keys and static values, by key
	notices  spec.Faults
	// good is, for each operator key that is served as it stands or by its
	// last good version, the version that is served.
	good map[kv.Key]*decoded
	// quarantined are the keys that have faults, in good or not.
	quarantined map[kv.Key]bool
	shadowed    []*plannedRoute // static routes that an operator's key hides
}

// plannedRoute is a route of the effective table.
type plannedRoute struct {
	id      string
	key     string
	layer   string
	spec    *spec.Route
	cluster *plannedCluster // nil when blocked
	// blocked is set when the route is known to be meant but nothing good is
	// known of it: it answers 503.
	blocked bool
	problem string // why it is blocked, or serves an older version
	rev     kv.Rev // of the key, zero for static
	serving kv.Rev // of the version that is served
}

// plannedCluster is a cluster of the effective table, named or implied by a
// route's backends.
type plannedCluster struct {
	id           string
	policy       *spec.Cluster
	destinations []plannedDestination // by id; the order of turns
	blocked      bool                 // its key has no good version
}

type plannedDestination struct {
	id      string
	address spec.Address
}

// planner holds a plan while it is being made.
type planner struct {
	*plan
	static *spec.File
	// before gives the last good version of a key, nil when none is known.
	before func(kv.Key) *decoded
}

// newPlan judges the static file and the operator's keys together. previous
// may be nil; lastGood gives the version of a key to fall back to.
func newPlan(previous *plan, static *spec.File, view kv.View, lastGood func(kv.Key) *decoded) *plan {
	var cache map[kv.Key]*decoded
	if previous != nil {
		cache = previous.decoded
	}
	p := &planner{static: static, before: lastGood, plan: &plan{
		rev:         view.Rev(),
		decoded:     decodeView(view, cache),
		clusters:    map[string]*plannedCluster{},
		good:        map[kv.Key]*decoded{},
		quarantined: map[kv.Key]bool{},
	}}
	p.readSections()
	p.readClusters()
	p.readRoutes()
	p.refuseUnknown()
	sortFaults(p.faults)
	sortFaults(p.notices)
	return p.plan
}

// keys under prefix, in order.
func (p *planner) keys(prefix string) []kv.Key {
	var keys []kv.Key
	for key := range p.decoded {
		if strings.HasPrefix(string(key), prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// readSections takes the static sections, then the operator's over them.
func (p *planner) readSections() {
	for name, section := range p.static.Config {
		if !builtSections[name] {
			p.fault(spec.Fault{Key: configPrefix + name, Problem: refusal})
			continue
		}
		p.settings.set(section.Value)
	}
	for _, key := range p.keys(configPrefix) {
		if !builtSections[idOf(key)] {
			continue // refuseUnknown names it
		}
		if use := p.judge(key, nil); use != nil {
			p.settings.set(use.Value)
		} else if idOf(key) == "headers" {
			p.settings.headers = spec.Headers{} // trust nobody, whatever the file says
		}
	}
}

// judge gives the version of key to serve: as it stands, or its last good one,
// or nil. Faults of the current version are recorded; more are what further
// rules found in it.
func (p *planner) judge(key kv.Key, check func(*decoded) spec.Faults) *decoded {
	current := p.decoded[key]
	faults := current.faults
	if len(faults) == 0 && check != nil {
		faults = check(current)
	}
	if len(faults) == 0 {
		p.good[key] = current
		return current
	}
	p.quarantined[key] = true
	p.faults = append(p.faults, faults...)
	last := p.before(key)
	guard := faults
	if check != nil && current.Value != nil { // what else can be read of a value that does not decode
		guard = append(slices.Clone(faults), check(current)...)
	}
	if last == nil || guardsIdentity(guard) || check != nil && len(check(last)) > 0 {
		return nil
	}
	p.good[key] = last
	return last
}

// readClusters makes the named clusters: static ones, then the operator's over
// them. A cluster whose key has no good version hides the static one as well.
func (p *planner) readClusters() {
	for id, cluster := range p.static.Clusters {
		key := clusterPrefix + id
		p.faults = append(p.faults, settingsIn(key, cluster, refusedInCluster, refusal)...)
		p.notices = append(p.notices, settingsIn(key, cluster, noticedInCluster, notice)...)
		p.clusters[id] = newPlannedCluster(id, cluster)
	}
	for _, key := range p.keys(clusterPrefix) {
		use := p.judge(key, func(d *decoded) spec.Faults {
			return settingsIn(string(key), d.Value.(*spec.Cluster), refusedInCluster, refusal)
		})
		id := idOf(key)
		if use == nil {
			p.clusters[id] = &plannedCluster{id: id, policy: &spec.Cluster{}, blocked: true}
			continue
		}
		cluster := use.Value.(*spec.Cluster)
		p.notices = append(p.notices, settingsIn(string(key), cluster, noticedInCluster, notice)...)
		p.clusters[id] = newPlannedCluster(id, cluster)
	}
}

func newPlannedCluster(id string, policy *spec.Cluster) *plannedCluster {
	c := &plannedCluster{id: id, policy: policy}
	for _, name := range slices.Sorted(maps.Keys(policy.Destinations)) {
		c.destinations = append(c.destinations, plannedDestination{string(name), policy.Destinations[name].Address})
	}
	return c
}

// withBackends is the cluster that a route's own backends make: the policy of
// the named cluster of the same id, if there is one, and the backends as
// destinations in the order given.
func withBackends(id string, backends []spec.Address, named *plannedCluster) *plannedCluster {
	c := &plannedCluster{id: id, policy: &spec.Cluster{}}
	if named != nil {
		c.policy, c.blocked = named.policy, named.blocked
	}
	for i, address := range backends {
		c.destinations = append(c.destinations, plannedDestination{fmt.Sprint(i), address})
	}
	return c
}

// refuseUnknown finds keys of features that this version does not have, so
// that none is stored and then ignored.
func (p *planner) refuseUnknown() {
	for key, d := range p.decoded {
		built := strings.HasPrefix(string(key), routePrefix) || strings.HasPrefix(string(key), clusterPrefix) ||
			strings.HasPrefix(string(key), configPrefix) && builtSections[idOf(key)]
		if built {
			continue
		}
		p.quarantined[key] = true
		p.faults = append(p.faults, d.faults...)
		if len(d.faults) == 0 {
			p.fault(spec.Fault{Key: string(key), Problem: refusal})
		}
	}
}

func (p *planner) fault(f spec.Fault) { p.faults = append(p.faults, f) }

// hash names what is effective: equal plans have equal hashes on every node,
// whatever way they came about.
func (p *plan) hash() string {
	h := sha256.New()
	for _, r := range p.routes {
		fmt.Fprintf(h, "route %s %v %s\n", r.id, r.blocked, spec.Encode(r.spec))
		if r.cluster != nil {
			fmt.Fprintf(h, "cluster %s %v %s\n", r.cluster.id, r.cluster.destinations, spec.Encode(r.cluster.policy))
		}
	}
	for _, section := range []any{&p.settings.timeouts, &p.settings.ready, &p.settings.headers} {
		fmt.Fprintf(h, "section %s\n", spec.Encode(section))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func sortFaults(faults spec.Faults) {
	slices.SortStableFunc(faults, func(a, b spec.Fault) int { return cmp.Compare(a.Key, b.Key) })
}
