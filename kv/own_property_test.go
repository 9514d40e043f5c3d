package kv

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// mesh is owners that write and spread to each other in every way that a network can do
// wrong: what is on the way is lost, doubled, late, and in any order.
type mesh struct {
	stores []*Store
	owns   []*Own
	mail   [][]byte // made once, and delivered any number of times
	// truth is what each owner has at each of its marks; deleted the mark at which a key
	// of it was withdrawn last.
	truth map[OwnerID]map[OwnerMark]string
	step  int
}

func newMesh(t *rapid.T, n int) *mesh {
	m := &mesh{truth: map[OwnerID]map[OwnerMark]string{}}
	for i := range n {
		s, err := Open(Options{})
		if err != nil {
			t.Fatal(err)
		}
		own, err := s.Own(m.owner(i))
		if err == nil {
			_, err = own.Begin(0)
		}
		if err != nil {
			t.Fatal(err)
		}
		m.stores, m.owns = append(m.stores, s), append(m.owns, own)
		m.truth[m.owner(i)] = map[OwnerMark]string{}
		m.wrote(i)
	}
	for _, s := range m.stores {
		for i := range n {
			s.SetOwner(m.owner(i), OwnerActive)
		}
	}
	return m
}

func (m *mesh) owner(i int) OwnerID { return OwnerID(fmt.Sprintf("owner%d", i)) }

// content is what a store has of an owner.
func content(s *Store, owner OwnerID) string {
	text := ""
	for _, e := range s.OwnedBy(owner) {
		text += fmt.Sprintf("%s=%s@%v draining %v\n", e.Key, e.Value, e.Own.Mark, e.Own.Draining)
	}
	return text
}

// wrote notes the truth after an owner's change.
func (m *mesh) wrote(i int) {
	m.truth[m.owner(i)][m.owns[i].Mark()] = content(m.stores[i], m.owner(i))
}

func (m *mesh) act(t *rapid.T) {
	i := rapid.IntRange(0, len(m.stores)-1).Draw(t, "node")
	own := m.owns[i]
	key := Key(fmt.Sprintf("gateway/instances/r/%d", rapid.IntRange(0, 7).Draw(t, "key")))
	m.step++
	var err error
	switch rapid.SampledFrom([]string{"put", "put", "put", "withdraw", "drain", "hold", "begin", "all", "many", "send", "deliver", "deliver", "deliver", "pull", "pull", "purge"}).Draw(t, "act") {
	case "put":
		err = own.Put(key, fmt.Append(nil, m.step))
	case "withdraw":
		err = own.Withdraw(key)
	case "drain":
		err = own.Drain(key)
	case "hold":
		err = own.Hold()
	case "begin":
		_, err = own.Begin(rapid.Uint64Range(0, 5).Draw(t, "atLeast"))
	case "all":
		err = own.WithdrawAll()
	case "many": // more deletes than are remembered
		for n := range 70 {
			many := Key(fmt.Sprintf("gateway/instances/many/%d", n%35))
			if n < 35 {
				err = own.Put(many, fmt.Append(nil, m.step))
			} else {
				err = own.Withdraw(many)
			}
			m.wrote(i)
		}
	case "send":
		m.mail = append(m.mail, m.stores[i].MadeOwned()...)
	case "deliver":
		if len(m.mail) > 0 {
			_, _, err = m.stores[i].ApplyOwned([][]byte{rapid.SampledFrom(m.mail).Draw(t, "letter")})
		}
	case "pull":
		m.pull(t, i, rapid.IntRange(0, len(m.stores)-1).Draw(t, "from"))
	case "purge":
		m.stores[i].PurgeOwner(m.owner(rapid.IntRange(0, len(m.stores)-1).Draw(t, "owner")))
	}
	if err != nil {
		t.Fatal(err)
	}
	m.wrote(i)
}

// pull brings some of what one store lacks of another; the rest is lost, and all of it is
// mail that may come again.
func (m *mesh) pull(t *rapid.T, to, from int) {
	changes, _, err := m.stores[from].OwnerDelta(m.stores[to].OwnerVector())
	if err != nil {
		t.Fatal(err)
	}
	for change := range changes {
		m.mail = append(m.mail, change)
		if rapid.IntRange(0, 3).Draw(t, "lost") == 0 {
			continue
		}
		if _, _, err := m.stores[to].ApplyOwned([][]byte{change}); err != nil {
			t.Fatal(err)
		}
	}
}

// check: whatever was delivered, what a store has of an owner is what the owner had at
// that mark.
func (m *mesh) check(t *rapid.T) {
	for n, s := range m.stores {
		for _, o := range s.Owners() {
			if o.Purged || o.Mark.Incarnation == 0 {
				continue
			}
			want, ever := m.truth[o.Owner][o.Mark]
			if got := content(s, o.Owner); !ever || got != want {
				t.Fatalf("store %d has of %s at %v\n%s want (%v)\n%s", n, o.Owner, o.Mark, got, ever, want)
			}
		}
	}
}

