package consensus

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// The patience of the voters' reconciler.
const (
	// readyAfter is how long a node must have been alive to take a dead voter's
	// place. A cluster that grows does not wait: nobody's place is at stake.
	readyAfter = 10 * time.Second
	// readyLag is how far a learner may be behind to get a vote: fewer entries than
	// a second of writes.
	readyLag = 100
	// replaceAfter is how long a voter must have been dead to be replaced. Others
	// replace sooner and flap (hashicorp/consul #6793, rqlite #1293).
	replaceAfter = time.Minute

	reconcileEvery = time.Second
	reconcileFor   = 10 * time.Second // bounds one change
)

// Decide gives the next step towards the voters that a cluster should have, and
// why; ok is false if all is as it should be, or nothing may be done now.
//
// One capable node is one voter; two are a voter and a learner, since two voters
// stop when either is lost; three to six are three voters, and more are five, spread
// over regions; up to two learners stand by. One step at a time: the next is
// decided when this one is committed.
//
// Nothing is done without a quorum, nothing that would leave less than a quorum,
// and no voter is replaced while another is not well either. A dead voter goes only
// when its replacement votes already. Who left goes at once. Who was demoted counts
// as one that may not vote, and may stay a learner beside those that stand by.
func Decide(s Standing) (step Change, why string, ok bool) {
	d := &decider{Standing: s, voterSet: s.voters(), learnerSet: s.learners()}
	d.want, d.spares = sizes(s.capable())
	if count(d.voterSet, isHealthy) < quorum(len(d.voterSet)) {
		return Change{}, "", false
	}
	for _, rule := range []func() (Change, string, bool){
		d.leaderGoes, d.addressMoved, d.learnerWent, d.voterWent,
		d.promote, d.tooMany, d.growthFailed, d.addLearner, d.tooManyLearners, d.spread,
	} {
		if step, why, ok = rule(); ok {
			return step, why, true
		}
	}
	return Change{}, "", false
}

// decider is a Standing with what follows from it.
type decider struct {
	Standing
	voterSet, learnerSet []voter
	want, spares         int
}

// missing is how many votes are to be given.
func (d *decider) missing() int { return max(0, d.want-count(d.voterSet, voter.keepsVote)) }

func no() (Change, string, bool) { return Change{}, "", false }

func yes(kind ChangeKind, server, why string, args ...any) (Change, string, bool) {
	return Change{Kind: kind, Server: server}, fmt.Sprintf(why, args...), true
}

// leaderGoes hands leadership over before the leader's own vote is taken.
func (d *decider) leaderGoes() (Change, string, bool) {
	own, health := d.member(d.Leader)
	if health == unknown || health != gone && own.Votes && !own.Demoted {
		return no()
	}
	for _, v := range d.voterSet {
		if v.ID != d.Leader && v.health == healthy && v.Votes && !v.Demoted {
			return yes(HandOver, v.ID, "the leader is not to vote any more")
		}
	}
	return no()
}

func (d *decider) addressMoved() (Change, string, bool) {
	for _, v := range slices.Concat(d.voterSet, d.learnerSet) {
		if v.health == healthy && v.Member.Address != "" && v.Member.Address != v.Server.Address {
			step, why, ok := yes(Move, v.ID, "it is at %s now", v.Member.Address)
			step.Address = v.Member.Address
			return step, why, ok
		}
	}
	return no()
}

// learnerWent removes a learner that left, is dead, or may not vote.
func (d *decider) learnerWent() (Change, string, bool) {
	for _, l := range d.learnerSet {
		if !l.stays() {
			return yes(Remove, l.ID, "it left, is dead, or may not vote")
		}
	}
	return no()
}

