package kv

import "slices"

// How far back a view can say what changed: at least maxTrailCommits commits and
// never more than twice as many, unless their keys are more than maxTrailKeys.
const (
	maxTrailCommits = 512
	maxTrailKeys    = 20_000
)

// ChangedSince gives the keys that were put or deleted on the way from before to
// v, each once, in ascending order; none if the two are one. A key may be among
// them that ended as it began. ok is false when v does not come from before, or
// does not remember so far back: a view remembers hundreds of commits, one that
// was read from disk or from the past none. The reader has to read all of v then.
func (v View) ChangedSince(before View) (keys []Key, ok bool) {
	since := before.head.Hash
	if v.head.Hash == since {
		return nil, true
	}
	for _, last := range [...]*change{v.trail.recent, v.trail.older} {
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

// extend is the trail after c. A commit of too many keys is not remembered, nor
// what was before it.
func (t trail) extend(c Commit) trail {
	if len(c.Effects) > maxTrailKeys {
		return trail{}
	}
	if t.recent.full(len(c.Effects)) {
		t = trail{older: t.recent}
	}
	next := &change{before: c.Prev, keys: make([]Key, len(c.Effects)), previous: t.recent, commits: 1, total: len(c.Effects)}
	for i, effect := range c.Effects {
		next.keys[i] = effect.Entry.Key
	}
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
