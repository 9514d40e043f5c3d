package gossip

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"time"
)

// Pushes that fit go by a packet too: a connection that has lost something stands still
// for the 200 ms and more that TCP waits before it sends it again, and a packet does
// not. What comes twice is dropped.
const (
	// messageChanges is followed by a text, the sender's full name, and changes.
	messageChanges = 3
	// messageFlood is followed by a text, the sender's full name, a seal of 16 bytes, and planeChanges.
	messageFlood = 4
)

// packetKey seals what one node pushes to another by packets, beside a connection over which the
// other got the key. Who has but the key of the gossip, as a node that was shut out has for a while, must not be
// able to announce anything. What the leader made is signed, and needs no seal.
type packetKey [16]byte

type packetSeal [16]byte

func newPacketKey() (key packetKey) {
	rand.Read(key[:]) // never fails: it would end the process
	return key
}

// seal is that of a body by a sender.
func (k packetKey) seal(from string, body []byte) (seal packetSeal) {
	h := hmac.New(sha256.New, k[:])
	h.Write(append([]byte{byte(len(from))}, from...))
	h.Write(body)
	copy(seal[:], h.Sum(nil))
	return seal
}

// sendPush sends a push by a packet if it fits, sealed with a key if there is one.
func (p *Peer) sendPush(to Member, message byte, key *packetKey, body []byte) {
	if len(body) > maxPacketPush || to.Address == "" {
		return
	}
	p.send(to, pushPacket(message, fullName(p.o.Meta.ID, p.o.Boot), key, body))
}

func pushPacket(message byte, from string, key *packetKey, body []byte) []byte {
	e := encoder{buf: make([]byte, 0, 1+1+maxFullName+len(packetSeal{})+len(body))}
	e.u8(message)
	e.text(from, maxFullName)
	if key != nil {
		seal := key.seal(from, body)
		e.buf = append(e.buf, seal[:]...)
	}
	return append(e.buf, body...)
}

// sealed tells whether a member with which there is a connection made a seal.
func (p *Peer) sealed(from Member, seal packetSeal, body []byte) bool {
	l := p.linked(from)
	if l == nil {
		return false
	}
	s := l.connected()
	if s == nil {
		return false
	}
	want := s.theirs.key.seal(fullName(from.ID, from.boot), body)
	return hmac.Equal(want[:], seal[:])
}

// hearPush takes a push from a packet. Of the leader's changes nobody has proved who sent them.
func (p *Peer) hearPush(message byte, b []byte) error {
	d := decoder{rest: b}
	name := d.text(maxFullName)
	if d.problem != "" {
		return fmt.Errorf("push %s", d.problem)
	}
	from, known := p.members.heard(name)
	if !known || from.ID == p.o.Meta.ID {
		return nil
	}
	if message == messageChanges {
		c, err := decodeChanges(d.rest)
		if err != nil {
			return err
		}
		return p.takePush(from, c, true)
	}
	seal := packetSeal(d.take(len(packetSeal{})))
	if d.problem != "" {
		return fmt.Errorf("push %s", d.problem)
	}
	if !p.sealed(from, seal, d.rest) {
		return fmt.Errorf("push in the name of node %s is not sealed by it", from.ID) // or of a former connection
	}
	c, err := decodePlaneChanges(d.rest)
	if err != nil {
		return err
	}
	return p.takeFlood(from, c, true)
}

const (
	// appliedPause gathers what this node applies: the first is told at once, what
	// comes within the pause together (decisions: coalescing is leading-edge).
	appliedPause = 20 * time.Millisecond
	// reportsLeast is the pause after which a report is sent once more, as any of them may be
	// lost; it doubles, up to reportsMost. The leader of a thousand nodes gets 17
	// a second of those that only repeat.
	reportsLeast = 200 * time.Millisecond
	reportsMost  = time.Minute
)

// tellLeader lets the leader know what this node serves: at once by a packet, and again,
// less and less often. To a leader that is a neighbour the link tells it.
func (p *Peer) tellLeader() {
	pauses := backoff{least: reportsLeast, most: reportsMost}
	leader, told := NodeID(""), uint64(0)
	for {
		reported, refreshed := p.reported.wait(), p.refreshed.wait()
		if now, seq := p.o.Leader(), p.reportSeq(); now != leader || seq != told {
			leader, told = now, seq
			pauses.reset()
		}
		if told > 0 && leader != "" && leader != p.o.Meta.ID {
			p.reportTo(leader)
		}
		if !pause(p.ctx.Done(), appliedPause) {
			return
		}
		timer := time.NewTimer(pauses.next())
		select {
		case <-reported:
		case <-refreshed:
		case <-timer.C:
		case <-p.ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

func (p *Peer) reportTo(leader NodeID) {
	member := p.members.find(leader)
	if !member.alive() || member.ID == "" {
		return
	}
	if l := p.linked(member); l != nil && l.connected() != nil {
		return
	}
	p.sendHead(member)
}

// reportSeq is the number of this node's latest report.
func (p *Peer) reportSeq() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.report.seq
}