// voterWent removes a voter whose node left, and takes the vote of one that may
// have none.
func (d *decider) voterWent() (Change, string, bool) {
	for _, v := range d.voterSet {
		if v.ID == d.Leader || !canLose(d.voterSet, v) {
			continue
		}
		if v.health == gone {
			return yes(Remove, v.ID, "its node left, or came back under another server id")
		}
		if v.health == healthy && (!v.Votes || v.Demoted) {
			return yes(Demote, v.ID, "it is not to vote any more")
		}
	}
	return no()
}

// promote gives a vote where one is missing: because the cluster grows, or
// because a voter is to be replaced.
func (d *decider) promote() (Change, string, bool) {
	if d.missing() == 0 {
		return no()
	}
	grows := count(d.voterSet, isHealthy) == len(d.voterSet)
	alive := readyAfter
	if grows {
		alive = 0
	}
	ready := d.ready(alive)
	if d.want > 1 && len(d.voterSet) == 1 && len(ready) < 2 {
		return no() // two voters are to be three soon
	}
	if len(ready) == 0 {
		return no()
	}
	return yes(Promote, ready[0].Server, "there are to be %d voters", d.want)
}

// ready are the learners that may get a vote, the best first.
func (d *decider) ready(alive time.Duration) []Member {
	own, _ := d.member(d.Leader)
	var ready []Member
	for _, l := range d.learnerSet {
		lag, known := d.Lag[l.ID]
		if l.health == healthy && l.mayVote() && l.Since >= alive && known && lag < readyLag && l.Level >= own.Level {
			l.Member.Server = l.ID
			ready = append(ready, l.Member)
		}
	}
	slices.SortFunc(ready, byRegion(regions(d.voterSet)))
	return ready
}

// tooMany takes a vote that is one too many: a dead voter's whose place is taken,
// or one of the region that has most.
func (d *decider) tooMany() (Change, string, bool) {
	if len(d.voterSet) <= d.want {
		return no()
	}
	if count(d.voterSet, isHealthy) < len(d.voterSet) {
		return d.deadOne()
	}
	byNeed := regions(d.voterSet)
	surplus := slices.DeleteFunc(slices.Clone(d.voterSet), func(v voter) bool {
		return v.ID == d.Leader || !canLose(d.voterSet, v)
	})
	if len(surplus) == 0 {
		return no()
	}
	worst := slices.MaxFunc(surplus, func(a, b voter) int {
		return cmp.Or(cmp.Compare(byNeed[a.Region], byNeed[b.Region]), cmp.Compare(a.Node, b.Node))
	})
	return yes(Demote, worst.ID, "there are to be %d voters", d.want)
}

// deadOne removes the one voter that is dead, if all others are well.
func (d *decider) deadOne() (Change, string, bool) {
	if count(d.voterSet, isHealthy) < len(d.voterSet)-1 {
		return no()
	}
	for _, v := range d.voterSet {
		if v.health == dead && canLose(d.voterSet, v) {
			return yes(Remove, v.ID, "it is dead for %v and has been replaced", v.Since.Round(time.Second))
		}
	}
	return no()
}

// growthFailed goes back from two voters to one, when the third that was there
// is not any more: two are worse than one.
func (d *decider) growthFailed() (Change, string, bool) {
	if len(d.voterSet) != 2 || count(d.voterSet, isHealthy) < 2 {
		return no()
	}
	for _, m := range d.Members {
		if m.mayVote() && m.Alive && !d.isVoter(m.Node) {
			return no() // it may come to vote
		}
	}
	for _, v := range d.voterSet {
		if v.ID != d.Leader {
			return yes(Demote, v.ID, "two voters are worse than one, and there is no third")
		}
	}
	return no()
}

func (d *decider) isVoter(node string) bool {
	return slices.ContainsFunc(d.voterSet, func(v voter) bool { return NodeOf(v.ID) == node })
}

// standingBy are the learners that may get a vote.
func (d *decider) standingBy() []voter {
	return slices.DeleteFunc(slices.Clone(d.learnerSet), func(l voter) bool { return l.Demoted })
}

