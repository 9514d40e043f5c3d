package gossip

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"

	"grapevine/kv"
)

// answerPause is the least time between two answers out of turn to one member.
const answerPause = 50 * time.Millisecond

// NodeMeta is what memberlist carries with this node.
func (p *Peer) NodeMeta(int) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return encodeMeta(p.meta)
}

// NotifyMsg is called by memberlist with a message, and must not wait.
func (p *Peer) NotifyMsg(b []byte) {
	select {
	case p.inbox <- slices.Clone(b):
	default:
		p.counters.packetsDropped.add(1)
	}
}

// GetBroadcasts is empty: memberlist's broadcasts lose updates.
func (p *Peer) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState and MergeRemoteState carry a digest with memberlist's push/pull.
func (p *Peer) LocalState(bool) []byte {
	return p.digest().encode([]byte{messageDigest}, packetProblem)
}

func (p *Peer) MergeRemoteState(b []byte, _ bool) { p.NotifyMsg(b) }

// AckPayload and NotifyPingComplete let the peer hear of probes that succeed.
func (p *Peer) AckPayload() []byte { return nil }

func (p *Peer) NotifyPingComplete(n *memberlist.Node, _ time.Duration, _ []byte) {
	p.members.heard(n.Name)
	p.members.packetsCome(n.Name)
}

// sendHeads tells one member after the other, at random, how far this node is.
func (p *Peer) sendHeads() {
	for pause(p.ctx.Done(), jitter(p.o.Timings.Heads)) {
		if others := p.members.others(p.o.Meta.ID); len(others) > 0 {
			p.counters.headsSent.add(1)
			p.send(others[rand.IntN(len(others))], p.digest().brief().encode([]byte{messageBrief}))
		}
	}
}

// sendHead tells a member all that a packet has room for.
func (p *Peer) sendHead(to Member) {
	p.counters.headsSent.add(1)
	p.send(to, p.digest().encode([]byte{messageDigest}, packetProblem))
}

// send sends a packet that may be lost.
func (p *Peer) send(to Member, message []byte) {
	address := memberlist.Address{Addr: to.Address, Name: fullName(to.ID, to.boot)}
	if err := p.list.SendToAddress(address, message); err != nil {
		p.log.Debug("packet was not sent", "member", string(to.ID), "err", err)
	}
}

// readInbox handles what memberlist handed over.
func (p *Peer) readInbox() {
	for {
		select {
		case message := <-p.inbox:
			if err := p.handle(message); err != nil {
				p.counters.packetsBad.add(1)
				p.log.Debug("message was not understood", "err", err)
			}
		case <-p.ctx.Done():
			return
		}
	}
}

func (p *Peer) handle(message []byte) error {
	if len(message) == 0 {
		return errors.New("message is empty")
	}
	switch body := message[1:]; message[0] {
	case messageDigest:
		d, err := decodeDigest(body)
		if err == nil {
			p.counters.headsReceived.add(1)
			p.hear(d, false)
		}
		return err
	case messageBrief:
		return p.answerBrief(body)
	case messageCompare:
		d, err := decodeDigest(body)
		if err == nil {
			p.counters.headsReceived.add(1)
			p.compare(d)
		}
		return err
	case messageDeparted:
		return p.hearDeparted(body)
	case messageChanges, messageFlood:
		return p.hearPush(message[0], body)
	}
	return errors.New("message is of an unknown kind")
}

// hear takes in what a member says of itself, if it is one; see want for what is urgent.
func (p *Peer) hear(d digest, urgent bool) {
	from, known := p.members.heard(fullName(d.id, d.boot))
	if !known || from.ID == p.o.Meta.ID {
		return
	}
	p.members.reported(fullName(d.id, d.boot), d.report)
	p.compareMembers(from, d.members)
	for _, h := range d.heads {
		if s := p.stream(h.stream); s != nil {
			p.consider(from, s, h.head, urgent)
		}
	}
	for _, d := range d.planes {
		if c := p.course(d.plane); c != nil {
			p.considerPlane(from, c, d.digest)
		}
	}
}

// consider is what is done about another node's head, however it came; see want for
// what is urgent.
func (p *Peer) consider(from Member, s Stream, theirs kv.Head, urgent bool) verdict {
	// In this order: what is committed after a leader was found to have all that it
	// made may be in theirs, and then is in ours too.
	standing := p.standing()
	ours := s.Head()
	v := judge(ours, theirs, standing)
	switch v {
	case nothing:
		p.agrees(from, s, ours, theirs)
	case answer:
		if p.contradicts(from, s, ours, theirs) {
			return diverged
		}
		if p.members.mayAnswer(fullName(from.ID, from.boot), answerPause) {
			p.counters.answers.add(1)
			p.sendHead(from)
		}
	case pull, replace:
		if p.genuine(from, s, ours, theirs) {
			p.puller.want(from, s, theirs, urgent)
		}
	default:
		if p.genuine(from, s, ours, theirs) {
			p.alarms.raise(alarmOf(v), from, s.ID(), ours, theirs, nil)
		}
	}
	return v
}

func alarmOf(v verdict) AlarmKind {
	return map[verdict]AlarmKind{diverged: Diverged, rivals: Rivals, epochAhead: EpochAhead, leaderBehind: LeaderBehind}[v]
}

// agrees ends the alarms about a node whose head is ours.
func (p *Peer) agrees(from Member, s Stream, ours, theirs kv.Head) {
	if relate(ours, theirs) == equal {
		p.alarms.settle(from.ID, s.ID())
		p.knows(from, s.ID(), theirs)
	}
}

// genuine verifies a head, and raises an alarm if it is not.
func (p *Peer) genuine(from Member, s Stream, ours, theirs kv.Head) bool {
	err := s.Verify(theirs)
	if err != nil {
		p.alarms.raise(Forged, from, s.ID(), ours, theirs, err)
	}
	return err == nil
}

// contradicts looks whether an older head is one that our history had too.
func (p *Peer) contradicts(from Member, s Stream, ours, theirs kv.Head) bool {
	if relate(ours, theirs) != older {
		return false
	}
	_, _, err := s.Delta(theirs, 1)
	if errors.Is(err, kv.ErrDiverged) && relate(s.Head(), theirs) == older {
		if p.genuine(from, s, ours, theirs) {
			p.alarms.raise(Diverged, from, s.ID(), ours, theirs, err)
		}
		return true
	}
	if err == nil {
		p.alarms.settle(from.ID, s.ID())
	}
	return false
}
