package gossip

import (
	"testing"
	"time"

	"grapevine/kv"
)

// Where UDP is blocked nobody is taken for dead, all changes come, and an operator is told once
// of each member. The test notices too if memberlist words its line in another way.
func TestUDPIsBlocked(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		log := recordLog(c)
		c.start(t, 3)
		c.leader().write(t, kv.Put("a", nil))
		c.wantSame(t, 10*time.Second)
		c.net.SetLoss(1)
		const blocked, open = "UDP to a member is blocked", "UDP to a member is open"
		eventually(t, time.Minute, "all are told of both others", func() bool { return log.count(blocked) == 6 })
		slowest := time.Duration(0)
		for i := range 10 {
			c.leader().write(t, kv.Put("a", []byte{byte(i)}))
			slowest = max(slowest, c.wantSame(t, 5*time.Second))
		}
		t.Logf("a change is everywhere after at most %v", slowest)
		never(t, time.Minute, "somebody is taken for dead", func() bool {
			return c.nodes[0].living() < 3 || c.nodes[1].living() < 3 || c.nodes[2].living() < 3
		})
		if got := log.count(blocked); got != 6 {
			t.Errorf("%d lines say that UDP is blocked, want 6", got)
		}
		// Somebody who comes now knows the others by TCP alone.
		late := c.add(t)
		late.start(t)
		late.join(t, c.leader())
		t.Logf("a new node has all after %v", c.wantSame(t, 10*time.Second))
		c.net.SetLoss(0)
		eventually(t, time.Minute, "all are told that it is open", func() bool { return log.count(open) >= 6 })
	})
}

// A member that loses some packets is not complained about.
func TestSomePacketsAreLost(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		log := recordLog(c)
		c.start(t, 3)
		c.net.SetLoss(0.1)
		<-time.After(10 * time.Minute)
		if got := log.count("UDP to a member"); got > 0 {
			t.Errorf("%d lines say that UDP is blocked", got)
		}
	})
}
