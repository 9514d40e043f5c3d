package gossip

import (
	"testing"
	"time"
)

// Who is shunned is gone for the others, though it answers them, and does not come
// back by starting anew.
func TestShunnedNodeStaysOut(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 3)
		out := c.nodes[2]
		for _, n := range c.nodes[:2] {
			n.peer.Shun(out.id())
		}
		check := func(when string) {
			t.Helper()
			<-time.After(2 * time.Minute)
			for _, n := range c.nodes[:2] {
				for _, m := range n.peer.Members() {
					if m.alive() != (m.ID != out.id()) {
						t.Errorf("%s: %s sees %s %s", when, n.id(), m.ID, m.Status)
					}
				}
			}
		}
		check("while it runs")
		out.stop()
		out.start(t)
		go out.peer.Join(t.Context(), c.nodes[0].address()) // in vain, until it is closed
		check("after it started anew")
	})
}
