package gossip

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"grapevine/kv"
	"grapevine/kv/memnet"
)

// greeted opens a connection of spreading that says it is a node.
func greeted(t *testing.T, from *memnet.Host, to *node, why purpose, d digest) *connection {
	t.Helper()
	conn, err := from.Dial(t.Context(), fmt.Sprintf("%s:%d", to.ip, spreadPort))
	if err != nil {
		t.Fatal(err)
	}
	c := newConnection(conn)
	if err := c.write(frameHello, hello{cluster: to.cluster.name, purpose: why, digest: d}.encode()); err != nil {
		t.Fatal(err)
	}
	if _, err := readHello(c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestHostileHellos(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.change = func(n *node, o *Options) {
			o.Identify = func(conn net.Conn) (NodeID, bool, error) {
				for _, n := range c.nodes {
					if addressOf(conn) == n.ip {
						return n.id(), n.role == Voter, nil
					}
				}
				return "stranger", false, nil
			}
		}
		stranger := c.started(t)
		good := hello{cluster: c.name, purpose: toPush, digest: digest{id: c.leader().id(), boot: "1"}}
		version := good.encode()
		version[0] = 9
		other := good
		other.cluster = "two"
		for name, tt := range map[string]struct {
			body []byte
			want string
		}{
			"another cluster": {other.encode(), `is of cluster "two", here is "one"`},
			"another version": {version, "hello has version 9, here is 2"},
			"another's name":  {good.encode(), "node stranger calls itself onenode00"},
			"no purpose":      {hello{cluster: c.name, digest: good.digest}.encode(), "hello has purpose 0"},
			"empty":           {nil, "hello is cut short"},
		} {
			conn := newConnection(send(t, stranger, fmt.Sprintf("%s:%d", c.nodes[1].ip, spreadPort), appendFrame(nil, frameHello, tt.body)))
			kind, body, err := conn.read(time.Second)
			if err != nil || kind != frameRefusal || !strings.Contains(string(body), tt.want) {
				t.Errorf("%s: got frame of kind %d, %q, %v, want %q", name, kind, body, err, tt.want)
			}
			wantClosed(t, name, conn.Conn, time.Second)
		}
		if got := c.nodes[1].peer.Counts().ConnectionsRefused; got != 5 {
			t.Errorf("%d refusals are counted, want 5", got)
		}
		c.wantUnharmed(t)
	})
}

// A member that has gone bad: it may speak, and nothing it makes up is taken.
func TestHostilePushes(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		stranger := c.started(t)
		victim, ours := c.nodes[1], c.nodes[1].store.View().Head()
		bad := digest{id: "bad", boot: "1"}
		forgedCommit := victim.resolve(t, kv.Put("gateway/routes/forged", nil))
		forgedCommit.Signature[3] ^= 1
		forged := changes{stream: OperatorStream, since: ours, upTo: forgedCommit.Head(ours.EpochID), list: [][]byte{kv.AppendCommit(nil, forgedCommit)}}
		garbage := forged
		garbage.list = [][]byte{[]byte("garbage")}
		unknown := forged
		unknown.stream = 77
		for name, frame := range map[string][]byte{
			"forged":           appendFrame(nil, frameChanges, forged.encode()),
			"garbage":          appendFrame(nil, frameChanges, garbage.encode()),
			"unknown stream":   appendFrame(nil, frameChanges, unknown.encode()),
			"cut short":        appendFrame(nil, frameChanges, forged.encode()[:300]),
			"a wild count":     appendFrame(nil, frameChanges, changes{upTo: ours}.encode()[:249]),
			"wrong checksum":   append(appendFrame(nil, frameChanges, nil)[:4], 1, 2, 3, 4, byte(frameChanges)),
			"huge length":      {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, byte(frameChanges)},
			"unknown kind":     appendFrame(nil, 99, nil),
			"snapshot":         appendFrame(nil, frameSnapshot, point{OperatorStream, exampleHead}.encode()),
			"second hello":     appendFrame(nil, frameHello, hello{cluster: c.name, purpose: toPush, digest: bad}.encode()),
			"as somebody else": appendFrame(nil, frameDigest, digest{id: c.nodes[2].id(), boot: "1"}.encode(nil, 0)),
		} {
			conn := greeted(t, stranger, victim, toPush, bad)
			if _, err := conn.Write(frame); err != nil {
				t.Fatal(err)
			}
			wantClosed(t, name, conn.Conn, time.Second)
		}
		alarms := victim.peer.Alarms()
		if len(alarms) != 1 || alarms[0].Kind != Forged || alarms[0].Node != "bad" {
			t.Errorf("alarms: got %+v, want one of a forgery", alarms)
		}
		c.wantUnharmed(t)
	})
}

