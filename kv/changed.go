package kv

import "slices"

// How far back a view can say what changed: at least maxTrailCommits commits and
// never more than twice as many, unless their keys are more than maxTrailKeys.
const (
	maxTrailCommits = 512
	maxTrailKeys    = 20_000
)

// ChangedSince gives the keys of both planes that were put or deleted on the way from
// before to v, each once, in ascending order; none if the two are one. A key may be among
// them that ended as it began. ok is false when v does not come from before, or
// does not remember so far back: a view remembers hundreds of commits, one that was read
// from disk or from the past none. The reader has to read all of v then. Of ephemeral keys
// that can always be told: where too much has changed for it to be remembered, the two
// are compared.
func (v View) ChangedSince(before View) (keys []Key, ok bool) {
	keys, ok = v.trail.since(before.head.Hash, v.head.Hash)
	if !ok {
		return nil, false
	}
	own, remembered := v.own.trail.since(before.own.mark, v.own.mark)
	if !remembered {
		own = v.own.differences(before.own)
	}
	if len(own) > 0 {
		keys = append(keys, own...)
		slices.Sort(keys)
	}
	return keys, true
}

// since gives what was touched on the way from one state to another, at which the trail
// ends.
func (t trail) since(since, end Hash) (keys []Key, ok bool) {
	if since == end {
		return nil, true
	}
	for _, last := range [...]*change{t.recent, t.older} {
		for c := last; c != nil; c = c.previous {
			keys = append(keys, c.keys...)
			if c.before == since {
				slices.Sort(keys)
				return slices.Compact(keys), true
			}
		}
	}
	return nil, false
}

// differences are the keys whose entries are not the same in two states, in order.
func (o owned) differences(before owned) (keys []Key) {
	next, old := o.below(""), before.below("")
	is, some := next()
	was, someOld := old()
	for some || someOld {
		switch {
		case !someOld || some && is.Key < was.Key:
			keys = append(keys, is.Key)
			is, some = next()
		case !some || was.Key < is.Key:
			keys = append(keys, was.Key)
			was, someOld = old()
		default:
			if is != was {
				keys = append(keys, is.Key)
			}
			is, some = next()
			was, someOld = old()
		}
	}
	return keys
}

// trail is the latest changes that led to a view, in two generations: when the
// recent one is full it becomes the older, and the older is forgotten whole.
// That bounds a trail without a copy and without a node that two views, of which
// neither comes from the other, would have to cut in different places.
type trail struct{ recent, older *change }

// change is what one commit touched. No change of the older generation is
// reached from one of the recent.
type change struct {
	before   Hash
	keys     []Key
	previous *change // in the same generation
	// commits and total count the changes of the generation up to this one and
	// the keys in them.
	commits, total int
}

// extend is the trail after a change of the state before. A change of too many keys is
// not remembered, nor what was before it. Nobody may write to keys any more.
func (t trail) extend(before Hash, keys []Key) trail {
	if len(keys) > maxTrailKeys {
		return trail{}
	}
	if t.recent.full(len(keys)) {
		t = trail{older: t.recent}
	}
	next := &change{before: before, keys: keys, previous: t.recent, commits: 1, total: len(keys)}
	if t.recent != nil {
		next.commits += t.recent.commits
		next.total += t.recent.total
	}
	t.recent = next
	return t
}

// full tells whether the generation that ends in c has no room for one more
// commit of so many keys.
func (c *change) full(keys int) bool {
	return c != nil && (c.commits == maxTrailCommits || c.total+keys > maxTrailKeys)
}
