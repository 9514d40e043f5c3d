package gateway

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

// The announced layer lies between the operator's and the static one. Its keys are
// ephemeral: each is one instance, and all instances of a route id together make a
// fleet: the route of that id, and the destinations of the cluster of that id.

// instancePrefix is where services announce themselves.
const instancePrefix = "gateway/instances/"

// isInstance tells whether a key is one instance's: instancePrefix, the id of its
// route, and its own.
func isInstance(key kv.Key) bool {
	ids, ok := strings.CutPrefix(string(key), instancePrefix)
	route, id, two := strings.Cut(ids, "/")
	return ok && two && route != "" && id != "" && !strings.Contains(id, "/")
}

// fleetOf is the key of an instance's fleet, which no node writes.
func fleetOf(instance kv.Key) string {
	return string(instance[:strings.LastIndexByte(string(instance), '/')])
}

// instance is an announcement as it was read. It is immutable.
type instance struct {
	key     kv.Key
	id      string
	value   []byte
	own     kv.Ownership
	spec    *spec.Instance // nil when nothing of it can be read
	problem string         // why it can't be used; empty: it can
	shape   string         // equal for instances that agree on path, prefix and access
	defines digest         // equal for instances that announce the same route
	sum     digest         // of what all nodes know alike
}

// announced is what a plan has read of announcements. It is immutable.
type announced struct {
	instances index[*instance] // by key
	claims    index[*instance] // by address, space, key
	// contested are the instances whose address a newer one has, by key; the value is
	// that one.
	contested index[*instance]
	// lingering are the keys of fleets without instances, and when their routes are
	// given up.
	lingering index[time.Time]
}

// announcing is a series of changes to what is announced.
type announcing struct {
	instances, claims, contested *indexEdit[*instance]
	lingering                    *indexEdit[time.Time]
}

func (a announced) edit() announcing {
	return announcing{a.instances.edit(), a.claims.edit(), a.contested.edit(), a.lingering.edit()}
}

func (e *announcing) now() announced {
	return announced{e.instances.now(), e.claims.now(), e.contested.now(), e.lingering.now()}
}

// newInstance reads an entry, unless before, which may be nil, is the same.
func newInstance(entry kv.Entry, before *instance) *instance {
	same := before != nil && bytes.Equal(before.value, entry.Value)
	if same && before.own == *entry.Own {
		return before
	}
	i := &instance{key: entry.Key, id: idOf(string(entry.Key)), value: entry.Value, own: *entry.Own}
	if same {
		i.spec, i.problem, i.shape, i.defines = before.spec, before.problem, before.shape, before.defines
	} else {
		i.read()
	}
	i.sum = digestOf("instance %s %t %s", i.key, i.own.Draining, i.value)
	return i
}

// read makes sense of the value. Other nodes are believed in nothing: it is checked
// as if it had been written here.
func (i *instance) read() {
	d := decodeEntry(i.key, i.value, kv.Rev{})
	i.spec, _ = d.Value.(*spec.Instance)
	switch {
	case len(d.faults) > 0:
		i.problem = shortly(d.faults[0])
	case d.Key != string(i.key):
		i.problem = fmt.Sprintf("its key is written as %s", d.Key)
	case i.spec.Tunnel:
		i.problem = "tunnel: " + refusal
	}
	if i.problem != "" {
		return
	}
	claims := spec.Encode(&spec.RouteAuth{Claims: i.spec.Claims})
	i.shape = fmt.Sprintf("%s %s %t %t %s", i.spec.Path.Template().Shape(), i.spec.PathRemovePrefix.Template().Shape(),
		i.spec.RequireAuth, i.spec.AllowAnonymous, claims)
	i.defines = sha256.Sum256(spec.Encode(i.route()))
}

// name is the key without what all have, empty for nil.
func (i *instance) name() string {
	if i == nil {
		return ""
	}
	return strings.TrimPrefix(string(i.key), instancePrefix)
}

// address is where the instance is reached, empty when that can't be read.
func (i *instance) address() spec.Address {
	if i.spec == nil {
		return ""
	}
	return i.spec.Address
}

