package gossip

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"grapevine/kv"
	"grapevine/kv/memnet"
)

// Kinds of memberlist's messages.
const (
	mlCompound = 7
	mlUser     = 8
	mlCompress = 9
	mlHasCRC   = 12
)

// seal encrypts as memberlist does, with any version byte.
func seal(key []byte, version byte, plain, authenticated []byte) []byte {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	nonce := make([]byte, gcm.NonceSize())
	return gcm.Seal(append([]byte{version}, nonce...), nonce, plain, authenticated)
}

// sealedStream is the beginning of an encrypted stream.
func sealedStream(key []byte, version byte, plain []byte, label string) []byte {
	header := binary.BigEndian.AppendUint32([]byte{encryptMark}, uint32(len(plain)+cryptOverhead))
	return append(header, seal(key, version, plain, append(slices.Clone(header), label...))...)
}

// wantUnharmed makes sure that the cluster works as if nothing had been.
func (c *cluster) wantUnharmed(t *testing.T) {
	t.Helper()
	c.wantMembers(t, len(c.nodes), 15*time.Second)
	before := c.leader().store.View().Rev()
	if commit := c.leader().write(t, kv.Put("after", nil)); commit.Rev != before.Next() {
		t.Errorf("the leader is at %s", before)
	}
	c.wantSame(t, 5*time.Second)
	for _, n := range c.nodes {
		if got := len(n.peer.Members()); got != len(c.nodes) {
			t.Errorf("%s sees %d members, want %d", n.id(), got, len(c.nodes))
		}
	}
}

// started is a cluster with something in it, and a stranger on its network.
func (c *cluster) started(t *testing.T) *memnet.Host {
	t.Helper()
	c.start(t, 3)
	c.leader().write(t, kv.Put("a", nil))
	c.wantSame(t, 10*time.Second)
	return c.net.Host("10.66.6.6")
}

func TestHostilePackets(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		stranger := c.started(t)
		conn, err := stranger.ListenPacket(0)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		label, wrong := labelHeader(c.name), []byte(strings.Repeat("w", KeyBytes))
		labelled := func(b []byte) []byte { return append(slices.Clone(label), b...) }
		sealed := func(plain ...byte) []byte { return labelled(seal(c.key, 1, plain, []byte(c.name))) }
		old := digest{id: c.nodes[2].id(), boot: "1", report: report{seq: 0}, heads: []streamHead{{OperatorStream, exampleHead}}}
		target := &net.UDPAddr{IP: net.ParseIP(c.nodes[1].ip), Port: gossipPort}
		for name, packet := range map[string][]byte{
			"empty":             {},
			"garbage":           []byte("GET / HTTP/1.1\r\n\r\n"),
			"label alone":       label,
			"label cut short":   label[:3],
			"in the clear":      labelled(append([]byte{mlUser}, departed("onenode02-1")...)),
			"another label":     append(labelHeader("two"), seal(c.key, 1, []byte{mlUser}, []byte("two"))...),
			"wrong key":         labelled(seal(wrong, 1, append([]byte{mlUser}, departed("onenode02-1")...), []byte(c.name))),
			"label not sealed":  labelled(seal(c.key, 1, append([]byte{mlUser}, departed("onenode02-1")...), nil)),
			"nothing sealed":    sealed(),
			"padding":           labelled(seal(c.key, 0, append(make([]byte, 31), 255), []byte(c.name))),
			"unknown kind":      sealed(200),
			"compound":          sealed(mlCompound, 255, 255, 255),
			"compound of many":  sealed(append([]byte{mlCompound, 3, 0, 1, 0, 1, 255, 255}, mlUser, mlUser)...),
			"compressed":        sealed(mlCompress, 0x82, 0xa4, 'A', 'l', 'g', 'o', 0, 0xa3, 'B', 'u', 'f', 0xa0),
			"checksum":          sealed(mlHasCRC, 1, 2, 3, 4, mlUser),
			"alive of nobody":   sealed(4, 0xc1),
			"empty message":     sealed(mlUser),
			"unknown message":   sealed(mlUser, 77, 1, 2, 3),
			"digest cut short":  sealed(append([]byte{mlUser, messageDigest}, old.encode(nil, 0)[:40]...)...),
			"too large":         append(label, make([]byte, memnet.MaxPacketBytes-len(label))...),
			"a head that's old": sealed(append([]byte{mlUser, messageDigest}, old.encode(nil, 0)...)...),
		} {
			for range 20 {
				if _, err := conn.WriteTo(packet, target); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			<-time.After(100 * time.Millisecond)
		}
		// The last one is what a thief of the gossip key can do: it is an alarm, since
		// its signature is not a voter's, and changes nothing.
		alarms := c.nodes[1].peer.Alarms()
		if len(alarms) != 1 || alarms[0].Kind != Forged || alarms[0].Count != 20 {
			t.Errorf("alarms: got %+v, want one of 20 forged heads", alarms)
		}
		if got := c.nodes[1].peer.Counts(); got.PacketsBad < 20*9 {
			t.Errorf("%d bad packets were counted", got.PacketsBad)
		}
		c.wantUnharmed(t)
	})
}

