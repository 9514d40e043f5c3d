package gossip

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hashicorp/memberlist"

	"grapevine/kv"
)

func (n *node) sees(other *node) Status {
	for _, m := range n.peer.Members() {
		if m.ID == other.id() {
			return m.Status
		}
	}
	return -1
}

func (n *node) wantSees(t tb, other *node, want Status, within time.Duration) time.Duration {
	t.Helper()
	return eventually(t, within, fmt.Sprintf("%s sees %s %s", n.id(), other.id(), want), func() bool { return n.sees(other) == want })
}

func TestMembersAreDescribed(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 2)
		want := []Member{
			{ID: "onenode00", Name: "name-00", Address: "10.0.0.1:7946", Peer: "10.0.0.1:7946", Status: Alive, Role: Voter, Version: "1.0", Region: "north"},
			{ID: "onenode01", Name: "name-01", Address: "10.0.0.2:7946", Peer: "10.0.0.2:7946", Status: Alive, Role: Edge, Version: "1.0", Region: "north"},
		}
		for _, n := range c.nodes {
			if diff := cmp.Diff(want, n.peer.Members(), cmpopts.IgnoreUnexported(Member{})); diff != "" {
				t.Error(diff)
			}
		}
		changed := c.leader().peer.Changed()
		if err := c.nodes[1].peer.SetMeta(Meta{Name: "promoted", Role: Learner, Version: "1.1", Peer: "192.0.2.9:1"}); err != nil {
			t.Fatal(err)
		}
		<-changed
		want[1].Name, want[1].Role, want[1].Version, want[1].Region, want[1].Peer = "promoted", Learner, "1.1", "", "192.0.2.9:1"
		for _, n := range c.nodes {
			if diff := cmp.Diff(want, n.peer.Members(), cmpopts.IgnoreUnexported(Member{})); diff != "" {
				t.Error(diff)
			}
		}
		if err := c.nodes[1].peer.SetMeta(Meta{Name: "no role"}); err == nil {
			t.Error("a role is missing, and it is taken")
		}
	})
}

func TestDeathIsNoticedAndTakenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 5)
		victim := c.nodes[4]
		c.net.Host(victim.ip).PowerOff()
		suspected := false
		took := eventually(t, time.Minute, "all see it dead", func() bool {
			dead := 0
			for _, n := range c.nodes[:4] {
				suspected = suspected || n.sees(victim) == Suspect
				if n.sees(victim) == Dead {
					dead++
				}
			}
			return dead == 4
		})
		t.Logf("dead after %v", took)
		if !suspected {
			t.Error("it was never suspect")
		}
		victim.stop()
		<-time.After(10 * time.Second)
		victim.start(t)
		victim.join(t, c.leader())
		c.wantMembers(t, 5, 10*time.Second)
	})
}

// A process that is paused for a moment is suspect for a moment.
func TestSuspicionIsTakenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 3)
		victim := c.nodes[2]
		c.net.Partition([]string{victim.ip}, []string{c.nodes[0].ip, c.nodes[1].ip})
		eventually(t, 10*time.Second, "it is suspect", func() bool { return c.leader().sees(victim) == Suspect })
		c.net.Heal()
		c.leader().wantSees(t, victim, Alive, 10*time.Second)
		c.wantMembers(t, 3, time.Minute)
	})
}

// The same node at another address, with the same store.
func TestPitfall18NodeReturnsAtAnotherAddress(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 3)
		c.leader().write(t, kv.Put("a", nil))
		c.wantSame(t, 10*time.Second)
		moved := c.nodes[2]
		moved.stop()
		moved.ip = "10.0.9.9"
		c.leader().write(t, kv.Put("b", nil))
		moved.start(t) // it remembers the others, and needs no seed
		took := eventually(t, 10*time.Second, "it is at its new address", func() bool {
			for _, n := range c.nodes {
				if m := n.peer.members.find(moved.id()); m.Address != moved.address() || !m.alive() || len(n.peer.Members()) != 3 {
					return false
				}
			}
			return true
		})
		t.Logf("after %v", took)
		c.wantSame(t, 5*time.Second)
		// Its former self dies, and does not take the new one along.
		never(t, time.Minute, "it is not alive", func() bool { return !c.leader().peer.members.find(moved.id()).alive() })
	})
}

