package gateway

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

// Source is where the configuration comes from. Changed is taken before View,
// so that no change is missed.
type Source interface {
	View() kv.View
	// Changed is closed at the next change.
	Changed() <-chan struct{}
}

// Layers, from the one that wins to the one that shows through.
const (
	layerOperator  = "operator"
	layerAnnounced = "announced"
	layerStatic    = "static"
)

// The prefixes that the gateway reads.
const (
	routePrefix   = "gateway/routes/"
	clusterPrefix = "gateway/clusters/"
	configPrefix  = "gateway/config/"
	ownPrefix     = "gateway/"
)

// decoded is one operator key as it was read. It is immutable and re-used while
// the key's revision and value stay the same: a node that goes over to another cluster
// may find another value at the same revision.
type decoded struct {
	spec.Decoded
	rev    kv.Rev
	value  []byte
	faults spec.Faults
}

// read brings what p has read in line with the view, and gives the keys to judge
// anew: those that changed since previous, and the fleets of instances that did; all
// of them when that can't be told. Only then every key is looked at.
func (p *planner) read(previous *plan) (stale []string) {
	if p.base == nil {
		stale = p.readAll(previous)
		return append(stale, p.readInstances(p.instanceKeys(), previous)...)
	}
	changed, _ := p.view.ChangedSince(p.base.view)
	var instances []kv.Key
	for _, key := range changed {
		switch {
		case own(key):
			p.readKey(key, p.base)
			stale = append(stale, string(key))
		case isInstance(key):
			instances = append(instances, key)
		}
	}
	return append(stale, p.readInstances(instances, previous)...)
}

// readAll decodes on all processors: of the making of a first table that is
// most.
func (p *planner) readAll(previous *plan) (keys []string) {
	var entries []kv.Entry
	for entry := range p.view.Under(ownPrefix) {
		if own(entry.Key) {
			entries = append(entries, entry)
		}
	}
	read := make([]*decoded, len(entries))
	inParallel(len(entries), func(i int) { read[i] = decodeAfter(previous, entries[i]) })
	for i, entry := range entries {
		p.decoding.set(string(entry.Key), read[i])
		keys = append(keys, string(entry.Key))
	}
	return keys
}

// instanceKeys are those of all instances that the view shows.
func (p *planner) instanceKeys() (keys []kv.Key) {
	for entry := range p.view.Under(instancePrefix) {
		if isInstance(entry.Key) {
			keys = append(keys, entry.Key)
		}
	}
	return keys
}

// inParallel calls do with each of the first n numbers, on all processors when they
// are many.
func inParallel(n int, do func(i int)) {
	var next atomic.Int64
	var broken atomic.Value
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 1+n/64) {
		workers.Go(func() {
			defer func() { // in the goroutine that makes the table a panic is caught
				if cause := recover(); cause != nil {
					broken.Store(fmt.Errorf("%v\n%s", cause, debug.Stack()))
				}
			}()
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
	workers.Wait()
	if cause := broken.Load(); cause != nil {
		panic(cause)
	}
}

// own tells whether key is an operator's that the gateway reads.
func own(key kv.Key) bool {
	return strings.HasPrefix(string(key), ownPrefix) && !spec.Ephemeral(string(key))
}

func (p *planner) readKey(key kv.Key, before *plan) {
	if entry, there := p.view.Get(key); there {
		p.decoding.set(string(key), decodeAfter(before, entry))
	} else {
		p.decoding.del(string(key))
	}
}

// decodeAfter takes from a plan, which may be nil, what has not changed since.
func decodeAfter(before *plan, entry kv.Entry) *decoded {
	if before != nil {
		if old := before.decoded.get(string(entry.Key)); old != nil && old.rev == entry.ModRev && bytes.Equal(old.value, entry.Value) {
			return old
		}
	}
	return decodeEntry(entry.Key, entry.Value, entry.ModRev)
}

func decodeEntry(key kv.Key, value []byte, rev kv.Rev) *decoded {
	d := &decoded{rev: rev, value: value}
	var err error
	d.Decoded, err = spec.Decode(string(key), value, spec.FormJSON)
	d.faults = asFaults(string(key), err)
	return d
}

// asFaults makes one fault of an error that is none.
func asFaults(key string, err error) spec.Faults {
	switch err := err.(type) {
	case nil:
		return nil
	case spec.Faults:
		return err
	default:
		return spec.Faults{{Key: key, Problem: err.Error()}}
	}
}

// idOf is the last segment of a key.
func idOf(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }
