package gateway

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// An index is a map, and each one that was taken stays as it was.
func TestIndex(t *testing.T) {
	type version struct {
		index index[int]
		want  map[string]int
	}
	rapid.Check(t, func(t *rapid.T) {
		now := version{want: map[string]int{}}
		versions := []version{now}
		for range rapid.IntRange(1, 5).Draw(t, "edits") {
			edit := now.index.edit()
			want := maps.Clone(now.want)
			for range rapid.IntRange(0, 60).Draw(t, "changes") {
				key := rapid.StringMatching(`[ab]/[a-e]{1,2}`).Draw(t, "key")
				if rapid.IntRange(0, 2).Draw(t, "delete") == 0 {
					edit.del(key)
					delete(want, key)
				} else {
					value := rapid.Int().Draw(t, "value")
					edit.set(key, value)
					want[key] = value
				}
				if edit.get(key) != want[key] {
					t.Fatalf("%s is %d; want %d", key, edit.get(key), want[key])
				}
				if rapid.IntRange(0, 20).Draw(t, "look") == 0 {
					versions = append(versions, version{edit.now(), maps.Clone(want)})
				}
			}
			now = version{edit.now(), want}
			versions = append(versions, now)
		}
		for _, v := range versions {
			if got := maps.Collect(v.index.under("")); !maps.Equal(got, v.want) || v.index.len() != len(v.want) {
				t.Fatalf("index %v; want %v", got, v.want)
			}
			var keys, want []string
			for key := range v.index.under("b/") {
				keys = append(keys, key)
			}
			for _, key := range slices.Sorted(maps.Keys(v.want)) {
				if strings.HasPrefix(key, "b/") {
					want = append(want, key)
				}
			}
			if !slices.Equal(keys, want) {
				t.Fatalf("under b/: %v; want %v", keys, want)
			}
		}
	})
}
