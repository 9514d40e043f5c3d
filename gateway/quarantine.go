package gateway

import (
	"encoding/json"
	"iter"
	"log/slog"
	"strings"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

// Quarantine: a key whose value can't be served keeps its last good version
// live, and gives it back by itself when a good value comes. That version is
// kept on this node's disk from the moment the fault shows, so a restart serves
// it too. Where the fault is in what guards access, an older version could be
// the weaker one, so the route answers 503 instead.

// Keeper holds names and values of this node alone, durably.
type Keeper interface {
	SetLocal(name string, value []byte) error
	DeleteLocal(name string) error
	LocalUnder(prefix string) iter.Seq2[string, []byte]
}

// keepPrefix is where last good versions are kept.
const keepPrefix = "quarantine/"

// kept is the stored form of a last good version.
type kept struct {
	Rev   string          `json:"rev"`
	Value json.RawMessage `json:"value"`
}

// identityFields decide who may do what. A fault in one of them, or below,
// never brings back an older version.
var identityFields = []string{"requireAuth", "allowAnonymous", "auth", "forwardAuthorization", "clients", "tls", "trustedProxies", "trustAllProxies"}

func guardsIdentity(faults spec.Faults) bool {
	for _, f := range faults {
		for _, field := range identityFields {
			rest, ok := strings.CutPrefix(f.Field, field)
			if ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
				return true
			}
		}
	}
	return false
}

// readKept loads the last good versions of an earlier run.
func readKept(keeper Keeper, logger *slog.Logger) map[kv.Key]*decoded {
	versions := map[kv.Key]*decoded{}
	for name, data := range keeper.LocalUnder(keepPrefix) {
		key := kv.Key(strings.TrimPrefix(name, keepPrefix))
		var k kept
		if err := json.Unmarshal(data, &k); err != nil {
			logger.Error("kept version is unreadable", "key", key, "err", err)
			continue
		}
		rev, err := kv.ParseRev(k.Rev, 0)
		if err != nil {
			logger.Error("kept version is unreadable", "key", key, "err", err)
			continue
		}
		if d := decodeEntry(key, k.Value, rev); len(d.faults) == 0 {
			versions[key] = d
		}
	}
	return versions
}

// keepGood brings the kept versions in line with a plan that goes live: what
// is newly quarantined is kept, what has healed or gone is let go.
func (g *Gateway) keepGood(p *plan) {
	for key := range g.kept {
		if v := p.verdicts.get(string(key)); v == nil || !v.quarantined {
			delete(g.kept, key)
			g.logIf(g.keeper.DeleteLocal(keepPrefix+string(key)), "kept version stays on disk", key)
		}
	}
	for key, v := range p.quarantined() {
		if v.good == nil || g.kept[key] == v.good {
			continue
		}
		if err := g.keep(key, v.good); err != nil {
			g.logIf(err, "last good version is not on disk", key) // the next plan tries again
			continue
		}
		g.kept[key] = v.good
	}
}

func (g *Gateway) keep(key kv.Key, good *decoded) error {
	data, err := json.Marshal(kept{Rev: good.rev.String(), Value: good.JSON})
	if err != nil {
		return err
	}
	return g.keeper.SetLocal(keepPrefix+string(key), data)
}

func (g *Gateway) logIf(err error, message string, key kv.Key) {
	if err != nil {
		g.logger.Error(message, "key", key, "err", err)
	}
}

// lastGood is the version of key to fall back to: the one that is live, else
// the one kept by an earlier run.
func (g *Gateway) lastGood(key kv.Key) *decoded {
	if g.live != nil {
		if v := g.live.verdicts.get(string(key)); v != nil && v.good != nil {
			return v.good
		}
	}
	return g.kept[key]
}
