package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
)

const (
	// messageBrief is followed by a brief.
	messageBrief = 5
	// messageCompare is followed by a digest, and wants the other's as an answer.
	messageCompare = 6
)

const briefVersion = 1

// brief is a digest in 22 bytes: enough to see whether two nodes have the same, as they
// nearly always do. Who sees that they have not sends a digest and asks for one.
type brief struct {
	sender uint64 // of the full name
	sum    uint64 // of members, heads and planes
	report uint32 // the low bits of the number of the sender's report
}

// encode appends u8 version, u64 sender, u64 sum, u32 report.
func (b brief) encode(buf []byte) []byte {
	e := encoder{buf: buf}
	e.u8(briefVersion)
	e.u64(b.sender)
	e.u64(b.sum)
	e.u32(b.report)
	return e.buf
}

func decodeBrief(bytes []byte) (brief, error) {
	d := decoder{rest: bytes}
	if version := d.u8(); version != briefVersion && d.problem == "" {
		return brief{}, fmt.Errorf("brief has version %d, here is %d", version, briefVersion)
	}
	b := brief{sender: d.u64(), sum: d.u64(), report: d.u32()}
	if problem := d.end(); problem != "" {
		return brief{}, fmt.Errorf("brief %s", problem)
	}
	return b, nil
}

// brief is that of a digest.
func (g digest) brief() brief {
	h := fnv.New64a()
	u64 := func(n uint64) { h.Write(binary.BigEndian.AppendUint64(nil, n)) }
	u64(g.members)
	for _, s := range g.heads {
		u64(uint64(s.stream))
		if isBlank(s.head) {
			continue // whatever its epoch, which nothing was written in
		}
		u64(uint64(s.head.Rev.Epoch))
		u64(s.head.Rev.Rev)
		h.Write(s.head.EpochID[:])
		h.Write(s.head.Hash[:])
	}
	for _, p := range g.planes {
		u64(uint64(p.plane))
		u64(p.digest)
	}
	return brief{sender: nameSum(fullName(g.id, g.boot)), sum: h.Sum64(), report: uint32(g.report.seq)}
}

// nameSum stands for a full name where there is little room.
func nameSum(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// hearBrief reports who says it, and whether nothing more has to be said. A sender
// that is no member is the zero Member.
func (p *Peer) hearBrief(bytes []byte) (from Member, same bool, err error) {
	b, err := decodeBrief(bytes)
	if err != nil {
		return Member{}, false, err
	}
	from, report := p.members.heardSum(b.sender)
	if from.ID == "" || from.ID == p.o.Meta.ID {
		return Member{}, true, nil
	}
	ours := p.digest()
	if ours.brief().sum != b.sum || uint32(report.seq) != b.report {
		return from, false, nil
	}
	for _, h := range ours.heads {
		p.agrees(from, p.stream(h.stream), h.head, h.head)
	}
	for _, d := range ours.planes {
		p.considerPlane(from, p.course(d.plane), d.digest)
	}
	return from, true, nil
}

// answerBrief compares digests with who has something else.
func (p *Peer) answerBrief(bytes []byte) error {
	p.counters.headsReceived.add(1)
	from, same, err := p.hearBrief(bytes)
	if err == nil && !same && p.members.mayAnswer(fullName(from.ID, from.boot), answerPause) {
		p.counters.answers.add(1)
		p.counters.headsSent.add(1)
		p.send(from, p.digest().encode([]byte{messageCompare}, packetProblem))
	}
	return err
}

// compare hears a digest and answers it.
func (p *Peer) compare(d digest) {
	p.hear(d, false)
	from, known := p.members.heard(fullName(d.id, d.boot))
	if known && from.ID != p.o.Meta.ID {
		p.sendHead(from)
	}
}

// takeBrief is answerBrief for what came over a connection: the answer goes over it, too,
// as there may be no way for packets.
func (p *Peer) takeBrief(s *session, bytes []byte) error {
	from, same, err := p.hearBrief(bytes)
	if err != nil {
		return err
	}
	if from.ID != "" && from.ID != s.theirs.digest.id {
		return errors.New("a node speaks as another one")
	}
	if !same {
		select {
		case s.asked <- struct{}{}:
		default:
		}
	}
	return nil
}

// heardSum is heard for who gives a sum of its name only, the zero Member if it is none. It tells
// its latest report, too.
func (m *members) heardSum(sum uint64) (Member, report) {
	m.mu.Lock()
	if m.sums == nil {
		m.sums = make(map[uint64]string, len(m.entries))
		for name := range m.entries {
			m.sums[nameSum(name)] = name
		}
	}
	name := m.sums[sum]
	kept := report{}
	if e := m.entries[name]; e != nil {
		kept = e.report
	}
	m.mu.Unlock()
	member, known := m.heard(name)
	if !known {
		return Member{}, report{}
	}
	return member, kept
}
