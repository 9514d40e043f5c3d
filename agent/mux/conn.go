package mux

import (
	"net"
	"sync"
)

// conn is a connection that the Mux can find again.
type conn struct {
	net.Conn          // after the handshake
	raw      net.Conn // beneath it
	mux      *Mux
	node     string // "" of a peer that proved nothing
	accepted bool   // it was opened by the other side
	left     func() // what else ends with it
	once     sync.Once
}

// NetConn is the connection beneath, from which package identity can tell the
// peer.
func (c *conn) NetConn() net.Conn { return c.Conn }

// Close ends the connection as its protocol wants it.
func (c *conn) Close() error {
	c.release()
	return c.Conn.Close()
}

// cut ends the connection at once: a farewell could wait for a peer that does
// not read.
func (c *conn) cut() {
	c.release()
	c.raw.Close()
}

func (c *conn) release() {
	c.once.Do(func() {
		c.mux.forget(c)
		c.left()
	})
}
