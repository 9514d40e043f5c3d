package gossip

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

// What memberlist 0.7.0 puts in front of its messages:
//
//	u8 244, text label                          on packets and on opened streams
//	u8 version of the encryption, always 1      then 12 bytes nonce, content, 16 bytes tag
//	u8 10, u32 length, u8 version               the same on a stream
//
// It takes version 0 too, whose padding it trusts, and an encrypted stream with
// nothing in it: either ends the process of who reads it. Both need the gossip key,
// but one stolen key must not be able to end every node. So nothing else is let
// through than what it sends itself.
const (
	labelMark     = 244
	encryptMark   = 10
	cryptVersion  = 1
	cryptOverhead = 1 + 12 + 16
	// maxStreamBytes is memberlist's own limit of a push/pull.
	maxStreamBytes = 20 << 20
)

// labelHeader is in front of everything that a cluster's nodes send each other.
func labelHeader(label string) []byte {
	return append([]byte{labelMark, byte(len(label))}, label...)
}

// soundPacket tells whether memberlist can be given a packet.
func soundPacket(b []byte, label string, encrypted bool) bool {
	header := len(labelHeader(label))
	if len(b) <= header || string(b[:header]) != string(labelHeader(label)) {
		return false
	}
	return !encrypted || b[header] == cryptVersion && len(b) > header+cryptOverhead
}

// guarded is a stream that memberlist reads. It lets nothing through that begins
// as no message does.
type guarded struct {
	net.Conn
	transport *transport
	opened    bool // by the other side, which sends a label first
	begun     []byte
	checked   bool
	problem   error
}

// Read checks the beginning before it returns any of it. One goroutine reads.
func (g *guarded) Read(b []byte) (int, error) {
	if !g.checked {
		g.checked = true
		g.begun, g.problem = g.begin()
	}
	if g.problem != nil {
		return 0, g.problem
	}
	if len(g.begun) > 0 {
		n := copy(b, g.begun)
		g.begun = g.begun[n:]
		return n, nil
	}
	return g.Conn.Read(b)
}

func (g *guarded) begin() ([]byte, error) {
	var want []byte
	if g.opened {
		want = labelHeader(g.transport.o.Cluster)
	}
	size := len(want)
	if len(g.transport.o.Keys) > 0 {
		size += 1 + 4 + 1
	}
	begun := make([]byte, size)
	if _, err := io.ReadFull(g.Conn, begun); err != nil {
		return nil, err
	}
	problem := ""
	switch message := begun[len(want):]; {
	case string(begun[:len(want)]) != string(want):
		problem = "is of another cluster"
	case len(message) == 0:
	case message[0] != encryptMark || message[5] != cryptVersion:
		problem = "is not encrypted"
	case binary.BigEndian.Uint32(message[1:]) <= cryptOverhead || binary.BigEndian.Uint32(message[1:]) > maxStreamBytes:
		problem = "has an impossible length"
	}
	if problem != "" {
		g.transport.counters.streamsRefused.add(1)
		return nil, fmt.Errorf("stream from %s %s", g.RemoteAddr(), problem)
	}
	return begun, nil
}

func (g *guarded) Close() error {
	g.transport.release(g)
	return g.Conn.Close()
}
