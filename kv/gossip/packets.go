package gossip

import (
	"fmt"
	"time"
)

// Pushes that fit go by a packet too: a connection that has lost something stands still
// for the 200 ms and more that TCP waits before it sends it again, and a packet does
// not. What comes twice is dropped.
const (
	// messageChanges is followed by a text, the sender's full name, and changes.
	messageChanges = 3
	// messageFlood is followed by a text, the sender's full name, and planeChanges.
	messageFlood = 4
)

func (p *Peer) sendPush(to Member, message byte, body []byte) {
	if len(body) > maxPacketPush || to.Address == "" {
		return
	}
	p.send(to, pushPacket(message, fullName(p.o.Meta.ID, p.o.Boot), body))
}

func pushPacket(message byte, from string, body []byte) []byte {
	e := encoder{buf: make([]byte, 0, 1+1+maxFullName+len(body))}
	e.u8(message)
	e.text(from, maxFullName)
	return append(e.buf, body...)
}

// hearPush takes a push from a packet, of which nobody has proved who sent it.
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
