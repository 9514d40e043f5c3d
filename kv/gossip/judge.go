package gossip

import "grapevine/kv"

// relation is how another node's head of a stream stands to ours.
type relation int

const (
	equal      relation = iota
	older               // of our history, as far as its revision tells; we have more
	newer               // of our history, as far as its revision tells; they have more
	forked              // our revision, in our epoch, with another hash
	blank               // they have nothing, whatever their epoch
	first               // we have nothing, whatever our epoch, and they have something
	lowerEpoch          // they live in the past
	rival               // an epoch with our number that is not ours
	higherEpoch
)

// relate compares heads. It does not know whether theirs is genuine, nor whether
// an older one is in our history.
func relate(ours, theirs kv.Head) relation {
	switch {
	case theirs.Rev == ours.Rev && theirs.EpochID == ours.EpochID && theirs.Hash == ours.Hash:
		return equal
	case isBlank(theirs):
		return blank
	case isBlank(ours):
		return first
	case theirs.Rev.Epoch < ours.Rev.Epoch:
		return lowerEpoch
	case theirs.Rev.Epoch > ours.Rev.Epoch:
		return higherEpoch
	case theirs.EpochID != ours.EpochID:
		return rival
	case theirs.Rev.Rev < ours.Rev.Rev:
		return older
	case theirs.Rev.Rev > ours.Rev.Rev:
		return newer
	}
	return forked
}

// isBlank tells of a store that nothing was ever written to. Every node begins in
// an epoch of its own, which means nothing until something was written in it.
func isBlank(h kv.Head) bool { return h.Rev.Rev == 0 && h.Signature == [64]byte{} }

// standing is what decides, beside the heads, what a node may take.
type standing struct {
	inRaft    bool // its entries come from raft alone
	ownQuorum bool // the quorum that it follows answers, in its epoch
	leads     bool // it leads, and its store has all that was committed before
}

// verdict is what to do about a head.
type verdict int

const (
	nothing  verdict = iota
	answer           // tell them our head: they lack something
	pull             // fetch what we lack
	replace          // fetch all, and put it in the place of what we have
	diverged         // the alarms, in the words of AlarmKind
	rivals
	epochAhead
	leaderBehind
)

// judge decides about a head. What it wants to pull, to replace or to alarm about
// has to be verified first.
func judge(ours, theirs kv.Head, s standing) verdict {
	switch relate(ours, theirs) {
	case older, blank, lowerEpoch:
		return answer
	case newer:
		return s.take(pull, nothing)
	case first:
		return s.take(replace, nothing)
	case forked:
		return diverged
	case rival:
		return rivals
	case higherEpoch:
		if s.ownQuorum {
			return epochAhead
		}
		return s.take(replace, epochAhead)
	}
	return nothing
}

// take gives taking to who may take, and else to the others; but who leads is
// never behind.
func (s standing) take(taking, others verdict) verdict {
	switch {
	case s.leads && taking == pull:
		return leaderBehind
	case s.inRaft:
		return others
	}
	return taking
}

// follows tells whether changes that begin at a head can be applied.
func follows(since relation) bool { return since == equal || since == older }
