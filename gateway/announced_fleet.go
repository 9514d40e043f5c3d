package gateway

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"

	"grapevine/gateway/spec"
)

// fleet is all instances that announce themselves for one route id. It is immutable.
type fleet struct {
	id      string
	members []member // by their ids
	// route is what they announce, or have announced while the fleet lingers; nil when
	// that is nothing.
	route        *spec.Route
	destinations []plannedDestination // the members that serve, by their ids
	guarded      bool                 // route asks for a token
	excluded     int                  // members that do not serve
	sum          digest               // of the route and its destinations
	// until is when a route without instances is given up, zero for one that has some.
	until time.Time
}

// member is an instance and why it is no destination; empty: it is one.
type member struct {
	*instance
	why string
}

// size counts the members of a fleet, which may be nil.
func (f *fleet) size() int {
	if f == nil {
		return 0
	}
	return len(f.members)
}

// isThere tells whether somebody serves in the fleet, which may be nil.
func (f *fleet) isThere() bool { return f != nil && len(f.destinations) > 0 }

// lingers tells whether the last one who served has just gone.
func (f *fleet) lingers() bool { return f != nil && f.route != nil && len(f.destinations) == 0 }

// fleet gives that of a route id, nil if there is none.
func (p *planner) fleet(id string) *fleet { return p.judging.get(instancePrefix + id).fleetOf() }

func (v *verdict) fleetOf() *fleet {
	if v == nil {
		return nil
	}
	return v.fleet
}

// fleetKeys are those of a plan, which may be nil.
func (p *plan) fleetKeys() (keys []string) {
	if p == nil {
		return nil
	}
	for key := range p.verdicts.under(instancePrefix) {
		keys = append(keys, key)
	}
	return keys
}

// judgeFleet finds which instances of a route id serve, and what. Nil is that there
// are none, and none has gone of late.
func (p *planner) judgeFleet(key string) *verdict {
	f := &fleet{id: idOf(key)}
	size := p.judging.get(key).fleetOf().size() + 1 // as many as before, and one that came
	f.members = make([]member, 0, size)
	sound := make([]*instance, 0, size)
	for _, i := range p.announced.instances.under(key + "/") {
		m := member{i, i.problem}
		if m.why == "" {
			m.why = p.lost(i)
		}
		f.members = append(f.members, m)
		if m.why == "" {
			sound = append(sound, i)
		}
	}
	v := &verdict{fleet: f}
	if len(sound) > 0 {
		f.settle(elect(sound))
	} else {
		p.linger(key, f)
	}
	p.noteLinger(key, f.until)
	if f.route == nil && len(f.members) == 0 {
		return nil
	}
	v.sum = f.sum
	if notice := f.notice(key); notice != nil {
		v.notices = spec.Faults{*notice}
	}
	return v
}

// lost says who has taken an instance's address; empty: nobody.
func (p *planner) lost(i *instance) string {
	if by := p.announced.contested.get(string(i.key)); by != nil {
		return fmt.Sprintf("instance %s has announced its address since", by.name())
	}
	return ""
}

// settle makes what the leader announces the route, and all destinations that agree
// with it on path, prefix and access.
func (f *fleet) settle(leader *instance) {
	f.route = leader.route()
	f.guarded = leader.spec.RequireAuth || len(leader.spec.Claims) > 0
	f.sum = digestOf("fleet %s", spec.Encode(f.route))
	f.destinations = make([]plannedDestination, 0, len(f.members))
	for i := range f.members {
		m := &f.members[i]
		if m.why == "" && m.shape != leader.shape {
			m.why = fmt.Sprintf("it announces %s, but instance %s announces %s", m.says(), leader.name(), leader.says())
		}
		if m.why != "" {
			f.excluded++
			continue
		}
		f.destinations = append(f.destinations, m.destination())
		f.sum.flip(m.sum)
	}
}

// destination makes one of a good instance.
func (i *instance) destination() plannedDestination {
	d := plannedDestination{id: i.id, address: i.spec.Address, weight: 1, region: i.spec.Region, status: i.spec.Status, instance: i}
	if i.spec.Weight != nil {
		d.weight = *i.spec.Weight
	}
	if i.draining() {
		d.status = statusDraining
	}
	return d
}

