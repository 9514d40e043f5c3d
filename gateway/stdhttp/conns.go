package stdhttp

import (
	"context"
	"net"
	"sync"
)

// conns are the open connections of an upstream: a transport does not tell which
// it has.
type conns struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	// mu guards open.
	mu   sync.Mutex
	open map[*counted]struct{}
}

func (c *conns) connect(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	one := &counted{Conn: conn, of: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[*counted]struct{}{}
	}
	c.open[one] = struct{}{}
	return one, nil
}

// counted is a connection that is open until it is closed.
type counted struct {
	net.Conn
	of *conns
}

func (c *counted) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// look counts the open connections, and those whose other end keep refuses.
func (c *conns) look(keep func(end net.Addr) bool) (open, refused int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		if !keep(conn.RemoteAddr()) {
			refused++
		}
	}
	return len(c.open), refused
}

// Drain ends the connections whose other end keep refuses: no further request is
// sent on them. A transport can't be told so of one connection, so all are
// replaced then; those in use end by their idle timeout. It tells how many
// connections are open still.
func (u *Upstream) Drain(keep func(end net.Addr) bool) (open int) {
	open, refused := u.conns.look(keep)
	if refused == 0 {
		return open
	}
	old := u.transport.Load()
	u.transport.Store(old.Clone())
	old.CloseIdleConnections()
	open, _ = u.conns.look(keep)
	return open
}
