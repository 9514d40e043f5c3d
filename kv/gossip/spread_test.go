package gossip

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"grapevine/kv"
)

func TestAllNodesHaveWhatTheLeaderWrites(t *testing.T) {
	for _, size := range []int{3, 9, 25} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				c.start(t, size)
				c.leader().write(t, kv.Put("gateway/routes/first", nil))
				first := c.wantSame(t, 10*time.Second)
				c.wantLinks(t)
				slowest := time.Duration(0)
				for i := range 10 {
					c.leader().write(t, kv.Put("gateway/routes/shop", fmt.Append(nil, i)))
					slowest = max(slowest, c.wantSame(t, time.Second))
				}
				t.Logf("first write: all have it after %v; over open links: after at most %v", first, slowest)
				if slowest > 10*time.Millisecond { // a hop takes at most 0.8 ms
					t.Errorf("a push took %v", slowest)
				}
			})
		})
	}
}

// wantLinks waits until all neighbours are connected, and know of each other that they
// have all.
func (c *cluster) wantLinks(t tb) {
	t.Helper()
	head := c.leader().store.View().Head()
	eventually(t, 10*time.Second, "links to all neighbours", func() bool {
		for _, n := range c.up() {
			for _, m := range n.peer.neighbours(c.leader().id()) {
				l := n.peer.linked(m)
				if l == nil || l.connected() == nil || relate(head, l.has(OperatorStream)) != equal {
					return false
				}
			}
		}
		return true
	})
}

// Every change goes to every node once, whoever its neighbours are: nobody gets it
// twice, and nobody sends it back.
func TestChangesAreNotRepeated(t *testing.T) {
	for name, neighbours := range map[string]func(c *cluster) Neighbours{
		"star":  func(*cluster) Neighbours { return star },
		"chain": chain,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				const size, writes = 6, 20
				c.change = func(_ *node, o *Options) {
					o.Neighbours = neighbours(c)
					// Else somebody may hear of a change by a head, and pull it before it is pushed.
					o.Timings.Heads = time.Minute
				}
				c.start(t, size)
				c.leader().write(t, kv.Put("a", nil))
				c.wantSame(t, 10*time.Minute)
				<-time.After(3 * time.Minute) // everybody knows what the neighbours have
				before := c.counts()
				for i := range writes { // too large to go by packets too
					c.leader().write(t, kv.Put("a", noise(uint64(i+1), 2*maxPacketPush)))
					c.wantSame(t, time.Second)
				}
				after := c.counts()
				if got := after.PushedChanges - before.PushedChanges; got != (size-1)*writes {
					t.Errorf("%d changes were pushed, want %d", got, (size-1)*writes)
				}
				if got := after.Repeated - before.Repeated; got != 0 {
					t.Errorf("%d came again", got)
				}
				if got := after.Applied - before.Applied; got != (size-1)*writes {
					t.Errorf("%d were applied, want %d", got, (size-1)*writes)
				}
			})
		})
	}
}

// star connects the leader with everybody.
func star(n Neighbourhood) (ids []NodeID) {
	for _, m := range n.Members {
		if n.Leader == n.Self.ID || n.Leader == m.ID {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// chain gives every node the one before and the one behind, so that changes are
// passed on, and could be sent back.
func chain(*cluster) Neighbours {
	return func(n Neighbourhood) []NodeID {
		var ids []NodeID
		for _, m := range n.Members {
			ids = append(ids, m.ID)
		}
		at, _ := slices.BinarySearch(ids, n.Self.ID)
		return ids[max(at-1, 0):min(at+1, len(ids))]
	}
}

// counts is the sum over all nodes.
func (c *cluster) counts() Counts {
	var sum Counts
	for _, n := range c.up() {
		got := n.peer.Counts()
		sum.PushedChanges += got.PushedChanges
		sum.Repeated += got.Repeated
		sum.Applied += got.Applied
		sum.PullsServed += got.PullsServed
		sum.PullsBusy += got.PullsBusy
		sum.Snapshots += got.Snapshots
	}
	return sum
}

// A value that no packet could carry.
func TestPitfall14LargeValue(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 5)
		c.leader().write(t, kv.Put("a", nil))
		c.wantSame(t, 10*time.Second)
		c.wantLinks(t)
		c.leader().write(t, kv.Put("large", bytes.Repeat([]byte("x"), 200<<10)))
		t.Logf("200 KiB: all have it after %v", c.wantSame(t, time.Second))
		// As large as a transaction may be: in many operations.
		var ops []kv.Op
		for i := range 6 {
			ops = append(ops, kv.Put(kv.Key(fmt.Sprintf("large/%d", i)), bytes.Repeat([]byte("y"), kv.MaxValueBytes)))
		}
		c.leader().write(t, ops...)
		t.Logf("1.5 MiB: all have it after %v", c.wantSame(t, 5*time.Second))
	})
}

