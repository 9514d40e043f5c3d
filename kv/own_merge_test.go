package kv

import (
	"errors"
	"fmt"
	"testing"
)

const instance = Key("gateway/instances/shop/")

// memoryStore is a store without a file.
func memoryStore(t testing.TB) *Store {
	t.Helper()
	s, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// inTurn lets the incarnations of a store be a count alone.
func inTurn(s *Store) *Store {
	s.plane.draw = func() uint64 { return 0 }
	return s
}

// ownerStore is a store with an owner that others may have the keys of. Its incarnation is the first.
func ownerStore(t testing.TB, owner OwnerID) (*Store, *Own) {
	t.Helper()
	s := inTurn(memoryStore(t))
	own, err := s.Own(owner)
	if err == nil {
		_, err = own.Begin(0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s, own
}

func announce(t testing.TB, own *Own, key Key, value string) {
	t.Helper()
	if err := own.Put(key, []byte(value)); err != nil {
		t.Fatal(err)
	}
}

// shown are the ephemeral keys that a store shows, with their values.
func shown(s *Store) map[Key]string {
	keys := map[Key]string{}
	for entry := range s.View().Under("gateway") {
		keys[entry.Key] = string(entry.Value)
	}
	return keys
}

// pull brings all that from has to a store.
func pull(t testing.TB, to, from *Store) {
	t.Helper()
	changes, _, err := from.OwnerDelta(to.OwnerVector())
	if err != nil {
		t.Fatal(err)
	}
	for change := range changes {
		if _, gap, err := to.ApplyOwned([][]byte{change}); err != nil || gap {
			t.Fatalf("gap %v: %v", gap, err)
		}
	}
}

func markOf(s *Store, owner OwnerID) (OwnerStatus, bool) {
	for _, o := range s.Owners() {
		if o.Owner == owner {
			return o, true
		}
	}
	return OwnerStatus{}, false
}

// The rows of the merge table in docs/design/ephemeral.md, one by one, each on a store
// that has the owner o at incarnation 3, seq 4, unless it says otherwise.
func TestOwnedMergeTable(t *testing.T) {
	op := func(seq uint64, key Key) OwnerOp { return OwnerOp{Seq: seq, Key: key, Value: []byte("new")} }
	for _, tt := range []struct {
		row       string
		change    OwnerChange
		self      bool // the store is o's own
		purged    bool // the store has only o's floor
		alive     bool // o lives
		gap, bad  bool
		want      OwnerMark // where the owner is then
		wantKeys  int
		disputed  OwnerMark
		wantFresh bool
	}{
		{row: "older incarnation", change: OwnerChange{Owner: "o", Incarnation: 2, From: 4, Seq: 9, Ops: []OwnerOp{op(9, instance+"x")}}, want: OwnerMark{3, 4}, wantKeys: 2},
		{row: "older incarnation, whole", change: OwnerChange{Owner: "o", Incarnation: 2, Seq: 9, Ops: []OwnerOp{op(9, instance+"x")}}, want: OwnerMark{3, 4}, wantKeys: 2},
		{row: "newer incarnation, part", change: OwnerChange{Owner: "o", Incarnation: 4, From: 1, Seq: 2, Ops: []OwnerOp{op(2, instance+"x")}}, gap: true, want: OwnerMark{3, 4}, wantKeys: 2},
		{row: "newer incarnation, whole", change: OwnerChange{Owner: "o", Incarnation: 4, Seq: 1, Ops: []OwnerOp{op(1, instance+"x")}}, want: OwnerMark{4, 1}, wantKeys: 1, wantFresh: true},
		{row: "newer incarnation, its first steps", change: OwnerChange{Owner: "o", Incarnation: 4, Seq: 3, Ops: []OwnerOp{op(1, instance+"x"), op(2, instance+"y"), {Seq: 3, Key: instance + "x", Deleted: true}}}, want: OwnerMark{4, 3}, wantKeys: 1, wantFresh: true},
		{row: "newer incarnation, with nothing", change: OwnerChange{Owner: "o", Incarnation: 4}, want: OwnerMark{4, 0}, wantKeys: 0, wantFresh: true},
		{row: "next", change: OwnerChange{Owner: "o", Incarnation: 3, From: 4, Seq: 5, Ops: []OwnerOp{op(5, instance+"x")}}, want: OwnerMark{3, 5}, wantKeys: 3, wantFresh: true},
		{row: "overlapping", change: OwnerChange{Owner: "o", Incarnation: 3, From: 2, Seq: 5, Ops: []OwnerOp{{Seq: 4, Key: instance + "b", Deleted: true}, op(5, instance+"x")}}, want: OwnerMark{3, 5}, wantKeys: 3, wantFresh: true},
		{row: "duplicate", change: OwnerChange{Owner: "o", Incarnation: 3, From: 3, Seq: 4, Ops: []OwnerOp{op(4, instance+"x")}}, want: OwnerMark{3, 4}, wantKeys: 2},
		{row: "duplicate whole", change: OwnerChange{Owner: "o", Incarnation: 3, Seq: 4, Ops: []OwnerOp{op(4, instance+"x")}}, want: OwnerMark{3, 4}, wantKeys: 2},
		{row: "gap", change: OwnerChange{Owner: "o", Incarnation: 3, From: 5, Seq: 6, Ops: []OwnerOp{op(6, instance+"x")}}, gap: true, want: OwnerMark{3, 4}, wantKeys: 2},
		{row: "whole in place of a gap", change: OwnerChange{Owner: "o", Incarnation: 3, Seq: 9, Ops: []OwnerOp{op(9, instance+"x")}}, want: OwnerMark{3, 9}, wantKeys: 1, wantFresh: true},
		{row: "my own, higher incarnation", self: true, change: OwnerChange{Owner: "o", Incarnation: 9, Seq: 1, Ops: []OwnerOp{op(1, instance+"x")}}, want: OwnerMark{3, 4}, wantKeys: 2, disputed: OwnerMark{9, 1}},
		{row: "my own, unknown seq", self: true, change: OwnerChange{Owner: "o", Incarnation: 3, From: 4, Seq: 5, Ops: []OwnerOp{op(5, instance+"x")}}, want: OwnerMark{3, 4}, wantKeys: 2, disputed: OwnerMark{3, 5}},
		{row: "my own, from before", self: true, change: OwnerChange{Owner: "o", Incarnation: 2, Seq: 5, Ops: []OwnerOp{op(5, instance+"x")}}, want: OwnerMark{3, 4}, wantKeys: 2},
		{row: "below a floor", purged: true, alive: true, change: OwnerChange{Owner: "o", Incarnation: 3, Seq: 3, Ops: []OwnerOp{op(3, instance+"x")}}, want: OwnerMark{3, 4}},
		{row: "a floor's own state", purged: true, change: OwnerChange{Owner: "o", Incarnation: 3, Seq: 4, Ops: []OwnerOp{op(3, instance+"x")}}, want: OwnerMark{3, 4}},
		{row: "a floor's own state, of who lives", purged: true, alive: true, change: OwnerChange{Owner: "o", Incarnation: 3, Seq: 4, Ops: []OwnerOp{op(3, instance+"x")}}, want: OwnerMark{3, 4}, wantKeys: 1, wantFresh: true},
		{row: "a step above a floor", purged: true, change: OwnerChange{Owner: "o", Incarnation: 3, From: 4, Seq: 5, Ops: []OwnerOp{op(5, instance+"x")}}, gap: true, want: OwnerMark{3, 4}},
		{row: "the whole above a floor", purged: true, change: OwnerChange{Owner: "o", Incarnation: 3, Seq: 5, Ops: []OwnerOp{op(5, instance+"x")}}, want: OwnerMark{3, 5}, wantKeys: 1, wantFresh: true},
		{row: "an operator's key", change: OwnerChange{Owner: "o", Incarnation: 3, From: 4, Seq: 5, Ops: []OwnerOp{op(5, "gateway/routes/x")}}, bad: true, want: OwnerMark{3, 4}, wantKeys: 2},
		{row: "too large a value", change: OwnerChange{Owner: "o", Incarnation: 3, From: 4, Seq: 5, Ops: []OwnerOp{{Seq: 5, Key: instance + "x", Value: make([]byte, MaxOwnedValueBytes+1)}}}, bad: true, want: OwnerMark{3, 4}, wantKeys: 2},
		{row: "out of order", change: OwnerChange{Owner: "o", Incarnation: 3, From: 4, Seq: 6, Ops: []OwnerOp{op(6, instance+"x"), op(5, instance+"y")}}, bad: true, want: OwnerMark{3, 4}, wantKeys: 2},
		{row: "beyond its end", change: OwnerChange{Owner: "o", Incarnation: 3, From: 4, Seq: 5, Ops: []OwnerOp{op(6, instance+"x")}}, bad: true, want: OwnerMark{3, 4}, wantKeys: 2},
		{row: "incarnation 0", change: OwnerChange{Owner: "o", From: 4, Seq: 5, Ops: []OwnerOp{op(5, instance+"x")}}, bad: true, want: OwnerMark{3, 4}, wantKeys: 2},
		{row: "of nobody", change: OwnerChange{Owner: "O!", Incarnation: 3, From: 4, Seq: 5}, bad: true, want: OwnerMark{3, 4}, wantKeys: 2},
	} {
		t.Run(tt.row, func(t *testing.T) {
			s, own := ownerStore(t, "o")
			for range 2 {
				if _, err := own.Begin(0); err != nil {
					t.Fatal(err)
				}
			}
			announce(t, own, instance+"a", "1")
			announce(t, own, instance+"c", "1")
			if err := own.Withdraw(instance + "c"); err != nil {
				t.Fatal(err)
			}
			announce(t, own, instance+"b", "1")
			if !tt.self {
				source := s
				s = memoryStore(t)
				pull(t, s, source)
			}
			if tt.purged {
				s.PurgeOwner("o")
			}
			if tt.alive {
				s.SetOwner("o", OwnerActive)
			}
			for _, n := range []*uint64{&tt.change.Incarnation, &tt.want.Incarnation, &tt.disputed.Incarnation} {
				*n <<= startBits
			}
			fresh, gap, err := s.ApplyOwned([][]byte{AppendOwnerChange(nil, tt.change)})
			if gap != tt.gap || (err != nil) != tt.bad || (len(fresh) > 0) != tt.wantFresh {
				t.Errorf("%d new, gap %v: %v", len(fresh), gap, err)
			}
			got, _ := markOf(s, "o")
			if got.Mark != tt.want || got.Keys != tt.wantKeys {
				t.Errorf("the owner is at %v with %d keys; want %v with %d", got.Mark, got.Keys, tt.want, tt.wantKeys)
			}
			if tt.self {
				if disputed, _ := own.Disputed(); disputed != tt.disputed {
					t.Errorf("disputed is %v; want %v", disputed, tt.disputed)
				}
			}
		})
	}
}

// Of two owners of one key both claims are kept, and all nodes show the same one.
func TestTwoOwnersOfOneKey(t *testing.T) {
	key := instance + "one"
	a, ownA := ownerStore(t, "a")
	b, ownB := ownerStore(t, "b")
	announce(t, ownA, key, "of a")
	announce(t, ownB, key, "of b")
	s := memoryStore(t)
	pull(t, s, a)
	pull(t, s, b)
	value := func() string {
		entry, _ := s.View().Get(key)
		return string(entry.Value)
	}
	for _, tt := range []struct {
		a, b OwnerState
		want string
	}{
		{OwnerUnlisted, OwnerUnlisted, ""},
		{OwnerActive, OwnerUnlisted, "of a"},
		{OwnerActive, OwnerActive, "of b"}, // the same incarnation: the higher id
		{OwnerActive, OwnerOrphaned, "of a"},
		{OwnerHidden, OwnerOrphaned, "of b"},
		{OwnerHidden, OwnerHidden, ""},
		{OwnerOrphaned, OwnerOrphaned, "of b"},
	} {
		s.SetOwner("a", tt.a)
		s.SetOwner("b", tt.b)
		if got := value(); got != tt.want {
			t.Errorf("a is %s, b is %s: shows %q; want %q", tt.a, tt.b, got, tt.want)
		}
	}
	s.SetOwner("a", OwnerActive)
	s.SetOwner("b", OwnerActive)
	if _, err := ownA.Begin(0); err != nil {
		t.Fatal(err)
	}
	pull(t, s, a)
	if got := value(); got != "of a" {
		t.Errorf("a has a higher incarnation, and %q is shown", got)
	}
	if err := ownA.Withdraw(key); err != nil {
		t.Fatal(err)
	}
	pull(t, s, a)
	if got := value(); got != "of b" {
		t.Errorf("a has withdrawn, and %q is shown", got)
	}
}

// Operators write no ephemeral key, and a range that they delete leaves those alone.
func TestPlanesAreApart(t *testing.T) {
	s, own := ownerStore(t, "a")
	announce(t, own, instance+"one", "1")
	var refused *KeyError
	for _, txn := range []Txn{{Then: []Op{Put(instance+"one", nil)}}, {Then: []Op{Delete("gateway/nodes/a")}}, {Else: []Op{Put("gateway/health/a/b/c", nil)}}} {
		if _, _, err := s.View().Resolve(txn); !errors.As(err, &refused) {
			t.Errorf("%+v: %v", txn, err)
		}
	}
	for _, key := range []Key{"gateway/routes/x", "app", "gateway/instances", "gateway/nodesx/a", "gateway"} {
		if err := own.Put(key, nil); !errors.As(err, &refused) {
			t.Errorf("an owner may write %q: %v", key, err)
		}
	}
	put(t, s, "gateway/routes/x", []byte("2"))
	before := s.View()
	commit, _, err := before.Resolve(Txn{Then: []Op{DeleteRange("gateway")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Merge(commit); err != nil {
		t.Fatal(err)
	}
	if got := shown(s); len(got) != 1 || got[instance+"one"] != "1" {
		t.Errorf("after a delete of gateway: %v", got)
	}
	if keys, ok := s.View().ChangedSince(before); !ok || len(keys) != 1 || keys[0] != "gateway/routes/x" {
		t.Errorf("changed: %q, %v", keys, ok)
	}
}

// A view has the keys of both planes in one order, and says of both what changed.
func TestViewsHaveBothPlanes(t *testing.T) {
	s, own := ownerStore(t, "a")
	start := s.View()
	for i := range 5 {
		put(t, s, Key(fmt.Sprintf("gateway/%c", 'a'+5*i)), nil)
	}
	announce(t, own, "gateway/nodes/a", "1")
	announce(t, own, instance+"one", "1")
	put(t, s, "gateway/instances", nil)
	put(t, s, "gateway/instances-x", nil)
	var keys []Key
	for entry := range s.View().Under("gateway") {
		keys = append(keys, entry.Key)
	}
	want := []Key{"gateway/a", "gateway/f", "gateway/instances", "gateway/instances-x", instance + "one", "gateway/k", "gateway/nodes/a", "gateway/p", "gateway/u"}
	if fmt.Sprint(keys) != fmt.Sprint(want) {
		t.Errorf("got %q; want %q", keys, want)
	}
	keys = nil
	for entry := range s.View().Under("gateway/instances") {
		keys = append(keys, entry.Key)
	}
	if len(keys) != 2 || keys[1] != instance+"one" {
		t.Errorf("under gateway/instances: %q", keys)
	}
	if changed, ok := s.View().ChangedSince(start); !ok || fmt.Sprint(changed) != fmt.Sprint(want) {
		t.Errorf("changed %q %v", changed, ok)
	}
	if s.View().Len() != 7 || s.View().LenOwned() != 2 || s.View().Is(start) || !s.View().Is(s.View()) {
		t.Errorf("%d and %d keys", s.View().Len(), s.View().LenOwned())
	}
	past, err := s.At(s.View().Rev())
	if err != nil || past.LenOwned() != 0 {
		t.Errorf("the past has %d ephemeral keys: %v", past.LenOwned(), err)
	}
}

// Who lacks more deletes than are remembered gets all that lives: from the owner, and
// from one that itself has only that.
func TestDeletesThatNobodyRemembers(t *testing.T) {
	s, own := ownerStore(t, "o")
	const keys, gone = keptDeletes + 400, keptDeletes + 100
	key := func(i int) Key { return instance + Key(fmt.Sprint(i)) }
	for i := range keys {
		announce(t, own, key(i), "1")
	}
	behind, relayed, relay := memoryStore(t), memoryStore(t), memoryStore(t)
	pull(t, behind, s)
	pull(t, relayed, s)
	for i := range gone {
		if err := own.Withdraw(key(i)); err != nil {
			t.Fatal(err)
		}
	}
	pull(t, relay, s)
	announce(t, own, key(0), "2")
	pull(t, relay, s)
	for name, pair := range map[string][2]*Store{"of the owner": {behind, s}, "of one that has the whole only": {relayed, relay}} {
		pull(t, pair[0], pair[1])
		if got := len(pair[0].OwnedBy("o")); got != keys-gone+1 {
			t.Errorf("%s: %d keys; want %d", name, got, keys-gone+1)
		}
		if pair[0].OwnerDigest() != s.OwnerDigest() {
			t.Errorf("%s: another digest", name)
		}
	}
}

// An owner that lost its disk, and of which nobody told it an incarnation, may take one again
// that it had. Who has a number of its former self in it gets all that lives, and keeps
// nothing of what the former self had: its first numbers mean something else now.
func TestIncarnationThatIsTakenTwice(t *testing.T) {
	follower := memoryStore(t)
	former, own := ownerStore(t, "o")
	announce(t, own, instance+"one", "former")
	announce(t, own, instance+"two", "former")
	pull(t, follower, former)

	again := inTurn(memoryStore(t))
	own, err := again.Own("o")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []Key{"three", "four", "five"} {
		announce(t, own, instance+id, "again")
	}
	if incarnation, err := own.Begin(0); err != nil || incarnation != 1<<startBits {
		t.Fatalf("incarnation %d, %v; want that of the former", incarnation, err)
	}
	pull(t, follower, again)
	if got, want := content(follower, "o"), content(again, "o"); got != want {
		t.Errorf("the follower has %s; want %s", got, want)
	}
}

// A disk that was put back, or a copy of it, counts on from where others have heard of it already,
// and comes to another incarnation all the same: else what the former self did and what this one does
// would stand under one mark, here and there, for good.
func TestCopiesDoNotShareAnIncarnation(t *testing.T) {
	for i := range 20 {
		follower, former, again := memoryStore(t), memoryStore(t), memoryStore(t)
		begin := func(s *Store, ids ...string) *Own {
			t.Helper()
			own, err := s.Own("o")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := own.Begin(0); err != nil {
				t.Fatal(err)
			}
			for _, id := range ids {
				announce(t, own, instance+Key(id), "1")
			}
			return own
		}
		begin(former, "a", "b", "c")
		pull(t, follower, former)
		own := begin(again, "x", "y", "z", "u", "v") // and further than the former
		pull(t, follower, again)
		if _, _, err := again.OwnerDelta(follower.OwnerVector()); err != nil {
			t.Fatal(err)
		}
		if disputed, _ := own.Disputed(); disputed.Incarnation > 0 {
			if _, err := own.Begin(disputed.Incarnation); err != nil {
				t.Fatal(err)
			}
			pull(t, follower, again)
		}
		if got, want := content(follower, "o"), content(again, "o"); got != want {
			t.Fatalf("round %d: the follower has %s; want %s", i, got, want)
		}
	}
}

// An incarnation that nobody comes to is not taken from others, and not gone beyond.
func TestIncarnationsThatAreMadeUp(t *testing.T) {
	s, own := ownerStore(t, "o")
	if _, _, err := s.ApplyOwned([][]byte{AppendOwnerChange(nil, OwnerChange{Owner: "p", Incarnation: maxIncarnation + 1, Seq: 1})}); err == nil {
		t.Error("a change of it is taken")
	}
	if _, _, err := s.OwnerDelta(encodeVector(map[OwnerID]vectorEntry{"o": {mark: OwnerMark{maxIncarnation + 1, 1}}})); err == nil {
		t.Error("a vector of it is taken")
	}
	before := own.Mark()
	for _, above := range []uint64{maxIncarnation, 1<<64 - 1} {
		if got, err := own.Begin(above); err == nil || own.Mark() != before {
			t.Errorf("above %d there is %d, at %v", above, got, own.Mark())
		}
	}
}

// What others make up takes a bounded part of the memory. Who is refused has its keys here once there is room.
func TestOwnedBytesAreBounded(t *testing.T) {
	s := memoryStore(t)
	s.plane.maxBytes = 64 << 10
	large := func(owner OwnerID, seq uint64, n int) []byte {
		c := OwnerChange{Owner: owner, Incarnation: 1, Seq: seq}
		for i := range n {
			c.Ops = append(c.Ops, OwnerOp{Seq: uint64(i + 1), Key: instance + Key(fmt.Sprint(owner, i)), Value: make([]byte, 1000)})
		}
		return AppendOwnerChange(nil, c)
	}
	apply := func(changes ...[]byte) (fresh int) {
		t.Helper()
		taken, gap, err := s.ApplyOwned(changes)
		if err != nil || gap {
			t.Fatalf("gap %v: %v", gap, err)
		}
		return len(taken)
	}
	if apply(large("a", 30, 30)) != 1 || apply(large("b", 30, 30), large("c", 40, 40)) != 0 {
		t.Error("the bound is elsewhere")
	}
	if got := s.OwnedRefused(); got != 2 || len(s.Owners()) != 1 {
		t.Errorf("%d are refused, and %d owners known", got, len(s.Owners()))
	}
	if apply(large("b", 10, 10)) != 1 {
		t.Error("what there is room for is not taken")
	}
	own, err := s.Own("self")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 { // what this node owns has its own bound
		if err := own.Put(instance+Key(fmt.Sprint("self", i)), make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	s.PurgeOwner("a")
	if apply(large("c", 40, 40)) != 1 {
		t.Error("what was purged still takes room")
	}
	s.PurgeOwner("b")
	s.PurgeOwner("c")
	if s.plane.bytes != 0 {
		t.Errorf("%d bytes are counted of nothing", s.plane.bytes)
	}
}
