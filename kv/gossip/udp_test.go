package gossip

import (
	"slices"
	"testing"
	"time"

	"grapevine/kv"
)

// blockedAt are the members that a node takes for reached over TCP alone.
func blockedAt(n *node) (blocked []NodeID) {
	for _, m := range n.peer.Members() {
		if m.UDPBlocked {
			blocked = append(blocked, m.ID)
		}
	}
	return blocked
}

// Where UDP is blocked nobody is taken for dead, all changes come, and an operator is told once.
// The test notices too if memberlist words its line in another way.
func TestUDPIsBlocked(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		log := recordLog(c)
		c.start(t, 3)
		c.leader().write(t, kv.Put("a", nil))
		c.wantSame(t, 10*time.Second)
		c.net.SetLoss(1)
		const blocked, open = "UDP is blocked", "UDP is open"
		took := eventually(t, time.Minute, "all take both others for blocked", func() bool {
			return !slices.ContainsFunc(c.nodes, func(n *node) bool { return len(blockedAt(n)) != 2 })
		})
		t.Logf("it is known after %v", took)
		slowest := time.Duration(0)
		for i := range 10 {
			c.leader().write(t, kv.Put("a", []byte{byte(i)}))
			slowest = max(slowest, c.wantSame(t, 5*time.Second))
		}
		t.Logf("a change is everywhere after at most %v", slowest)
		never(t, time.Minute, "somebody is taken for dead", func() bool {
			return c.nodes[0].living() < 3 || c.nodes[1].living() < 3 || c.nodes[2].living() < 3
		})
		if got, more := log.count(blocked), log.count("UDP to a member"); got != 3 || more != 0 {
			t.Errorf("%d and %d lines say that UDP is blocked, want 3 and 0", got, more)
		}
		// Somebody who comes now knows the others by TCP alone.
		late := c.add(t)
		late.start(t)
		late.join(t, c.leader())
		t.Logf("a new node has all after %v", c.wantSame(t, 10*time.Second))
		c.net.SetLoss(0)
		eventually(t, time.Minute, "all are told that it is open", func() bool {
			return log.count(open) >= 3 && !slices.ContainsFunc(c.nodes, func(n *node) bool { return len(blockedAt(n)) > 0 })
		})
	})
}

// A single node behind a firewall finds all others blocked, and the others that one alone.
func TestUDPToOneIsBlocked(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		log := recordLog(c)
		c.start(t, 4)
		behind := c.nodes[3]
		c.net.Host(behind.ip).SetLoss(1)
		eventually(t, 2*time.Minute, "it is known", func() bool {
			for _, n := range c.nodes[:3] {
				if !slices.Equal(blockedAt(n), []NodeID{behind.id()}) {
					return false
				}
			}
			return len(blockedAt(behind)) == 3
		})
		if got, whole := log.count("UDP to a member is blocked", string(behind.id())), log.count("UDP is blocked"); got != 3 || whole != 1 {
			t.Errorf("%d lines tell of the member, and %d of all, want 3 and 1", got, whole)
		}
		c.net.Host(behind.ip).SetLoss(0)
		eventually(t, time.Minute, "it is known to be open", func() bool {
			return log.count("UDP to a member is open") == 3 && !slices.ContainsFunc(c.nodes, func(n *node) bool { return len(blockedAt(n)) > 0 })
		})
		// One that is gone is not blocked.
		c.net.Host(behind.ip).SetLoss(1)
		eventually(t, 2*time.Minute, "it is known again", func() bool { return len(blockedAt(c.nodes[0])) == 1 })
		c.net.Host(behind.ip).PowerOff()
		behind.stop()
		eventually(t, time.Minute, "it is dead, and so not blocked", func() bool { return len(blockedAt(c.nodes[0])) == 0 })
	})
}

// A member that loses some packets is not complained about.
func TestSomePacketsAreLost(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		log := recordLog(c)
		c.start(t, 3)
		c.net.SetLoss(0.1)
		<-time.After(10 * time.Minute)
		if got := log.count("UDP"); got > 0 {
			t.Errorf("%d lines say that UDP is blocked", got)
		}
	})
}