// Pitfall 10: a broadcast that ends after some rounds misses a node for good. Without any
// link, heads and pulls alone bring everything everywhere.
func TestPitfall10HeadsAndPullsAreEnough(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.change = func(_ *node, o *Options) { o.Neighbours = func(Neighbourhood) []NodeID { return nil } }
		c.start(t, 9)
		rounds := 20
		if long() {
			rounds = 500
		}
		for _, loss := range []float64{0, 0.2} {
			c.net.SetLoss(loss)
			c.net.SetDuplicate(loss)
			slowest := time.Duration(0)
			for i := range rounds {
				c.leader().write(t, kv.Put("a", fmt.Append(nil, i)))
				slowest = max(slowest, c.wantSame(t, 10*time.Second))
			}
			t.Logf("with loss %v all have a change after at most %v", loss, slowest)
		}
	})
}

// Who lacks something need not wait to be chosen: its own heads are answered.
func TestHeadsAreAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.change = func(n *node, o *Options) {
			o.Neighbours = func(Neighbourhood) []NodeID { return nil }
			if n.index == 0 {
				o.Timings.Heads = 24 * time.Hour
			}
		}
		c.start(t, 2)
		<-time.After(time.Minute)
		for i := range 5 {
			c.leader().write(t, kv.Put("a", fmt.Append(nil, i)))
			c.wantSame(t, time.Second)
		}
	})
}

// The leader dies when one node has what it wrote: that node's heads do the rest.
func TestTheLeaderDiesAfterOnePush(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 9)
		c.leader().write(t, kv.Put("a", nil))
		c.wantSame(t, 10*time.Second)
		c.wantLinks(t)
		last := c.named(c.leader().peer.neighbours(c.leader().id())[0].ID)
		for _, n := range c.nodes[1:] {
			if n != last {
				c.net.Block(c.leader().ip, n.ip)
			}
		}
		c.leader().write(t, kv.Put("a", []byte("last words")))
		head := c.leader().store.View().Head()
		eventually(t, time.Second, "one has it", func() bool { return last.store.View().Head() == head })
		c.leader().stop()
		t.Logf("after %v", c.wantSame(t, 5*time.Second))
	})
}

// A neighbour that does not read costs nothing but its own pull later.
func TestPitfall29SlowNeighbourHasToPull(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 3)
		c.leader().write(t, kv.Put("a", nil))
		c.wantSame(t, 10*time.Second)
		c.wantLinks(t)
		slow := c.nodes[2]
		c.net.Partition([]string{slow.ip}, []string{c.leader().ip, c.nodes[1].ip})
		for i := range 40 {
			c.leader().write(t, kv.Put("a", bytes.Repeat([]byte{byte(i)}, 100<<10)))
			<-time.After(10 * time.Millisecond)
		}
		fast := c.nodes[1]
		eventually(t, time.Second, "the other one has all", func() bool { return fast.store.View().Head() == c.leader().store.View().Head() })
		c.net.Heal()
		c.wantSame(t, 10*time.Second)
		if got := c.leader().peer.Counts(); got.PushesSkipped == 0 {
			t.Errorf("nothing was skipped: %+v", got)
		}
	})
}

// A node that was away longer than the history reaches gets a snapshot.
func TestFarBehindTakesASnapshot(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 3)
		c.leader().write(t, kv.Put("a", nil))
		c.wantSame(t, 10*time.Second)
		late := c.nodes[2]
		taken := late.peer.Counts().Snapshots
		if taken != 1 { // it began with nothing
			t.Errorf("%d snapshots were taken at the start, want 1", taken)
		}
		late.stop()
		for i := range historyRevs + 10 {
			c.leader().write(t, kv.Put(kv.Key(fmt.Sprintf("k%d", i%300)), fmt.Append(nil, i)))
		}
		late.start(t)
		late.join(t, c.leader())
		t.Logf("after %v", c.wantSame(t, 10*time.Second))
		if got := late.peer.Counts(); got.Snapshots != 1 || got.Applied != 0 {
			t.Errorf("%d snapshots were taken and %d changes applied", got.Snapshots, got.Applied)
		}
	})
}

