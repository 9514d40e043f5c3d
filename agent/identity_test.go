package agent

import (
	"slices"
	"testing"
	"time"
)

func TestNodeIDsAreULIDs(t *testing.T) {
	// 1469918176385 is the time in the tests of the ULID specification.
	id := newNodeID(time.UnixMilli(1469918176385))
	if id[:10] != "01aryz6s41" || !isNodeID(id) {
		t.Errorf("id %q", id)
	}
	now := time.Now()
	ids := []string{newNodeID(now), newNodeID(now.Add(time.Millisecond)), newNodeID(now.Add(time.Hour))}
	if !slices.IsSorted(ids) {
		t.Errorf("ids do not sort by age: %q", ids)
	}
	if newNodeID(now) == ids[0] {
		t.Error("two ids of one moment are equal")
	}
	for _, bad := range []string{"", "01arz3ndek", "01arz3ndektsv4rrffq69g5fau", "81arz3ndektsv4rrffq69g5fav", "01ARZ3NDEKTSV4RRFFQ69G5FAV", id + "0"} {
		if isNodeID(bad) {
			t.Errorf("%q passes", bad)
		}
	}
}
