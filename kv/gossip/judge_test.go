package gossip

import (
	"testing"

	"grapevine/kv"
)

func TestRelate(t *testing.T) {
	ours := kv.Head{Rev: kv.Rev{Epoch: 2, Rev: 5}, EpochID: [16]byte{2}, Hash: kv.Hash{5}, Signature: [64]byte{1}}
	with := func(change func(*kv.Head)) kv.Head {
		theirs := ours
		change(&theirs)
		return theirs
	}
	empty := kv.Head{Rev: kv.Rev{Epoch: 1}, EpochID: [16]byte{9}, Hash: kv.Hash{9}}
	for _, tt := range []struct {
		name         string
		ours, theirs kv.Head
		want         relation
	}{
		{"the same", ours, ours, equal},
		{"the same with another raft index", ours, with(func(h *kv.Head) { h.Index = 7 }), equal},
		{"the same with another signature", ours, with(func(h *kv.Head) { h.Signature = [64]byte{2} }), equal},
		{"lower revision", ours, with(func(h *kv.Head) { h.Rev.Rev, h.Hash = 4, kv.Hash{4} }), older},
		{"higher revision", ours, with(func(h *kv.Head) { h.Rev.Rev, h.Hash = 6, kv.Hash{6} }), newer},
		{"another hash", ours, with(func(h *kv.Head) { h.Hash = kv.Hash{6} }), forked},
		{"lower epoch", ours, with(func(h *kv.Head) { h.Rev.Epoch = 1; h.EpochID = [16]byte{1} }), lowerEpoch},
		{"lower epoch, higher revision", ours, with(func(h *kv.Head) { h.Rev = kv.Rev{Epoch: 1, Rev: 99}; h.EpochID = [16]byte{1} }), lowerEpoch},
		{"higher epoch, lower revision", ours, with(func(h *kv.Head) { h.Rev = kv.Rev{Epoch: 3, Rev: 1}; h.EpochID = [16]byte{3} }), higherEpoch},
		{"another epoch of our number", ours, with(func(h *kv.Head) { h.EpochID = [16]byte{3} }), rival},
		{"another epoch of our number, ahead", ours, with(func(h *kv.Head) { h.EpochID = [16]byte{3}; h.Rev.Rev = 9 }), rival},
		{"they have nothing", ours, empty, blank},
		{"we have nothing", empty, ours, first},
		{"nobody has anything", empty, kv.Head{Rev: kv.Rev{Epoch: 1}, EpochID: [16]byte{8}}, blank},
		{"an epoch that began and has no revision", ours, with(func(h *kv.Head) { h.Rev = kv.Rev{Epoch: 3}; h.EpochID = [16]byte{3} }), higherEpoch},
	} {
		if got := relate(tt.ours, tt.theirs); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}

// Each relation with each standing.
func TestJudge(t *testing.T) {
	head := func(epoch uint32, id byte, rev uint64, hash byte) kv.Head {
		return kv.Head{Rev: kv.Rev{Epoch: epoch, Rev: rev}, EpochID: [16]byte{id}, Hash: kv.Hash{hash}}
	}
	ours, empty := head(2, 2, 5, 5), head(1, 1, 0, 0)
	plain, raft := standing{}, standing{inRaft: true}
	follower := standing{ownQuorum: true}
	voter, leader := standing{inRaft: true, ownQuorum: true}, standing{inRaft: true, ownQuorum: true, leads: true}
	type wants [5]verdict // in the order of: plain, raft, follower, voter, leader
	for _, tt := range []struct {
		name         string
		ours, theirs kv.Head
		want         wants
	}{
		{"equal", ours, ours, wants{nothing, nothing, nothing, nothing, nothing}},
		{"older", ours, head(2, 2, 4, 4), wants{answer, answer, answer, answer, answer}},
		{"newer", ours, head(2, 2, 6, 6), wants{pull, nothing, pull, nothing, leaderBehind}},
		{"forked", ours, head(2, 2, 5, 6), wants{diverged, diverged, diverged, diverged, diverged}},
		{"rival", ours, head(2, 3, 9, 9), wants{rivals, rivals, rivals, rivals, rivals}},
		{"lower epoch", ours, head(1, 1, 9, 9), wants{answer, answer, answer, answer, answer}},
		{"higher epoch", ours, head(3, 3, 1, 1), wants{replace, epochAhead, epochAhead, epochAhead, epochAhead}},
		{"they are blank", ours, empty, wants{answer, answer, answer, answer, answer}},
		{"we are blank", empty, ours, wants{replace, nothing, replace, nothing, nothing}},
	} {
		for i, s := range []standing{plain, raft, follower, voter, leader} {
			if got := judge(tt.ours, tt.theirs, s); got != tt.want[i] {
				t.Errorf("%s with %+v: got %d, want %d", tt.name, s, got, tt.want[i])
			}
		}
	}
}