// A node that missed a little gets a delta, in several frames.
func TestBehindTakesADelta(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 3)
		c.leader().write(t, kv.Put("a", nil))
		c.wantSame(t, 10*time.Second)
		late := c.nodes[2]
		late.stop()
		for i := range 200 {
			c.leader().write(t, kv.Put(kv.Key(fmt.Sprintf("k%d", i)), bytes.Repeat([]byte("z"), 4<<10)))
		}
		late.start(t)
		late.join(t, c.leader())
		t.Logf("after %v", c.wantSame(t, 10*time.Second))
		if got := late.peer.Counts(); got.Snapshots != 0 || got.Applied != 200 {
			t.Errorf("%d snapshots were taken and %d changes applied", got.Snapshots, got.Applied)
		}
	})
}

// A node in the raft configuration looks and takes nothing, until it no longer is.
func TestInRaftTakesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		for range 3 {
			c.add(t)
		}
		voter := c.nodes[1]
		voter.role = Voter
		voter.inRaft.Store(true)
		for _, n := range c.nodes {
			n.start(t)
		}
		c.nodes[1].join(t, c.leader())
		c.nodes[2].join(t, c.leader())
		c.leader().write(t, kv.Put("a", nil))
		head := c.leader().store.View().Head()
		eventually(t, 5*time.Second, "the edge has it", func() bool { return c.nodes[2].store.View().Head() == head })
		never(t, 5*time.Second, "a voter took something", func() bool { return !isBlank(voter.store.View().Head()) })
		if alarms := voter.peer.Alarms(); len(alarms) != 0 {
			t.Errorf("alarms: %+v", alarms)
		}
		voter.inRaft.Store(false)
		voter.peer.Refresh()
		c.wantSame(t, 5*time.Second)
	})
}

// The leadership moves, and with it who pushes.
func TestLeadershipMoves(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 5)
		c.leader().write(t, kv.Put("a", nil))
		c.wantSame(t, 10*time.Second)
		c.leader().leads.Store(false)
		next := c.nodes[3]
		next.leads.Store(true)
		c.leads.Store(next)
		for _, n := range c.nodes {
			n.peer.Refresh()
		}
		c.wantLinks(t)
		next.write(t, kv.Put("a", []byte("by another")))
		if took := c.wantSame(t, time.Second); took > 10*time.Millisecond {
			t.Errorf("a push of the new leader took %v", took)
		}
		if len(c.nodes[0].peer.Alarms()) != 0 {
			t.Errorf("alarms: %+v", c.nodes[0].peer.Alarms())
		}
	})
}

// What every node serves is known to the leader about as soon as it can be.
func TestAppliedReachesTheLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 9)
		c.leader().write(t, kv.Put("a", nil))
		c.wantSame(t, 10*time.Second)
		c.wantLinks(t)
		for i := range 5 {
			commit := c.leader().write(t, kv.Put("a", fmt.Append(nil, i)))
			for _, n := range c.nodes {
				go n.reportWhenApplied(commit.Rev)
			}
			changed := c.leader().peer.AppliedChanged()
			took := eventually(t, time.Second, "all have applied it", func() bool { return c.applied(commit.Rev) == 9 })
			t.Logf("the leader knows after %v", took)
			if took > 30*time.Millisecond {
				t.Errorf("it took %v", took)
			}
			select {
			case <-changed:
			default:
				t.Error("AppliedChanged was not closed")
			}
		}
		// A node that does not follow says why, and since when.
		c.nodes[4].peer.Report(kv.Rev{Epoch: 1, Rev: 3}, "table", fmt.Errorf("route %q: no such cluster", "shop"))
		eventually(t, time.Second, "the problem is known", func() bool {
			got := c.leader().peer.Applied()[c.nodes[4].id()]
			return got.Err == `route "shop": no such cluster` && got.TableHash == "table" && time.Since(got.Since) < time.Second
		})
		// The others hear of it by heads.
		eventually(t, 30*time.Second, "everybody knows", func() bool {
			return c.nodes[7].peer.Applied()[c.nodes[4].id()].Rev == kv.Rev{Epoch: 1, Rev: 3}
		})
	})
}

// reportWhenApplied serves what the store has, as a gateway does.
func (n *node) reportWhenApplied(rev kv.Rev) {
	for {
		changed := n.store.Changed()
		if n.store.View().Rev().Compare(rev) >= 0 {
			n.peer.Report(rev, "table", nil)
			return
		}
		<-changed
	}
}

func (c *cluster) applied(rev kv.Rev) int {
	count := 0
	for _, applied := range c.leader().peer.Applied() {
		if applied.Rev == rev {
			count++
		}
	}
	return count
}
