package gossip

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// roster stands for memberlist where it would cost more than all that is tested: every
// node knows the others from its start, nobody is ever found dead, and packets go over
// the same network as memberlist's, in the clear. Everything else is the real code.
type roster struct {
	peer    *Peer
	packets net.PacketConn
	done    chan struct{}
}

// onRoster lets the nodes of a cluster know each other without memberlist. All have to be
// added before the first is started.
func (c *cluster) onRoster() {
	change := c.change
	c.change = func(n *node, o *Options) {
		o.list = func(p *Peer) (swim, error) { return newRoster(c, p) }
		if change != nil {
			change(n, o)
		}
	}
}

func newRoster(c *cluster, p *Peer) (swim, error) {
	r := &roster{peer: p, packets: p.o.Packets, done: make(chan struct{})}
	self := c.named(p.o.Meta.ID)
	for _, n := range c.nodes {
		boots := n.boots
		if n.peer == nil && n != self {
			boots++ // it will be started
		}
		p.members.NotifyJoin(listed(n, boots))
		if n.peer != nil && n != self && self.boots > 1 { // it returns
			n.peer.members.NotifyLeave(listed(self, self.boots-1))
			n.peer.members.NotifyJoin(listed(self, self.boots))
		}
	}
	go r.read()
	return r, nil
}

// listed is a boot of a node as memberlist describes it.
func listed(n *node, boots int) *memberlist.Node {
	return &memberlist.Node{
		Name: fullName(n.id(), strconv.Itoa(boots)), Addr: netip.MustParseAddr(n.ip).AsSlice(), Port: gossipPort,
		Meta: encodeMeta(Meta{ID: n.id(), Name: string(n.id()), Role: n.role, Version: "1.0"}),
	}
}

func (r *roster) read() {
	defer close(r.done)
	for {
		select {
		case packet := <-r.peer.transport.PacketCh():
			label := len(labelHeader(r.peer.o.Cluster))
			r.peer.NotifyMsg(packet.Buf[label:])
		case <-r.peer.transport.ctx.Done():
			return
		}
	}
}

func (r *roster) SendToAddress(to memberlist.Address, message []byte) error {
	_, err := r.peer.transport.WriteTo(append(labelHeader(r.peer.o.Cluster), message...), to.Addr)
	return err
}

func (r *roster) Join(addresses []string) (int, error) { return len(addresses), nil }
func (r *roster) UpdateNode(time.Duration) error       { return nil }
func (r *roster) Leave(time.Duration) error            { return nil }

func (r *roster) Ping(string, net.Addr) (time.Duration, error) {
	return 0, errors.New("there is nobody to ping")
}

func (r *roster) Shutdown() error {
	err := r.peer.transport.Shutdown()
	<-r.done
	return err
}

// rumor is memberlist's own broadcast, to compare with: its queue, and around it what
// memberlist 0.7.0 does with it on a LAN. Every 200 ms a node sends what its queue gives to three
// members.
type rumor struct {
	host    *node
	conn    net.PacketConn
	queue   memberlist.TransmitLimitedQueue
	arrived func(*node, string, time.Time)
	seen    map[string]bool
	done    chan struct{}
	inbox   chan string
	packets atomic.Uint64 // sent
	bytes   atomic.Uint64
}

type rumorBroadcast string

func (b rumorBroadcast) Invalidates(memberlist.Broadcast) bool { return false }
func (b rumorBroadcast) Message() []byte                       { return []byte(b) }
func (b rumorBroadcast) Finished()                             {}

// The port of rumors, and memberlist's DefaultLANConfig.
const (
	rumorPort     = 7000
	rumorInterval = 200 * time.Millisecond
	rumorNodes    = 3
	rumorMult     = 4
	rumorBytes    = 1400
)

func newRumor(n *node, members int, arrived func(*node, string, time.Time)) (*rumor, error) {
	conn, err := n.cluster.net.Host(n.ip).ListenPacket(rumorPort)
	if err != nil {
		return nil, err
	}
	r := &rumor{
		host: n, conn: conn, arrived: arrived, seen: map[string]bool{}, done: make(chan struct{}), inbox: make(chan string, 64),
		queue: memberlist.TransmitLimitedQueue{NumNodes: func() int { return members }, RetransmitMult: rumorMult},
	}
	go r.read()
	go r.run()
	return r, nil
}

func (r *rumor) read() {
	b := make([]byte, rumorBytes)
	for {
		n, _, err := r.conn.ReadFrom(b)
		if err != nil {
			return
		}
		for text := range strings.SplitSeq(string(b[:n]), "\n") {
			r.tell(text)
		}
	}
}

// tell is how a rumor comes to be here.
func (r *rumor) tell(text string) {
	select {
	case r.inbox <- text:
	case <-r.done:
	}
}

func (r *rumor) run() {
	pick := newPicker(r.host)
	ticker := time.NewTicker(rumorInterval)
	defer ticker.Stop()
	// As memberlist does, each begins at a moment of its own.
	<-time.After(time.Duration(pick.Int64N(int64(rumorInterval))))
	ticker.Reset(rumorInterval)
	for {
		select {
		case text := <-r.inbox:
			if !r.seen[text] {
				r.seen[text] = true
				r.arrived(r.host, text, time.Now())
				r.queue.QueueBroadcast(rumorBroadcast(text))
			}
		case <-ticker.C:
			for range rumorNodes {
				to := r.host.cluster.nodes[pick.IntN(len(r.host.cluster.nodes))]
				list := r.queue.GetBroadcasts(1, rumorBytes)
				if len(list) == 0 || to == r.host {
					continue
				}
				var texts []string
				for _, b := range list {
					texts = append(texts, string(b))
				}
				text := strings.Join(texts, "\n")
				r.packets.Add(1)
				r.bytes.Add(uint64(len(text)))
				r.conn.WriteTo([]byte(text), net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(to.ip), rumorPort)))
			}
		case <-r.done:
			return
		}
	}
}

func (r *rumor) close() {
	close(r.done)
	r.conn.Close()
}