// Who has the key of the gossip and no certificate, as a node that was shut out has until the key is
// replaced, can't announce anything in another's name.
func TestStolenGossipKeyAnnouncesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		planes := withPlanes(c)
		stranger := c.started(t)
		c.wantLinks(t)
		conn, err := stranger.ListenPacket(0)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		victim := c.nodes[1]
		before := victim.peer.Counts().PacketsBad
		body := planeChanges{plane: OwnStream, list: [][]byte{toyChange("thief", 1)}}.encode()
		for _, from := range []*node{c.nodes[0], c.nodes[2]} {
			for _, key := range []*packetKey{nil, {}, {1, 2, 3}} {
				push := pushPacket(messageFlood, fullName(from.id(), "1"), key, body)
				packet := append(labelHeader(c.name), seal(c.key, 1, append([]byte{mlUser}, push...), []byte(c.name))...)
				if _, err := conn.WriteTo(packet, &net.UDPAddr{IP: net.ParseIP(victim.ip), Port: gossipPort}); err != nil {
					t.Fatal(err)
				}
			}
		}
		<-time.After(time.Second)
		for _, n := range c.nodes {
			if planes[n].state()["thief"] > 0 {
				t.Errorf("%s has what the thief announced", n.id())
			}
		}
		if got := victim.peer.Counts().PacketsBad - before; got != 6 {
			t.Errorf("%d bad packets were counted, want 6", got)
		}
		c.wantUnharmed(t)
	})
}

// A captured packet, sent again and again, moves nothing back.
func TestReplayedHeads(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		stranger := c.started(t)
		conn, err := stranger.ListenPacket(0)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		c.nodes[2].peer.Report(kv.Rev{Epoch: 1, Rev: 1}, "first", nil)
		captured := append(labelHeader(c.name), seal(c.key, 1, append([]byte{mlUser}, c.nodes[2].peer.LocalState(false)...), []byte(c.name))...)
		c.leader().write(t, kv.Put("a", []byte("newer")))
		c.wantSame(t, 5*time.Second)
		c.nodes[2].peer.Report(kv.Rev{Epoch: 1, Rev: 2}, "second", nil)
		eventually(t, 10*time.Second, "the second report is known", func() bool {
			return c.leader().peer.Applied()[c.nodes[2].id()].TableHash == "second"
		})
		for range 50 {
			conn.WriteTo(captured, &net.UDPAddr{IP: net.ParseIP(c.leader().ip), Port: gossipPort})
			<-time.After(time.Millisecond)
		}
		if got := c.leader().peer.Applied()[c.nodes[2].id()]; got.TableHash != "second" {
			t.Errorf("a replay brought back %+v", got)
		}
		if got := c.leader().peer.Alarms(); len(got) != 0 {
			t.Errorf("alarms: %+v", got)
		}
		c.wantUnharmed(t)
	})
}

