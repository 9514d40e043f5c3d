package cluster

import (
	"time"

	"grapevine/kv"
)

// How long the ephemeral keys of a node outlive what this node knows of it. Times are
// this node's own, on its monotonic clock, and never leave it.
const (
	// unlistedTime is how long what is known of an owner that is no member is not shown.
	unlistedTime = 10 * time.Second
	// holdTime is how long the keys of a node that said that it restarts stay as they
	// are.
	holdTime = 30 * time.Second
	// orphanTTL is how long the keys of a node that can't be reached are shown.
	orphanTTL = 60 * time.Second
	// hiddenTime is how long they are kept after that, for a node that comes back as it
	// was.
	hiddenTime = time.Hour
	// silentTime is how long nobody may answer at an orphaned key before it is not shown
	// any more.
	silentTime = 30 * time.Second
)

// The mass-death guard: when more than massShare of the members, and at least massLeast,
// die within massTime, then it may be this node that is cut off.
const (
	massTime  = 30 * time.Second
	massShare = 0.3
	massLeast = 2
)

// presence is what this node's membership says of an owner.
type presence int

const (
	noMember presence = iota // no member, and none that was
	presentNow
	absent
	departed
)

// life is what this node makes of that.
type life struct {
	state kv.OwnerState
	// waited is how long it has been in this state, as far as that counts.
	waited time.Duration
	lost   bool // an active owner of which nothing is heard
	purge  bool
}

// next is the life after a time during which an owner was seen so. held says that the
// owner has announced a restart; frozen, that this node does not trust what it sees.
func (l life) next(seen presence, held, frozen bool, passed time.Duration) life {
	switch seen {
	case presentNow:
		return life{state: kv.OwnerActive}
	case departed:
		return life{state: kv.OwnerHidden, purge: true}
	}
	if frozen {
		passed = 0
	}
	l.waited += passed
	switch l.state {
	case kv.OwnerActive:
		if !l.lost {
			l.lost, l.waited = true, 0
		}
		if held && l.waited < holdTime {
			return l
		}
		return life{state: kv.OwnerOrphaned}
	case kv.OwnerUnlisted:
		if seen == absent || l.waited >= unlistedTime {
			return life{state: kv.OwnerOrphaned}
		}
	case kv.OwnerOrphaned:
		if l.waited >= orphanTTL {
			return life{state: kv.OwnerHidden}
		}
	case kv.OwnerHidden:
		l.purge = l.waited >= hiddenTime
	}
	return l
}

// deathGuard notices when many members die at once.
type deathGuard struct {
	deaths []time.Time
	frozen bool
}

// see takes in how many members have died just now, how many live, this node included,
// and how many are known that have not left. It reports whether it freezes, or thaws, now.
//
// It thaws when nobody has died for massTime and this node hears from more than a half of all:
// then it is the others that are gone.
func (g *deathGuard) see(now time.Time, died, living, known int) (changed bool) {
	for range died {
		g.deaths = append(g.deaths, now)
	}
	for len(g.deaths) > 0 && now.Sub(g.deaths[0]) > massTime {
		g.deaths = g.deaths[1:]
	}
	many := len(g.deaths) >= massLeast && float64(len(g.deaths)) > massShare*float64(living+len(g.deaths))
	was := g.frozen
	switch {
	case many:
		g.frozen = true
	case len(g.deaths) == 0 && 2*living > known:
		g.frozen = false
	}
	return g.frozen != was
}
