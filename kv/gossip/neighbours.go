package gossip

import (
	"cmp"
	"hash/fnv"
	"slices"
)

// Neighbourhood is what a node knows when it looks for its neighbours.
type Neighbourhood struct {
	Self    Member
	Leader  NodeID   // empty if unknown
	Members []Member // the living ones, in the order of their ids, without Self
}

// Neighbours names the members with which a node exchanges what is new: what it made, and
// what others pushed to it. Two that see the same members and leader must name each
// other. Changes must reach every node from every other, whatever way; no node sends
// one back to whom it has it from.
type Neighbours func(Neighbourhood) []NodeID

// The shape of the trees. Measured for a thousand nodes of which 1 % are dead and not
// noticed yet: two trees of eight children need 150 ms for the last node in a hundred
// changes, three of four need 4 ms.
const (
	trees  = 3
	fanOut = 4
	// MaxNeighbours is how many Trees names at most.
	MaxNeighbours = trees * (fanOut + 1)
)

// Trees names the parent and the children in three trees over the living members.
//
// Each member has a salted hash in each tree. The root is the one with the lowest; all others go by two
// bits of a second hash to one of four groups, whose lowest is a child of the
// root, and so on. So a node which comes or goes changes the neighbours of a few
// nodes only: its subtree moves up or down along one path. In an array that is sorted by
// hash, where the parent is at a quarter of the index, all behind it would move.
//
// The leader stands above all, as what operators write begins there. Who has its
// entries from raft stands below all others, since it passes on nothing before raft has
// brought it.
func Trees(n Neighbourhood) []NodeID {
	members := slices.Concat(n.Members, []Member{n.Self})
	var ids []NodeID
	for salt := range byte(trees) {
		for _, id := range inTree(places(members, n.Leader, salt), n.Self.ID) {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// place is where a member belongs in a tree.
type place struct {
	id   NodeID
	rank uint8  // 0 stands above 1, and that above 2
	hash uint64 // within a rank, the lower stands above
	path uint64 // two bits for each level, from the lowest on
}

// compare is negative if a stands above b.
func (a place) compare(b place) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.hash, b.hash), cmp.Compare(a.id, b.id))
}

func places(members []Member, leader NodeID, salt byte) []place {
	list := make([]place, len(members))
	for i, m := range members {
		list[i] = place{id: m.ID, rank: 1, hash: salted(salt, 'h', m.ID), path: salted(salt, 'p', m.ID)}
		switch {
		case m.ID == leader:
			list[i].rank = 0
		case m.Role != Edge:
			list[i].rank = 2
		}
	}
	return list
}

// salted mixes FNV's hash, whose low bits alone are too alike.
func salted(salt, use byte, id NodeID) uint64 {
	h := fnv.New64a()
	h.Write([]byte{salt, use})
	h.Write([]byte(id))
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd // of MurmurHash3
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// inTree names the parent and the children of one in a tree.
func inTree(group []place, self NodeID) (ids []NodeID) {
	path := group[slices.IndexFunc(group, func(p place) bool { return p.id == self })].path
	for level := 0; ; level++ {
		top := slices.MinFunc(group, place.compare)
		if top.id == self {
			return append(ids, children(group, self, level)...)
		}
		ids = []NodeID{top.id}
		group = slices.DeleteFunc(group, func(p place) bool {
			return p.id == top.id || branch(p.path, level) != branch(path, level)
		})
	}
}

// children names the highest of each group below the one that stands above all.
func children(group []place, top NodeID, level int) (ids []NodeID) {
	var highest [fanOut]place
	for _, p := range group {
		child := &highest[branch(p.path, level)]
		if p.id != top && (child.id == "" || p.compare(*child) < 0) {
			*child = p
		}
	}
	for _, p := range highest {
		if p.id != "" {
			ids = append(ids, p.id)
		}
	}
	return ids
}

// branch is the group to which a path leads at a level; it begins anew after 32.
func branch(path uint64, level int) int { return int(path >> (2 * (level % 32)) % fanOut) }