// settle lets every store pull from every other until nothing changes.
func (m *mesh) settle(t *rapid.T) {
	for range len(m.stores) + 1 {
		for to := range m.stores {
			for from := range m.stores {
				changes, _, err := m.stores[from].OwnerDelta(m.stores[to].OwnerVector())
				if err != nil {
					t.Fatal(err)
				}
				for change := range changes {
					if _, _, err := m.stores[to].ApplyOwned([][]byte{change}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
}

// Order, duplication, loss and replay never change the result: each store has of each
// owner what that owner had at some mark, and in the end, which needs nothing but pulls,
// what it has now. So what was deleted never returns.
func TestOwnedConvergesWhateverIsDelivered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMesh(t, rapid.IntRange(2, 4).Draw(t, "nodes"))
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			m.act(t)
			m.check(t)
		}
		m.settle(t)
		m.check(t)
		for n, s := range m.stores {
			if s.OwnerDigest() != m.stores[0].OwnerDigest() {
				t.Fatalf("stores 0 and %d have digests %x and %x\n%+v\n%+v", n, m.stores[0].OwnerDigest(), s.OwnerDigest(), m.stores[0].Owners(), s.Owners())
			}
			for i := range m.stores {
				if got, want := content(s, m.owner(i)), content(m.stores[i], m.owner(i)); got != want {
					t.Fatalf("store %d has of owner %d\n%s it has\n%s", n, i, got, want)
				}
			}
		}
		if n := rapid.IntRange(0, len(m.stores)-1).Draw(t, "replayed"); len(m.mail) > 0 {
			before := shown(m.stores[n])
			for _, letter := range m.mail {
				if _, _, err := m.stores[n].ApplyOwned([][]byte{letter}); err != nil {
					t.Fatal(err)
				}
			}
			if after := shown(m.stores[n]); !maps.Equal(before, after) {
				t.Fatalf("a replay of all that was ever sent changed\n%v\nto\n%v", before, after)
			}
		}
	})
}

// The view shows what the states say, however it came about, and tells every change.
func TestOwnedViewFollowsStates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMesh(t, 3)
		s := m.stores[0]
		w, err := s.Watch("gateway/instances", Rev{})
		if err != nil {
			t.Fatal(err)
		}
		before, seen := s.View(), map[Key]string{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			m.act(t)
			owner := m.owner(rapid.IntRange(1, 2).Draw(t, "owner"))
			s.SetOwner(owner, OwnerState(rapid.IntRange(0, 3).Draw(t, "state")))
			if rapid.Bool().Draw(t, "silence") {
				s.SilenceOwned(owner, "gateway/instances/r/1")
			}
			now := s.View()
			changed, ok := now.ChangedSince(before)
			if !ok {
				t.Fatal("a view does not know what changed since the one before")
			}
			for key := range m.keys() {
				a, hadA := before.Get(key)
				b, hadB := now.Get(key)
				moved := hadA != hadB || a.ModRev != b.ModRev
				if moved && !slices.Contains(changed, key) {
					t.Fatalf("key %s: moved %v, and changed are %q", key, moved, changed)
				}
				if want, shows := m.winner(s, key); shows != hadB || shows && (b.By != string(want.Owner) || b.Own.Orphaned != (want.State == OwnerOrphaned)) {
					t.Fatalf("key %s: %+v, there %v; want %+v, %v", key, b, hadB, want, shows)
				}
			}
			for _, e := range w.ownedEvents(now.own) {
				if seen[e.Entry.Key] = string(e.Entry.Value); e.Type == EventDelete {
					delete(seen, e.Entry.Key)
				}
			}
			if got := shown(s); !maps.Equal(got, seen) {
				t.Fatalf("a watcher has %v, there is %v", seen, got)
			}
			before = now
		}
	})
}

func (m *mesh) keys() map[Key]bool {
	keys := map[Key]bool{}
	for _, s := range m.stores {
		for i := range m.stores {
			for _, e := range s.OwnedBy(m.owner(i)) {
				keys[e.Key] = true
			}
		}
	}
	return keys
}

// winner finds whose claim is to be shown, the naive way.
func (m *mesh) winner(s *Store, key Key) (best OwnerStatus, found bool) {
	better := func(a, b OwnerStatus) bool {
		if (a.State == OwnerActive) != (b.State == OwnerActive) {
			return a.State == OwnerActive
		}
		if a.Mark.Incarnation != b.Mark.Incarnation {
			return a.Mark.Incarnation > b.Mark.Incarnation
		}
		return a.Owner > b.Owner
	}
	for _, o := range s.Owners() {
		if o.State != OwnerActive && o.State != OwnerOrphaned {
			continue
		}
		for _, e := range s.OwnedBy(o.Owner) {
			silent := s.plane.owners[o.Owner].live[key] != nil && s.plane.owners[o.Owner].live[key].silent
			if e.Key == key && (!silent || o.State == OwnerActive) && (!found || better(o, best)) {
				best, found = o, true
			}
		}
	}
	return best, found
}
