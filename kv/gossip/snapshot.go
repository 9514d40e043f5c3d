package gossip

import (
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"grapevine/kv"
)

const (
	// maxSnapshotBytes bounds what a snapshot may unpack to.
	maxSnapshotBytes = 1 << 30
	// maxWindow bounds the memory of the zstd decoder, whatever a snapshot asks for.
	maxWindow = 8 << 20
)

// takeSnapshot reads the chunks that follow. The signature of a snapshot's head says
// nothing of its entries, so that only a voter is believed.
func (p *Peer) takeSnapshot(c *connection, from Member, s Stream, body []byte) error {
	at, err := decodePoint(body)
	if err != nil {
		return err
	}
	if !p.provesVoter(c, from) {
		return errElsewhere
	}
	if err := p.mayRestore(s, at.head); err != nil {
		return err
	}
	if err := s.Verify(at.head); err != nil {
		p.alarms.raise(Forged, from, s.ID(), s.Head(), at.head, err)
		return err
	}
	unpacked, err := zstd.NewReader(&chunkReader{c: c}, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(maxSnapshotBytes))
	if err != nil {
		return err
	}
	defer unpacked.Close()
	// Only from here on nobody else may apply anything: it may take long to come, or never.
	taking := false
	err = s.Restore(io.LimitReader(unpacked, maxSnapshotBytes), func(head kv.Head) error {
		if err := p.take(); err != nil {
			return err
		}
		taking = true
		return p.mayRestore(s, head)
	})
	if taking {
		defer p.taken()
	}
	if err != nil {
		return err
	}
	p.counters.snapshots.add(1)
	head := s.Head()
	p.applyHeld(s)
	p.knows(from, s.ID(), head)
	p.log.Info("snapshot is restored", "from", string(from.ID), "stream", int(s.ID()), "rev", head.Rev.String())
	return nil
}

// provesVoter tells whether the other end may be a voter.
func (p *Peer) provesVoter(c *connection, from Member) bool {
	if p.o.Identify == nil {
		return isVoter(from)
	}
	_, voter, err := p.o.Identify(c.Conn)
	return err == nil && voter
}

// mayRestore tells whether a head may take the place of ours now.
func (p *Peer) mayRestore(s Stream, theirs kv.Head) error {
	ours := s.Head()
	if v := judge(ours, theirs, p.standing()); v != replace && v != pull {
		return fmt.Errorf("a snapshot at revision %s is not to replace revision %s", theirs.Rev, ours.Rev)
	}
	return nil
}

// chunkReader is the content of the chunks up to the end of a snapshot.
type chunkReader struct {
	c    *connection
	rest []byte
	end  bool
}

func (r *chunkReader) Read(b []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.end {
			return 0, io.EOF
		}
		kind, body, err := r.c.read(idleTime)
		switch {
		case err != nil:
			return 0, err
		case kind == frameEnd:
			r.end = true
		case kind != frameChunk:
			return 0, fmt.Errorf("frame of kind %d came within a snapshot", kind)
		}
		r.rest = body
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