// Who asks for a snapshot and does not read it keeps one place, or two while there are many,
// and not for long.
func TestPullsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		stranger := c.started(t)
		for i := range 8 { // more than a connection buffers, and no zeros to pack
			c.leader().write(t, kv.Put(kv.Key(fmt.Sprintf("noise/%d", i)), noise(uint64(i+1), kv.MaxValueBytes)))
		}
		c.wantSame(t, 10*time.Second)
		ask := func(id NodeID) *connection {
			conn := greeted(t, stranger, c.leader(), toPull, digest{id: id, boot: "1"})
			if err := conn.write(framePull, point{stream: OperatorStream}.encode()); err != nil {
				t.Fatal(err)
			}
			return conn
		}
		answer := func(conn *connection) frameKind {
			t.Helper()
			kind, _, err := conn.read(time.Second)
			if err != nil {
				t.Fatal(err)
			}
			return kind
		}
		var held []*connection
		for i, id := range []NodeID{"slow0", "slow0", "slow1", "slow2"} {
			held = append(held, ask(id))
			if got := answer(held[i]); got != frameSnapshot {
				t.Fatalf("pull %d: got a frame of kind %d", i, got)
			}
			if i == 0 {
				continue // of four places three are free
			}
			again := ask(id)
			if got := answer(again); got != frameBusy {
				t.Errorf("another pull of %s: got a frame of kind %d", id, got)
			}
			again.Close()
		}
		fifth := ask("fifth")
		if got := answer(fifth); got != frameBusy {
			t.Errorf("a pull too many: got a frame of kind %d", got)
		}
		fifth.Close()
		// Their time is over some day, without their doing, and a new node gets its turn.
		late := c.add(t)
		late.start(t)
		late.join(t, c.leader())
		t.Logf("a new node has all after %v", c.wantSame(t, time.Minute))
		for _, conn := range held {
			conn.Close()
		}
	})
}

// A node that opens one connection after the other leaves room for all others.
func TestConnectionsOfOneNodeAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		stranger := c.started(t)
		victim := c.nodes[1]
		hold := func(id NodeID) *connection { return greeted(t, stranger, victim, toPull, digest{id: id, boot: "1"}) }
		var held []*connection
		for range maxOfOne {
			held = append(held, hold("greedy"))
		}
		conn := newConnection(send(t, stranger, fmt.Sprintf("%s:%d", victim.ip, spreadPort), appendFrame(nil, frameHello,
			hello{cluster: c.name, purpose: toPull, digest: digest{id: "greedy", boot: "1"}}.encode())))
		if kind, body, err := conn.read(time.Second); err != nil || kind != frameRefusal || !strings.Contains(string(body), "has 12 connections already") {
			t.Errorf("one more: got frame of kind %d, %q, %v", kind, body, err)
		}
		hold("modest").Close()
		for _, conn := range held {
			conn.Close()
		}
		<-time.After(time.Second)
		hold("greedy").Close() // its places are free again
		<-time.After(time.Second)
		victim.peer.mu.Lock()
		if len(victim.peer.guests) > 3 { // its neighbours, and no one that is gone
			t.Errorf("guests %v are remembered", victim.peer.guests)
		}
		victim.peer.mu.Unlock()
		c.wantUnharmed(t)
	})
}

// noise is bytes that can't be packed, the same for each seed but 0.
func noise(x uint64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}