func TestLeave(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 5)
		goes := c.nodes[4]
		if err := goes.peer.Leave(5 * time.Second); err != nil {
			t.Fatal(err)
		}
		goes.stop()
		for _, n := range c.nodes[:4] {
			n.wantSees(t, goes, Left, 5*time.Second)
		}
		if known, _ := c.nodes[1].store.Local(knownName); strings.Contains(string(known), goes.ip) {
			eventually(t, 5*time.Second, "it is not remembered", func() bool {
				known, _ := c.nodes[1].store.Local(knownName)
				return !strings.Contains(string(known), goes.ip)
			})
		}
		goes.start(t)
		goes.join(t, c.leader())
		c.wantMembers(t, 5, 10*time.Second)
		c.leader().wantSees(t, goes, Alive, time.Second)
	})
}

func TestThoseWhoAreGoneAreForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 1)
		m := c.leader().peer.members
		node := func(id NodeID) *memberlist.Node {
			return &memberlist.Node{Name: fullName(id, "1"), Addr: net.IPv4(10, 9, 9, 9), Port: 1, Meta: encodeMeta(Meta{ID: id, Role: Edge})}
		}
		for _, id := range []NodeID{"dies", "leaves"} {
			m.NotifyJoin(node(id))
			m.NotifyLeave(node(id))
		}
		m.departs("leaves-1")
		now := time.Now()
		for _, tt := range []struct {
			after time.Duration
			want  int
		}{{keepLeft - time.Minute, 3}, {keepLeft + time.Minute, 2}, {keepDead - time.Minute, 2}, {keepDead + time.Minute, 1}} {
			m.tidy(now.Add(tt.after))
			if got := len(m.all()); got != tt.want {
				t.Errorf("after %v: %d members, want %d", tt.after, got, tt.want)
			}
		}
		for i := range maxGone + 10 {
			id := NodeID(fmt.Sprint("gone", i))
			m.NotifyJoin(node(id))
			m.NotifyLeave(node(id))
		}
		m.tidy(now)
		if got := len(m.all()); got != maxGone+1 {
			t.Errorf("%d members are remembered, want %d", got, maxGone+1)
		}
	})
}

func TestForceLeave(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 9)
		dead := c.nodes[8]
		if err := c.leader().peer.ForceLeave(dead.id()); !errors.Is(err, ErrMemberAlive) {
			t.Errorf("of a living one: got %v", err)
		}
		if err := c.leader().peer.ForceLeave("nobody"); !errors.Is(err, ErrUnknownMember) {
			t.Errorf("of an unknown one: got %v", err)
		}
		dead.stop()
		for _, n := range c.nodes[:8] {
			n.wantSees(t, dead, Dead, time.Minute)
		}
		c.net.SetLoss(0.2)
		if err := c.nodes[3].peer.ForceLeave(dead.id()); err != nil {
			t.Fatal(err)
		}
		for _, n := range c.nodes[:8] {
			n.wantSees(t, dead, Left, 2*time.Second)
		}
		c.net.SetLoss(0)
		// It returns nevertheless, and is welcome.
		dead.start(t)
		c.wantMembers(t, 9, 30*time.Second)
	})
}

// What a node says of itself may be lost on its way, as memberlist tells it a few times only. Heads find
// out, since their sum over the members is of that, too.
func TestLostNewsOfAMember(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 5)
		<-time.After(10 * time.Second)
		c.net.SetLoss(1) // streams lose nothing
		if err := c.nodes[2].peer.SetMeta(Meta{Name: "moved", Role: Voter}); err != nil {
			t.Fatal(err)
		}
		<-time.After(3 * time.Second)
		c.net.SetLoss(0)
		took := eventually(t, 30*time.Second, "all know", func() bool {
			return !slices.ContainsFunc(c.nodes, func(n *node) bool { return n.peer.members.find(c.nodes[2].id()).Role != Voter })
		})
		if took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// Whoever has the key of the gossip can make up members, and not more than there is room for.
func TestMembersAreBounded(t *testing.T) {
	m := &members{log: slog.New(slog.DiscardHandler), entries: map[string]*entry{}, shunned: map[NodeID]bool{}}
	made := func(i int) *memberlist.Node {
		id := NodeID(fmt.Sprint("made", i))
		return &memberlist.Node{Name: fullName(id, "1"), Addr: []byte{10, 0, 0, 1}, Meta: encodeMeta(Meta{ID: id, Name: "x", Role: Edge})}
	}
	for i := range maxMembers {
		if err := m.NotifyAlive(made(i)); err != nil {
			t.Fatal(err)
		}
		m.NotifyJoin(made(i))
	}
	if err := m.NotifyAlive(made(maxMembers)); err == nil {
		t.Error("one too many is taken")
	}
	if err := m.NotifyAlive(made(7)); err != nil {
		t.Errorf("one that is known: %v", err)
	}
	m.NotifyLeave(made(7))
	if err := m.NotifyAlive(made(maxMembers)); err != nil {
		t.Errorf("in the place of one that is gone: %v", err)
	}
}
