package gossip

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/kv"
)

// Tests that are named TestPitfall and a number are each of a fault that another
// product had, in the list of docs/design/gossip.md; most stand beside what they test.

// fill writes that many keys in transactions of the largest size.
func fill(t *testing.T, writer *node, keys int) {
	t.Helper()
	for from := 0; from < keys; from += 10_000 {
		var ops []kv.Op
		for i := from; i < min(from+10_000, keys); i++ {
			ops = append(ops, kv.Put(kv.Key(fmt.Sprintf("gateway/routes/r%07d", i)), fmt.Appendf(nil, "%-200d", i)))
		}
		writer.write(t, ops...)
	}
}

// Pitfall 9: a state that is larger than memberlist's push/pull may be kept new nodes from
// joining. In real time, on real sockets.
func TestPitfall9ManyKeysLetANewNodeJoin(t *testing.T) {
	withoutRace(t)
	for _, keys := range []int{100_000, 200_000} {
		if keys > 100_000 && !long() {
			continue
		}
		t.Run(fmt.Sprint(keys), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			leader := loopbackNode(t, "leader", Voter)
			fill(t, &node{store: leader.store}, keys)
			began := time.Now()
			late := loopbackNode(t, "late", Edge)
			if err := late.peer.Join(ctx, leader.address); err != nil {
				t.Fatal(err)
			}
			joined := time.Since(began)
			late.await(t, ctx, leader.store.View().Rev())
			t.Logf("%d keys: joined after %v, has all after %v", keys, joined, time.Since(began))
			late.peer.Close() // it counts after the store has it
			if late.store.View().Len() != keys || late.peer.Counts().Snapshots != 1 {
				t.Errorf("it has %d keys by %d snapshots", late.store.View().Len(), late.peer.Counts().Snapshots)
			}
		})
	}
}

// Pitfall 15: broadcasts that nobody takes piled up in a node that was alone.
func TestPitfall15NothingPilesUpAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		planes := withPlanes(c)
		c.start(t, 1)
		alone := c.nodes[0]
		for range 1000 {
			planes[alone].count(1000)
			<-time.After(time.Millisecond)
		}
		for i := range 1000 {
			alone.write(t, kv.Put("a", fmt.Append(nil, i)))
		}
		synctest.Wait()
		f := &alone.peer.courses[0].flood
		if len(f.list) > maxFlood || f.bytes > maxFloodBytes || f.first < 900_000 {
			t.Errorf("%d changes of %d bytes are kept, %d were dropped", len(f.list), f.bytes, f.first)
		}
		if len(alone.peer.held.list) > 0 || len(alone.peer.links) > 0 || len(alone.peer.inbox) > 0 {
			t.Error("something is held")
		}
	})
}

// Pitfall 16: two queues that each filled a packet made one that was too large. There is no
// queue: memberlist is given nothing to broadcast, however much there is.
func TestPitfall16NothingIsBroadcast(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		planes := withPlanes(c)
		c.start(t, 2)
		planes[c.nodes[0]].count(500)
		fillUp := bytes.Repeat([]byte("x"), 1000)
		for i := range 50 {
			c.leader().write(t, kv.Put(kv.Key(fmt.Sprint("k", i)), fillUp))
			if got := c.leader().peer.GetBroadcasts(3, 1400); len(got) != 0 {
				t.Fatalf("%d messages are to be broadcast", len(got))
			}
		}
		c.wantSame(t, 5*time.Second)
		c.wantSamePlanes(t, planes, 5*time.Second)
	})
}

// A file of 2,000 keys is one revision and goes to each node once.
func TestManyKeysAreOneTransfer(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 5)
		c.leader().write(t, kv.Put("a", nil))
		c.wantSame(t, 10*time.Second)
		c.wantLinks(t)
		before, rev := c.counts(), c.leader().store.View().Rev()
		fill(t, c.leader(), 2000)
		t.Logf("2,000 keys: all have them after %v", c.wantSame(t, time.Second))
		after := c.counts()
		if got := c.leader().store.View().Rev(); got != rev.Next() {
			t.Errorf("it took %s from %s", got, rev)
		}
		if got := after.Applied - before.Applied; got != 4 {
			t.Errorf("%d changes were applied on 4 nodes", got)
		}
		if after.PullsServed != before.PullsServed || after.PushesSkipped != before.PushesSkipped {
			t.Errorf("pulls: %d, skipped: %d", after.PullsServed-before.PullsServed, after.PushesSkipped-before.PushesSkipped)
		}
	})
}

// Changes that overtake others wait for them, not too many.
func TestChangesThatOvertakeAreHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.change = func(_ *node, o *Options) {
			o.Neighbours = func(Neighbourhood) []NodeID { return nil }
			o.Timings.Heads = time.Hour
		}
		c.start(t, 2)
		c.leader().write(t, kv.Put("a", nil))
		us := c.nodes[1]
		if err := us.store.Restore(c.leader().store.Snapshot()); err != nil {
			t.Fatal(err)
		}
		stream := Operators(c.leader().store, verify)
		var pushes []changes
		for i := range maxHeld + 50 {
			since := stream.Head()
			commit := c.leader().write(t, kv.Put("a", fmt.Append(nil, i)))
			pushes = append(pushes, changes{stream: OperatorStream, since: since, upTo: stream.Head(), list: [][]byte{kv.AppendCommit(nil, commit)}})
		}
		from := us.peer.members.find(c.leader().id())
		for i := len(pushes) - 1; i > 0; i-- {
			if err := us.peer.takePush(from, pushes[i], true); err != nil {
				t.Fatal(err)
			}
		}
		if got := len(us.peer.held.list); got != maxHeld {
			t.Errorf("%d are held, want %d", got, maxHeld)
		}
		// The held ones are the last: what leads to them comes, and they follow.
		for i := range 50 {
			if err := us.peer.takePush(from, pushes[i], false); err != nil {
				t.Fatal(err)
			}
		}
		if got := us.store.View().Head(); got.Hash != stream.Head().Hash {
			t.Errorf("at %s, want %s", got.Rev, stream.Head().Rev)
		}
		if us.peer.held.bytes != 0 || len(us.peer.held.list) != 0 {
			t.Errorf("%d are still held, %d bytes", len(us.peer.held.list), us.peer.held.bytes)
		}
	})
}

// Over connections that stand still after losses a small change arrives at once, since
// it goes by a packet too.
func TestSmallPushesGoByPacketsToo(t *testing.T) {
	withoutRace(t)
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 5)
		c.leader().write(t, kv.Put("a", nil))
		c.wantSame(t, 10*time.Second)
		c.wantLinks(t)
		c.net.SetRetransmit(200 * time.Millisecond)
		c.net.SetLoss(0.2)
		fast := 0
		const writes = 50
		for i := range writes {
			c.leader().write(t, kv.Put("a", fmt.Append(nil, i)))
			if c.wantSame(t, 10*time.Second) < 10*time.Millisecond {
				fast++
			}
			<-time.After(2 * time.Second)
		}
		t.Logf("%d of %d were everywhere within 10 ms at 20 %% loss", fast, writes)
		if fast < writes/2 {
			t.Errorf("%d of %d were fast", fast, writes)
		}
	})
}