// claim is the name under which a good instance claims its address.
func (i *instance) claim() string { return claimsOf(i.spec.Address) + string(i.key) }

func claimsOf(address spec.Address) string { return string(address) + " " }

// draining tells whether the instance asks for no new requests, by its owner or
// itself.
func (i *instance) draining() bool {
	return i.own.Draining || i.spec != nil && i.spec.Status == statusDraining
}

// sameProcess tells whether two announcements are of one process, that serves
// several routes at one address.
func (i *instance) sameProcess(other *instance) bool {
	return i.id == other.id && i.own.Owner == other.own.Owner
}

// newer orders claims of one address, without this node's clock: one whose owner
// lives is newer than an orphaned one; then what started later, by its own word, a
// host having one clock; then the later mark of its owner. The rest makes the order
// total, so that all nodes agree.
func newer(a, b *instance) int {
	orphaned := func(i *instance) int {
		if i.own.Orphaned {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(orphaned(a), orphaned(b)), b.spec.StartedAt.Compare(a.spec.StartedAt.Time), b.own.Mark.Compare(a.own.Mark),
		cmp.Compare(b.own.Owner, a.own.Owner), cmp.Compare(b.key, a.key),
	)
}

// readInstances brings p.announced in line with the view, given the keys that may
// have changed, and gives the fleets that have.
func (p *planner) readInstances(keys []kv.Key, previous *plan) (fleets []string) {
	now := make([]*instance, len(keys))
	inParallel(len(keys), func(i int) {
		if entry, there := p.view.Get(keys[i]); there {
			now[i] = newInstance(entry, previous.instance(keys[i]))
		}
	})
	var addresses []spec.Address
	edit := p.announced.edit()
	for i, key := range keys {
		before := edit.instances.get(string(key))
		if before == now[i] {
			continue
		}
		fleets = append(fleets, fleetOf(key))
		addresses = append(addresses, edit.replace(before, now[i])...)
	}
	p.announced = edit.now()
	fleets = append(fleets, p.settleClaims(addresses)...)
	return append(fleets, p.overdue()...)
}

// instance is one of the plan's, which may be nil.
func (p *plan) instance(key kv.Key) *instance {
	if p == nil {
		return nil
	}
	return p.announced.instances.get(string(key))
}

// replace puts an instance in the place of another, either of which may be nil, and
// gives the addresses that they claim.
func (e *announcing) replace(before, now *instance) (addresses []spec.Address) {
	if before != nil {
		e.instances.del(string(before.key))
		e.contested.del(string(before.key))
	}
	if before != nil && before.problem == "" {
		e.claims.del(before.claim())
		addresses = append(addresses, before.spec.Address)
	}
	if now == nil {
		return addresses
	}
	e.instances.set(string(now.key), now)
	if now.problem == "" {
		e.claims.set(now.claim(), now)
		addresses = append(addresses, now.spec.Address)
	}
	return addresses
}

// settleClaims finds who has each of the addresses, and gives the fleets of those for
// whom that is another one than before.
func (p *planner) settleClaims(addresses []spec.Address) (fleets []string) {
	slices.Sort(addresses)
	contested := p.announced.contested.edit()
	for _, address := range slices.Compact(addresses) {
		var claims []*instance
		for _, i := range p.announced.claims.under(claimsOf(address)) {
			claims = append(claims, i)
		}
		if len(claims) == 0 {
			continue
		}
		newest := slices.MinFunc(claims, newer)
		for _, i := range claims {
			by := newest
			if i.sameProcess(newest) {
				by = nil
			}
			if before := contested.get(string(i.key)); before.name() == by.name() {
				continue
			}
			fleets = append(fleets, fleetOf(i.key))
			if by == nil {
				contested.del(string(i.key))
			} else {
				contested.set(string(i.key), by)
			}
		}
	}
	p.announced.contested = contested.now()
	return fleets
}

// overdue are the fleets whose routes are given up by now.
func (p *planner) overdue() (fleets []string) {
	for key, until := range p.announced.lingering.under("") {
		if !p.now.Before(until) {
			fleets = append(fleets, key)
		}
	}
	return fleets
}
