package cli

import (
	"testing"
	"time"

	"grapevine/agent/api"
)

func TestAlarms(t *testing.T) {
	since := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	s := newPrepared(t, map[string]any{
		"GET /v1/alarms": api.AlarmList{Alarms: []api.Alarm{
			{Kind: "leader is behind", Node: "edge-2", Role: "voter", Ours: "1.5", OurHash: "aa", Theirs: "1.6", TheirHash: "bb", First: since, Count: 4, StopsWrites: true},
			{Kind: "higher epoch elsewhere", Node: "edge-4", Role: "edge", Ours: "1.5", OurHash: "aa", Theirs: "2.5", TheirHash: "cc", First: since, Count: 1},
		}},
		"GET /v1/alarms/edge-2":  api.Difference{Node: "edge-2", Ours: "1.5", Theirs: "1.6", Voter: true, Keys: []api.KeyDifference{{Key: "app/a", Is: api.Different}}},
		"POST /v1/alarms/edge-2": api.Settled{Node: "edge-2", Keep: api.KeepNode, Keys: 1, Rev: "1.6", Restart: true},
		"POST /v1/alarms/edge-4": api.Settled{Node: "edge-4", Keep: api.KeepCluster},
	})
	s.check(t, "alarms list", 0, ""+
		"NODE    ROLE   ALARM                   THEIRS  OURS    TIMES  SINCE\n"+
		"edge-2  voter  leader is behind        1.6 bb  1.5 aa  4      2026-05-01T12:00:00Z  <- stops writes\n"+
		"edge-4  edge   higher epoch elsewhere  2.5 cc  1.5 aa  1      2026-05-01T12:00:00Z\n", "", "GET /v1/alarms")
	s.check(t, "alarms show edge-2", 0, "KEY    IS\napp/a  different\n", ""+
		"edge-2 is at revision 1.6, and the node that was asked at 1.5; that differ: 1 key\n"+
		"agent alarms settle edge-2 --keep cluster: edge-2 takes what the cluster has, and what it holds stays beside its store\n"+
		"agent alarms settle edge-2 --keep node: the keys below are written to the cluster as edge-2 has them, then it takes the cluster's state\n", "GET /v1/alarms/edge-2")
	s.check(t, "alarms settle edge-2 --keep node -y", 0, "", ""+
		"what edge-2 held is written as revision 6: 1 key\n"+
		"edge-2 stops: start its agent again, and it takes the cluster's state\n", `POST /v1/alarms/edge-2 {"keep":"node"}`)
	s.check(t, "alarms settle edge-4 --keep cluster -y", 0, "", "edge-4 has taken the cluster's state\n", `POST /v1/alarms/edge-4 {"keep":"cluster"}`)
	s.check(t, "alarms settle edge-4 --keep both -y", 2, "", "error: --keep \"both\": neither cluster nor node; agent alarms show edge-4 tells what each does. Nothing was changed.\ntry: agent alarms settle --help\n")
	s.check(t, "alarms settle edge-4 --keep cluster", 10, "", "error: edge-4 gives up what it holds and takes what the cluster has? Refused without --yes, since nobody can be asked here. Nothing was changed.\n")
}
