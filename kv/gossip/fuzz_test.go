package gossip

import (
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"grapevine/kv/memnet"
)

// nobody is a membership in which packets go nowhere.
type nobody struct{ transport *transport }

func (nobody) Join([]string) (int, error)                     { return 0, errors.New("nobody is there") }
func (nobody) SendToAddress(memberlist.Address, []byte) error { return nil }
func (nobody) Ping(string, net.Addr) (time.Duration, error)   { return 0, errors.New("nobody is there") }
func (nobody) UpdateNode(time.Duration) error                 { return nil }
func (nobody) Leave(time.Duration) error                      { return nil }
func (n nobody) Shutdown() error                              { return n.transport.Shutdown() }

// Whatever comes by a packet, in the name of a member or not, is handled without a panic; and nothing of it is taken that
// lacks a voter's signature, or the seal of who has a connection.
func FuzzMessages(f *testing.F) {
	c := newCluster("one", memnet.New(1))
	c.log, c.key = slog.New(slog.DiscardHandler), nil
	planes := withPlanes(c)
	change := c.change
	c.change = func(n *node, o *Options) {
		change(n, o)
		o.list = func(p *Peer) (swim, error) { return nobody{p.transport}, nil }
	}
	n := c.add(f)
	n.start(f)
	f.Cleanup(func() { n.stop(); n.store.Close() })
	known := NodeID("01j8example0000000000000000")
	n.peer.members.NotifyJoin(&memberlist.Node{Name: fullName(known, "4f2a91"), Addr: []byte{10, 6, 6, 6}, Meta: encodeMeta(exampleMeta())})
	from := fullName(known, "4f2a91")
	f.Add(exampleDigest().encode([]byte{messageDigest}, packetProblem))
	f.Add(exampleDigest().encode([]byte{messageCompare}, packetProblem))
	f.Add(exampleDigest().brief().encode([]byte{messageBrief}))
	f.Add(departed(from))
	f.Add(pushPacket(messageChanges, from, nil, exampleChanges().encode()))
	f.Add(pushPacket(messageFlood, from, &packetKey{1}, planeChanges{plane: OwnStream, list: [][]byte{toyChange("a", 1)}}.encode()))
	f.Fuzz(func(t *testing.T, message []byte) {
		n.peer.handle(message)
		if got := n.store.View().Rev().Rev; got != 0 || len(planes[n].state()) != 0 {
			t.Errorf("at revision %d, with %v", got, planes[n].state())
		}
	})
}
