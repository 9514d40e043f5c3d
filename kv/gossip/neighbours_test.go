package gossip

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// crowd is n members with ids as nodes have them, of which some are in raft.
func crowd(n, voters int) []Member {
	r := rand.New(rand.NewPCG(uint64(n), 7))
	list := make([]Member, n)
	for i := range list {
		role := Edge
		if i < voters {
			role = Voter
		}
		list[i] = Member{ID: NodeID(fmt.Sprintf("01k%012x%04d", r.Uint64()>>16, i)), Role: role}
	}
	return list
}

// graph is who names whom among members.
func graph(members []Member, leader NodeID) map[NodeID][]NodeID {
	g := map[NodeID][]NodeID{}
	for i, self := range members {
		others := slices.Concat(members[:i:i], members[i+1:])
		g[self.ID] = Trees(Neighbourhood{Self: self, Leader: leader, Members: others})
	}
	return g
}

// hops is how far each node is that can be reached from one.
func hops(g map[NodeID][]NodeID, from NodeID, through func(NodeID) bool) map[NodeID]int {
	far := map[NodeID]int{from: 0}
	for queue := []NodeID{from}; len(queue) > 0; queue = queue[1:] {
		if queue[0] != from && !through(queue[0]) {
			continue
		}
		for _, id := range g[queue[0]] {
			if _, seen := far[id]; !seen {
				far[id] = far[queue[0]] + 1
				queue = append(queue, id)
			}
		}
	}
	return far
}

func everybody(NodeID) bool { return true }

// Each change reaches everybody from everybody, also around some who are dead.
func TestTreesReachEverybody(t *testing.T) {
	sizes := []int{1, 2, 3, 5, 9, 25, 100, 500}
	if raceEnabled { // there is one goroutine here
		sizes = sizes[:len(sizes)-1]
	}
	for _, size := range sizes {
		members := crowd(size, min(size, 5))
		leader := members[0].ID
		g := graph(members, leader)
		degrees, most := 0, 0
		for id, neighbours := range g {
			degrees, most = degrees+len(neighbours), max(most, len(neighbours))
			if len(neighbours) > MaxNeighbours || slices.Contains(neighbours, id) {
				t.Errorf("%d nodes: %s names %v", size, id, neighbours)
			}
			for _, other := range neighbours {
				if !slices.Contains(g[other], id) {
					t.Errorf("%d nodes: %s names %s, who does not", size, id, other)
				}
			}
		}
		farthest := 0
		for _, from := range []NodeID{leader, members[size-1].ID, members[size/2].ID} {
			far := hops(g, from, everybody)
			if len(far) != size {
				t.Errorf("%d nodes: %d are reached from %s", size, len(far), from)
			}
			for _, n := range far {
				farthest = max(farthest, n)
			}
		}
		// What operators write goes from the leader through who is not in raft.
		far := hops(g, leader, func(id NodeID) bool {
			return !slices.ContainsFunc(members, func(m Member) bool { return m.ID == id && m.Role != Edge })
		})
		deepest := 0
		for _, m := range members {
			n, reached := far[m.ID]
			if m.Role == Edge && !reached {
				t.Errorf("%d nodes: %s is not reached from the leader", size, m.ID)
			}
			deepest = max(deepest, n)
		}
		t.Logf("%d nodes: on average %.1f neighbours, at most %d; from anybody at most %d hops, from the leader %d",
			size, float64(degrees)/float64(size), most, farthest, deepest)
	}
}

// One in twenty is dead and nobody has noticed: nearly all others are reached at once.
func TestTreesGoAroundTheDead(t *testing.T) {
	withoutRace(t)
	members := crowd(500, 5)
	g := graph(members, members[0].ID)
	r := rand.New(rand.NewPCG(1, 2))
	missed := 0
	for range 20 {
		dead := map[NodeID]bool{}
		for len(dead) < 25 {
			dead[members[1+r.IntN(499)].ID] = true
		}
		far := hops(g, members[0].ID, func(id NodeID) bool { return !dead[id] })
		for _, m := range members {
			if _, reached := far[m.ID]; !reached && !dead[m.ID] {
				missed++
			}
		}
	}
	t.Logf("%d of %d living nodes were not reached", missed, 20*475)
	if missed > 20*475/1000 {
		t.Errorf("more than one in a thousand was not reached: %d", missed)
	}
}

// Who comes, goes or begins to lead changes the neighbours of few.
func TestTreesMoveLittle(t *testing.T) {
	withoutRace(t)
	members := crowd(500, 5)
	before := graph(members, members[0].ID)
	changed := func(after map[NodeID][]NodeID) (n int) {
		for id, neighbours := range after {
			for _, other := range neighbours {
				if !slices.Contains(before[id], other) {
					n++
				}
			}
		}
		return n / 2
	}
	worst := 0
	for i := 1; i < len(members); i += 250 {
		worst = max(worst, changed(graph(slices.Concat(members[:i:i], members[i+1:]), members[0].ID)))
	}
	lead := changed(graph(members, members[1].ID))
	t.Logf("connections made anew: when a node goes at most %d, when another one leads %d", worst, lead)
	if worst > 60 || lead > 120 {
		t.Errorf("of some 1,500 connections %d and %d are made anew", worst, lead)
	}
}
