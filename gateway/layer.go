package gateway

import (
	"crypto/sha256"
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
	hash   [sha256.Size]byte
	faults spec.Faults
}

// decodeView reads every key under gateway/, taking from before what has not
// changed.
func decodeView(view kv.View, before map[kv.Key]*decoded) map[kv.Key]*decoded {
	now := make(map[kv.Key]*decoded, len(before))
	for entry := range view.Under(ownPrefix) {
		if spec.Ephemeral(string(entry.Key)) {
			continue
		}
		if old := before[entry.Key]; old != nil && old.rev == entry.ModRev {
			now[entry.Key] = old
			continue
		}
		now[entry.Key] = decodeEntry(entry.Key, entry.Value, entry.ModRev)
	}
	return now
}

func decodeEntry(key kv.Key, value []byte, rev kv.Rev) *decoded {
	d := &decoded{rev: rev}
	var err error
	d.Decoded, err = spec.Decode(string(key), value, spec.FormJSON)
	d.faults = asFaults(string(key), err)
	d.hash = sha256.Sum256(d.JSON)
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
func idOf(key kv.Key) string {
	return string(key[strings.LastIndexByte(string(key), '/')+1:])
}
