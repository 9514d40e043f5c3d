package gateway

import (
	"slices"
	"strings"

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
	layerOperator = "operator"
	layerStatic   = "static"
)

// The prefixes that the gateway reads.
const (
	routePrefix   = "gateway/routes/"
	clusterPrefix = "gateway/clusters/"
	configPrefix  = "gateway/config/"
	ownPrefix     = "gateway/"
)

// decoded is one operator key as it was read. It is immutable and re-used while
// the key's revision stays the same.
type decoded struct {
	spec.Decoded
	rev    kv.Rev
	faults spec.Faults
}

// read brings p.decoded in line with the view and gives the keys that changed
// since previous; all of them when that can't be told. Only then every key is
// looked at.
func (p *planner) read(previous *plan) (changed []kv.Key) {
	if p.base != nil {
		changed, _ = p.view.ChangedSince(p.base.view)
		changed = slices.DeleteFunc(changed, func(key kv.Key) bool { return !own(key) })
		for _, key := range changed {
			p.readKey(key, p.base)
		}
		return changed
	}
	for entry := range p.view.Under(ownPrefix) {
		if own(entry.Key) {
			changed = append(changed, entry.Key)
			p.readKey(entry.Key, previous)
		}
	}
	return changed
}

// own tells whether key is an operator's that the gateway reads.
func own(key kv.Key) bool {
	return strings.HasPrefix(string(key), ownPrefix) && !spec.Ephemeral(string(key))
}

func (p *planner) readKey(key kv.Key, before *plan) {
	entry, there := p.view.Get(key)
	if !there {
		p.decoding.del(string(key))
		return
	}
	if before != nil {
		if old := before.decoded.get(string(key)); old != nil && old.rev == entry.ModRev {
			p.decoding.set(string(key), old)
			return
		}
	}
	p.decoding.set(string(key), decodeEntry(key, entry.Value, entry.ModRev))
}

func decodeEntry(key kv.Key, value []byte, rev kv.Rev) *decoded {
	d := &decoded{rev: rev}
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
