package gossip

import (
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"grapevine/kv"
)

// deltaBytes is about how much goes into one frame of a delta.
const deltaBytes = 256 << 10

// servePull answers one pull.
func (p *Peer) servePull(c *connection, theirs hello) error {
	kind, body, err := c.read(helloTime)
	if err != nil {
		return err
	}
	if kind == frameVector {
		return p.inTurn(c, theirs, func() error { return p.answerVector(c, p.sender(theirs.digest), body) })
	}
	if kind != framePull {
		return fmt.Errorf("unexpected frame of kind %d", kind)
	}
	asked, err := decodePoint(body)
	if err != nil {
		return err
	}
	s := p.stream(asked.stream)
	if s == nil {
		return c.write(frameRefusal, fmt.Appendf(nil, "stream %d is unknown", asked.stream))
	}
	return p.inTurn(c, theirs, func() error { return p.answerPull(c, p.sender(theirs.digest), s, asked.head) })
}

// inTurn answers if there is a place.
func (p *Peer) inTurn(c *connection, theirs hello, answer func() error) error {
	if !p.beginPull(theirs.digest.id) {
		p.counters.pullsBusy.add(1)
		return c.write(frameBusy, nil)
	}
	defer p.endPull(theirs.digest.id)
	p.counters.pullsServed.add(1)
	return answer()
}

// beginPull takes a place for a node's pull. A node has one, so that one which does not
// read what it asked for keeps nobody else waiting; and another one while half of all are
// free, for what it asks beside a pull that stands still.
func (p *Peer) beginPull(id NodeID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.serving >= maxPullsServed || p.pulling[id] > 1 || p.pulling[id] == 1 && p.serving >= maxPullsServed/2 {
		return false
	}
	p.serving++
	p.pulling[id]++
	return true
}

func (p *Peer) endPull(id NodeID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serving--
	if p.pulling[id]--; p.pulling[id] == 0 {
		delete(p.pulling, id)
	}
}

func (p *Peer) answerPull(c *connection, from Member, s Stream, since kv.Head) error {
	switch relate(s.Head(), since) {
	case older:
		return p.sendDelta(c, from, s, since)
	case blank, lowerEpoch:
		return p.sendSnapshot(c, s)
	}
	return c.write(frameEnd, nil)
}

// sendDelta sends changes until the other side has what we have.
func (p *Peer) sendDelta(c *connection, from Member, s Stream, since kv.Head) error {
	for {
		list, upTo, err := s.Delta(since, deltaBytes)
		switch {
		case errors.Is(err, kv.ErrCompacted):
			return p.sendSnapshot(c, s)
		case errors.Is(err, kv.ErrDiverged):
			p.contradicts(from, s, s.Head(), since)
			return c.write(frameDiverged, point{s.ID(), s.Head()}.encode())
		case err != nil && !errors.Is(err, kv.ErrFuture):
			return errors.Join(err, c.write(frameRefusal, []byte("the history can't be read")))
		case len(list) == 0:
			return c.write(frameEnd, nil)
		}
		if err := c.write(frameChanges, changes{stream: s.ID(), since: since, upTo: upTo, list: list}.encode()); err != nil {
			return err
		}
		since = upTo
	}
}

// sendSnapshot sends everything, if this node may be believed.
func (p *Peer) sendSnapshot(c *connection, s Stream) error {
	if p.role() == Edge {
		return c.write(frameElsewhere, nil)
	}
	head, write := s.Snapshot()
	if err := c.write(frameSnapshot, point{s.ID(), head}.encode()); err != nil {
		return err
	}
	packed, err := zstd.NewWriter(chunkWriter{c}, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(1<<20))
	if err != nil {
		return err
	}
	if err := errors.Join(write(packed), packed.Close()); err != nil {
		return err
	}
	p.counters.snapshotsServed.add(1)
	return c.write(frameEnd, nil)
}

func (p *Peer) role() Role {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.meta.Role
}

// chunkWriter puts what is written into chunks.
type chunkWriter struct{ c *connection }

var _ io.Writer = chunkWriter{}

func (w chunkWriter) Write(b []byte) (int, error) {
	written := 0
	for len(b) > 0 {
		n := min(len(b), chunkBytes)
		if err := w.c.write(frameChunk, b[:n]); err != nil {
			return written, err
		}
		written, b = written+n, b[n:]
	}
	return written, nil
}
