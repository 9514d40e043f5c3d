package kv

import (
	"fmt"
	"slices"
	"testing"
)

// What changed of ephemeral keys is known also when it was too much to be remembered.
func TestChangedSinceComparesWhatIsForgotten(t *testing.T) {
	s, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	own, err := s.Own("node1")
	if err != nil {
		t.Fatal(err)
	}
	key := func(i int) Key { return Key(fmt.Sprintf("gateway/instances/r/%04d", i)) }
	put := func(i int, value string) {
		if err := own.Put(key(i), []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		put(i, "old")
	}
	before := s.View()
	for n := range 3 * maxTrailCommits {
		put(3, fmt.Sprint(n))
	}
	if err := own.Withdraw(key(5)); err != nil {
		t.Fatal(err)
	}
	put(11, "new")
	now := s.View()
	keys, ok := now.ChangedSince(before)
	if want := []Key{key(3), key(5), key(11)}; !ok || !slices.Equal(keys, want) {
		t.Errorf("%v, %t; want %v", keys, ok, want)
	}
	if !now.HasOwned(before) || before.HasOwned(now) || !now.HasOwned(View{}) || !now.HasOwned(now) {
		t.Error("the later view has what the earlier one has, and not the other way round")
	}
	if mark, known := s.OwnerMark("node1"); !known || mark != own.Mark() {
		t.Errorf("mark %v, %t; want %v", mark, known, own.Mark())
	}
	if _, known := s.OwnerMark("nobody"); known {
		t.Error("an owner that nobody has heard of is known")
	}
}
