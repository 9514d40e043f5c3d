package gateway

import (
	"cmp"
	"encoding/json"
	"iter"
	"log/slog"
	"slices"
	"strings"

	"grapevine/gateway/routing"
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

// blockedRules are the rules of a route that answers 503: all that the broken
// version may have been meant to take. What can't be read or is only a part of
// what was written narrows nothing, so conditions are left out.
//
// Only hosts are kept: without them the route would answer 503 for every host. A
// route whose hosts can't be read takes no request, unless it guards access, when
// nothing less strict may answer in its place.
func blockedRules(id string, r *spec.Route, faults spec.Faults, value any) (rules []*routing.Rule) {
	wide := &spec.Route{Order: r.Order, Path: r.Path, Hosts: readable(r.Hosts), CaseInsensitive: true}
	if mentions(faults, "order") {
		wide.Order = firstOrder
	}
	if len(wide.Hosts) == 0 && mentions(faults, "hosts") && !guardsAccess(r) {
		return nil
	}
	if wide.Path != "" {
		rules = append(rules, routing.NewRule(id, wide, value))
	}
	if r.PathRegex != "" {
		wide.Path, wide.PathRegex = "", r.PathRegex
		rules = append(rules, routing.NewRule(id, wide, value))
	}
	return rules
}

// firstOrder is the lowest that spec.Route's order may be.
const firstOrder = -1_000_000

func readable(hosts []spec.Host) []spec.Host {
	return slices.DeleteFunc(slices.Clone(hosts), func(h spec.Host) bool { return h == "" })
}

// guardsAccess tells whether a route asks who the client is.
func guardsAccess(r *spec.Route) bool {
	return r.RequireAuth || r.Auth != nil || len(r.Clients) > 0
}

// mentions tells whether one of the faults is in the field, or below it.
func mentions(faults spec.Faults, field string) bool {
	return slices.ContainsFunc(faults, func(f spec.Fault) bool {
		rest, ok := strings.CutPrefix(f.Field, field)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// identityFields decide who may do what. A fault in one of them, or below,
// never brings back an older version.
var identityFields = []string{"requireAuth", "allowAnonymous", "auth", "forwardAuthorization", "clients", "tls", "trustedProxies", "trustAllProxies"}

func guardsIdentity(faults spec.Faults) bool {
	return slices.ContainsFunc(identityFields, func(field string) bool { return mentions(faults, field) })
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
		if v.last == nil || g.kept[key] == v.last {
			continue
		}
		if err := g.keep(key, v.last); err != nil {
			g.logIf(err, "last good version is not on disk", key) // the next plan tries again
			continue
		}
		g.kept[key] = v.last
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
		if v := g.live.verdicts.get(string(key)); v != nil && cmp.Or(v.good, v.last) != nil {
			return cmp.Or(v.good, v.last)
		}
	}
	return g.kept[key]
}