// route is what a good instance announces: requests for its path go to the cluster of
// its route's id.
func (i *instance) route() *spec.Route {
	s, id := i.spec, idOf(fleetOf(i.key))
	r := &spec.Route{
		Meta: s.Meta, Path: s.Path, PathRemovePrefix: s.PathRemovePrefix, Cluster: spec.ClusterID(id),
		RequireAuth: s.RequireAuth, AllowAnonymous: s.AllowAnonymous,
	}
	if len(s.Claims) > 0 {
		r.Auth = &spec.RouteAuth{Claims: s.Claims}
	}
	return r
}

// says is what members may disagree about.
func (i *instance) says() string {
	words := []string{string(i.spec.Path)}
	if i.spec.PathRemovePrefix != "" {
		words = append(words, "without "+string(i.spec.PathRemovePrefix))
	}
	if i.spec.RequireAuth || len(i.spec.Claims) > 0 {
		words = append(words, "for who has a token")
		for _, claim := range i.spec.Claims {
			words = append(words, string(spec.Encode(claim)))
		}
	}
	if i.spec.AllowAnonymous {
		words = append(words, "for everybody")
	}
	return strings.Join(words, " ")
}

// faction is the instances that announce one definition of a route.
type faction struct {
	leader   *instance // the one of the lowest id
	stays    bool      // one of them is not draining
	newest   *instance // one of the highest version
	size     int
	youngest time.Time
}

// elect gives the instance whose definition all have to agree with: that of instances
// of which one stays, of the highest version, of the most, of who started last, of
// the lowest id. Each node elects the same one.
func elect(sound []*instance) *instance {
	factions := map[digest]*faction{}
	var f *faction
	for _, i := range sound { // by their ids
		if f == nil || f.leader.defines != i.defines { // mostly all agree
			f = factions[i.defines]
		}
		if f == nil {
			f = &faction{leader: i, newest: i}
			factions[i.defines] = f
		}
		f.size++
		f.stays = f.stays || !i.draining()
		if i.spec.Version != f.newest.spec.Version && semver.Compare(versionOf(i), versionOf(f.newest)) > 0 {
			f.newest = i
		}
		if i.spec.StartedAt.After(f.youngest) {
			f.youngest = i.spec.StartedAt.Time
		}
	}
	var best *faction
	for _, f := range factions {
		if best == nil || f.before(best) {
			best = f
		}
	}
	return best.leader
}

func (f *faction) before(other *faction) bool {
	if f.stays != other.stays {
		return f.stays
	}
	return cmp.Or(
		semver.Compare(versionOf(other.newest), versionOf(f.newest)), cmp.Compare(other.size, f.size), other.youngest.Compare(f.youngest),
		cmp.Compare(f.leader.id, other.leader.id),
	) < 0
}

// versionOf is a version as package semver reads it: what is no semantic version is
// below all that are.
func versionOf(i *instance) string { return "v" + strings.TrimPrefix(i.spec.Version, "v") }

// notice tells of members that do not serve, nil if all do. It names a few.
func (f *fleet) notice(key string) *spec.Fault {
	const most = 3
	var names []string
	silent := 0
	for _, m := range f.members {
		if m.why == "" {
			continue
		}
		if silent++; silent <= most {
			names = append(names, m.id+": "+m.why)
		}
	}
	if silent == 0 {
		return nil
	}
	if silent > most {
		names = append(names, "…")
	}
	return &spec.Fault{Key: key, Problem: fmt.Sprintf("%d of %d instances get no requests: %s", silent, len(f.members), strings.Join(names, "; "))}
}

// enlist makes the instances of a fleet, which may be nil, the destinations of the
// cluster, unless an operator has listed others, and gives what follows from it.
func (c *plannedCluster) enlist(key string, f *fleet, v *verdict) (sum digest) {
	switch {
	case !f.isThere():
	case c.layer == layerOperator && len(c.destinations) > 0:
		v.notices = append(v.notices, spec.Fault{
			Key: key, Field: "destinations",
			Problem: fmt.Sprintf("%d instances announce themselves for it too; its own destinations are used, being the operator's", len(f.destinations)),
		})
	default:
		c.destinations, c.guarded, c.layer = slices.Clip(f.destinations), f.guarded, layerAnnounced
		return f.sum
	}
	return digest{}
}
