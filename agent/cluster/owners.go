package cluster

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"grapevine/kv"
	"grapevine/kv/gossip"
)

const (
	// lookEvery is how often the owners' times are looked at, besides every change.
	lookEvery = 500 * time.Millisecond
	// lookPause gathers changes of owners.
	lookPause = 10 * time.Millisecond
	// askOrphans is how often it is asked whether somebody answers at an orphaned key, and
	// asking how many are asked at once.
	askOrphans = 5 * time.Second
	asking     = 16
	// keepEvery is how often at most what is known of owners is written.
	keepEvery = time.Second
)

// Owners is what a node makes of the owners of ephemeral keys.
type Owners struct {
	// Active, Orphaned and Hidden are how many there are.
	Active, Orphaned, Hidden int
	// Keys is how many ephemeral keys are shown.
	Keys int
	// Frozen says that so many members died at once that this node may be the one that is
	// cut off: orphaned keys stay until that is over. Freezes counts how often.
	Frozen  bool
	Freezes uint64
	// Silenced counts the orphaned keys at which nobody answered any more.
	Silenced uint64
	// Refused counts the changes that were not taken, as there are too many owners or bytes.
	Refused uint64
}

// owners follows whether the owners of ephemeral keys live, and tells the store.
type owners struct {
	store   *kv.Store
	self    kv.OwnerID
	members func() []gossip.Member
	changed func() <-chan struct{}
	answers func(kv.Entry) bool // nil: nobody is asked
	log     *slog.Logger

	mu     sync.Mutex // guards what is below
	lives  map[kv.OwnerID]life
	guard  deathGuard
	looked time.Time
	silent map[claimed]time.Time // since when nobody answers
	counts Owners
}

// claimed is one owner's claim of a key.
type claimed struct {
	owner kv.OwnerID
	key   kv.Key
}

func newOwners(m *member) *owners {
	o := m.n.o
	return &owners{
		store: o.Store, self: kv.OwnerID(o.ID), members: m.gossip.Members, changed: m.gossip.Changed, answers: o.Answers, log: o.Logger,
		looked: time.Now(), lives: map[kv.OwnerID]life{}, silent: map[claimed]time.Time{},
	}
}

// follow looks at the owners until ctx is over.
func (o *owners) follow(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		members, keys := o.changed(), o.store.OwnerChanged()
		tick := ticker.C
		if o.look(time.Now()) {
			tick = nil // where all live, time changes nothing
		}
		select {
		case <-members:
		case <-keys:
			// The owners' own changes may be many; that one is new can wait a moment.
			if !sleep(ctx, lookPause) {
				return
			}
		case <-tick:
		case <-ctx.Done():
			return
		}
	}
}

// look takes in what the membership says now. It reports whether all owners live, and
// nobody died of late.
func (o *owners) look(now time.Time) (calm bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	passed := now.Sub(o.looked)
	o.looked = now
	seen := map[kv.OwnerID]presence{}
	known, living := 0, 0
	for _, m := range o.members() {
		s := presenceOf(m)
		seen[kv.OwnerID(m.ID)] = s
		if s != departed {
			known++
		}
		if s == presentNow {
			living++
		}
	}
	o.protect(now, o.dying(seen), living, known)
	statuses := o.store.Owners()
	for _, status := range statuses {
		if _, listed := seen[status.Owner]; !listed {
			seen[status.Owner] = noMember
		}
	}
	held := map[kv.OwnerID]kv.OwnerStatus{}
	for _, status := range statuses {
		held[status.Owner] = status
	}
	for owner, s := range seen {
		if owner != o.self {
			o.decide(owner, s, held[owner], passed)
		}
	}
	o.forget(seen)
	o.count()
	return o.counts.Orphaned+o.counts.Hidden == 0 && len(o.guard.deaths) == 0 && !o.guard.frozen && !o.anyLost()
}

func (o *owners) anyLost() bool {
	for _, l := range o.lives {
		if l.lost {
			return true
		}
	}
	return false
}

func presenceOf(m gossip.Member) presence {
	switch {
	case alive(m):
		return presentNow
	case m.Status == gossip.Left:
		return departed
	}
	return absent
}

// dying counts those who lived when it was looked last, and do not now.
func (o *owners) dying(seen map[kv.OwnerID]presence) (died int) {
	for owner, l := range o.lives {
		if s, listed := seen[owner]; l.state == kv.OwnerActive && !l.lost && listed && s == absent {
			died++
		}
	}
	return died
}

// protect keeps the times of orphans from passing while so many die that this node may be
// the one that is alone.
func (o *owners) protect(now time.Time, died, living, known int) {
	if !o.guard.see(now, died, living, known) {
		return
	}
	o.counts.Frozen = o.guard.frozen
	if o.guard.frozen {
		o.counts.Freezes++
		o.log.Warn("many members died at once: their ephemeral keys are kept until more than half of all are heard again",
			"within", massTime.String(), "living", living, "known", known)
		return
	}
	o.log.Info("the members that are missing are taken for dead again", "living", living, "known", known)
}

