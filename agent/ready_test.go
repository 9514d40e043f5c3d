package agent

import (
	"strings"
	"testing"
	"time"

	"grapevine/agent/api"
)

// A node that starts waits for news of its cluster, and not for ever.
func TestBehind(t *testing.T) {
	led := api.Standing{Cluster: "c", Leader: "a", Voters: 3}
	leaderless := api.Standing{Cluster: "c", Voters: 3}
	at := func(applied string, lag uint64, role string) []api.Member {
		return []api.Member{{Node: "a", Applied: "1.9"}, {Node: "b", Self: true, Applied: applied, Lag: lag, Role: role}}
	}
	for _, row := range []struct {
		name     string
		standing api.Standing
		members  []api.Member
		running  time.Duration
		want     string // empty: ready
	}{
		{"in no cluster", api.Standing{}, at("1.5", 0, "edge"), 0, ""},
		{"the only voter", api.Standing{Cluster: "c", Voters: 1}, at("1.5", 0, "voter"), 0, ""},
		{"an edge of one voter", api.Standing{Cluster: "c", Voters: 1}, at("1.5", 0, "edge"), 0, "news of its cluster"},
		{"nobody found so far", leaderless, at("1.5", 0, "voter"), bootGrace - 1, "news of its cluster"},
		{"nobody found", leaderless, at("1.5", 0, "voter"), bootGrace, ""},
		{"nobody found, and nothing on disk", leaderless, at("1.0", 0, "edge"), bootGrace, ""},
		{"level", led, at("1.9", 0, "edge"), 0, ""},
		{"behind", led, at("1.5", 4, "edge"), bootGrace - 1, "4 revisions behind"},
		{"behind for long", led, at("1.5", 4, "edge"), bootGrace, ""},
		{"with nothing, while others have something", led, at("1.0", 9, "edge"), time.Hour, "9 revisions behind"},
	} {
		got := behind(row.standing, row.members, row.running)
		if (got == "") != (row.want == "") || !strings.Contains(got, row.want) {
			t.Errorf("%s: %q; want %q", row.name, got, row.want)
		}
	}
}
