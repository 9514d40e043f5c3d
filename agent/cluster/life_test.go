package cluster

import (
	"testing"
	"time"

	"grapevine/kv"
)

// The states of docs/design/ephemeral.md, one transition a row.
func TestLivesOfOwners(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name         string
		from         life
		seen         presence
		held, frozen bool
		passed       time.Duration
		want         kv.OwnerState
		purge        bool
	}{
		{"lives", life{state: kv.OwnerUnlisted}, presentNow, false, false, s, kv.OwnerActive, false},
		{"returns from orphaned", life{state: kv.OwnerOrphaned, waited: 59 * s}, presentNow, false, false, s, kv.OwnerActive, false},
		{"returns from hidden", life{state: kv.OwnerHidden, waited: 59 * s}, presentNow, false, true, s, kv.OwnerActive, false},
		{"dies", life{state: kv.OwnerActive}, absent, false, false, s, kv.OwnerOrphaned, false},
		{"dies while held", life{state: kv.OwnerActive}, absent, true, false, s, kv.OwnerActive, false},
		{"held still", life{state: kv.OwnerActive, lost: true, waited: 28 * s}, absent, true, false, s, kv.OwnerActive, false},
		{"held too long", life{state: kv.OwnerActive, lost: true, waited: 29 * s}, absent, true, false, s, kv.OwnerOrphaned, false},
		{"held too long, frozen", life{state: kv.OwnerActive, lost: true, waited: 29 * s}, absent, true, true, s, kv.OwnerActive, false},
		{"leaves", life{state: kv.OwnerActive}, departed, true, false, s, kv.OwnerHidden, true},
		{"leaves, frozen", life{state: kv.OwnerOrphaned}, departed, false, true, s, kv.OwnerHidden, true},
		{"orphaned still", life{state: kv.OwnerOrphaned, waited: 58 * s}, absent, false, false, s, kv.OwnerOrphaned, false},
		{"orphaned too long", life{state: kv.OwnerOrphaned, waited: 59 * s}, absent, false, false, s, kv.OwnerHidden, false},
		{"orphaned too long, frozen", life{state: kv.OwnerOrphaned, waited: 59 * s}, absent, false, true, time.Hour, kv.OwnerOrphaned, false},
		{"orphaned, forgotten by the members", life{state: kv.OwnerOrphaned, waited: 59 * s}, noMember, false, false, s, kv.OwnerHidden, false},
		{"unlisted still", life{state: kv.OwnerUnlisted, waited: 8 * s}, noMember, false, false, s, kv.OwnerUnlisted, false},
		{"unlisted too long", life{state: kv.OwnerUnlisted, waited: 9 * s}, noMember, false, false, s, kv.OwnerOrphaned, false},
		{"unlisted, then known to be dead", life{state: kv.OwnerUnlisted}, absent, false, false, s, kv.OwnerOrphaned, false},
		{"hidden still", life{state: kv.OwnerHidden, waited: 3598 * s}, absent, false, false, s, kv.OwnerHidden, false},
		{"hidden too long", life{state: kv.OwnerHidden, waited: 3599 * s}, absent, false, false, s, kv.OwnerHidden, true},
	} {
		got := tt.from.next(tt.seen, tt.held, tt.frozen, tt.passed)
		if got.state != tt.want || got.purge != tt.purge {
			t.Errorf("%s: %+v; want %s, purge %v", tt.name, got, tt.want, tt.purge)
		}
	}
}

func TestDeathGuard(t *testing.T) {
	start := time.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	type view struct {
		at, died, living, known int
		want                    bool
	}
	for name, views := range map[string][]view{
		"one of two":                {{0, 1, 1, 2, false}},
		"one of five":               {{0, 1, 4, 5, false}},
		"two of five":               {{0, 2, 3, 5, true}, {29, 0, 3, 5, true}, {31, 0, 3, 5, false}},
		"two of seven":              {{0, 2, 5, 7, false}},
		"two of five, one by one":   {{0, 1, 4, 5, false}, {20, 1, 3, 5, true}},
		"two of five, slowly":       {{0, 1, 4, 5, false}, {31, 1, 3, 5, false}},
		"all others":                {{0, 4, 1, 5, true}, {3600, 0, 1, 5, true}, {3700, 0, 3, 5, false}},
		"half of all":               {{0, 5, 5, 10, true}, {100, 0, 5, 10, true}, {200, 0, 6, 10, false}},
		"the dead leave":            {{0, 3, 2, 5, true}, {100, 0, 2, 5, true}, {101, 0, 2, 3, false}},
		"thirty of a hundred":       {{0, 30, 70, 100, false}},
		"thirty-one of a hundred":   {{0, 31, 69, 100, true}},
		"nobody":                    {{0, 0, 1, 1, false}},
		"again after it was over":   {{0, 2, 3, 5, true}, {31, 0, 3, 5, false}, {60, 2, 1, 5, true}},
		"more while it is frozen":   {{0, 2, 3, 5, true}, {25, 1, 2, 5, true}, {40, 0, 3, 5, true}, {56, 0, 3, 5, false}},
		"return while it is frozen": {{0, 4, 1, 5, true}, {10, 0, 5, 5, true}, {31, 0, 5, 5, false}},
	} {
		var g deathGuard
		for _, v := range views {
			if g.see(at(v.at), v.died, v.living, v.known); g.frozen != v.want {
				t.Errorf("%s: at %d s frozen is %v", name, v.at, g.frozen)
			}
		}
	}
}