// decide moves one owner on.
func (o *owners) decide(owner kv.OwnerID, seen presence, status kv.OwnerStatus, passed time.Duration) {
	before, known := o.lives[owner]
	if !known {
		before, passed = life{state: status.State}, 0
	}
	// One that was just found dead has not been so for all of the time.
	if seen != presentNow && before.state == kv.OwnerActive && !before.lost {
		passed = 0
	}
	now := before.next(seen, status.Held, o.guard.frozen, passed)
	o.lives[owner] = now
	if now.state != before.state || !known {
		if known && status.Keys > 0 {
			o.log.Info("owner of ephemeral keys is "+now.state.String(), "owner", string(owner), "keys", status.Keys)
		}
		o.store.SetOwner(owner, now.state)
	}
	if now.purge && !status.Purged && status.Owner != "" {
		o.log.Info("ephemeral keys are dropped", "owner", string(owner), "keys", status.Keys)
		o.store.PurgeOwner(owner)
	}
}

// forget drops those of whom nothing is known any more.
func (o *owners) forget(seen map[kv.OwnerID]presence) {
	for owner := range o.lives {
		if _, there := seen[owner]; !there {
			delete(o.lives, owner)
			o.store.ForgetOwner(owner)
		}
	}
}

func (o *owners) count() {
	o.counts.Active, o.counts.Orphaned, o.counts.Hidden = 1, 0, 0 // this node lives
	for _, l := range o.lives {
		switch {
		case l.purge:
		case l.state == kv.OwnerActive:
			o.counts.Active++
		case l.state == kv.OwnerOrphaned:
			o.counts.Orphaned++
		default:
			o.counts.Hidden++
		}
	}
}

// now is what the node makes of the owners.
func (o *owners) now() Owners {
	o.mu.Lock()
	defer o.mu.Unlock()
	counts := o.counts
	counts.Keys, counts.Refused = o.store.View().LenOwned(), o.store.OwnedRefused()
	return counts
}

// ask asks until ctx is over whether somebody answers at the keys of orphaned owners.
func (o *owners) ask(ctx context.Context) {
	for o.answers != nil && sleep(ctx, askOrphans) {
		o.askAll(time.Now())
	}
}

// askAll asks at all orphaned keys once.
func (o *owners) askAll(now time.Time) {
	orphans := map[claimed]kv.Entry{}
	for _, status := range o.store.Owners() {
		if status.State != kv.OwnerOrphaned {
			continue
		}
		for _, entry := range o.store.OwnedBy(status.Owner) {
			orphans[claimed{status.Owner, entry.Key}] = entry
		}
	}
	var group sync.WaitGroup
	places := make(chan struct{}, asking)
	for c, entry := range orphans {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			o.answered(c, o.answers(entry), now)
		})
	}
	group.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.silent, func(c claimed, _ time.Time) bool { _, still := orphans[c]; return !still })
}

// answered notes whether somebody answers at a key.
func (o *owners) answered(c claimed, answers bool, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	since, silent := o.silent[c]
	switch {
	case answers:
		delete(o.silent, c)
	case !silent:
		o.silent[c] = now
	case now.Sub(since) >= silentTime:
		o.counts.Silenced++
		o.store.SilenceOwned(c.owner, c.key)
		o.log.Info("nobody answers at an orphaned key, it is not used any more", "key", string(c.key), "owner", string(c.owner))
		o.silent[c] = now.Add(hiddenTime) // once is enough
	}
}

// keep writes what is known of owners until ctx is over, and once more then.
func (o *owners) keep(ctx context.Context) {
	told, warned := "", false
	for {
		if refused := o.store.OwnedRefused(); refused > 0 && !warned {
			warned = true
			o.log.Error("ephemeral keys of other nodes are not taken: there are too many", "changes", refused,
				"owners", len(o.store.Owners()), "mostOwners", kv.MaxOwners, "mostBytes", kv.MaxOwnedBytes)
		}
		changed := o.store.OwnerChanged()
		err := o.store.KeepOwned()
		if err != nil && err.Error() != told {
			told = err.Error()
			o.log.Warn("ephemeral keys are not kept for the next start", "err", err)
		}
		if err == nil {
			told = ""
		}
		if !sleep(ctx, keepEvery) {
			break
		}
		select {
		case <-changed:
			continue
		case <-ctx.Done():
		}
		break
	}
	_ = o.store.KeepOwned() // it has been told above if that does not work
}

// Owners is what the node makes of the owners of ephemeral keys.
func (n *Node) Owners() Owners {
	if m := n.member.Load(); m != nil {
		return m.owners.now()
	}
	return Owners{Active: 1, Keys: n.o.Store.View().LenOwned()}
}
