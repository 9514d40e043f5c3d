package names

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"
)

// Dial makes a connection to one of the host's addresses, in turn. One that can't
// be reached is no loss while there are others: they are tried, each within its
// part of the time that ctx leaves, and it comes last for a while.
func (n *Name) Dial(ctx context.Context) (net.Conn, error) {
	addresses, err := n.addresses(ctx)
	if err != nil {
		return nil, err
	}
	var first error
	for i, address := range n.inTurn(addresses) {
		conn, err := n.dialOne(ctx, address, len(addresses)-i)
		if err == nil {
			n.reached(address, true)
			return conn, nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
		n.reached(address, false)
	}
	return nil, first
}

// inTurn gives addresses in the order in which to try them.
func (n *Name) inTurn(addresses []netip.Addr) []netip.Addr {
	if len(addresses) < 2 {
		return addresses
	}
	turn := int(n.turn.Add(1)-1) % len(addresses)
	order := slices.Concat(addresses[turn:], addresses[:turn])
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.avoid) > 0 {
		slices.SortStableFunc(order, func(a, b netip.Addr) int { return n.badness(a, now) - n.badness(b, now) })
	}
	return order
}

// badness is called with mu.
func (n *Name) badness(address netip.Addr, now time.Time) int {
	if now.Before(n.avoid[address]) {
		return 1
	}
	return 0
}

func (n *Name) reached(address netip.Addr, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if ok {
		delete(n.avoid, address)
	} else {
		n.avoid[address] = time.Now().Add(avoidFor)
	}
}

// dialOne leaves time for the addresses after this one, of which there are left
// with it.
func (n *Name) dialOne(ctx context.Context, address netip.Addr, left int) (net.Conn, error) {
	if end, bounded := ctx.Deadline(); bounded && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(left))
		defer cancel()
	}
	return n.dialer.DialContext(ctx, "tcp", net.JoinHostPort(address.String(), n.Port))
}
