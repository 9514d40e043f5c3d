package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// open dials a member and exchanges hellos with it.
func (p *Peer) open(ctx context.Context, member Member, why purpose) (*connection, hello, error) {
	dialing, cancel := context.WithTimeout(ctx, helloTime)
	defer cancel()
	conn, err := p.o.Spread.Dial(dialing, member.Address)
	if err != nil {
		return nil, hello{}, err
	}
	c := newConnection(conn)
	context.AfterFunc(ctx, func() { conn.Close() })
	theirs, err := p.greet(c, why)
	if err == nil {
		err = p.checkHello(conn, theirs)
	}
	if err == nil && (theirs.digest.id != member.ID || theirs.digest.boot != member.boot) {
		err = fmt.Errorf("node %s is at %s, not node %s", theirs.digest.id, member.Address, member.ID)
	}
	if err != nil {
		return nil, hello{}, errors.Join(err, conn.Close())
	}
	return c, theirs, nil
}

func (p *Peer) greet(c *connection, why purpose) (hello, error) {
	if err := p.sayHello(c, why); err != nil {
		return hello{}, err
	}
	return readHello(c)
}

func (p *Peer) sayHello(c *connection, why purpose) error {
	h := hello{cluster: p.o.Cluster, purpose: why, key: newPacketKey(), digest: p.digest()}
	c.key = h.key
	return c.write(frameHello, h.encode())
}

func readHello(c *connection) (hello, error) {
	kind, body, err := c.read(helloTime)
	switch {
	case err != nil:
		return hello{}, err
	case kind == frameRefusal:
		return hello{}, refusal(body)
	case kind != frameHello:
		return hello{}, fmt.Errorf("frame of kind %d came before the hello", kind)
	}
	return decodeHello(body)
}

// refusal is what the other side says is wrong.
func refusal(body []byte) error { return fmt.Errorf("the other side refuses: %.200q", body) }

// checkHello looks whether the other side is of this cluster, and who it says it is.
func (p *Peer) checkHello(c net.Conn, h hello) error {
	if h.cluster != p.o.Cluster {
		return fmt.Errorf("node %s is of cluster %q, here is %q", h.digest.id, h.cluster, p.o.Cluster)
	}
	if p.o.Identify == nil {
		return nil
	}
	id, _, err := p.o.Identify(c)
	if err == nil && id != h.digest.id {
		err = fmt.Errorf("node %s calls itself %s", id, h.digest.id)
	}
	return err
}
