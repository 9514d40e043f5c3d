package gossip

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"grapevine/kv"
)

// toyStream is a stream of nothing but numbers: the change after n is n+1. It shows that what spreads streams
// knows nothing of keys, and lets two of them go side by side.
type toyStream struct {
	id StreamID

	mu    sync.Mutex // guards what is below
	at    uint64
	first uint64 // the change before the first that is remembered
	news  signal
}

// toyMemory is how many changes a toy remembers.
const toyMemory = 100

func (s *toyStream) ID() StreamID             { return s.id }
func (s *toyStream) Changed() <-chan struct{} { return s.news.wait() }

func (s *toyStream) Head() kv.Head {
	s.mu.Lock()
	defer s.mu.Unlock()
	return toyHead(s.at)
}

func toyHead(at uint64) kv.Head {
	h := kv.Head{Rev: kv.Rev{Epoch: 1, Rev: at}, EpochID: [16]byte{1}}
	if at > 0 {
		h.Hash = sha256.Sum256(binary.BigEndian.AppendUint64(nil, at))
		h.Signature[0] = 1
	}
	return h
}

func (s *toyStream) Verify(h kv.Head) error {
	if h != toyHead(h.Rev.Rev) {
		return ErrForged
	}
	return nil
}

// count makes changes.
func (s *toyStream) count(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.goTo(s.at + n)
}

// goTo goes to a number. Holders of mu call it.
func (s *toyStream) goTo(at uint64) {
	s.at = at
	if at > toyMemory {
		s.first = max(s.first, at-toyMemory)
	}
	s.news.fire()
}

func (s *toyStream) Delta(since kv.Head, max int) (list [][]byte, upTo kv.Head, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch from := since.Rev.Rev; {
	case since != toyHead(from):
		return nil, since, kv.ErrDiverged
	case from > s.at:
		return nil, since, kv.ErrFuture
	case from < s.first:
		return nil, since, kv.ErrCompacted
	default:
		for n := from; n < s.at && len(list)*8 < max; n++ {
			list = append(list, binary.BigEndian.AppendUint64(nil, n+1))
		}
		return list, toyHead(from + uint64(len(list))), nil
	}
}

func (s *toyStream) Apply(list [][]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at
	for _, change := range list {
		if len(change) != 8 {
			return fmt.Errorf("change of %d bytes", len(change))
		}
		switch n := binary.BigEndian.Uint64(change); {
		case n == at+1:
			at = n
		case n > at:
			return kv.ErrGap
		}
	}
	s.goTo(at)
	return nil
}

func (s *toyStream) Snapshot() (kv.Head, func(io.Writer) error) {
	head := s.Head()
	return head, func(w io.Writer) error {
		_, err := w.Write(binary.BigEndian.AppendUint64(nil, head.Rev.Rev))
		return err
	}
}