// send opens a stream and sends bytes on it.
func send(t *testing.T, from *memnet.Host, to string, b []byte) net.Conn {
	t.Helper()
	conn, err := from.Dial(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(b); err != nil {
		t.Fatal(err)
	}
	return conn
}

// wantClosed waits until the other side has closed.
func wantClosed(t *testing.T, what string, conn net.Conn, within time.Duration) {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(within))
	if _, err := io.Copy(io.Discard, conn); err != nil && isTimeout(err) {
		t.Errorf("%s: still open after %v", what, within)
	}
	conn.Close()
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func TestHostileMemberlistStreams(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		stranger := c.started(t)
		label, wrong := labelHeader(c.name), []byte(strings.Repeat("w", KeyBytes))
		labelled := func(b []byte) []byte { return append(slices.Clone(label), b...) }
		for name, b := range map[string][]byte{
			"garbage":         []byte("GET / HTTP/1.1\r\n\r\n"),
			"another label":   append(labelHeader("two"), sealedStream(c.key, 1, []byte{6}, "two")...),
			"in the clear":    labelled([]byte{6, 0x80, 0x80, 0x80, 0x80, 0x80}),
			"wrong key":       labelled(sealedStream(wrong, 1, []byte{6}, c.name)),
			"nothing sealed":  labelled(sealedStream(c.key, 1, nil, c.name)),
			"padding":         labelled(sealedStream(c.key, 0, append(make([]byte, 31), 32), c.name)),
			"huge length":     labelled([]byte{encryptMark, 0xff, 0xff, 0xff, 0xff, 1}),
			"unknown kind":    labelled(sealedStream(c.key, 1, []byte{99}, c.name)),
			"huge push/pull":  labelled(sealedStream(c.key, 1, append([]byte{6}, 0x83, 0xa5, 'N', 'o', 'd', 'e', 's', 0xce, 0x7f, 0xff, 0xff, 0xff), c.name)),
			"message too big": labelled(sealedStream(c.key, 1, append([]byte{8}, 0x81, 0xaa, 'U', 's', 'e', 'r', 'M', 's', 'g', 'L', 'e', 'n', 0xce, 0x7f, 0xff, 0xff, 0xff), c.name)),
		} {
			wantClosed(t, name, send(t, stranger, c.nodes[1].address(), b), 15*time.Second)
		}
		c.wantUnharmed(t)
	})
}

// Half a message, held open 200 times, on either port: a node can still join
// when the deadlines are over.
func TestHalfMessagesHeldOpen(t *testing.T) {
	half := append(labelHeader("one"), encryptMark, 0, 1, 0, 0, 1, 7, 7)
	for name, tt := range map[string]struct {
		port int
		half []byte
	}{
		"memberlist, nothing":  {gossipPort, nil},
		"memberlist, half":     {gossipPort, half},
		"spreading, nothing":   {spreadPort, nil},
		"spreading, half":      {spreadPort, appendFrame(nil, frameHello, make([]byte, 100))[:50]},
		"spreading, huge":      {spreadPort, []byte{0, 0xb0, 0, 0, 0, 0, 0, 0, byte(frameChanges), 1}},
		"spreading, not hello": {spreadPort, appendFrame(nil, frameEnd, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				stranger := c.started(t)
				var held []net.Conn
				for range 200 {
					conn, err := stranger.Dial(t.Context(), fmt.Sprintf("%s:%d", c.leader().ip, tt.port))
					if err != nil {
						continue // refused: as good
					}
					conn.Write(tt.half)
					held = append(held, conn)
				}
				late := c.add(t)
				late.start(t)
				late.join(t, c.leader())
				took := c.wantMembers(t, 4, 30*time.Second)
				took += c.wantSame(t, 30*time.Second)
				t.Logf("a node joined and has all after %v", took)
				for _, conn := range held {
					wantClosed(t, name, conn, 15*time.Second)
				}
				c.wantUnharmed(t)
			})
		})
	}
}