// addLearner lets another node follow: one that is to get a vote, or that stands by.
func (d *decider) addLearner() (Change, string, bool) {
	if len(d.standingBy()) >= d.missing()+d.spares {
		return no()
	}
	var fit []Member
	for _, m := range d.Members {
		if m.mayVote() && m.Alive && m.Server != "" && m.Address != "" && !d.isServer(m.Server) {
			fit = append(fit, m)
		}
	}
	if len(fit) == 0 {
		return no()
	}
	best := slices.MinFunc(fit, byRegion(regions(slices.Concat(d.voterSet, d.learnerSet))))
	step, why, ok := yes(AddLearner, best.Server, "%d are to get a vote, %d to stand by", d.missing(), d.spares)
	step.Address = best.Address
	return step, why, ok
}

func (d *decider) isServer(id string) bool {
	return slices.ContainsFunc(d.Servers, func(s Server) bool { return s.ID == id })
}

// tooManyLearners removes a learner that nobody needs, when all voters are well.
func (d *decider) tooManyLearners() (Change, string, bool) {
	if count(d.voterSet, isHealthy) < len(d.voterSet) || len(d.standingBy()) <= d.missing()+d.spares {
		return no()
	}
	surplus := slices.DeleteFunc(d.standingBy(), func(l voter) bool { return l.health == unknown })
	if len(surplus) == 0 {
		return no()
	}
	byNeed := regions(d.voterSet)
	worst := slices.MaxFunc(surplus, func(a, b voter) int {
		return cmp.Or(cmp.Compare(byNeed[a.Region], byNeed[b.Region]), cmp.Compare(a.ID, b.ID))
	})
	return yes(Remove, worst.ID, "%d learners are to stand by", d.spares)
}

// spread gives a vote to a region that has two fewer than another; the vote that is
// then too many is taken from the fullest.
func (d *decider) spread() (Change, string, bool) {
	if d.want < 3 || len(d.voterSet) != d.want || count(d.voterSet, isHealthy) < d.want {
		return no()
	}
	byNeed := regions(d.voterSet)
	ready := d.ready(readyAfter)
	if len(ready) == 0 || byNeed[ready[0].Region]+2 > fullest(byNeed) {
		return no()
	}
	return yes(Promote, ready[0].Server, "region %q has %d voters, another %d", ready[0].Region, byNeed[ready[0].Region], fullest(byNeed))
}

// Reconcile leads the cluster to the voters that it should have, while this node
// leads, until ctx ends; it returns ctx's error. members is asked before every step.
// A node stays among them, dead, until it has left: of one that is missing nothing
// is known, and nothing is done with it.
func (r *Raft) Reconcile(ctx context.Context, members func() []Member) error {
	for {
		select {
		case <-time.After(reconcileEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
		servers, index, leads := r.committed()
		if !leads {
			continue
		}
		step, why, ok := Decide(Standing{Members: members(), Servers: servers, Leader: r.server(), Lag: r.lags()})
		if !ok {
			continue
		}
		one, cancel := context.WithTimeout(ctx, reconcileFor)
		err := r.Change(one, step, index)
		cancel()
		if err != nil {
			r.log.Info("voters were not changed", "change", step.String(), "why", why, "err", err)
			continue
		}
		r.log.Info("voters were changed", "change", step.String(), "why", why)
	}
}

// committed gives the configuration and its index, if this node leads and has
// applied all that came before its term.
func (r *Raft) committed() (servers []Server, index uint64, leads bool) {
	i := r.instance()
	if i == nil {
		return nil, 0, false
	}
	if _, settled := i.isSettled(); !settled {
		return nil, 0, false
	}
	c, index := i.configuration()
	return fromConfiguration(c), index, true
}

// lags are how far those servers are behind that were heard of lately.
func (r *Raft) lags() map[string]uint64 {
	lags := map[string]uint64{}
	for _, peer := range r.Peers() {
		if peer.Reachable {
			lags[peer.ID] = peer.Lag
		}
	}
	return lags
}