func (s *toyStream) Restore(r io.Reader, welcome func(kv.Head) error) error {
	b, err := io.ReadAll(r)
	if err != nil || len(b) != 8 {
		return errors.Join(err, fmt.Errorf("snapshot of %d bytes", len(b)))
	}
	at := binary.BigEndian.Uint64(b)
	if err := welcome(toyHead(at)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first = at
	s.goTo(at)
	return nil
}

// withToys gives each node two toys beside the operators' keys.
func withToys(c *cluster) map[*node][2]*toyStream {
	toys := map[*node][2]*toyStream{}
	c.change = func(n *node, o *Options) {
		if _, there := toys[n]; !there {
			toys[n] = [2]*toyStream{{id: 8}, {id: 9}}
		}
		o.Streams = append(o.Streams, toys[n][0], toys[n][1])
	}
	return toys
}

// wantToys waits until all toys of the nodes that run are where those of the leader are.
func (c *cluster) wantToys(t *testing.T, toys map[*node][2]*toyStream, within time.Duration) time.Duration {
	t.Helper()
	return eventually(t, within, "equal toys", func() bool {
		for _, n := range c.up() {
			for i := range 2 {
				if toys[n][i].Head() != toys[c.leader()][i].Head() {
					return false
				}
			}
		}
		return true
	})
}

// A toy is pushed, pulled when it was missed, and taken as a whole when that was long ago; with two of them and the
// operators' keys in the same peers, none disturbs the other.
func TestStreamsAreOfAnything(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		toys := withToys(c)
		c.start(t, 7)
		one, other := toys[c.leader()][0], toys[c.leader()][1]
		one.count(1)
		other.count(5)
		c.wantToys(t, toys, 10*time.Second)
		<-time.After(dialPatience + 2*time.Second) // all are connected
		for range 20 {
			one.count(1)
			c.leader().write(t, kv.Put("a", nil))
			if took := c.wantToys(t, toys, time.Second); took > 10*time.Millisecond {
				t.Errorf("a push took %v", took)
			}
		}
		away := c.nodes[6]
		away.stop()
		one.count(toyMemory / 2)
		for range 6 { // the others keep up
			other.count(toyMemory / 2)
			c.wantToys(t, toys, time.Second)
		}
		away.start(t)
		away.join(t, c.leader())
		c.wantToys(t, toys, 5*time.Second)
		c.wantSame(t, 5*time.Second)
		if got := away.peer.Counts().Snapshots; got != 1 {
			t.Errorf("%d snapshots were taken, want one, of the stream that was too far ahead", got)
		}
		for _, n := range c.nodes {
			if alarms := n.peer.Alarms(); len(alarms) > 0 {
				t.Errorf("%s: %s from %s", n.id(), alarms[0].Kind, alarms[0].Node)
			}
		}
	})
}

// The toys themselves keep what a Stream promises.
func TestToyStream(t *testing.T) {
	ahead, behind := &toyStream{id: 8}, &toyStream{id: 8}
	ahead.count(toyMemory)
	list, upTo, err := ahead.Delta(behind.Head(), 64)
	if err != nil || len(list) != 8 || behind.Apply(list) != nil || behind.Head() != upTo {
		t.Fatalf("%d changes, %v", len(list), err)
	}
	if err := behind.Apply([][]byte{binary.BigEndian.AppendUint64(nil, 50)}); !errors.Is(err, kv.ErrGap) {
		t.Errorf("a gap: %v", err)
	}
	ahead.count(toyMemory)
	if _, _, err := ahead.Delta(behind.Head(), 64); !errors.Is(err, kv.ErrCompacted) {
		t.Errorf("long ago: %v", err)
	}
	var b bytes.Buffer
	head, write := ahead.Snapshot()
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	if err := behind.Restore(&b, func(kv.Head) error { return nil }); err != nil || behind.Head() != head {
		t.Errorf("restored to %v: %v", behind.Head(), err)
	}
}

// Pitfall 30: an operator puts the cluster back to another state, in the next epoch. All follow, and nobody takes what the
// former epoch still brings, however far that is.
func TestPitfall30TheFormerEpochIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 5)
		c.leader().write(t, kv.Put("a", []byte("1")))
		c.wantSame(t, 10*time.Second)
		former := c.nodes[4]
		former.stop()
		for i := range 20 { // it goes on in the former epoch, as one that was cut off
			former.write(t, kv.Put("a", fmt.Append(nil, "former", i)))
		}
		if err := c.leader().store.NewEpoch([16]byte{7}, signBytes); err != nil {
			t.Fatal(err)
		}
		c.leader().write(t, kv.Put("a", []byte("restored")))
		c.wantSame(t, 5*time.Second)
		former.start(t)
		former.join(t, c.leader())
		c.wantSame(t, 5*time.Second)
		for _, n := range c.nodes {
			if entry, _ := n.store.View().Get("a"); string(entry.Value) != "restored" || n.store.View().Rev().Epoch < 2 {
				t.Errorf("%s has %q at %s", n.id(), entry.Value, n.store.View().Rev())
			}
		}
	})
}
