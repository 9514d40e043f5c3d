package gossip

import (
	"fmt"
	"testing"
	"time"

	"grapevine/kv"
)

// behindBySnapshot is a cluster of three in which the last node is not started and will need
// a snapshot of 2 MiB, which the first two may give. Nobody pushes.
func behindBySnapshot(t *testing.T, c *cluster) (late *node) {
	t.Helper()
	c.change = func(_ *node, o *Options) { o.Neighbours = func(Neighbourhood) []NodeID { return nil } }
	for range 2 {
		n := c.add(t)
		n.role = Voter
		n.start(t)
	}
	c.nodes[1].join(t, c.leader())
	for i := range 8 { // no zeros to pack
		c.leader().write(t, kv.Put(kv.Key(fmt.Sprintf("noise/%d", i)), noise(uint64(i+1), kv.MaxValueBytes)))
	}
	c.wantSame(t, 10*time.Second)
	return c.add(t)
}

// A pull that stands still, wherever it has got to, keeps nobody from asking elsewhere.
func TestPullThatStandsStill(t *testing.T) {
	for _, after := range []time.Duration{0, 5 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				c.net.SetDelay(15*time.Millisecond, 20*time.Millisecond)
				late := behindBySnapshot(t, c)
				late.start(t)
				late.join(t, c.leader())
				eventually(t, 5*time.Second, "a pull is under way", func() bool {
					return c.leader().pullsNow()+c.nodes[1].pullsNow() > 0
				})
				<-time.After(after)
				stuck := c.leader()
				if stuck.pullsNow() == 0 {
					stuck = c.nodes[1]
				}
				c.net.Block(stuck.ip, late.ip)
				t.Logf("all have it after %v", c.wantSame(t, 2*time.Second))
			})
		})
	}
}

func (n *node) pullsNow() int {
	n.peer.mu.Lock()
	defer n.peer.mu.Unlock()
	return n.peer.serving
}

// Where nothing comes sooner than others would be asked, a pull goes on all the same.
func TestPullOverASlowNetwork(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		late := behindBySnapshot(t, c)
		c.net.SetDelay(pullPatience, 2*pullPatience)
		late.start(t)
		late.join(t, c.leader())
		t.Logf("all have it after %v", c.wantSame(t, time.Minute))
	})
}
